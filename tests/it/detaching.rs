//! Holds without a guard: detached, taken back, released by their owner, and lost. What a guard does is in `guards.rs`.

use std::time::Duration;

use relatch::{Client, Error, LostCause, Owner, Released, Result};
use tokio::time::sleep;

use crate::harness::{Server, clock::wall, eventually_async, monitor::Ran, proxy::matching, unique_name};

const MS: Duration = Duration::from_millis(1);
const WATCHDOG: Duration = Duration::from_secs(1);
/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);

async fn connect() -> Client {
    let url = Server::shared().url();
    Client::builder().url(url).watchdog_timeout(WATCHDOG).connect().await.expect("connects")
}

/// The count on the server.
fn count(name: &str) -> Option<String> {
    Server::shared().hash(name).into_values().next()
}

fn guards_left<T>(answer: Result<T>) -> Option<u32> {
    match answer {
        Err(Error::NotHeld { guards, .. }) => Some(guards),
        _ => None,
    }
}

fn lost_by<T>(answer: &Result<T>) -> Option<LostCause> {
    match answer {
        Err(Error::Lost { cause, .. }) => Some(*cause),
        _ => None,
    }
}

#[tokio::test]
async fn detached_holds_count_and_each_is_released_once_by_its_owner() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    let first = lock.lock().await.expect("nests").detach();
    let second = lock.lock().await.expect("nests").detach();
    assert_eq!((&first, &second), (&Owner::current(), &Owner::current()));
    assert_eq!((lock.hold_count(), guard.hold_count(), count(lock.name()).as_deref()), (3, 3, Some("3")));

    assert_eq!(lock.unlock().await.expect("releases one"), Released::StillHeld(2));
    assert_eq!(count(lock.name()).as_deref(), Some("2"));
    assert_eq!(lock.unlock().owner(&second).await.expect("releases the other"), Released::StillHeld(1));
    assert!(lock.is_held() && guard.is_held());
    let refused = lock.unlock().await;
    let words = refused.as_ref().expect_err("the rest is a guard's").to_string();
    assert!(words.contains("guard"), "{words}");
    assert_eq!(guards_left(refused), Some(1));
    assert_eq!(count(lock.name()).as_deref(), Some("1"), "a guard's hold is not touched");
    assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);

    // The last one is detached this time.
    let guard = lock.lock().await.expect("acquires");
    let owner = lock.lock().await.expect("nests").detach();
    assert_eq!(guard.unlock().await.expect("releases"), Released::StillHeld(1));
    assert_eq!(lock.unlock().owner(&owner).await.expect("releases"), Released::Freed);
    assert_eq!(count(lock.name()), None);
    assert_eq!(guards_left(lock.unlock().owner(&owner).await), Some(0));
}

#[tokio::test]
async fn unlock_by_an_owner_that_has_guards_says_how_many_and_points_at_them() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    assert_eq!(guards_left(lock.unlock().await), Some(0));
    let guards = [lock.lock().await.expect("acquires"), lock.lock().await.expect("nests")];
    let refused = lock.unlock().await;
    let words = refused.as_ref().expect_err("they are guards").to_string();
    assert!(words.contains(lock.name()) && words.contains("unlock"), "{words}");
    assert_eq!(guards_left(refused), Some(2));
    assert_eq!(guards_left(lock.unlock().owner(&Owner::new()).await), Some(0), "to somebody else they are nothing");
    assert!(guards.iter().all(relatch::LockGuard::is_held));
    assert_eq!(count(lock.name()).as_deref(), Some("2"));
}

#[tokio::test]
async fn a_detached_hold_is_renewed_until_it_is_released_from_another_task() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let owner = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await.expect("acquires").detach() }
    });
    let owner = owner.await.expect("no panic");
    let field = Server::shared().hash(lock.name());
    // The task that took it is gone, and so is every guard.
    sleep(WATCHDOG * 2).await;
    assert_eq!(Server::shared().hash(lock.name()), field);
    assert!(lock.is_held_by(&owner) && !lock.is_held());
    assert!(lock.try_lock().await.expect("answers").is_none());
    assert_eq!(guards_left(lock.unlock().await), Some(0), "it is not this task's");
    let released = tokio::spawn(owner.scope(lock.unlock())).await.expect("no panic");
    assert_eq!(released.expect("releases"), Released::Freed);
    assert!(!lock.is_held_by(&owner));
    assert_eq!(count(lock.name()), None);
}

#[tokio::test]
async fn an_owner_takes_its_detached_hold_back_as_a_guard_without_a_command() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let owner = lock.lock().owner(&Owner::new()).await.expect("acquires").detach();
    let monitor = Server::shared().monitor();
    assert!(lock.attach(&Owner::current()).is_none());
    assert!(client.lock(unique_name()).attach(&owner).is_none());
    let guard = lock.attach(&owner).expect("it is there");
    assert!(lock.attach(&owner).is_none(), "there was one");
    assert!(guard.is_held() && guard.owner() == &owner && guard.expires_in().is_some());
    assert_eq!((guard.hold_count(), guard.name()), (1, lock.name()));
    let owner = guard.detach();
    let guard = lock.attach(&owner).expect("as often as one likes");
    assert!(monitor.ran().iter().all(|ran| ran.by_script || !ran.mentions(lock.name()) || is_renewal(ran)));
    assert_eq!(guards_left(lock.unlock().owner(&owner).await), Some(1), "it is a guard's now");
    drop(guard);
    eventually_async(HANGS, async || count(lock.name()).is_none()).await;
}

fn is_renewal(ran: &Ran) -> bool {
    matching::verb(&ran.words).as_deref() == Some("renew")
}

#[tokio::test]
async fn a_lost_detached_hold_says_so_for_one_lease_and_is_not_held_then() {
    let client = connect().await;
    let [told, forgotten] = [client.lock(unique_name()), client.lock(unique_name())];
    let lease = WATCHDOG + 100 * MS;
    for lock in [&told, &forgotten] {
        lock.lock().lease(lease).await.expect("acquires").detach();
    }
    sleep(lease).await;
    for lock in [&told, &forgotten] {
        assert!(!lock.is_held(), "its deadline is before the end of its lease");
    }
    assert_eq!(lost_by(&told.unlock().await), Some(LostCause::Expired));
    sleep(lease + 20 * MS).await;
    for lock in [&forgotten, &told] {
        // A machine that stood still forgets later.
        eventually_async(HANGS, async || guards_left(lock.unlock().await) == Some(0)).await;
    }
    assert!(forgotten.attach(&Owner::current()).is_none());

    // Found missing by a renewal, and taken back as what it is.
    let gone = client.lock(unique_name());
    let owner = gone.lock().await.expect("acquires").detach();
    Server::shared().delete(gone.name());
    eventually_async(HANGS, async || !gone.is_held()).await;
    let guard = gone.attach(&owner).expect("a lost hold is remembered");
    assert!(!guard.is_held());
    assert_eq!(lost_by(&guard.unlock().await), Some(LostCause::Gone));
}

#[tokio::test]
async fn a_detached_hold_ends_at_its_max_hold_and_says_so() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let bound = WATCHDOG * 3;
    let owner = lock.lock().max_hold(bound).await.expect("acquires").detach();
    // A renewal is asked for until the bound, and counted from when it arrives.
    let ends = wall() + bound + 100 * MS;
    sleep(WATCHDOG + 100 * MS).await;
    assert!(lock.is_held(), "the watchdog carries it beyond its lease");
    eventually_async(HANGS, async || {
        let end = Server::shared().ends_at(lock.name());
        assert!(end <= Some(ends), "nothing reaches beyond the bound: {end:?} {ends:?}");
        end.is_none()
    })
    .await;
    let answer = lock.unlock().owner(&owner).await;
    assert_eq!(lost_by(&answer), Some(LostCause::MaxHold), "{answer:?}");
    // It is gone for good: nothing renews it.
    lock.try_lock().await.expect("answers").expect("it is free").unlock().await.expect("releases");
}
