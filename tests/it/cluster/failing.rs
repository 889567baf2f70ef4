//! Masters that die, freeze or hand over: their successors are found, and who held a lock is told the truth.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use relatch::{Client, Error, LockGuard, LostCause};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{MS, SOON, client, is_sharded, live};
use crate::{
    harness::{cluster::name_on, deployment::Deployment, eventually_async},
    kept::channel,
};

/// After the first link to another master every holder is told within this.
const TOLD: Duration = Duration::from_millis(1500);
/// So much longer than the servers themselves a client takes at most.
const BEHIND: Duration = Duration::from_secs(1);

/// How often each blow is struck: `RELATCH_FAILOVERS` says more than once.
fn rounds() -> usize {
    std::env::var("RELATCH_FAILOVERS").map_or(1, |rounds| rounds.parse().expect("a number"))
}

/// How many holds are lost in one failover: `RELATCH_LOST_HOLDS` says more than a few.
fn lost_holds() -> usize {
    std::env::var("RELATCH_LOST_HOLDS").map_or(200, |holds| holds.parse().expect("a number"))
}

/// Takes one new lock of the first shard after the other, for as long as nobody stops it.
struct Taker(JoinHandle<Vec<(Instant, LockGuard)>>, oneshot::Sender<()>);

impl Taker {
    fn start(client: &Client) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let client = client.clone();
        let taking = async move {
            let mut taken = Vec::new();
            while stopped.try_recv().is_err() {
                match client.mutex(name_on("node0")).try_lock().lease(SOON * 6).wait(SOON).await {
                    Ok(guard) => taken.push((Instant::now(), guard.expect("nobody else has it"))),
                    Err(error) => assert!(error.is_transient(), "{error:?}"),
                }
                sleep(MS * 5).await;
            }
            taken
        };
        Self(tokio::spawn(taking), stop)
    }

    async fn stop(self) -> Vec<(Instant, LockGuard)> {
        self.1.send(()).expect("it takes until it is stopped");
        self.0.await.expect("no panic")
    }
}

/// Something is answered by whoever has the first shard now.
async fn is_linked(client: &Client) {
    let entered = client.mutex(name_on("node0")).try_lock().wait(SOON).await.expect("it heals");
    entered.expect("nobody else has it").unlock().await.expect("it is held");
}

/// What every holder believes is what the master has. The others have been told: how many they are.
async fn all_is_told(cluster: &Deployment, master: &str, client: &Client, guards: &[LockGuard]) -> usize {
    is_linked(client).await;
    let linked = Instant::now();
    let mut holders = redis::pipe();
    for guard in guards {
        holders.hkeys(guard.name());
    }
    let there: Vec<Vec<String>> = holders.query(&mut cluster.connection(master)).expect("HKEYS answers");
    let id = client.id().to_string();
    let is_ours = |fields: &Vec<String>| fields.iter().any(|field| field.starts_with(&id));
    let lost: Vec<_> =
        guards.iter().zip(&there).filter(|(_, fields)| !is_ours(fields)).map(|(guard, _)| guard).collect();
    for guard in &lost {
        let told = timeout(SOON, guard.lost()).await.expect("it is told long before its lease ends");
        assert!(matches!(told, Error::Lost { cause: LostCause::Gone, .. }), "{told:?}");
    }
    println!("{} of {} lost, and told within {:?}", lost.len(), guards.len(), linked.elapsed());
    assert!(linked.elapsed() < TOLD, "{:?}", linked.elapsed());
    sleep(TOLD.saturating_sub(linked.elapsed())).await;
    assert_eq!(guards.iter().filter(|guard| !guard.is_held()).count(), lost.len(), "nobody else was told so");
    lost.len()
}

/// What happens to a master, and what brings it back.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Killed,
    Frozen,
    HandsOver,
}

impl Blow {
    /// Which node is the master then, and since when.
    async fn strike(self, cluster: &Deployment, master: &str) -> (&'static str, Instant) {
        let next = cluster.replica_of(master);
        match self {
            Self::Killed => cluster.kill(master),
            Self::Frozen => cluster.freeze(master),
            Self::HandsOver => cluster.ask(next, &["CLUSTER", "FAILOVER"]),
        }
        eventually_async(SOON, async || cluster.is_master(next)).await;
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

/// No script of anybody's runs there for a while.
async fn is_left_alone(cluster: &Deployment, node: &str) {
    let before = cluster.scripts_run(node);
    sleep(MS * 2000).await;
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
        let taker = Taker::start(&ours);
        sleep(MS * 300).await;
        let struck = Instant::now();
        let (next, switched) = blow.strike(&cluster, master).await;
        is_linked(&ours).await;
        sleep(MS * 200).await;
        let taken = taker.stop().await;
        let first = taken.iter().map(|(at, _)| *at).find(|at| *at > switched).expect("one after the failover");
        let (gap, theirs_alone) = (first - struck, switched - struck);
        assert!(
            gap < theirs_alone + BEHIND,
            "{blow:?}: the servers took {theirs_alone:?}, and then it took until {gap:?}"
        );
        let guards: Vec<_> = taken.into_iter().map(|(_, guard)| guard).collect();
        all_is_told(&cluster, next, &ours, &guards).await;
        println!("{blow:?}: a gap of {gap:?}, of which {theirs_alone:?} were the servers'");
        // A release there is heard by who began to wait at the old one. Where that hold is lost, nobody needs to wait for it.
        drop(held.unlock().await);
        let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic").expect("its turn");
        entered.unlock().await.expect("it is held");
        // It takes itself for a master perhaps, until it hears of the others.
        blow.relieve(&cluster, master);
        is_left_alone(&cluster, master).await;
        live(&ours, &name_on("node0")).await;
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
    assert_eq!(all_is_told(&cluster, replica, &ours, &guards).await, guards.len());
    assert!(others.iter().all(LockGuard::is_held));
    let entered = timeout(SOON, waiter).await.expect("it is free there").expect("no panic").expect("its turn");
    entered.unlock().await.expect("it is held");
}
