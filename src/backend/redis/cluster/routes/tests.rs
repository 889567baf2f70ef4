//! Which node answers for a slot as nodes come back elsewhere, give slots away, stand still or never answer.

use std::slice;

use super::*;
use crate::backend::{
    Backend, Line, Memory,
    redis::{
        cluster::{Cluster, views::NamedNode},
        info::Info,
        rights::Version,
        testing::{Server, eventually, free_port, options},
    },
    slot::{SLOTS, slot},
};

fn at(host: &str, port: u16) -> Endpoint {
    Endpoint { host: host.to_owned(), port }
}

fn routes(command_timeout: u64) -> Arc<Routes> {
    Routes::new(&[Target::parse("redis://127.0.0.1:1").unwrap()], options(command_timeout)).unwrap()
}

/// The first of these nodes has all slots but the last, which the second has, if there is one.
fn look(nodes: &[(&str, &[Endpoint])]) -> Layout {
    let named =
        |(id, endpoints): &(&str, &[Endpoint])| NamedNode { id: (*id).to_owned(), endpoints: endpoints.to_vec() };
    let mut owners = vec![0; SLOTS];
    owners[SLOTS - 1] = u16::try_from(nodes.len() - 1).unwrap();
    Layout { masters: nodes.iter().map(named).collect(), owners: owners.into(), replicas: Vec::new() }
}

/// A server on this port, and the member that it is for the first slots.
fn serving(routes: &Arc<Routes>) -> (Server, Arc<Member>) {
    let port = free_port();
    let server = Server::with(&["--port", &port.to_string()]);
    routes.take(&look(&[("a", &[at("127.0.0.1", port)])]));
    (server, routes.member(0).unwrap())
}

/// What a node of this version says of itself; of none, where it does not say.
fn of_version(version: &str) -> Info {
    Info { version: Version::read(version), ..Info::default() }
}

#[tokio::test]
async fn a_node_that_comes_back_elsewhere_under_its_name_is_found_there() {
    let (routes, name) = (routes(3000), at("redis-0.example", 6379));
    routes.take(&look(&[("a", &[at("10.0.0.1", 6379), name.clone()])]));
    assert_eq!(routes.moved(0, &name).unwrap().endpoint, at("10.0.0.1", 6379));
    for host in ["10.0.0.2", "10.0.0.3"] {
        let now = at(host, 6379);
        routes.take(&look(&[("a", &[now.clone(), name.clone()])]));
        let member = routes.member(0).unwrap();
        assert!(member.endpoint == now && member.node.aim.now().address().to_string().contains(host), "{host}");
        for told in [&now, &name] {
            assert_eq!(routes.moved(0, told).unwrap().endpoint, now, "by {told}");
        }
    }
    // Another has its old address by now, and says no name.
    routes.take(&look(&[("a", &[name.clone(), at("10.0.0.3", 6379)]), ("b", &[at("10.0.0.2", 6379)])]));
    assert_eq!(routes.member(0).unwrap().endpoint, at("10.0.0.3", 6379));
    assert_eq!(routes.member(16_383).unwrap().endpoint, at("10.0.0.2", 6379));
    routes.close();
}

#[tokio::test]
async fn nodes_that_share_a_name_are_several() {
    let (routes, name) = (routes(3000), at("redis.example", 6379));
    let nodes = [[at("10.0.0.1", 6379), name.clone()], [at("10.0.0.2", 6379), name.clone()]];
    // The name is one node's alone at first.
    routes.take(&look(&[("a", &nodes[0])]));
    for _ in 0..2 {
        routes.take(&look(&[("a", &nodes[0]), ("b", &nodes[1])]));
        assert_eq!(
            [0, 16_383].map(|slot| routes.member(slot).unwrap().endpoint.clone()),
            [0, 1].map(|n| nodes[n][0].clone())
        );
    }
    // Whose links lead there has it before all others.
    routes.take(&look(&[("c", slice::from_ref(&name)), ("a", &nodes[0])]));
    assert_eq!(routes.moved(1, &name).unwrap().endpoint, name);
    routes.close();
}

#[tokio::test]
async fn a_node_that_gave_all_of_its_slots_away_is_let_go_of_when_it_is_gone_and_not_before() {
    let routes = routes(3000);
    let (mut server, member) = serving(&routes);
    eventually("there is a link", || !member.node.is_suspect()).await;
    let others = look(&[("b", &[at("127.0.0.1", 1)])]);
    for _ in 0..2 {
        routes.take(&others);
        assert!(!member.node.current.is_closed(), "what is on its way there has no answer yet");
    }
    server.kill();
    eventually("it has no link", || member.node.is_suspect()).await;
    routes.take(&others);
    assert!(member.node.current.is_closed());
    assert_eq!(routes.members().len(), 1);
    routes.close();
}

/// Nothing else is asked of it: whatever was, nobody waits for any more.
#[tokio::test]
async fn a_node_that_stood_still_is_suspected_until_it_says_anything_or_has_another_link() {
    let routes = routes(300);
    let (server, member) = serving(&routes);
    let node = &member.node;
    eventually("there is a link", || !node.is_suspect()).await;
    node.stalls();
    assert!(node.is_suspect());
    let link = node.current.link().unwrap();
    link.unanswered(Instant::now(), Duration::from_secs(300));
    eventually("a ping is answered", || !node.is_suspect()).await;

    node.stalls();
    assert!(node.is_suspect());
    let _: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("there is another link", || !node.is_suspect()).await;
    assert!(!Arc::ptr_eq(&link, &node.current.link().unwrap()));
    routes.close();
}

#[tokio::test]
async fn how_far_a_node_is_is_known_before_anything_is_asked_of_it() {
    let routes = routes(3000);
    let (_server, member) = serving(&routes);
    eventually("it is measured", || member.node.round_trips.seen().is_some()).await;
    routes.close();
}

#[tokio::test]
async fn an_upgrade_that_leaves_this_client_behind_is_told_once_and_when_the_last_node_is_done() {
    for (lacks, told) in [(true, [false, false, false, false, true, false]), (false, [false; 6])] {
        let routes = routes(3000);
        if lacks {
            routes.upgrade.lacks_sharded();
        }
        let nodes = [1, 2].map(|port| Arc::clone(&routes.moved(port, &at("127.0.0.1", port)).unwrap().node));
        let says = [(0, "6.2"), (0, "7.0"), (1, "6.0"), (1, ""), (1, "7.2"), (0, "8.0")];
        let tells = |(n, version): (usize, _)| {
            nodes[n].known.heard(&of_version(version));
            routes.upgrade.ended(&routes.members())
        };
        assert_eq!(says.map(tells), told);
        routes.close();
    }
    // Something else that calls itself new, and knows none all the same.
    let routes = routes(3000);
    routes.upgrade.lacks_sharded();
    let member = routes.moved(1, &at("127.0.0.1", 1)).unwrap();
    member.node.known.heard(&of_version("7.0"));
    assert!(!routes.upgrade.ended(&routes.members()));
    routes.close();
}

#[tokio::test]
async fn which_version_a_node_is_of_is_known_of_each_link() {
    let routes = routes(3000);
    let (_server, member) = serving(&routes);
    let version = || member.node.known.now().version;
    eventually("it is known", || version().is_some_and(|version| version.major() >= 6)).await;
    routes.close();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_answered_was_not_heard_of_when_it_became_known() {
    let cluster = Cluster(routes(3000));
    let started = cluster.0.started;
    assert_eq!(cluster.last_answer("a"), started);
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.0.take(&look(&[("a", &[at("127.0.0.1", 1)])]));
    assert_eq!(cluster.last_answer("a"), started);
    cluster.0.member(0).unwrap().node.answers.note();
    assert!(cluster.last_answer("a") > started);
}

/// As under TLS, where certificates are made out to names.
fn by_name() -> Arc<Routes> {
    let mut routes = routes(3000);
    Arc::get_mut(&mut routes).unwrap().tls = true;
    routes
}

#[tokio::test]
async fn a_node_that_is_told_by_its_number_is_used_by_the_name_that_its_certificate_is_good_for() {
    let routes = by_name();
    let [master, replica] = [1, 2].map(|n| [at(&format!("n{n}.example"), 6379), at(&format!("10.0.0.{n}"), 6379)]);
    let replica = NamedNode { id: "b".to_owned(), endpoints: replica.to_vec() };
    routes.take(&Layout { replicas: vec![replica.clone()], ..look(&[("a", &master)]) });
    for member in [routes.asks(7, &replica.endpoints[1]), routes.moved(0, &replica.endpoints[1])] {
        assert_eq!(member.unwrap().endpoint, replica.endpoints[0]);
    }
    routes.take(&look(&[("b", &replica.endpoints)]));
    assert_eq!(routes.member(0).unwrap().endpoint, replica.endpoints[0]);
    routes.close();
}

#[tokio::test]
async fn a_node_that_was_told_by_its_number_before_its_name_was_known_is_used_by_that_later() {
    let (routes, node) = (by_name(), [at("n1.example", 6379), at("10.0.0.1", 6379)]);
    let first = routes.moved(0, &node[1]).unwrap();
    assert_eq!(first.endpoint, node[1]);
    for _ in 0..2 {
        routes.take(&look(&[("a", &node)]));
        assert_eq!(routes.member(0).unwrap().endpoint, node[0]);
        assert!(first.node.current.is_closed(), "whoever waits for it asks anew");
    }
    assert_eq!(routes.moved(0, &node[1]).unwrap().endpoint, node[0]);
    routes.close();
}

#[tokio::test]
async fn a_node_with_a_link_keeps_it_by_whichever_address_it_is_known() {
    let routes = by_name();
    let port = free_port();
    let _server = Server::with(&["--port", &port.to_string()]);
    let node = [at("n1.example", port), at("127.0.0.1", port)];
    let member = routes.moved(0, &node[1]).unwrap();
    eventually("there is a link", || !member.node.is_suspect()).await;
    routes.take(&look(&[("a", &node)]));
    assert_eq!(routes.member(0).unwrap().endpoint, node[1]);
    routes.close();
}

/// Whoever listens may not have come along yet.
#[tokio::test(start_paused = true)]
async fn who_listens_in_a_slot_is_counted_when_everybody_had_the_time_to_follow_it() {
    const MS: Duration = Duration::from_millis(1);
    for (kind, settles) in [(Publish::Sharded, MS * 1000), (Publish::Classic, MS * 15_000)] {
        let (routes, nodes) = (routes(3000), [at("127.0.0.1", 1), at("127.0.0.1", 2)]);
        let counts = || [0, 16_383].map(|slot| routes.counts(slot));
        routes.take(&look(&[("a", &nodes[..1])]));
        routes.listen_as(kind);
        // Whoever asks once would be told for a while that a lock is busy which nobody has.
        assert_eq!(counts(), [true; 2], "{kind:?}");
        for told in [true, false] {
            match told {
                true => drop(routes.moved(16_383, &nodes[1]).unwrap()),
                false => routes.take(&look(&[("a", &nodes[..1])])),
            }
            // Of a classic one all that is known is that something moved.
            assert_eq!(counts(), [kind == Publish::Sharded, false], "{kind:?} {told}");
            tokio::time::sleep(settles).await;
            assert!(!routes.counts(16_383), "{kind:?} {told}");
            tokio::time::sleep(MS).await;
            assert_eq!(counts(), [true; 2], "{kind:?} {told}");
            routes.follow_slots();
        }
        routes.close();
    }
}

/// It did not answer when this client connected, or came later.
#[tokio::test]
async fn a_node_that_is_older_than_the_channels_of_this_client_is_told_once() {
    for (has, told) in [(true, [false, false, true, false]), (false, [false; 4])] {
        let routes = routes(3000);
        if has {
            routes.upgrade.has_sharded();
        }
        let nodes = [1, 2].map(|port| Arc::clone(&routes.moved(port, &at("127.0.0.1", port)).unwrap().node));
        let tells = |(n, version): (usize, _)| {
            nodes[n].known.heard(&of_version(version));
            routes.upgrade.falls_short(&routes.members())
        };
        assert_eq!([(0, "7.0"), (1, ""), (1, "6.2"), (0, "6.2")].map(tells), told);
        routes.close();
    }
}

/// A key in this slot.
fn key_in(wanted: usize) -> String {
    (0..).map(|n: u32| n.to_string()).find(|key| usize::from(slot(key.as_bytes())) == wanted).unwrap()
}

#[tokio::test]
async fn a_slot_remembers_since_its_node_does_and_since_it_came_there() {
    let routes = routes(3000);
    let ports = [free_port(), free_port()];
    let [mut first, second] = ports.map(|port| Server::with(&["--port", &port.to_string()]));
    let ends = ports.map(|port| [at("127.0.0.1", port)]);
    let cluster = Cluster(Arc::clone(&routes));
    let [kept, moves] = [key_in(0), key_in(SLOTS - 1)];
    assert!(cluster.remembers_since(&kept).is_none() && cluster.identities().is_empty());
    routes.take(&look(&[("a", &ends[0])]));
    cluster.ask_memory().await;
    let since = |key: &str| match cluster.remembers_since(key) {
        Some(Memory::Since(since)) => since,
        other => panic!("{other:?}"),
    };
    let moved = Instant::now();
    assert!(since(&kept) < moved && since(&moves) < moved);

    routes.take(&look(&[("a", &ends[0]), ("b", &ends[1])]));
    eventually("the other one has a link", || routes.member(16_383).unwrap().node.current.link().is_some()).await;
    cluster.ask_memory().await;
    assert!(since(&kept) < moved && since(&moves) > moved, "what did not move is as old as it was");
    let run_id = |server: &Server| {
        let info: String = server.ask(&["INFO", "server"]);
        info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap().to_owned()
    };
    let mut identities = cluster.identities();
    identities.sort();
    let mut ids = [&first, &second].map(run_id);
    ids.sort();
    assert_eq!(identities.iter().map(|it| &**it).collect::<Vec<_>>(), ids);

    let asked = Instant::now();
    routes.asks(0, &ends[1][0]).unwrap();
    assert!(since(&kept) > asked, "another one may answer for what is not there yet");

    first.kill();
    eventually("it has no link", || routes.member(0).unwrap().node.is_suspect()).await;
    let killed = Instant::now();
    assert!(since(&kept) < killed);
    first.restart();
    eventually("it has a link", || !routes.member(0).unwrap().node.is_suspect()).await;
    assert!(since(&kept) > killed && since(&moves) < killed);
    routes.close();
}
