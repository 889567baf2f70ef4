//! What goes wrong inside a section: panics, errors, bodies that never end, guards that are forgotten. The lock goes on
//! to others, and whoever held it or waited is told which of its times was over.

use std::{future::pending, mem::forget, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use relatch::{Client, Error, LockGuard, LostCause, Owner, ReentrantLock};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        lag::Lag,
        proxy::{Door, Proxy, matching::script},
        unique_name,
    },
    kept::{client, connected, held, kept, teach},
};

/// What must come comes within this; no lease of a test that waits for something else runs out meanwhile.
const SOON: Duration = Duration::from_secs(10);
/// A lease or a wait that is waited out.
const BOUND: Duration = Duration::from_millis(300);
/// A busy machine renews it in time.
const WATCHDOG: Duration = Duration::from_millis(1_500);
/// A bound that is longer than a lease.
const LONGEST: Duration = Duration::from_secs(3);
const COMMAND: Duration = Duration::from_millis(200);
/// How late a busy machine may see the end of it.
const AWAKE: Duration = Duration::from_millis(150);

/// The lock is free for somebody else, and long before a lease is over.
async fn others_enter(name: &str) {
    let other = client(Server::shared().url()).await;
    let guard = timeout(SOON, other.lock(name).lock()).await.expect("they enter").expect("the server answers");
    guard.unlock().await.expect("it is held");
    assert_eq!(kept(Server::shared(), name), None);
}

#[tokio::test]
async fn a_panic_in_the_section_frees_the_lock_for_others_wherever_it_happens() {
    let client = client(Server::shared().url()).await;
    let lock = client.lock(unique_name());
    // In protected work of a task of its own, before its first await and after one.
    for awaits in [false, true] {
        let guard = lock.lock().await.expect("it is free");
        let task = tokio::spawn(async move {
            let work = guard.protect(async {
                if awaits {
                    sleep(Duration::from_millis(1)).await;
                }
                panic!("a panic that the test wants");
            });
            work.await
        });
        assert!(task.await.expect_err("it panics").is_panic());
        others_enter(lock.name()).await;
    }
    // In protected work whose panic is caught: the guard is as good as before, and its drop is a release.
    let guard = lock.lock().await.expect("it is free");
    let work = guard.protect(async { panic!("a panic that the test wants") });
    let caught: Result<Result<(), Error>, _> = AssertUnwindSafe(work).catch_unwind().await;
    assert!(caught.is_err());
    assert!(guard.is_held());
    guard.protect(async {}).await.expect("the hold lives");
    drop(guard);
    others_enter(lock.name()).await;
    // In ordinary code, with nested guards and a waiter of the same client.
    let waiting = lock.lock().owner(&Owner::new());
    let nested = lock.clone();
    let task = tokio::spawn(async move {
        let (_outer, _inner) = (nested.lock().await.expect("it is free"), nested.lock().await.expect("it nests"));
        let waiting = tokio::spawn(waiting);
        tokio::task::yield_now().await;
        std::panic::resume_unwind(Box::new(waiting));
    });
    let waiting = task.await.expect_err("it panics").into_panic();
    let waiting = waiting.downcast::<tokio::task::JoinHandle<relatch::Result<LockGuard>>>().expect("the waiter");
    let next = timeout(SOON, *waiting).await.expect("it is its turn").expect("no panic").expect("it answers");
    next.unlock().await.expect("it is held");
    others_enter(lock.name()).await;
}

#[tokio::test]
async fn an_error_of_the_work_comes_out_first_and_the_lock_is_released_behind_it() {
    let client = client(Server::shared().url()).await;
    let lock = client.lock(unique_name());
    let work = async |lock: &ReentrantLock| -> Result<(), Box<dyn std::error::Error>> {
        let guard = lock.lock().await?;
        guard.protect(async { Err::<(), _>("out of paper") }).await??;
        guard.unlock().await?;
        Ok(())
    };
    let error = work(&lock).await.expect_err("the work fails");
    assert_eq!(error.to_string(), "out of paper");
    others_enter(lock.name()).await;
}

/// A guard that is gone without a drop is no reason to keep the lock beyond its bound.
#[tokio::test]
async fn a_forgotten_guard_keeps_the_lock_until_its_bound_and_no_longer() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG)).await;
    let (lag, taken) = (Lag::watch(), monotonic());
    let guard = client.lock(&name).lock().max_hold(LONGEST).await.expect("it is free");
    forget(guard);
    let other = crate::kept::client(server.url()).await;
    let entered = timeout(SOON, other.lock(&name).lock()).await.expect("it is freed").expect("it answers");
    let (after, bound) = (monotonic() - taken, lag.added_to(LONGEST + AWAKE));
    // The watchdog kept it for longer than a lease, and the bound ended that.
    assert!(after >= LONGEST - AWAKE && after <= bound, "{after:?} of {bound:?}");
    assert!(!client.lock(&name).is_held());
    // What left before is through by then.
    eventually_async(SOON, async || proxy.count(&script("release")) == 1).await;
    proxy.clear_log();
    sleep(WATCHDOG).await;
    assert_eq!(proxy.count(&script("renew")), 0);
    entered.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_body_that_never_ends_is_dropped_at_the_bound_and_nothing_is_renewed_after_it() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG)).await;
    let (lag, taken) = (Lag::watch(), monotonic());
    let guard = client.lock(&name).lock().max_hold(LONGEST).await.expect("it is free");
    let ended = timeout(SOON, guard.protect(pending::<()>())).await.expect("it is dropped");
    let (after, bound) = (monotonic() - taken, lag.added_to(LONGEST + AWAKE));
    assert!(matches!(ended, Err(Error::Lost { cause: LostCause::MaxHold, .. })), "{ended:?}");
    assert!(after >= LONGEST - AWAKE && after <= bound, "{after:?} of {bound:?}");
    assert!(proxy.count(&script("renew")) >= 2, "until then it was renewed");
    // What left before is through by then.
    eventually_async(SOON, async || proxy.count(&script("release")) == 1).await;
    eventually_async(SOON, async || kept(server, &name).is_none()).await;
    proxy.clear_log();
    sleep(WATCHDOG).await;
    assert_eq!((proxy.count(&script("renew")), proxy.count(&script("release"))), (0, 0));
}

/// Four times that can be over, and four answers.
#[tokio::test]
async fn whose_time_was_over_is_told_by_the_answer() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let (ours, cut) = (
        client(server.url()).await,
        connected(Client::builder().url(proxy.url()).command_timeout(COMMAND).unreachable_after(BOUND)).await,
    );
    let name = unique_name();
    let bounded = ours.lock(&name).lock().max_hold(LONGEST).await.expect("it is free");
    let waited = cut.lock(&name).try_lock().wait(BOUND).await;
    assert!(matches!(waited, Ok(None)), "the wait: {waited:?}");
    let reason = timeout(SOON, bounded.lost()).await.expect("the bound ends it");
    assert!(matches!(reason, Error::Lost { cause: LostCause::MaxHold, .. }), "the bound: {reason:?}");
    assert!(reason.to_string() != Error::Closed.to_string() && !reason.is_transient() && reason.is_lost());

    // The lease, also where a bound is set that is later.
    let leased = ours.lock(unique_name()).lock().lease(BOUND).max_hold(SOON).await.expect("it is free");
    let expired = timeout(SOON, leased.lost()).await.expect("the lease ends it");
    assert!(matches!(expired, Error::Lost { cause: LostCause::Expired, .. }), "the lease: {expired:?}");
    assert_ne!(expired.to_string().replace(leased.name(), ""), reason.to_string().replace(&name, ""));

    proxy.door(Door::Refusing);
    proxy.cut_all();
    let answers = [
        cut.lock(&name).lock().await.map(Some),
        cut.lock(&name).try_lock().wait(BOUND).await,
        cut.lock(&name).try_lock().await,
    ];
    for answer in answers {
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "the server: {answer:?}");
    }
}

/// Waits that end just when the lock becomes free: a guard is a hold, and no guard is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_ends_at_the_release_is_answered_by_what_became_of_it() {
    const WAITERS: u64 = 8;
    let server = Server::shared();
    let (holder, waiting) = (client(server.url()).await, client(server.url()).await);
    let (mut entered, mut left) = (0, 0);
    // Until both were seen, which takes a round or two.
    for round in 0..400 {
        if round >= 40 && entered > 0 && left > 0 {
            break;
        }
        let name = unique_name();
        let guard = holder.lock(&name).lock().await.expect("it is free");
        let mut waiters = JoinSet::new();
        for waiter in 0..WAITERS {
            let lock = waiting.lock(&name);
            let wait = Duration::from_millis(16 + waiter);
            waiters.spawn(async move {
                let owner = Owner::new();
                let answer = match lock.try_lock().owner(&owner).wait(wait).await {
                    // On a busy machine the wait may be over before the answer comes.
                    Err(Error::Unreachable { .. }) => None,
                    answer => answer.expect("the server answers"),
                };
                assert_eq!(lock.is_held_by(&owner), answer.is_some());
                if let Some(guard) = &answer {
                    let there = held(Server::shared(), lock.name());
                    assert!(guard.is_held() && guard.hold_count() == 1 && there.count == 1, "{there:?}");
                    guard.unlock().await.expect("it is held");
                }
                answer.is_some()
            });
        }
        sleep(Duration::from_millis(15 + round % 8)).await;
        guard.unlock().await.expect("it is held");
        for answer in waiters.join_all().await {
            *(if answer { &mut entered } else { &mut left }) += 1;
        }
        eventually_async(SOON, async || kept(server, &name).is_none()).await;
    }
    assert!(entered > 0 && left > 0, "no race: {entered} entered and {left} left");
}
