//! Locks on a cluster: their nodes change, their slots move, and who holds or waits notices as little as can be.

mod failing;
mod frozen;
mod moving;

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use relatch::{Client, ClientBuilder, Error, Released, ShardedPubSub};

use crate::{
    harness::{
        Server,
        cluster::{MASTERS, home, name_on},
        deployment::Deployment,
        eventually_async,
    },
    kept::{channel, connected},
};

const MS: Duration = Duration::from_millis(1);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(20);

fn builder(cluster: &Deployment) -> ClientBuilder {
    Client::builder().url(cluster.url())
}

async fn client(cluster: &Deployment) -> Client {
    connected(builder(cluster)).await
}

/// A lock's whole life, and a waiter that is woken.
async fn live(client: &Client, name: &str) {
    let lock = client.mutex(name);
    let guard = lock.lock().await.expect("a free lock");
    let waiting = tokio::spawn(lock.lock().into_future());
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
            let freed = Instant::now();
            assert!(matches!(held.unlock().await, Ok(Released::Freed)));
            let guard = waiting.await.expect("no panic").expect("it is free");
            assert!(freed.elapsed() < 1000 * MS, "{:?}", freed.elapsed());
            guard.unlock().await.expect("it was held");
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

fn is_sharded(cluster: &Deployment, sharded: ShardedPubSub) -> bool {
    sharded != ShardedPubSub::Off && cluster.flavour() != "redis62"
}

#[test]
fn names_are_found_on_every_node() {
    assert!(MASTERS.into_iter().all(|node| home(&name_on(node)) == node));
}
