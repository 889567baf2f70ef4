//! Slots that move while their locks are held, waited for and renewed, half of the way too.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use relatch::{Client, Error, LockGuard, LostCause, Released, ShardedPubSub};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{MS, SOON, builder, is_sharded, live};
use crate::{
    harness::{
        asleep::nobody_asks,
        cluster::{name_in, name_on, slot},
        deployment::Deployment,
        eventually, eventually_async,
        lag::Lag,
    },
    kept::{channel, connected, poll_once},
};

/// Of the clients here: several renewals of each hold fall into each step.
const WATCHDOG: Duration = Duration::from_millis(2500);

/// So much longer a slot stays half moved: `RELATCH_HALF_MOVED` says how many seconds.
fn half_moved() -> Duration {
    std::env::var("RELATCH_HALF_MOVED")
        .map_or(Duration::ZERO, |secs| Duration::from_secs(secs.parse().expect("a number")))
}

/// Somebody who waits and listens there.
async fn waiter(client: &Client, name: &str, at: (&Deployment, &str, bool)) -> JoinHandle<LockGuard> {
    let acquiring = client.mutex(name).lock();
    let waiter = tokio::spawn(async move { acquiring.await.expect("its turn") });
    let (cluster, node, sharded) = at;
    eventually_async(SOON, async || cluster.listeners_on(node, &channel(name), sharded) >= 1).await;
    waiter
}

/// The lock goes over to whoever waits for it, and soon.
async fn hand_on(held: LockGuard, waiter: JoinHandle<LockGuard>) -> LockGuard {
    let (lag, freed) = (Lag::watch(), Instant::now());
    assert_eq!(held.unlock().await.expect("it is held"), Released::Freed);
    let entered = timeout(SOON, waiter).await.expect("it is woken").expect("no panic");
    let took = freed.elapsed();
    assert!(took < lag.added_to(1000 * MS), "after {took:?}");
    entered
}

/// Waits until those who listen are through with their first tries. How many scripts ran there by then.
async fn nobody_tries(cluster: &Deployment, node: &str) -> u64 {
    nobody_asks(async || cluster.scripts_run(node)).await
}

/// All are renewed for longer than they would last.
async fn are_renewed(held: &[&LockGuard]) {
    sleep(WATCHDOG * 4 / 3).await;
    let lost: Vec<_> = held.iter().filter_map(|guard| guard.lost().now_or_never()).collect();
    assert!(lost.is_empty() && held.iter().all(|guard| guard.is_held()), "{lost:?} of {held:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_everybody_is_woken_while_a_slot_moves_and_when_it_is_half_done() {
    let cluster = Deployment::of_cluster();
    // What a node is asked for it answers with no host: whoever asks knows where it is.
    if cluster.flavour() != "redis62" {
        for node in crate::harness::cluster::NODES {
            let () = cluster.ask(node, &["CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint"]);
        }
    }
    let (from, to) = ("node0", "node1");
    for kind in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        let sharded = is_sharded(&cluster, kind);
        let of = || connected(builder(&cluster).watchdog_timeout(WATCHDOG).sharded_pubsub(kind));
        let (ann, ben) = (of().await, of().await);
        let slot = slot(&name_on(from));
        let (kept, waited) = (name_in(slot), name_in(slot));
        let kept = ann.mutex(kept).lock().await.expect("it is free");
        let held = ann.mutex(&waited).lock().await.expect("it is free");
        let waits = waiter(&ben, &waited, (&cluster, from, sharded)).await;

        cluster.begin_migration(slot, from, to);
        live(&ann, &name_in(slot)).await;
        are_renewed(&[&kept, &held]).await;
        cluster.move_keys(slot, from, to);
        are_renewed(&[&kept, &held]).await;
        let held = hand_on(held, waits).await;
        let waits = waiter(&ann, &waited, (&cluster, from, sharded)).await;
        sleep(half_moved()).await;
        are_renewed(&[&kept, &held]).await;
        let held = hand_on(held, waits).await;

        cluster.end_migration(slot, from, to);
        let waits = waiter(&ben, &waited, (&cluster, to, sharded)).await;
        are_renewed(&[&kept, &held]).await;
        hand_on(held, waits).await.unlock().await.expect("it is held");
        let waits = waiter(&ben, kept.name(), (&cluster, to, sharded)).await;
        // Nobody is in between: it moves at once.
        cluster.migrate(slot, to, from);
        hand_on(kept, waits).await.unlock().await.expect("it is held");
        for client in [&ann, &ben] {
            live(client, &name_in(slot)).await;
        }
    }
}

/// They listen over one link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_wakes_nobody_who_waits_for_others_of_its_node() {
    let cluster = Deployment::of_cluster();
    let sharded = is_sharded(&cluster, ShardedPubSub::Auto);
    if !sharded {
        return;
    }
    let (from, to) = ("node0", "node1");
    let (ann, ben) = (connected(builder(&cluster)).await, connected(builder(&cluster)).await);
    let mut others = Vec::new();
    for _ in 0..100 {
        let held = ann.mutex(name_on(from)).lock().lease(SOON * 6).await.expect("it is free");
        let waits = waiter(&ben, held.name(), (&cluster, from, sharded)).await;
        others.push((held, waits));
    }
    let name = name_on(from);
    let held = ann.mutex(&name).lock().lease(SOON * 6).await.expect("it is free");
    let waits = waiter(&ben, &name, (&cluster, from, sharded)).await;
    let ran = nobody_tries(&cluster, from).await;
    cluster.migrate(slot(&name), from, to);
    eventually_async(SOON, async || cluster.listeners_on(to, &channel(&name), sharded) == 1).await;
    hand_on(held, waits).await.unlock().await.expect("it is held");
    let woken = cluster.scripts_run(from) - ran;
    assert!(woken < 20, "{woken} scripts of {} who wait for something else", others.len());
    for (held, waits) in others {
        hand_on(held, waits).await.unlock().await.expect("it is held");
    }
    cluster.migrate(slot(&name), to, from);
}

/// They sleep for as long as the lease that they were told of, unless they hear something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_listens_where_a_slot_was_hears_of_a_release_where_its_keys_are_and_of_keys_that_are_gone() {
    let cluster = Deployment::of_cluster();
    let (from, to) = ("node0", "node1");
    let slot = slot(&name_on(from));
    for kind in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        let of = || connected(builder(&cluster).sharded_pubsub(kind));
        let (ann, ben) = (of().await, of().await);
        let [first, second] = [name_in(slot), name_in(slot)];
        let at = (&cluster, from, is_sharded(&cluster, kind));
        let held = ann.mutex(&first).lock().lease(SOON * 6).await.expect("it is free");
        let waits = waiter(&ben, &first, at).await;
        nobody_tries(&cluster, from).await;
        cluster.begin_migration(slot, from, to);
        cluster.move_keys(slot, from, to);
        hand_on(held, waits).await.unlock().await.expect("it is held");
        cluster.end_migration(slot, from, to);
        cluster.migrate(slot, to, from);

        let held = ann.mutex(&second).lock().lease(SOON * 6).await.expect("it is free");
        let other = ann.mutex(name_on(from)).lock().lease(SOON * 6).await.expect("it is free");
        // The other node takes the slot, and not what is in it.
        let () = cluster.ask(to, &["CLUSTER", "SETSLOT", &slot.to_string(), "IMPORTING", &cluster.id(from)]);
        let () = cluster.ask(to, &["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &cluster.id(to)]);
        eventually_async(SOON, async || cluster.ask::<Vec<String>>(from, &["KEYS", &second]).is_empty()).await;
        cluster.all_agree(slot, to);
        live(&ann, &name_in(slot)).await;
        let told = timeout(MS * 1500, held.lost()).await.expect("it is asked for at once");
        assert!(matches!(told, Error::Lost { cause: LostCause::Gone, .. }), "{told:?}");
        assert!(other.is_held());
        cluster.migrate(slot, to, from);
    }
}

/// The key of a lock that is held went ahead of its slot, where nobody listens, and ends there without a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_kept_out_by_a_key_that_went_ahead_of_its_slot_asks_again_by_itself() {
    let cluster = Deployment::of_cluster();
    let (from, to) = ("node0", "node1");
    let slot = slot(&name_on(from));
    for kind in [ShardedPubSub::Auto, ShardedPubSub::Off] {
        let of = || connected(builder(&cluster).sharded_pubsub(kind));
        let (ann, ben) = (of().await, of().await);
        let names = [name_in(slot), name_in(slot)];
        let mut held = Vec::new();
        for name in &names {
            held.push(ann.mutex(name).lock().lease(SOON * 6).await.expect("it is free"));
        }
        cluster.begin_migration(slot, from, to);
        cluster.move_keys(slot, from, to);
        for (name, ends) in names.iter().zip([&["DEL"][..], &["PEXPIRE", "1"]]) {
            let waits = waiter(&ben, name, (&cluster, from, is_sharded(&cluster, kind))).await;
            // By then it has asked as often as who listens does, which only that time shows.
            sleep(MS * 500).await;
            assert!(!waits.is_finished());
            let mut ended = redis::pipe();
            ended.cmd("ASKING").ignore().cmd(ends[0]).arg(name).arg(&ends[1..]);
            let (gone,): (u64,) = ended.query(&mut cluster.connection(to)).expect("it is asked for");
            assert_eq!(gone, 1);
            let (lag, freed) = (Lag::watch(), Instant::now());
            let entered = timeout(SOON, waits).await.expect("it asks again").expect("no panic");
            let took = freed.elapsed();
            assert!(took < lag.added_to(1000 * MS), "after {took:?}");
            entered.unlock().await.expect("it is held");
        }
        cluster.end_migration(slot, from, to);
        cluster.migrate(slot, to, from);
    }
}

/// Each asks again and again for what only it can be answered.
struct Echo(JoinHandle<usize>, oneshot::Sender<()>);

impl Echo {
    async fn start(client: &Client, name: String, depth: u32) -> Self {
        let lock = client.lock(name);
        let mut held = Vec::new();
        for _ in 0..depth {
            held.push(lock.lock().lease(SOON * 6).await.expect("ours"));
        }
        let seen = lock.inspect().await.expect("it answers").expect("it is held");
        assert_eq!(seen.hold_count, depth);
        let (stop, mut stopped) = oneshot::channel();
        let echo = tokio::spawn(async move {
            let mut answers = 0;
            while stopped.try_recv().is_err() {
                match lock.inspect().await {
                    Ok(answer) => {
                        let answer = answer.map(|it| (it.client_id, it.hold_id, it.hold_count));
                        let expected = (seen.client_id.clone(), seen.hold_id.clone(), depth);
                        assert_eq!(answer, Some(expected), "somebody else's answer");
                        answers += 1;
                    }
                    Err(error) => assert!(error.is_transient(), "{error:?}"),
                }
            }
            drop(held);
            answers
        });
        Self(echo, stop)
    }

    async fn stop(self) -> usize {
        self.1.send(()).expect("it asks until it is stopped");
        self.0.await.expect("no panic")
    }
}

/// A node that gives a slot away has no more to do with a key that is not there: a lock must not be without a hold even for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_handed_over_where_its_slot_is_half_moved_and_no_hold_is_lost() {
    let cluster = Deployment::of_cluster();
    let ours = connected(builder(&cluster).handover_slice(SOON)).await;
    let name = name_on("node0");
    let mutex = ours.mutex(&name);
    live(&ours, &name).await;
    let first = mutex.lock().lease(SOON).await.expect("it is free");
    cluster.begin_migration(slot(&name), "node0", "node1");
    let mut last = first;
    for _ in 0..3 {
        // By another lease, so that the server has to know of it.
        let mut next = Box::pin(mutex.lock().lease(SOON * 2).into_future());
        assert!(poll_once(&mut next).await.is_pending());
        assert_eq!(last.unlock().await.expect("it is held"), Released::Freed);
        last = timeout(SOON, next).await.expect("its turn comes").expect("it is handed over");
        assert_eq!(cluster.ask::<i64>("node0", &["HLEN", &name]), 1);
    }
    cluster.move_keys(slot(&name), "node0", "node1");
    cluster.end_migration(slot(&name), "node0", "node1");
    assert_eq!(last.unlock().await.expect("it is held"), Released::Freed);
}

/// On one thread, which does nothing else while it is blocked: the answer and the end of the time are found together.
#[tokio::test]
async fn a_node_that_sends_a_command_on_when_its_time_is_over_has_refused_nothing() {
    // Long enough for a busy machine to connect.
    const TIMEOUT: Duration = Duration::from_secs(1);
    let cluster = Deployment::of_cluster();
    let ours = connected(builder(&cluster).command_timeout(TIMEOUT)).await;
    let (mut from, mut to) = ("node0", "node1");
    let name = name_on(from);
    live(&ours, &name).await;
    for waits in [true, false] {
        cluster.migrate(slot(&name), from, to);
        let before = cluster.redirects(from);
        cluster.freeze(from);
        let lock = ours.mutex(&name);
        let asked = match waits {
            true => tokio::spawn(async move { lock.lock().await.map(Some) }),
            false => tokio::spawn(lock.try_lock().into_future()),
        };
        // What lies in the socket of a node that stands still nothing shows. This thread, which does nothing else, has written it by
        // then: the node says so itself, before anything else could be asked of it.
        sleep(50 * MS).await;
        cluster.thaw(from);
        std::thread::sleep(2 * TIMEOUT);
        eventually(SOON, || cluster.redirects(from) > before);
        match asked.await.expect("no panic") {
            Ok(guard) => drop(guard.expect("it is free").unlock().await.expect("it is held")),
            // It had no more time.
            Err(error) => assert!(!waits && matches!(error, Error::Unreachable { .. }), "{error:?}"),
        }
        live(&ours, &name).await;
        (from, to) = (to, from);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_the_answer_to_anothers_question_while_slots_move_and_masters_change() {
    let cluster = Deployment::of_cluster();
    let client = connected(builder(&cluster)).await;
    let moving = slot(&name_on("node0"));
    let mut echoes = Vec::new();
    for depth in 1..=16 {
        // One of them goes along.
        let name = if depth == 16 { name_in(moving) } else { name_on("node0") };
        echoes.push(Echo::start(&client, name, depth).await);
    }
    let waited = name_in(moving);
    let held = connected(builder(&cluster)).await.mutex(&waited).lock().lease(SOON * 6).await.expect("it is free");
    let sharded = is_sharded(&cluster, ShardedPubSub::Auto);
    let waits = waiter(&client, &waited, (&cluster, "node0", sharded)).await;
    for _ in 0..3 {
        for (from, to) in [("node0", "node1"), ("node1", "node0")] {
            cluster.migrate(moving, from, to);
            eventually_async(SOON, async || cluster.listeners_on(to, &channel(&waited), sharded) == 1).await;
        }
    }
    let (next, _) = cluster.hand_over("node0");
    eventually_async(SOON, async || cluster.listeners_on(next, &channel(&waited), sharded) == 1).await;
    for echo in echoes {
        let answers = echo.stop().await;
        assert!(answers > 100, "{answers}");
    }
    hand_on(held, waits).await.unlock().await.expect("it is held");
}
