//! When it is looked, at whom, and how long nobody is waited for.

use std::net::TcpListener;

use super::*;
use crate::backend::redis::{
    address::Target,
    cluster::connect,
    testing::{Server, free_port, options, within},
};

#[tokio::test]
async fn silent_nodes_among_those_that_are_named_keep_nobody_from_connecting() {
    let (port, bus) = (free_port(), free_port().to_string());
    let server = Server::with(&["--port", &port.to_string(), "--cluster-port", &bus, "--cluster-enabled", "yes"]);
    let () = server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    within(Duration::from_secs(10), "it serves", || server.ask::<String>(&["CLUSTER", "INFO"]).contains("state:ok"));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = |port| Target::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    let silent = target(silent.local_addr().unwrap().port());
    for (before, after, command_timeout) in [(1, 0, 900), (0, 1, 900), (6, 0, 1900)] {
        let mut seeds = vec![silent.clone(); before];
        seeds.push(target(port));
        seeds.extend(vec![silent.clone(); after]);
        let connected = connect(&seeds, options(command_timeout)).await;
        assert!(connected.is_ok(), "{before} before and {after} after it: {:?}", connected.err());
    }
}

#[test]
fn those_who_stay_suspected_are_looked_at_ever_more_rarely() {
    let rows = [(0, 250), (5_000, 250), (16_000, 800), (60_000, 3_000), (3_600_000, 5_000)];
    for (since, pause) in rows {
        assert_eq!(while_suspected(Duration::from_millis(since)), Duration::from_millis(pause), "{since}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_counts_since_when_the_same_ones_are_suspected() {
    let routes = Routes::new(&[Target::parse("redis://127.0.0.1:1").unwrap()], options(3000)).unwrap();
    let mut topology = Topology::new(Arc::clone(&routes));
    let nobody_at = |port| routes.moved(port, &Endpoint { host: "127.0.0.1".to_owned(), port }).unwrap();
    let mut since = Vec::new();
    for port in [1, 1, 2] {
        nobody_at(port);
        topology.suspect();
        since.push(topology.suspects.1);
        sleep(Duration::from_secs(1)).await;
    }
    assert!(since[0] == since[1] && since[1] < since[2], "{since:?}");
    routes.close();
}

#[test]
fn the_last_of_those_who_lost_their_slots_are_remembered() {
    let began = Instant::now();
    let mut deposed: HashMap<_, _> =
        (0..1030_u32).map(|n| (n.to_string(), began + Duration::from_secs(1) * n)).collect();
    forget_the_oldest(&mut deposed);
    assert_eq!(deposed.len(), DEPOSED);
    assert!(!deposed.contains_key("5") && deposed.contains_key("6") && deposed.contains_key("1029"));
}
