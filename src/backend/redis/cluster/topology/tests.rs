//! When it is looked, at whom, and how long nobody is waited for.

use std::net::TcpListener;

use super::*;
use crate::backend::{
    FaultKind, Heard, Listener, Publish,
    redis::{
        address::Target,
        cluster::connect,
        testing::{Server, free_port, options, within},
    },
};

/// A server that is a whole cluster, and its port.
fn cluster_of_one() -> (Server, u16) {
    let (port, bus) = (free_port(), free_port().to_string());
    let server = Server::with(&["--port", &port.to_string(), "--cluster-port", &bus, "--cluster-enabled", "yes"]);
    let () = server.ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    within(Duration::from_secs(10), "it serves", || server.ask::<String>(&["CLUSTER", "INFO"]).contains("state:ok"));
    (server, port)
}

fn target(host: &str, port: u16) -> Target {
    Target::parse(&format!("redis://{host}:{port}")).unwrap()
}

#[tokio::test]
async fn silent_nodes_among_those_that_are_named_keep_nobody_from_connecting() {
    let (_server, port) = cluster_of_one();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = target("127.0.0.1", silent.local_addr().unwrap().port());
    for (before, after, command_timeout) in [(1, 0, 900), (0, 1, 900), (6, 0, 1900)] {
        let mut seeds = vec![silent.clone(); before];
        seeds.push(target("127.0.0.1", port));
        seeds.extend(vec![silent.clone(); after]);
        let connected = connect(&seeds, options(command_timeout)).await;
        assert!(connected.is_ok(), "{before} before and {after} after it: {:?}", connected.err());
    }
}

/// Nothing else is a reason to look then, and the node may be somebody else's by now.
#[tokio::test]
async fn a_node_without_slots_is_left_though_nothing_is_done() {
    let ((_server, port), guest) = (cluster_of_one(), free_port());
    let _guest = Server::with(&["--port", &guest.to_string()]);
    let cluster = connect(&[target("127.0.0.1", port)], options(3000)).await.unwrap();
    let guest = cluster.0.asks(7, &Endpoint { host: "127.0.0.1".to_owned(), port: guest }).unwrap();
    let (place, until) = (guest.place, Instant::now() + OFTEN * 3);
    while cluster.0.with_map(|_, nodes| nodes.at(place).is_some()) {
        assert!(Instant::now() < until, "it is still one of ours");
        sleep(OFTEN / 100).await;
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

/// It names itself by its number.
#[tokio::test]
async fn who_was_asked_by_a_name_of_the_users_says_what_it_calls_itself() {
    let (server, port) = cluster_of_one();
    let () = server.ask(&["CONFIG", "SET", "cluster-announce-ip", "10.0.0.1"]);
    let id: String = server.ask(&["CLUSTER", "MYID"]);
    let routes = Routes::new(&[target("127.0.0.1", port)], options(3000)).unwrap();
    let views = Topology::new(Arc::clone(&routes)).views().await.unwrap();
    assert_eq!(views.iter().map(|view| view.id.as_deref()).collect::<Vec<_>>(), [Some(&*id)]);
    routes.close();
}

/// What a node says that has all slots.
fn all_slots_at(port: u16) -> View {
    let row = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    let asked = Endpoint { host: "127.0.0.1".to_owned(), port };
    View::read(&redis::parse_redis_value(row.as_bytes()).unwrap(), &asked, false).unwrap()
}

struct Nobody;

impl Listener for Nobody {
    fn hear(&self, _: Heard<'_>) {}
}

#[tokio::test(start_paused = true)]
async fn whoever_listens_does_so_at_another_node_as_soon_as_it_is_known() {
    let routes = Routes::new(&[target("127.0.0.1", 1)], options(3000)).unwrap();
    routes.listen_as(Publish::Sharded);
    let mut topology = Topology::new(Arc::clone(&routes));
    topology.take(&[all_slots_at(1)]);
    let _subscription = routes.subscribe(7, "channel".into(), Arc::new(Nobody));
    for port in [1, 2, 3] {
        topology.take(&[all_slots_at(port)]);
        let owner = routes.member(7).unwrap();
        assert_eq!(owner.endpoint.port, port);
        assert!(owner.is_listened_to(), "{port}");
    }
    routes.close();
}

/// All of them may have new addresses.
#[tokio::test]
async fn one_that_the_user_named_is_among_the_first_who_are_asked_where_nobody_answers() {
    let seeds: Vec<_> = (1..4).map(|port| target("127.0.0.1", port)).collect();
    let routes = Routes::new(&seeds, options(3000)).unwrap();
    let mut topology = Topology::new(Arc::clone(&routes));
    let nowhere = |port| Endpoint { host: "127.0.0.1".to_owned(), port };
    topology.replicas = (100..200).map(nowhere).collect();
    for port in 10..20 {
        routes.moved(port, &nowhere(port)).unwrap();
    }
    let is_seed = |candidate: &Candidate| matches!(candidate, Candidate::Seed(_));
    let candidates = topology.candidates();
    assert!(candidates[..ASKED].iter().any(is_seed));
    let mut asked: Vec<_> =
        candidates.iter().filter_map(|it| if let Candidate::Seed(at) = it { Some(*at) } else { None }).collect();
    asked.sort_unstable();
    assert_eq!((asked, candidates.len()), (vec![0, 1, 2], 113));
    routes.close();
}

/// Commands that are sent on for the time being are no reason to look, nor one not to.
#[tokio::test(start_paused = true)]
async fn while_a_slot_is_half_moved_nodes_are_looked_at_as_often_as_else() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let seed = target("127.0.0.1", silent.local_addr().unwrap().port());
    let routes = Routes::new(&[seed], options(3000)).unwrap();
    let mut topology = Topology::new(Arc::clone(&routes));
    let is_half_moved = async {
        for _ in 0..70 {
            routes.listening.migrates(7);
            routes.uses();
            sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        () = topology.look_again_and_again() => {}
        () = is_half_moved => {}
    }
    let looks = std::iter::from_fn(|| silent.accept().ok()).count();
    assert!((2..=4).contains(&looks), "{looks} in 35 s");
    routes.close();
}

#[tokio::test]
async fn a_node_that_tells_two_masters_by_one_address_is_refused_and_the_address_is_named() {
    let routes = Routes::new(&[target("127.0.0.1", 1)], options(3000)).unwrap();
    let node = |id: &str| format!("*3\r\n$-1\r\n:6379\r\n${}\r\n{id}\r\n", id.len());
    let rows = |second: &str| {
        let rows = format!("*2\r\n*3\r\n:0\r\n:9\r\n{}*3\r\n:10\r\n:16383\r\n{}", node("a"), node(second));
        redis::parse_redis_value(rows.as_bytes()).unwrap()
    };
    let asked = Endpoint { host: "balancer.example".to_owned(), port: 6379 };
    assert!(read(&rows("a"), &asked, &routes).is_ok());
    let fault = read(&rows("b"), &asked, &routes).unwrap_err();
    assert!(
        fault.kind == FaultKind::Invalid && fault.source.to_string().contains("balancer.example:6379"),
        "{fault:?}"
    );
    routes.close();
}
