//! Nodes that are known by other addresses than IPv4's, and a cluster that nobody is to know of.

use std::net::Ipv4Addr;

use relatch::{Client, Error, LockGuard, ShardedPubSub};

use super::{MS, SOON, builder, is_sharded, live};
use crate::{
    harness::{
        Server,
        cluster::{MASTERS, name_in, name_on, slot},
        deployment::{Deployment, Wishes},
        eventually_async,
        proxy::{Action, Entry, Proxy, matching::command},
        unique_name,
    },
    kept::{channel, connected},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_at_addresses_of_version_6_are_followed_through_redirects_and_a_failover() {
    let cluster = Deployment::cluster_with(&Wishes { host: Some("::1"), ..Wishes::default() });
    assert!(cluster.url().contains("[::1]:"), "{}", cluster.url());
    let (ours, theirs) = (connected(builder(&cluster)).await, connected(builder(&cluster)).await);
    for node in MASTERS {
        live(&ours, &name_on(node)).await;
    }
    let (slot, sharded) = (slot(&name_on("node0")), is_sharded(&cluster, ShardedPubSub::Auto));
    let held = theirs.mutex(name_in(slot)).lock().lease(SOON * 6).await.expect("it is free");
    let waiter = tokio::spawn(ours.mutex(held.name()).lock().into_future());
    eventually_async(SOON, async || cluster.listeners_on("node0", &channel(held.name()), sharded) == 1).await;
    // ASK and MOVED name an address each.
    cluster.begin_migration(slot, "node0", "node1");
    live(&ours, &name_in(slot)).await;
    cluster.move_keys(slot, "node0", "node1");
    cluster.end_migration(slot, "node0", "node1");
    held.unlock().await.expect("it is held");
    waiter.await.expect("no panic").expect("it is woken").unlock().await.expect("it is held");
    let (next, _) = cluster.hand_over("node0");
    live(&ours, &name_on("node0")).await;
    let who_is_what: String = cluster.ask("node1", &["CLUSTER", "NODES"]);
    assert!(cluster.scripts_run(next) > 0, "{next} at {}: {who_is_what}", cluster.port(next));
}

/// One that shows a single server. It has all names, so that whatever is asked for is there: what a proxy in front of several nodes
/// refuses, keys of two slots in one call, this one refuses as well.
#[tokio::test]
async fn a_proxy_that_hides_a_cluster_is_served_as_one_server_and_refused_as_a_cluster_with_the_scheme_that_is_for_it()
{
    let server = Server::builder().tcp_of_a_node().line("cluster-enabled yes").start();
    let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
    let () = redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots).query(&mut server.connection()).expect("they are free");
    let is_whole = || -> bool {
        let info: String = redis::cmd("CLUSTER").arg("INFO").query(&mut server.connection()).expect("it answers");
        info.contains("cluster_state:ok")
    };
    eventually_async(SOON, async || is_whole()).await;
    let proxy = Proxy::tcp_to_address((Ipv4Addr::LOCALHOST, server.port()).into());
    for hidden in ["CLUSTER", "INFO", "HELLO"] {
        proxy.rule(command(hidden), Action::Answer("-ERR unknown command\r\n"));
    }
    let refused = Client::connect(proxy.url().replace("redis://", "redis-cluster://")).await;
    let Err(Error::Invalid { what: "url", why, .. }) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("redis://"), "{why}");

    let keys_of_a_renewal = |entry: &Entry| {
        let words = entry.words().filter(|_| entry.script().as_deref() == Some("renew"))?;
        std::str::from_utf8(&words[2]).ok()?.parse::<usize>().ok()
    };
    let renewals = || -> (usize, usize) {
        let (alone, together): (Vec<_>, Vec<_>) =
            proxy.log().iter().filter_map(keys_of_a_renewal).partition(|keys| *keys == 1);
        (alone.len(), together.len())
    };
    let watchdog = MS * 2500;
    let ours = connected(Client::builder().url(proxy.url()).watchdog_timeout(watchdog)).await;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(ours.mutex(unique_name()).lock().await.expect("it is free"));
    }
    live(&ours, &unique_name()).await;
    // They are renewed for longer than they would last, though not together. That is found out once a link.
    for cuts in [true, false] {
        eventually_async(SOON, async || renewals().1 > 0).await;
        // Whatever was asked for before the answer has left.
        eventually_async(SOON, async || renewals().0 >= 2 * held.len()).await;
        proxy.clear_log();
        eventually_async(SOON, async || renewals().0 >= 4 * held.len()).await;
        assert_eq!(renewals().1, 0);
        if cuts {
            proxy.clear_log();
            proxy.cut_all();
        }
    }
    assert!(held.iter().all(LockGuard::is_held));
    for guard in held {
        guard.unlock().await.expect("it is held");
    }
}
