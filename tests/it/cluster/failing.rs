//! Masters that die, freeze or hand over: their successors are found, and who held a lock is told the truth.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use relatch::{Client, LockGuard};
use tokio::time::timeout;

use super::{SOON, client, is_sharded, live};
use crate::{
    harness::{cluster::name_on, deployment::Deployment, eventually_async, lag::Lag, traces::Traces},
    kept::channel,
    taking::{TOLD, Taker, all_is_told, lost_holds, rounds, was_soon},
};

/// How often somebody who has nothing to do looks who has which slots.
const LOOKS: Duration = Duration::from_secs(10);

fn of_the_first_shard() -> String {
    name_on("node0")
}

/// What happens to a master, and what brings it back.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Killed,
    Frozen,
    HandsOver,
}

impl Blow {
    /// Which node is the master then, and since when the others know.
    async fn strike(self, cluster: &Deployment, master: &str) -> (&'static str, Instant) {
        let next = cluster.replica_of(master);
        match self {
            Self::Killed => cluster.kill(master),
            Self::Frozen => cluster.freeze(master),
            Self::HandsOver => cluster.ask(next, &["CLUSTER", "FAILOVER"]),
        }
        let others = ["node1", "node2"];
        eventually_async(SOON, async || others.iter().all(|other| cluster.has_slots(other, next))).await;
        (next, Instant::now())
    }

    fn relieve(self, cluster: &Deployment, master: &str) {
        match self {
            Self::Killed => cluster.start(master),
            Self::Frozen => cluster.thaw(master),
            Self::HandsOver => {}
        }
    }
}

/// No script of anybody's runs there, while it does not know yet that it is none any more, and later.
async fn is_left_alone(cluster: &Deployment, node: &str, clients: [&Client; 2]) {
    let before = cluster.scripts_run(node);
    eventually_async(SOON, async || {
        for client in clients {
            live(client, &of_the_first_shard()).await;
        }
        !cluster.is_master(node)
    })
    .await;
    for client in clients {
        live(client, &of_the_first_shard()).await;
    }
    assert_eq!(cluster.scripts_run(node), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_master_is_found_when_one_dies_freezes_or_hands_over_and_one_that_comes_back_is_not() {
    let cluster = Deployment::of_cluster();
    let (ours, theirs) = (client(&cluster).await, client(&cluster).await);
    let sharded = is_sharded(&cluster, relatch::ShardedPubSub::Auto);
    let elsewhere = ours.mutex(name_on("node1")).lock().await.expect("a free lock");
    let (mut master, blows) = ("node0", [Blow::Killed, Blow::Frozen, Blow::HandsOver]);
    for blow in blows.into_iter().cycle().take(blows.len() * rounds()) {
        let waited = name_on("node0");
        let held = theirs.mutex(&waited).lock().lease(SOON * 6).await.expect("a free lock");
        let waiter = tokio::spawn(ours.mutex(&waited).lock().into_future());
        eventually_async(SOON, async || cluster.listeners_on(master, &channel(&waited), sharded) == 1).await;
        let mut taker = Taker::start(&ours, of_the_first_shard);
        taker.takes_several().await;
        let (struck, lag) = (Instant::now(), Lag::watch());
        let (next, switched) = blow.strike(&cluster, master).await;
        taker.takes_after(switched).await;
        let taken = taker.stop().await;
        println!("{blow:?}:");
        was_soon(&taken, struck, switched, lag);
        let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
        all_is_told(&cluster, next, &ours, &guards, of_the_first_shard).await;
        // A release there is heard by who began to wait at the old one. Where that hold is lost, nobody needs to wait for it.
        drop(held.unlock().await);
        let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
        entered.unlock().await.expect("it is held");
        // It takes itself for a master perhaps, until it hears of the others.
        blow.relieve(&cluster, master);
        is_left_alone(&cluster, master, [&ours, &theirs]).await;
        master = next;
    }
    assert!(elsewhere.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_hold_that_the_new_master_of_a_shard_never_heard_of_is_told_and_no_other() {
    let cluster = Deployment::of_cluster();
    let (ours, theirs) = (client(&cluster).await, client(&cluster).await);
    let others = join_all((0..50).map(|_| ours.mutex(name_on("node1")).lock().into_future())).await;
    let others: Vec<_> = others.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let replica = cluster.replica_of("node0");
    cluster.freeze(replica);
    // What is in a replica's socket would reach it after all.
    let _: u64 = cluster.ask("node0", &["CLIENT", "KILL", "TYPE", "replica"]);
    let guards = join_all((0..lost_holds()).map(|number| match number % 2 {
        0 => ours.mutex(name_on("node0")).lock().into_future(),
        _ => ours.mutex(name_on("node0")).lock().lease(SOON * 6).into_future(),
    }));
    let guards: Vec<_> = guards.await.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let waiter = tokio::spawn(theirs.mutex(guards[1].name()).lock().into_future());
    let sharded = is_sharded(&cluster, relatch::ShardedPubSub::Auto);
    eventually_async(SOON, async || cluster.listeners_on("node0", &channel(guards[1].name()), sharded) == 1).await;
    cluster.kill("node0");
    cluster.thaw(replica);
    eventually_async(SOON, async || cluster.is_master(replica)).await;
    assert_eq!(all_is_told(&cluster, replica, &ours, &guards, of_the_first_shard).await, guards.len());
    assert!(others.iter().all(LockGuard::is_held));
    let entered = timeout(SOON, waiter).await.expect("it is free there").expect("no panic").expect("its turn");
    entered.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_holder_that_sends_nothing_is_told_that_the_next_master_never_heard_of_its_hold() {
    let cluster = Deployment::of_cluster();
    let ours = client(&cluster).await;
    let replica = cluster.replica_of("node0");
    let _: String = cluster.ask(replica, &["CONFIG", "SET", "cluster-replica-validity-factor", "0"]);
    cluster.freeze(replica);
    let _: u64 = cluster.ask("node0", &["CLIENT", "KILL", "TYPE", "replica"]);
    let guard = ours.mutex(name_on("node0")).lock().lease(SOON * 6).await.expect("a free lock");
    // The lock itself is a reason to look for changes once more, and then there is none but that it is held.
    let asked = || ["node0", "node1", "node2"].iter().map(|node| cluster.slots_asked_for(node)).sum::<u64>();
    let before = asked();
    eventually_async(SOON, async || asked() > before).await;
    assert!(guard.is_held());
    // No link ends by that.
    cluster.freeze("node0");
    cluster.thaw(replica);
    eventually_async(SOON, async || cluster.is_master(replica)).await;
    let (since, lag) = (Instant::now(), Lag::watch());
    timeout(SOON * 3, guard.lost()).await.expect("it is told long before its lease is over");
    assert!(since.elapsed() <= lag.added_to(LOOKS + TOLD), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_master_that_is_away_is_said_to_be_waited_for_until_another_node_has_its_names() {
    let cluster = Deployment::of_cluster();
    let traces = Traces::here();
    let ours = client(&cluster).await;
    live(&ours, &of_the_first_shard()).await;
    cluster.kill("node0");
    live(&ours, &of_the_first_shard()).await;
    let is_lost = || traces.events("the link to the server is lost; connecting again until it is back");
    let is_over = || traces.events("other nodes have what the server had; it is not waited for any more");
    eventually_async(SOON, async || is_over().len() == 1).await;
    assert_eq!(is_lost().len(), 1);
    assert_eq!(is_lost()[0].field("server"), is_over()[0].field("server"));
    assert!(is_over()[0].field("server").contains(&cluster.port("node0").to_string()));
}
