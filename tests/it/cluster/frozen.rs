//! A shard that answers nobody: the others do not notice, and who holds a lock of it is told in time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use relatch::{Client, Error, LostCause, Op, ShardedPubSub};
use tokio::time::timeout;

use super::{MS, SOON, builder, is_sharded, live};
use crate::{
    harness::{
        cluster::{MASTERS, NODES, name_on},
        deployment::Deployment,
        eventually_async,
        lag::Lag,
    },
    kept::{channel, connected},
};

const WATCHDOG: Duration = Duration::from_secs(2);
const COMMAND: Duration = Duration::from_secs(1);
/// Of clients who are told that nobody answers before what they hold is over.
const UNREACHABLE: Duration = Duration::from_secs(2);
const LONG_WATCHDOG: Duration = Duration::from_secs(6);
/// How much later than its bound something may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
/// How much slower one lock in a hundred may be taken by chance.
const NOISE: Duration = Duration::from_millis(10);
/// For so long it is measured: a shard that stands still is suspected after 200 ms, its commands are given up after a second, and
/// new links are tried for from then on.
const BEFORE: Duration = Duration::from_secs(2);
const DURING: Duration = Duration::from_secs(4);

/// What a lock of two other shards took, taken and let go: half of them no longer than the first, and all but one of a hundred no
/// longer than the second.
async fn measured(client: &Client, span: Duration) -> (Duration, Duration) {
    let (mut took, began) = (Vec::new(), Instant::now());
    while began.elapsed() < span {
        let name = name_on(if took.len() % 2 == 0 { "node1" } else { "node2" });
        let began = Instant::now();
        let guard = client.mutex(name).try_lock().await.expect("it answers").expect("it is free");
        guard.unlock().await.expect("it is held");
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part).div_ceil(100) - 1];
    (at(50), at(99))
}

/// How long it took as well.
async fn timed<T>(work: impl IntoFuture<Output = T>) -> (T, Duration) {
    let (began, done) = (Instant::now(), timeout(SOON, work.into_future()).await.expect("it is told in time"));
    (done, began.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_stands_still_costs_the_others_nothing_and_its_holders_are_told_in_time() {
    let cluster = Deployment::of_cluster();
    let of = || connected(builder(&cluster).watchdog_timeout(WATCHDOG).command_timeout(COMMAND));
    let (ours, theirs) = (of().await, of().await);
    let theirs_there = theirs.mutex(name_on("node1")).lock().await.expect("a free lock");
    let waiting = ours.mutex(theirs_there.name()).lock();
    let waiter = tokio::spawn(async move { waiting.await.expect("its turn") });
    let (listened, sharded) = (channel(theirs_there.name()), is_sharded(&cluster, ShardedPubSub::Auto));
    eventually_async(SOON, async || cluster.listeners_on("node1", &listened, sharded) == 1).await;
    let elsewhere = join_all((0..100).map(|_| ours.mutex(name_on("node2")).lock().into_future())).await;
    let elsewhere: Vec<_> = elsewhere.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let held = join_all((0..100).map(|_| ours.mutex(name_on("node0")).lock().into_future())).await;
    let held: Vec<_> = held.into_iter().map(|guard| guard.expect("a free lock")).collect();
    let before = measured(&ours, BEFORE).await;

    // Nobody takes its place.
    let replica = cluster.replica_of("node0");
    cluster.freeze(replica);
    cluster.freeze("node0");
    let frozen = Instant::now();
    let waiters: Vec<_> = (0..1000).map(|_| tokio::spawn(ours.mutex(name_on("node0")).lock().into_future())).collect();
    let (lag, lag_of_asked) = (Lag::watch(), Lag::watch());
    let asked = async {
        let asked = timed(ours.mutex(name_on("node0")).try_lock()).await;
        (asked, lag_of_asked.added_to(COMMAND + SLACK))
    };
    let told = async {
        for guard in &held {
            let told = timeout(SOON, guard.lost()).await.expect("it is told");
            assert!(matches!(told, Error::Lost { cause: LostCause::Expired, .. }), "{told:?}");
        }
        frozen.elapsed()
    };
    let (during, ((refused, took), bound), told) = tokio::join!(measured(&ours, DURING), asked, told);
    assert!(matches!(refused, Err(Error::Unreachable { op: Op::Acquire, .. })), "{refused:?}");
    assert!(took < bound, "refused after {took:?}, where it was {bound:?} at most");
    println!("p50 and p99 {before:?} before, {during:?} with a shard that stands still");
    assert!(during.0 < before.0 * 2, "half: {before:?} before, {during:?} now");
    let late = lag.added_to(Duration::ZERO);
    let bound = before.1 * 2 + NOISE + late;
    assert!(during.1 < bound, "all but one in a hundred: {before:?} before, {during:?} now, {bound:?} at most");
    assert!(told < WATCHDOG + SLACK + late, "told after {told:?}, {late:?}");
    // Theirs were renewed meanwhile, for longer than they would last, and are released and waited for.
    assert!(frozen.elapsed() > WATCHDOG * 2);
    assert!(elsewhere.iter().all(|guard| guard.is_held()) && theirs_there.is_held());
    let (lag, freed) = (Lag::watch(), Instant::now());
    theirs_there.unlock().await.expect("it is held");
    let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic");
    let took = freed.elapsed();
    assert!(took < lag.added_to(SLACK), "after {took:?}");
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

/// A shard of which nobody is left: its master, and whoever could take its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_a_lock_of_a_shard_that_is_frozen_or_dead_hears_so_in_time_and_loses_it_at_its_deadline() {
    for blow in [Deployment::freeze as fn(&Deployment, &str), Deployment::kill] {
        let cluster = Deployment::of_cluster();
        let ours = builder(&cluster).watchdog_timeout(LONG_WATCHDOG).command_timeout(COMMAND);
        let ours = connected(ours.unreachable_after(UNREACHABLE)).await;
        let locks: Vec<_> = (0..20).map(|_| ours.lock(name_on("node0"))).collect();
        let held = join_all(locks.iter().map(|lock| lock.lock().into_future())).await;
        let mut held: Vec<_> = held.into_iter().map(|guard| guard.expect("a free lock")).collect();
        let released = held.pop().expect("it is held");
        let replica = cluster.replica_of("node0");
        blow(&cluster, replica);
        blow(&cluster, "node0");
        let (struck, lag) = (Instant::now(), Lag::watch());
        let told = async {
            // What was answered before has arrived by then. From here on nothing makes any of them last longer.
            tokio::time::sleep(COMMAND / 2).await;
            join_all(held.iter().map(async |guard| {
                let read = Instant::now();
                let ends = read + guard.expires_in().expect("its lease is not over");
                (ends, timeout(SOON, guard.lost()).await.expect("it is told"), Instant::now())
            }))
            .await
        };
        // Those that are asked for more are lost no later for that.
        let (extends, tries, waits, releases, told) = tokio::join!(
            timed(held[0].extend(SOON)),
            timed(locks[1].try_lock()),
            timed(locks[2].lock()),
            timed(released.unlock()),
            told
        );
        println!("{extends:?}\n{tries:?}\n{waits:?}\n{releases:?}");
        let slack = lag.added_to(SLACK);
        assert!(matches!(extends.0, Err(Error::Unreachable { op: Op::Extend, .. })), "{extends:?}");
        assert!(matches!(tries.0, Err(Error::Unreachable { op: Op::Acquire, .. })), "{tries:?}");
        assert!(matches!(waits.0, Err(Error::Unreachable { op: Op::Acquire, .. })), "{waits:?}");
        assert!(matches!(releases.0, Err(Error::Unreachable { op: Op::Release, .. })), "{releases:?}");
        for (took, most) in
            [(extends.1, COMMAND), (tries.1, COMMAND), (waits.1, UNREACHABLE + COMMAND), (releases.1, COMMAND)]
        {
            assert!(took < most + slack, "after {took:?}, where it was {most:?} and {slack:?} at most");
        }
        for (ends, why, at) in &told {
            assert!(matches!(why, Error::Lost { cause: LostCause::Expired, .. }), "{why:?}");
            assert!(at >= ends, "{:?} too early", *ends - *at);
            assert!(*at < *ends + slack, "{:?} too late", *at - *ends);
            // A third of it is over when it is renewed, at the latest.
            let after = *at - struck;
            assert!((LONG_WATCHDOG * 2 / 3 - SLACK..LONG_WATCHDOG + slack).contains(&after), "told after {after:?}");
        }
        let again = held[0].extend(SOON).await;
        assert!(matches!(again, Err(Error::Lost { cause: LostCause::Expired, .. })), "{again:?}");
    }
}

/// Longer than a node that others stand in for is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_connects_while_nobody_answers_waits_for_as_long_as_any_command_may_take() {
    let cluster = Deployment::of_cluster();
    // Those who know where the slots are, and those who are asked afterwards.
    for (still, seed) in [(&NODES[..], "node0"), (&MASTERS[..], "node3")] {
        still.iter().for_each(|node| cluster.freeze(node));
        let seeds = [cluster.client_of(seed)];
        let connecting = tokio::spawn(Client::builder().cluster_nodes(seeds).command_timeout(SOON).connect());
        tokio::time::sleep(MS * 1500).await;
        assert!(!connecting.is_finished(), "{:?}", connecting.await);
        still.iter().for_each(|node| cluster.thaw(node));
        let ours = timeout(SOON, connecting).await.expect("they go on").expect("no panic").expect("it connects");
        for node in MASTERS {
            live(&ours, &name_on(node)).await;
        }
    }
}

/// What the one that stands still knows is not for the others to say.
#[tokio::test]
async fn who_wants_sharded_channels_connects_when_all_masters_have_said_that_they_know_them() {
    let cluster = Deployment::of_cluster();
    if !is_sharded(&cluster, ShardedPubSub::On) {
        return;
    }
    // Nobody takes its place.
    for node in NODES {
        let () = cluster.ask(node, &["CONFIG", "SET", "cluster-node-timeout", "600000"]);
    }
    cluster.freeze("node0");
    let of = |kind| builder(&cluster).sharded_pubsub(kind).connect();
    let refused = of(ShardedPubSub::On).await;
    assert!(matches!(refused, Err(Error::Unreachable { op: Op::Connect, .. })), "{refused:?}");
    for kind in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        live(&of(kind).await.expect("the others serve"), &name_on("node1")).await;
    }
    cluster.thaw("node0");
    live(&of(ShardedPubSub::On).await.expect("all know them"), &name_on("node0")).await;
}
