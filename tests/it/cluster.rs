//! Locks on a cluster: their nodes change, their slots move, and who holds or waits notices as little as can be.

mod addresses;
mod failing;
mod frozen;
mod moving;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use relatch::{Client, ClientBuilder, Error, Op, RefusedKind, Released, RespVersion, ShardedPubSub};

use crate::{
    harness::{
        Server,
        cluster::{MASTERS, NODES, home, name_on, slot},
        deployment::{Deployment, Wishes},
        eventually_async,
        lag::Lag,
        server::free_port,
        traces::{Said, Traces},
    },
    kept::{channel, connected, poll_once},
    taking::SOON,
};

const MS: Duration = Duration::from_millis(1);

fn builder(cluster: &Deployment) -> ClientBuilder {
    Client::builder().url(cluster.url())
}

async fn client(cluster: &Deployment) -> Client {
    connected(builder(cluster)).await
}

/// A lock's whole life, and somebody who waits for it, listening or not.
async fn live(client: &Client, name: &str) {
    let lock = client.mutex(name);
    let guard = lock.lock().await.expect("a free lock");
    let mut waiting = lock.lock().into_future();
    assert!(poll_once(&mut waiting).await.is_pending());
    let waiting = tokio::spawn(waiting);
    guard.extend(SOON).await.expect("it is held");
    guard.unlock().await.expect("it is held");
    waiting.await.expect("no panic").expect("it is free").unlock().await.expect("it is held");
}

#[tokio::test]
async fn locks_of_all_nodes_exclude_nest_and_wake_across_clients() {
    let cluster = Deployment::shared_cluster();
    for sharded in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        let of = || connected(builder(cluster).sharded_pubsub(sharded));
        let (ann, ben) = (of().await, of().await);
        for node in MASTERS {
            let name = name_on(node);
            let lock = ann.lock(&name);
            let held = lock.lock().await.expect("it is free");
            let nested = lock.lock().await.expect("it is ours");
            assert!(ben.lock(&name).try_lock().await.expect("it answers").is_none());
            assert!(ben.lock(&name).try_lock().wait(50 * MS).await.expect("it answers").is_none());
            assert_eq!(cluster.ask::<i64>(node, &["EXISTS", &name]), 1, "{name} is on {node}");
            let waiting = tokio::spawn(ben.lock(&name).lock().into_future());
            let hears = || cluster.listeners_on(node, &channel(&name), is_sharded(cluster, sharded));
            eventually_async(SOON, async || hears() == 1).await;
            assert!(matches!(nested.unlock().await, Ok(Released::StillHeld(1))));
            let (lag, freed) = (Lag::watch(), Instant::now());
            assert!(matches!(held.unlock().await, Ok(Released::Freed)));
            let guard = waiting.await.expect("no panic").expect("it is free");
            let took = freed.elapsed();
            assert!(took < lag.added_to(1000 * MS), "{took:?}");
            guard.unlock().await.expect("it was held");
        }
    }
}

/// For longer than others let a process keep it to itself.
#[tokio::test]
async fn whoever_has_just_connected_finds_a_lock_free_that_nobody_else_wants() {
    let cluster = Deployment::shared_cluster();
    for kind in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        let ours = connected(builder(cluster).sharded_pubsub(kind)).await;
        for node in MASTERS {
            let mutex = ours.mutex(name_on(node));
            let held = mutex.lock().await.expect("it is free");
            tokio::time::sleep(MS * 50).await;
            drop(held);
            let next = mutex.try_lock().await.expect("it answers").unwrap_or_else(|| panic!("{kind:?}: nobody has it"));
            next.unlock().await.expect("it is held");
        }
    }
}

/// Both sides take a name with a brace anywhere for one that has its own.
#[tokio::test]
async fn a_name_whose_channel_would_be_in_another_slot_is_refused_before_anything_is_sent() {
    let cluster = Deployment::shared_cluster();
    let ours = client(cluster).await;
    let torn = ["a}b", "{b", "{}", "{", "}", "a{b", "a{}b", "{}{a}", "{a", "a}", "}{", "{}a{b}"];
    for name in torn {
        let refused = ours.mutex(name).try_lock().into_future().now_or_never();
        let Some(Err(Error::Invalid { what, why, .. })) = refused else { panic!("{name:?}: {refused:?}") };
        assert!(what == "name" && why.contains("slots"), "{what}: {why}");
    }
    for name in ["a", "{a}b", "a{b}c", "{a}{b}", "{{a}}", "{{}}", "x{a}"] {
        let guard = ours.mutex(name).lock().await.unwrap_or_else(|error| panic!("{name:?}: {error:?}"));
        guard.unlock().await.expect("it is held");
    }
    let prefixed = connected(builder(cluster).name_prefix("{}")).await;
    assert!(matches!(prefixed.mutex("a").try_lock().await, Err(Error::Invalid { what: "name", .. })));
    let prefixed = connected(builder(cluster).name_prefix("{all}")).await;
    prefixed.mutex("a{}b").lock().await.expect("they share the prefix's slot").unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_server_that_is_of_no_cluster_is_refused_and_its_scheme_is_named() {
    let server = Server::builder().tcp().start();
    let refused = Client::connect(server.tcp_url().replace("redis://", "redis-cluster://")).await;
    let Err(Error::Invalid { what: "url", why, .. }) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("redis://"), "{why}");
}

/// Over the older protocol nothing is heard of sharded channels, and one node of many that are named is enough.
#[tokio::test]
async fn any_node_is_enough_and_the_older_protocol_too() {
    let cluster = Deployment::shared_cluster();
    let nobody = free_port();
    for node in NODES {
        let url = format!("redis-cluster://127.0.0.1:{nobody},127.0.0.1:{}", cluster.port(node));
        let ours = connected(Client::builder().url(url)).await;
        for node in MASTERS {
            live(&ours, &name_on(node)).await;
        }
    }
    let old = connected(Client::builder().url(format!("{}?protocol=resp2", cluster.url()))).await;
    let name = name_on("node2");
    let held = old.mutex(&name).lock().await.expect("it is free");
    let waiting =
        tokio::spawn(connected(builder(cluster).protocol(RespVersion::Resp2)).await.mutex(&name).lock().into_future());
    eventually_async(SOON, async || cluster.listeners_on("node2", &channel(&name), false) == 1).await;
    held.unlock().await.expect("it is held");
    waiting.await.expect("no panic").expect("it is woken").unlock().await.expect("it is held");
    let sharded = builder(cluster).protocol(RespVersion::Resp2).sharded_pubsub(ShardedPubSub::On).connect().await;
    let Err(Error::Invalid { what: "url", why, .. }) = &sharded else { panic!("{sharded:?}") };
    assert!(why.contains("RESP3"), "{why}");
    let refused = Client::connect(format!("redis-cluster://127.0.0.1:{nobody}")).await;
    assert!(matches!(refused, Err(Error::Unreachable { op: Op::Connect, .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_those_of_all_nodes_and_a_client_that_is_closed_or_dropped_leaves_nothing() {
    let cluster = Deployment::cluster_with(&Wishes { password: Some("s3cret-of-all"), ..Wishes::default() });
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let idle = tasks();
    let rows = [
        (cluster.url().replace("of-all", "of-none"), "WRONGPASS"),
        (cluster.url().replace(":s3cret-of-all@", ""), "NOAUTH"),
    ];
    for (url, code) in rows {
        let answer = Client::connect(&url).await;
        let Err(Error::Refused { kind: RefusedKind::Credentials, op: Op::Connect, source, .. }) = &answer else {
            panic!("{url}: {answer:?}")
        };
        let shown = format!("{source} {answer:?}");
        assert!(shown.contains(code) && !shown.contains("s3cret"), "{shown}");
    }
    // Those of the nodes themselves, and who asks.
    let links = || -> usize {
        let lists = NODES.iter().map(|node| cluster.ask::<String>(node, &["CLIENT", "LIST"]));
        let ours = lists
            .map(|list| list.lines().filter(|line| !line.contains("flags=S") && !line.contains("flags=M")).count());
        ours.map(|ours| ours - 1).sum()
    };
    for closes in [true, false] {
        let ours = connected(Client::builder().cluster_nodes([cluster.client_of("node4")])).await;
        for node in MASTERS {
            live(&ours, &name_on(node)).await;
        }
        assert!(tasks() > idle && links() >= MASTERS.len());
        if closes {
            ours.close().await;
        }
        drop(ours);
        eventually_async(SOON, async || (tasks(), links()) == (idle, 0)).await;
    }
}

/// For servers of this kind, by the pages, which have those of Redis 7.0.
fn rights_of_the_pages(flavour: &str) -> BTreeSet<&'static str> {
    let page = include_str!("../../SECURITY.md").lines().find(|line| line.starts_with("user ")).expect("it has them");
    let guide = include_str!("../../src/guide/deployments.rs").lines();
    let more = guide.filter_map(|line| line.strip_prefix("//! +cluster")).next().expect("it has them");
    let old = flavour == "redis62";
    let mut of_pages: BTreeSet<_> =
        page.split(' ').skip(4).chain(more.split(' ').skip(1)).chain(["+cluster|slots"]).collect();
    let classic = ["+publish", "+subscribe", "+unsubscribe"];
    let sharded = ["+spublish", "+ssubscribe", "+sunsubscribe"];
    for word in if old { sharded } else { classic } {
        assert!(of_pages.remove(word), "{word}");
    }
    if flavour != "redis70" {
        of_pages.insert("+client|setinfo");
    }
    of_pages
}

/// What a client says it needs, and the guide names for Redis 7.0, is enough: also where a slot is half moved.
#[tokio::test]
async fn the_rights_that_a_client_asks_for_are_enough() {
    let cluster = Deployment::of_cluster();
    let acl = client(&cluster).await.required_acl("app:*").expect("a good pattern");
    let old = cluster.flavour() == "redis62";
    assert_eq!(acl.data.split(' ').collect::<BTreeSet<_>>(), rights_of_the_pages(cluster.flavour()));
    assert_eq!(acl.sentinel, None);
    let words = format!("ACL SETUSER ann reset on >s3cret {}", acl.data);
    let words: Vec<_> = words.split(' ').collect();
    NODES.iter().for_each(|node| cluster.ask::<()>(node, &words));
    let url = cluster.url().replace("://", "://ann:s3cret@");
    let (ours, theirs) = tokio::join!(
        connected(Client::builder().url(&url).name_prefix("app:")),
        connected(Client::builder().url(&url).name_prefix("app:"))
    );
    let (slot, names) = (slot("app:job"), ["job", "a", "b", "c", "d", "e", "f", "g"]);
    cluster.begin_migration(
        slot,
        home("app:job"),
        MASTERS.into_iter().find(|node| *node != home("app:job")).expect("two"),
    );
    for name in names {
        live(&ours, name).await;
        let held = ours.lock(name).lock().await.expect("it is free");
        let waiting = tokio::spawn(theirs.mutex(name).lock().into_future());
        let heard = channel(&format!("app:{name}"));
        let hears = || cluster.listeners_on(home(&format!("app:{name}")), &heard, !old);
        eventually_async(SOON, async || hears() == 1).await;
        held.unlock().await.expect("it is held");
        waiting.await.expect("no panic").expect("it is woken").unlock().await.expect("it is held");
    }
    assert_eq!(NODES.iter().flat_map(|node| cluster.denied(node)).collect::<Vec<_>>(), Vec::<String>::new());
    if old {
        return;
    }

    // Who may not listen polls, and who may not ask which channels the others take does not guess.
    let grant = |nodes: &[&str], right: &str| {
        nodes.iter().for_each(|node| cluster.ask::<()>(node, &["ACL", "SETUSER", "ann", right]));
    };
    let prefixed = || Client::builder().url(&url).name_prefix("app:");
    grant(&NODES, "-ssubscribe");
    let traces = Traces::here();
    let deaf = connected(prefixed()).await;
    let held = ours.mutex("deaf").lock().await.expect("it is free");
    let waiting = tokio::spawn(deaf.mutex("deaf").lock().into_future());
    let polls = || traces.all().iter().filter(|said| said.is_ours() && said.what.contains("polling")).count();
    eventually_async(SOON, async || polls() == 1).await;
    let names_it = |said: &Said| said.fields.get("error").is_some_and(|error| error.contains("'ssubscribe'"));
    assert!(traces.all().iter().any(|said| said.is_ours() && names_it(said)));
    held.unlock().await.expect("it is held");
    waiting.await.expect("no panic").expect("it asks again").unlock().await.expect("it is held");
    grant(&["node1"], "-pubsub|shardnumsub");
    let answer = prefixed().connect().await;
    let Err(Error::Refused { kind: RefusedKind::Permission, op: Op::Connect, source, .. }) = &answer else {
        panic!("{answer:?}")
    };
    assert!(source.to_string().contains("shardnumsub"), "{source}");
    for sharded in [ShardedPubSub::On, ShardedPubSub::Off] {
        live(&connected(prefixed().sharded_pubsub(sharded)).await, "job").await;
    }
}

#[tokio::test]
async fn what_all_nodes_deny_is_said_once() {
    let cluster = Deployment::of_cluster();
    let (traces, free) = (Traces::here(), client(&cluster).await);
    let rules = free.required_acl("*").expect("a good pattern").data;
    let (ssubscribe, old) =
        (if is_sharded(&cluster, ShardedPubSub::Auto) { "+ssubscribe" } else { "+subscribe" }, traces.all().len());
    let words = format!("ACL SETUSER ann reset on >s3cret {rules}");
    let words: Vec<_> = words.split(' ').filter(|word| !["+info", ssubscribe].contains(word)).collect();
    NODES.iter().for_each(|node| cluster.ask::<()>(node, &words));
    let ours = connected(Client::builder().url(cluster.url().replace("://", "://ann:s3cret@"))).await;
    for node in MASTERS {
        let held = free.mutex(name_on(node)).lock().lease(SOON).await.expect("it is free");
        let waiting = tokio::spawn(ours.mutex(held.name()).lock().into_future());
        let is_denied = |word: &str| cluster.denied(node).iter().any(|denied| denied == word);
        eventually_async(SOON, async || is_denied("info") && is_denied(&ssubscribe[1..])).await;
        held.unlock().await.expect("it is held");
        waiting.await.expect("no panic").expect("it asks again").unlock().await.expect("it is held");
    }
    for denied in ["the server denies INFO", "the server denies a right to a channel"] {
        let said: Vec<_> =
            traces.all().into_iter().skip(old).filter(|said| said.is_ours() && said.what.starts_with(denied)).collect();
        assert_eq!(said.len(), 1, "{said:?}");
    }
}

fn is_sharded(cluster: &Deployment, sharded: ShardedPubSub) -> bool {
    sharded != ShardedPubSub::Off && cluster.flavour() != "redis62"
}

#[test]
fn names_are_found_on_every_node() {
    assert!(MASTERS.into_iter().all(|node| home(&name_on(node)) == node));
}
