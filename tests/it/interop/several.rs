//! Several servers beside each other: both kinds of channels on every shard of a cluster, masters that change while both sides
//! wait, and a shard that is silent.

use std::time::Duration;

use relatch::{Client, Error, LockGuard, LostCause, Released, ShardedPubSub};
use tokio::task::JoinHandle;

use super::{
    EXPIRED, SOON, STIRRED, assert_lost, assert_prompt, assert_refused, channel, enter, entered,
    site::{Company, Several, word},
};
use crate::{
    harness::{
        asleep::nobody_asks,
        clock::monotonic,
        cluster::{MASTERS, name_on},
        deployment::Deployment,
        eventually_async, unique_name,
    },
    kept::connected,
};

const WATCHDOG: Duration = Duration::from_millis(1500);
const WATCHDOG_MS: &str = "1500";
/// Whoever hears nothing enters when this is over.
const LEASE: Duration = Duration::from_secs(4);
/// Redisson's release, by its hash and then by its text, and the try that enters, which may be a moment early once. Whoever polls
/// all the while, after pauses of an eighth of a second on average, asks about twenty times.
const ASKED_WHILE_ASLEEP: u64 = 4;
/// What ours hold for, where nothing but their release is to end it. Whoever of Redisson hears of none enters after that.
const HELD: Duration = Duration::from_secs(16);
/// Servers need some seconds for a failover, and Redisson looks each five seconds where its masters are.
const LONG: Duration = Duration::from_secs(60);

/// Waits until so many clients listen for the release of this lock at that server.
async fn listening(servers: &Deployment, node: &str, name: &str, sharded: bool, clients: u64) {
    eventually_async(SOON, async || servers.listeners_on(node, &channel(name), sharded) == clients).await;
}

async fn each_release_wakes_the_other_side_on_every_shard(told: ShardedPubSub, test: &str) {
    let Some(site) = Several::start(Company::Any, test, Deployment::of_cluster) else { return };
    let (java, sharded) = (site.java(&[("sharded", word(told))]).await, told != ShardedPubSub::Off);
    let ours = || connected(site.builder().sharded_pubsub(told));
    let (rust, outside) = (ours().await, ours().await);
    for node in MASTERS {
        let name = name_on(node);
        let (theirs, ours) = (java.lock("one", &name), rust.lock(&name));
        assert!(theirs.lock().await.yes() && theirs.lock().await.yes());
        assert_eq!(ours.inspect().await.expect("the server answers").map(|seen| seen.hold_count), Some(2));
        let waiter = enter(&rust, &name);
        listening(site.servers(), node, &name, sharded, 1).await;
        assert!(theirs.unlock().await.yes());
        let released = theirs.unlock().await;
        let (guard, at) = entered(waiter).await;
        assert_prompt(released.began, at, STIRRED);
        listening(site.servers(), node, &name, sharded, 0).await;
        let waiting = theirs.lock();
        listening(site.servers(), node, &name, sharded, 1).await;
        let released = monotonic();
        guard.unlock().await.expect("it is held");
        assert_prompt(released, waiting.within(SOON).await.ended, STIRRED);
        // Forced away by either side, and the other one is in.
        let waiter = enter(&rust, &name);
        listening(site.servers(), node, &name, sharded, 1).await;
        let forced = java.lock("two", &name).force_unlock().await;
        let (guard, at) = entered(waiter).await;
        assert_prompt(forced.began, at, STIRRED);
        assert!(forced.yes());
        assert_refused(&theirs.unlock().await);
        listening(site.servers(), node, &name, sharded, 0).await;
        let waiting = theirs.lock();
        listening(site.servers(), node, &name, sharded, 1).await;
        let forced = monotonic();
        assert!(outside.lock(&name).force_unlock().await.expect("the server answers"));
        assert_prompt(forced, waiting.within(SOON).await.ended, STIRRED);
        assert_lost(guard.unlock().await, LostCause::Gone);
        assert!(theirs.unlock().await.yes());
    }
}

#[tokio::test]
async fn on_a_cluster_whose_channels_are_sharded_each_release_wakes_the_other_side() {
    let test = "on_a_cluster_whose_channels_are_sharded_each_release_wakes_the_other_side";
    each_release_wakes_the_other_side_on_every_shard(ShardedPubSub::Auto, test).await;
}

#[tokio::test]
async fn on_a_cluster_that_tells_all_nodes_each_release_wakes_the_other_side() {
    let test = "on_a_cluster_that_tells_all_nodes_each_release_wakes_the_other_side";
    each_release_wakes_the_other_side_on_every_shard(ShardedPubSub::Off, test).await;
}

/// It is safe, and nobody is woken before the TTL that it saw is over.
#[tokio::test]
async fn sides_that_listen_in_different_ways_keep_each_other_out_and_enter_when_the_lease_is_over() {
    let test = "sides_that_listen_in_different_ways_keep_each_other_out_and_enter_when_the_lease_is_over";
    let Some(site) = Several::start(Company::Any, test, Deployment::of_cluster) else { return };
    for (theirs, ours) in [(ShardedPubSub::Auto, ShardedPubSub::Off), (ShardedPubSub::Off, ShardedPubSub::Auto)] {
        let java = site.java(&[("sharded", word(theirs))]).await;
        let rust = connected(site.builder().sharded_pubsub(ours)).await;
        let is_sharded = |told| told == ShardedPubSub::Auto;
        let name = name_on("node1");
        let (lock, mutex) = (java.lock("one", &name), rust.mutex(&name));

        let asked = || site.servers().scripts_run("node1");
        let guard = mutex.lock().lease(LEASE).await.expect("it is free");
        let ends = monotonic() + guard.expires_in().expect("it is held");
        // Who listens asks once more before it sleeps.
        let before = asked();
        let mut waiting = lock.lock();
        listening(site.servers(), "node1", &name, is_sharded(theirs), 1).await;
        eventually_async(SOON, async || asked() == before + 2).await;
        assert!(waiting.is_pending());
        guard.unlock().await.expect("it is held");
        assert_prompt(ends, waiting.within(SOON).await.ended, STIRRED);
        assert!(lock.unlock().await.yes());

        let held = lock.lock_for(LEASE).await;
        assert!(held.yes());
        let before = asked();
        let waiter = enter(&rust, &name);
        listening(site.servers(), "node1", &name, is_sharded(ours), 1).await;
        // A waiter of ours may poll while its subscription is on its way.
        eventually_async(SOON, async || asked() >= before + 2).await;
        let before = nobody_asks(async || asked()).await;
        assert!(lock.unlock().await.yes());
        let (guard, at) = entered(waiter).await;
        assert_prompt(held.began + LEASE, at, STIRRED + EXPIRED);
        // It slept until then.
        let times = asked() - before;
        assert!(times <= ASKED_WHILE_ASLEEP, "{times} scripts while it slept");
        guard.unlock().await.expect("it is held");
    }
}

/// How another server becomes the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Ordered,
    Killed,
}

impl Change {
    /// Which server it is then. The old one is there again.
    async fn make(self, servers: &Deployment, master: &str) -> String {
        let next = if servers.is_cluster() {
            let next = servers.replica_of(master);
            if self == Self::Ordered {
                return servers.hand_over(master).0.to_owned();
            }
            servers.kill(master);
            eventually_async(LONG, async || servers.is_master(next)).await;
            next.to_owned()
        } else {
            match self {
                Self::Ordered => servers.ask("sentinel1", &["SENTINEL", "FAILOVER", "m"]),
                Self::Killed => servers.kill(master),
            }
            let mut next = String::new();
            eventually_async(LONG, async || {
                next = servers.master().await;
                next != master
            })
            .await;
            next
        };
        if self == Self::Killed {
            servers.start(master);
        }
        next
    }
}

/// Lets go of what this client has. A release that has no answer because the old master is left meanwhile is sent to the new one by
/// itself, long before there would be nothing left of the hold, and though nobody asks for it again. Whether there was none.
async fn is_released(guard: LockGuard, of: &Client) -> bool {
    let left = guard.expires_in().expect("it is held");
    assert!(left > HELD / 2, "its lease could end it as well: {left:?}");
    match guard.unlock().await {
        Ok(released) => {
            assert_eq!(released, Released::Freed);
            return false;
        }
        Err(Error::Unreachable { .. }) => {}
        Err(error) => panic!("{error:?}"),
    }
    let (lock, id) = (of.lock(guard.name()), of.id().to_string());
    let is_gone = async || match lock.inspect().await {
        Ok(seen) => seen.is_none_or(|seen| seen.client_id != id),
        Err(error) => (assert!(error.is_transient(), "{error:?}"), false).1,
    };
    tokio::time::timeout(left / 2, eventually_async(LONG, is_gone)).await.expect("it is sent again");
    true
}

/// Waits for the lock in the background, and has it for longer than anything takes here.
fn enter_for_long(client: &Client, name: &str) -> JoinHandle<(LockGuard, Duration)> {
    let lock = client.mutex(name);
    tokio::spawn(async move { (lock.lock().lease(HELD).await.expect("the lock is ours in the end"), monotonic()) })
}

/// Who holds while the master changes, and lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Theirs,
    Ours,
    /// While there is no master.
    OursMeanwhile,
}

/// One holds, and one of each side waits, while the master changes. It is released, and all have been in.
async fn everybody_enters_when_the_master_changes(site: &Several, name: &str, mut master: String) {
    let servers = site.servers();
    // Nobody renews while there is no master, nor Redisson until it has heard of the new one: a lease that was renewed last a third
    // of it before has to outlive that.
    let lease = Duration::from_secs(20);
    let java = site.java(&[("watchdog", &lease.as_millis().to_string())]).await;
    // Whoever lets go is told sooner than there can be another master.
    let holding = connected(site.builder().command_timeout(Duration::from_millis(500))).await;
    let waiting = connected(site.builder().watchdog_timeout(lease)).await;
    let (one, two) = (java.lock("one", name), java.lock("two", name));
    for (change, holder) in
        [(Change::Ordered, Holder::Ours), (Change::Killed, Holder::Theirs), (Change::Killed, Holder::OursMeanwhile)]
    {
        let guard = match holder {
            Holder::Theirs => (assert!(one.lock().within(LONG).await.yes()), None).1,
            Holder::Ours | Holder::OursMeanwhile => {
                let acquired = holding.mutex(name).try_lock().lease(HELD).wait(LONG).await.expect("it is answered");
                Some(acquired.expect("it is free"))
            }
        };
        let (theirs, ours) = (two.lock(), enter_for_long(&waiting, name));
        listening(servers, &master, name, servers.is_cluster(), 2).await;
        // The new master has it, since it was there long before.
        let (next, repeated) = match (guard, holder) {
            (Some(guard), Holder::OursMeanwhile) => {
                tokio::join!(change.make(servers, &master), is_released(guard, &holding))
            }
            (Some(guard), _) => (change.make(servers, &master).await, is_released(guard, &holding).await),
            (None, _) => {
                let next = change.make(servers, &master).await;
                assert!(one.unlock().within(LONG).await.yes());
                (next, false)
            }
        };
        assert!(repeated || holder != Holder::OursMeanwhile, "there was nobody to answer");
        let released = monotonic();
        master = next;
        let in_our_turn = async {
            let (guard, at) = tokio::time::timeout(LONG, ours).await.expect("it enters").expect("no panic");
            is_released(guard, &waiting).await;
            at
        };
        let in_their_turn = async {
            let mut answer = theirs.within(LONG).await;
            // Redisson may fail whoever waits while its links change: its caller asks again, as a service would.
            if answer.was_failed() {
                println!("Redisson {} failed who waited", java.version());
                answer = two.lock().within(LONG).await;
            }
            assert!(answer.yes());
            assert!(two.unlock().within(LONG).await.yes());
            answer.ended
        };
        let (ours, theirs) = tokio::join!(in_our_turn, in_their_turn);
        let after = [ours, theirs].map(|at| at.saturating_sub(released));
        println!(
            "{change:?}, {holder:?}, sent again: {repeated}; after the release ours took {:?}, theirs {:?}",
            after[0], after[1]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_enters_when_a_master_of_the_cluster_changes() {
    let test = "everybody_enters_when_a_master_of_the_cluster_changes";
    let Some(site) = Several::start(Company::Any, test, Deployment::of_cluster) else { return };
    everybody_enters_when_the_master_changes(&site, &name_on("node0"), "node0".to_owned()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_enters_when_the_master_of_the_sentinels_changes() {
    let test = "everybody_enters_when_the_master_of_the_sentinels_changes";
    let Some(site) = Several::start(Company::Any, test, Deployment::of_sentinels) else { return };
    everybody_enters_when_the_master_changes(&site, &unique_name(), "master".to_owned()).await;
}

/// Neither its master nor its replica answers, so that nobody takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_silent_ends_all_renewals_of_redisson_and_none_of_ours_on_the_others() {
    let test = "a_shard_that_is_silent_ends_all_renewals_of_redisson_and_none_of_ours_on_the_others";
    let Some(site) = Several::start(Company::Any, test, Deployment::of_cluster) else { return };
    let servers = site.servers();
    let java = site.java(&[("watchdog", WATCHDOG_MS)]).await;
    let rust = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for node in MASTERS {
        let lock = java.lock("one", &name_on(node));
        assert!(lock.lock().await.yes());
        theirs.push(lock);
        ours.push(rust.mutex(name_on(node)).lock().await.expect("it is free"));
    }
    let replica = servers.replica_of("node0");
    for server in ["node0", replica] {
        servers.freeze(server);
    }
    let silent = monotonic();
    let keys = |node: &str| servers.ask::<Vec<String>>(node, &["KEYS", "*"]);
    let ended = || ["node1", "node2"].iter().all(|node| keys(node).len() == 1);
    eventually_async(SOON, async || ended()).await;
    println!("Redisson {} renewed nothing any more: gone after {:?}", java.version(), monotonic() - silent);
    let told = tokio::time::timeout(SOON, ours[0].lost()).await.expect("its deadline comes");
    assert_lost(Err::<(), _>(told), LostCause::Expired);
    tokio::time::sleep(2 * WATCHDOG).await;
    for (guard, node) in ours.iter().zip(MASTERS).skip(1) {
        assert!(guard.is_held());
        assert_eq!(keys(node), [guard.name()]);
    }
    for server in ["node0", replica] {
        servers.thaw(server);
    }
    for guard in ours.drain(1..) {
        guard.unlock().await.expect("it is held");
    }
    for lock in &theirs[1..] {
        assert_refused(&lock.unlock().within(LONG).await);
    }
}
