//! Who is who: tasks, threads, scopes and clients as owners of a lock. What nesting does to a hold is in `nesting.rs`.

use std::{
    pin::pin,
    sync::atomic::{AtomicU32, Ordering},
    task::{Context, Waker},
    time::Duration,
};

use relatch::{Client, Error, Owner, ReentrantLock, Released, Result};
use tokio::time::{sleep, timeout};

use crate::harness::{Server, unique_name};

const MS: Duration = Duration::from_millis(1);
/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);

async fn connect() -> Client {
    Client::connect(Server::shared().url()).await.expect("connects")
}

/// What comes soon, or never.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(HANGS, future).await.expect("it does not hang")
}

/// One look at a future that is not ready.
fn begin<F: Future>(future: std::pin::Pin<&mut F>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[track_caller]
fn assert_names_lock_and_remedies<T>(answer: Result<T>, lock: &ReentrantLock) {
    let Err(error) = answer else { panic!("two acquisitions of one owner at the same time") };
    assert!(matches!(error, Error::Invalid { what: "owner", .. }), "{error:?}");
    let words = error.to_string();
    for word in [lock.name(), "mutex", "Owner::new().scope", ".owner("] {
        assert!(words.contains(word), "{word} is not in: {words}");
    }
}

#[tokio::test]
async fn a_spawned_task_is_another_owner_unless_it_runs_in_the_scope_of_its_parent() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    let tries = || {
        let lock = lock.clone();
        async move {
            let guard = lock.try_lock().await.expect("answers")?;
            let counted = (lock.hold_count(), guard.hold_count());
            assert_eq!(guard.unlock().await.expect("releases"), Released::StillHeld(1));
            Some(counted)
        }
    };
    assert_eq!(tokio::spawn(tries()).await.expect("no panic"), None);
    assert_eq!(tokio::spawn(Owner::new().scope(tries())).await.expect("no panic"), None);
    assert_eq!(tokio::spawn(Owner::current().scope(tries())).await.expect("no panic"), Some((2, 2)));
    assert_eq!(tokio::spawn(guard.owner().scope(tries())).await.expect("no panic"), Some((2, 2)));
    assert!(lock.is_held() && lock.is_held_by(guard.owner()));
    guard.unlock().await.expect("releases");
}

#[tokio::test]
async fn two_branches_that_ask_for_one_name_at_the_same_time_are_told_so_with_the_remedy() {
    let (client, other) = (connect().await, connect().await);
    let lock = client.lock(unique_name());

    // On the way to the server.
    let (first, second) = soon(async { tokio::join!(lock.lock(), lock.lock()) }).await;
    assert_names_lock_and_remedies(second, &lock);
    first.expect("acquires").unlock().await.expect("releases");
    let (first, second) = soon(async { tokio::join!(lock.try_lock(), lock.try_lock()) }).await;
    assert_names_lock_and_remedies(second, &lock);
    first.expect("answers").expect("it was free").unlock().await.expect("releases");

    // Waiting behind another client, and behind another task of this one.
    for holder in [&other, &client] {
        let theirs = holder.lock(lock.name()).lock().owner(&Owner::new()).await.expect("acquires");
        let mut waiting = pin!(lock.lock());
        begin(waiting.as_mut());
        assert_names_lock_and_remedies(soon(lock.lock()).await, &lock);
        assert_names_lock_and_remedies(soon(lock.try_lock()).await, &lock);
        assert_names_lock_and_remedies(soon(lock.try_lock().wait(HANGS * 2)).await, &lock);
        theirs.unlock().await.expect("releases");
        let ours = soon(waiting).await.expect("acquires");
        // From here on it nests.
        assert_eq!(lock.lock().await.expect("nests").hold_count(), 2);
        ours.unlock().await.expect("releases");
    }
}

#[tokio::test]
async fn branches_in_scopes_of_their_own_exclude_each_other() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let inside = AtomicU32::new(0);
    let branch = || {
        Owner::new().scope(async {
            for _ in 0..5 {
                let outer = lock.lock().await.expect("acquires");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "somebody else is in the section");
                // What the branch calls is the branch too.
                assert_eq!(lock.lock().await.expect("nests").hold_count(), 2);
                sleep(MS).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                outer.unlock().await.expect("releases");
            }
        })
    };
    soon(async { tokio::join!(branch(), branch(), branch()) }).await;
}

#[tokio::test]
async fn the_owner_is_whoever_polls_an_acquisition_first() {
    let client = connect().await;
    let lock = client.lock(unique_name());

    // Made here, polled elsewhere.
    let (acquisition, maker) = (lock.lock(), Owner::current());
    let guard = tokio::spawn(async move { (acquisition.await.expect("acquires"), Owner::current()) });
    let (guard, polled_by) = guard.await.expect("no panic");
    assert_ne!(polled_by, maker);
    assert_eq!(guard.owner(), &polled_by);
    assert!(lock.is_held_by(&polled_by) && !lock.is_held());

    // Polled here, finished elsewhere.
    let mut acquisition = lock.lock();
    begin(std::pin::Pin::new(&mut acquisition));
    let finished = tokio::spawn(acquisition);
    guard.unlock().await.expect("releases");
    let guard = soon(finished).await.expect("no panic").expect("acquires");
    assert_eq!(guard.owner(), &maker);
    assert!(lock.is_held());

    // Told, whoever polls.
    let told = Owner::new();
    let nested = tokio::spawn(lock.try_lock().owner(&maker)).await.expect("no panic").expect("answers");
    assert_eq!(nested.expect("nests").hold_count(), 2);
    assert!(lock.try_lock().owner(&told).await.expect("answers").is_none());
    guard.unlock().await.expect("releases");
    let guard = lock.try_lock().owner(&told).await.expect("answers").expect("it is free");
    assert_eq!(guard.owner(), &told);
    guard.unlock().await.expect("releases");
}

#[tokio::test]
async fn one_owner_through_two_clients_is_two_holders() {
    let (client, other) = (connect().await, connect().await);
    let (ours, theirs) = (client.lock(unique_name()), Owner::new());
    let lock = other.lock(ours.name());
    for owner in [Owner::current(), theirs] {
        let guard = ours.lock().owner(&owner).await.expect("acquires");
        assert!(lock.try_lock().owner(&owner).await.expect("answers").is_none());
        assert!(ours.is_held_by(&owner) && !lock.is_held_by(&owner));
        // A clone is the same client.
        let nested = client.clone().lock(ours.name()).try_lock().owner(&owner).await.expect("answers");
        assert_eq!(nested.expect("nests").hold_count(), 2);
        guard.unlock().await.expect("releases");
    }
}
