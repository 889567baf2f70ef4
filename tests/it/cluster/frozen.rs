//! A shard that answers nobody: the others do not notice, and who holds a lock of it is told in time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use relatch::{Client, Error, LostCause, Op};
use tokio::time::timeout;

use super::{MS, SOON, builder, is_sharded, live};
use crate::{
    harness::{cluster::name_on, deployment::Deployment, eventually_async, lag::Lag},
    kept::{channel, connected},
};

const WATCHDOG: Duration = Duration::from_secs(2);
const COMMAND: Duration = Duration::from_secs(1);
/// How much later than its bound something may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
/// How much slower a lock may be taken by chance.
const NOISE: Duration = Duration::from_millis(10);

/// What of a hundred locks of two shards, each taken and let go, the slowest but one took.
async fn slow(client: &Client, rounds: u32) -> Duration {
    let mut took = Vec::new();
    for round in 0..rounds {
        let name = name_on(if round % 2 == 0 { "node1" } else { "node2" });
        let began = Instant::now();
        let guard = client.mutex(name).try_lock().await.expect("it answers").expect("it is free");
        guard.unlock().await.expect("it is held");
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 99 / 100 - 1]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_stands_still_costs_the_others_nothing_and_its_holders_are_told_in_time() {
    let cluster = Deployment::of_cluster();
    let of = || connected(builder(&cluster).watchdog_timeout(WATCHDOG).command_timeout(COMMAND));
    let (ours, theirs) = (of().await, of().await);
    let theirs_there = theirs.mutex(name_on("node1")).lock().await.expect("a free lock");
    let waiting = ours.mutex(theirs_there.name()).lock();
    let waiter = tokio::spawn(async move { waiting.await.expect("its turn") });
    let (listened, sharded) = (channel(theirs_there.name()), is_sharded(&cluster, relatch::ShardedPubSub::Auto));
    eventually_async(SOON, async || cluster.listeners_on("node1", &listened, sharded) == 1).await;
    let elsewhere = join_all((0..100).map(|_| ours.mutex(name_on("node2")).lock().into_future())).await;
    let elsewhere: Vec<_> = elsewhere.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let held = join_all((0..100).map(|_| ours.mutex(name_on("node0")).lock().into_future())).await;
    let held: Vec<_> = held.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let before = slow(&ours, 400).await;

    // Nobody takes its place.
    let replica = cluster.replica_of("node0");
    cluster.freeze(replica);
    cluster.freeze("node0");
    let frozen = Instant::now();
    let waiters: Vec<_> = (0..1000).map(|_| tokio::spawn(ours.mutex(name_on("node0")).lock().into_future())).collect();
    let lag = Lag::watch();
    let asked = timeout(SOON, ours.mutex(name_on("node0")).try_lock().into_future());
    let (during, refused) = tokio::join!(slow(&ours, 400), asked);
    let refused = refused.expect("it is told in time");
    assert!(matches!(refused, Err(Error::Unreachable { op: Op::Acquire, .. })), "{refused:?}");
    println!("p99 {before:?} before, {during:?} with a shard that stands still");
    let bound = lag.added_to(before * 2 + NOISE);
    assert!(during < bound, "{before:?} before, {during:?} now, {bound:?} at most");

    for guard in &held {
        let told = timeout(SOON, guard.lost()).await.expect("it is told");
        assert!(matches!(told, Error::Lost { cause: LostCause::Expired, .. }), "{told:?}");
    }
    let told = frozen.elapsed();
    assert!(told < WATCHDOG + SLACK, "told after {told:?}");
    // Theirs are renewed, released and waited for meanwhile.
    tokio::time::sleep(WATCHDOG).await;
    assert!(elsewhere.iter().all(|guard| guard.is_held()) && theirs_there.is_held());
    let freed = Instant::now();
    theirs_there.unlock().await.expect("it is held");
    let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic");
    assert!(freed.elapsed() < SLACK, "after {:?}", freed.elapsed());
    entered.unlock().await.expect("it is held");

    cluster.thaw("node0");
    cluster.thaw(replica);
    for waiter in waiters {
        match timeout(SOON, waiter).await.expect("nobody hangs").expect("no panic") {
            Ok(guard) => drop(guard),
            Err(error) => assert!(matches!(error, Error::Unreachable { .. }), "{error:?}"),
        }
    }
    live(&ours, &name_on("node0")).await;
    live(&theirs, &name_on("node0")).await;
    assert!(frozen.elapsed() < MS * 20_000);
}
