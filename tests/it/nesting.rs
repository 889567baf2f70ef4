//! Nested acquisitions: one hold, counted, renewed at every depth and told as lost when its key went. What a guard does
//! on its own is in `guards.rs`.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use relatch::{Client, Error, LostCause, Owner, ReentrantLock, Released};
use tokio::{
    runtime,
    task::{block_in_place, yield_now},
    time::{sleep, timeout},
};

use crate::harness::{Server, eventually_async, unique_name};

const MS: Duration = Duration::from_millis(1);
const WATCHDOG: Duration = Duration::from_millis(900);
/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);

async fn connect() -> Client {
    let url = Server::shared().url();
    Client::builder().url(url).watchdog_timeout(WATCHDOG).connect().await.expect("connects")
}

/// What comes soon, or never.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(HANGS, future).await.expect("it does not hang")
}

/// The hold's field and count on the server.
fn holder(name: &str) -> Option<(String, u32)> {
    let mut fields = Server::shared().hash(name).into_iter();
    let (field, count) = fields.next()?;
    assert_eq!(fields.next(), None, "a lock has one holder");
    Some((field, count.parse().expect("a count is a number")))
}

fn count(name: &str) -> u32 {
    holder(name).map_or(0, |(_, count)| count)
}

/// Goes on on another thread. The only worker hands its place to a fresh thread while it blocks, since nobody else
/// could run the spawned task; the blocked thread is no worker afterwards, so the next poll is elsewhere.
async fn move_to_another_thread() {
    let before = thread::current().id();
    let (ran, seen) = mpsc::channel();
    tokio::spawn(async move { ran.send(()).expect("the one who moves waits") });
    block_in_place(|| seen.recv()).expect("somebody else took the worker's place");
    while thread::current().id() == before {
        yield_now().await;
    }
    assert_ne!(thread::current().id(), before);
}

async fn debit(lock: &ReentrantLock) {
    let guard = lock.lock().await.expect("nests");
    move_to_another_thread().await;
    assert_eq!((lock.hold_count(), count(lock.name())), (2, 2));
    credit(lock).await;
    assert_eq!((lock.hold_count(), count(lock.name())), (2, 2));
    move_to_another_thread().await;
    assert_eq!(guard.unlock().await.expect("releases"), Released::StillHeld(1));
}

async fn credit(lock: &ReentrantLock) {
    let guard = lock.try_lock().await.expect("answers").expect("nests");
    move_to_another_thread().await;
    assert_eq!((lock.hold_count(), guard.hold_count(), count(lock.name())), (3, 3, 3));
    assert_eq!(guard.unlock().await.expect("releases"), Released::StillHeld(2));
}

#[test]
fn three_levels_of_calls_are_one_hold_wherever_the_task_runs_until_the_third_release() {
    let one_worker = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts");
    one_worker.block_on(async {
        let client = connect().await;
        let lock = client.lock(unique_name());
        let task = tokio::spawn(async move {
            let guard = lock.lock().await.expect("acquires");
            let (field, first) = holder(lock.name()).expect("the key is there");
            assert_eq!((lock.hold_count(), first), (1, 1));
            debit(&lock).await;
            assert_eq!(holder(lock.name()), Some((field, 1)), "the hold is the same one");
            assert!(lock.is_held());
            assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);
            assert_eq!((lock.hold_count(), holder(lock.name())), (0, None));
        });
        task.await.expect("the task ends well");
    });
}

#[tokio::test]
async fn the_watchdog_works_at_every_depth() {
    let client = connect().await;
    let depths = (1..=3).map(|depth| {
        let lock = client.lock(unique_name());
        tokio::spawn(async move {
            let mut guards = Vec::new();
            for _ in 0..depth {
                guards.push(lock.lock().await.expect("acquires"));
            }
            let (field, _) = holder(lock.name()).expect("the key is there");
            sleep(WATCHDOG * 2).await;
            assert_eq!(holder(lock.name()), Some((field, depth)), "the same hold all the time");
            assert!(guards.iter().all(relatch::LockGuard::is_held));
            while let Some(guard) = guards.pop() {
                guard.unlock().await.expect("releases");
            }
            assert_eq!(holder(lock.name()), None);
        })
    });
    for depth in depths.collect::<Vec<_>>() {
        depth.await.expect("the depth is held");
    }
}

/// Looks at a key's end for a while; it must be there all the time and never come nearer.
async fn watch_the_end(name: &str, span: Duration) {
    let started = Instant::now();
    let mut latest = Duration::ZERO;
    while started.elapsed() < span {
        let end = Server::shared().ends_at(name).expect("the key is there and has an end");
        assert!(end >= latest, "the end came nearer by {:?}", latest - end);
        latest = latest.max(end);
        sleep(10 * MS).await;
    }
}

/// How long nothing must name the key any more.
async fn nothing_more_is_sent(name: &str) {
    let monitor = Server::shared().monitor();
    sleep(WATCHDOG).await;
    let ran = monitor.ran();
    let about: Vec<_> = ran.iter().filter(|ran| ran.mentions(name) && !ran.by_script).collect();
    assert!(about.is_empty(), "{about:?}");
}

#[tokio::test]
async fn a_fixed_lease_inside_a_watchdog_never_shortens_the_hold_and_never_stops_the_watchdog() {
    let client = connect().await;
    for lease in [WATCHDOG / 3, WATCHDOG * 3] {
        let lock = client.lock(unique_name());
        let outer = lock.lock().await.expect("acquires");
        let before = Server::shared().ends_at(lock.name()).expect("it has an end");
        let inner = lock.lock().lease(lease).await.expect("nests");
        let after = Server::shared().ends_at(lock.name()).expect("it has an end");
        assert!(after >= before, "{before:?} {after:?}");
        if lease > WATCHDOG {
            assert!(outer.expires_in() > Some(WATCHDOG), "the inner lease is a floor for the whole hold");
        }
        watch_the_end(lock.name(), WATCHDOG + 50 * MS).await;
        assert_eq!(inner.unlock().await.expect("releases"), Released::StillHeld(1));
        watch_the_end(lock.name(), WATCHDOG * 3).await;
        assert!(outer.is_held());
        assert_eq!(outer.unlock().await.expect("releases"), Released::Freed);
        assert_eq!(holder(lock.name()), None);
        nothing_more_is_sent(lock.name()).await;
    }
}

#[tokio::test]
async fn a_watchdog_inside_a_fixed_lease_renews_while_it_lives_and_shortens_nothing() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let lease = WATCHDOG * 2;
    let outer = lock.lock().lease(lease).await.expect("acquires");
    let before = Server::shared().ends_at(lock.name()).expect("it has an end");
    let inner = lock.lock().await.expect("nests");
    let after = Server::shared().ends_at(lock.name()).expect("it has an end");
    assert_eq!(after, before, "the fixed lease is longer, so nothing changes");
    watch_the_end(lock.name(), lease + WATCHDOG).await;
    assert!(outer.is_held(), "the watchdog carries the hold past the outer lease");

    inner.unlock().await.expect("releases");
    let end = Server::shared().ends_at(lock.name()).expect("it has an end");
    nothing_more_is_sent(lock.name()).await;
    assert!(matches!(soon(outer.lost()).await, Error::Lost { cause: LostCause::Expired, .. }));
    eventually_async(HANGS, async || holder(lock.name()).is_none()).await;
    let gone = Server::shared().ends_at(lock.name());
    assert_eq!(gone, None, "its end was {end:?}");
}

#[tokio::test]
async fn a_nested_acquisition_on_a_deleted_key_is_a_fresh_hold_and_the_outer_guards_are_lost() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let outer = [lock.lock().await.expect("acquires"), lock.lock().await.expect("nests")];
    let (old, _) = holder(lock.name()).expect("the key is there");
    Server::shared().delete(lock.name());

    let fresh = soon(lock.lock()).await.expect("acquires afresh");
    let (new, held) = holder(lock.name()).expect("the key is there again");
    assert_ne!(new, old, "a number is never used again");
    assert_eq!((held, lock.hold_count(), fresh.hold_count()), (1, 1, 1));
    for guard in &outer {
        assert!(!guard.is_held());
        assert!(matches!(guard.unlock().await, Err(Error::Lost { cause: LostCause::Gone, .. })));
    }
    drop(outer);
    assert!(fresh.is_held());
    assert_eq!(fresh.unlock().await.expect("releases"), Released::Freed);
}

#[tokio::test]
async fn a_nested_acquisition_on_somebody_elses_key_waits_as_a_fresh_one() {
    let (client, other) = (connect().await, connect().await);
    let lock = client.lock(unique_name());
    // A lease that no renewal looks at, so that only the nested acquisition can find the loss.
    let outer = lock.lock().lease(WATCHDOG * 20).await.expect("acquires");
    Server::shared().delete(lock.name());
    let theirs = other.lock(lock.name()).try_lock().await.expect("answers").expect("the key was free");

    assert!(soon(lock.try_lock()).await.expect("answers").is_none(), "somebody else has it");
    assert!(!outer.is_held());
    assert!(matches!(soon(outer.lost()).await, Error::Lost { cause: LostCause::Gone, .. }));

    let waiting = tokio::spawn(Owner::current().scope(lock.lock()));
    let channel = format!("redisson_lock__channel:{{{}}}", lock.name());
    eventually_async(HANGS, async || Server::shared().listeners(&channel) == 1).await;
    assert!(!waiting.is_finished());
    theirs.unlock().await.expect("releases");
    let fresh = soon(waiting).await.expect("no panic").expect("acquires");
    assert_eq!((fresh.hold_count(), count(lock.name())), (1, 1));
    fresh.unlock().await.expect("releases");
}
