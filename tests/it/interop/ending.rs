//! Holds that end otherwise than by their holder's unlock: its process is killed, somebody forces the lock away, the lease
//! runs out. The other side gets in, and who comes late is refused.

use std::time::Duration;

use relatch::LostCause;

use super::{
    EXPIRED, SOON, STIRRED, assert_lost, assert_prompt, assert_refused, due, enter, entered, listening, peer::JavaLock,
    site::Site,
};
use crate::{
    harness::{
        clock::{monotonic, wall},
        eventually_async,
        process::Process,
        unique_name,
    },
    kept::{connected, held},
};

live!(
    None:
    rust_enters_a_lease_after_the_java_holder_was_killed,
    java_enters_a_lease_after_the_rust_holder_was_killed,
    a_lock_that_java_forces_is_lost_to_its_rust_holder_and_lets_a_rust_waiter_in,
    a_lock_that_java_forces_is_lost_to_its_rust_holder_and_lets_a_java_waiter_in,
    a_lock_that_rust_forces_is_lost_to_its_java_holder_and_lets_a_java_waiter_in,
    a_lock_that_rust_forces_is_lost_to_its_java_holder_and_lets_a_rust_waiter_in,
    java_is_refused_when_it_unlocks_after_its_lease_and_its_rust_successor_does_not_notice,
    rust_is_refused_when_it_unlocks_after_its_lease_and_its_java_successor_does_not_notice;
);

clustered!(
    sharded, NoneForLong:
    rust_enters_a_lease_after_the_java_holder_was_killed,
    java_enters_a_lease_after_the_rust_holder_was_killed,
    a_lock_that_java_forces_is_lost_to_its_rust_holder_and_lets_a_rust_waiter_in,
    a_lock_that_java_forces_is_lost_to_its_rust_holder_and_lets_a_java_waiter_in,
    a_lock_that_rust_forces_is_lost_to_its_java_holder_and_lets_a_java_waiter_in,
    a_lock_that_rust_forces_is_lost_to_its_java_holder_and_lets_a_rust_waiter_in,
    java_is_refused_when_it_unlocks_after_its_lease_and_its_rust_successor_does_not_notice,
    rust_is_refused_when_it_unlocks_after_its_lease_and_its_java_successor_does_not_notice;
);

const WATCHDOG: Duration = Duration::from_millis(1500);
const WATCHDOG_MS: &str = "1500";
const SHORT: Duration = Duration::from_millis(400);

/// Waits until a renewal has moved the end of the hold.
async fn renewed(site: &Site, name: &str) {
    let first = held(site.server(), name).expires;
    eventually_async(SOON, async || held(site.server(), name).expires > first).await;
}

async fn rust_enters_a_lease_after_the_java_holder_was_killed(site: &Site) {
    let (java, rust, name) = (site.java_with(&[("watchdog", WATCHDOG_MS)]).await, site.rust().await, unique_name());
    assert!(java.lock("one", &name).lock().await.yes());
    let waiter = enter(&rust, &name);
    listening(site, &name, 1).await;
    renewed(site, &name).await;
    let killed = monotonic();
    java.kill();
    let ends = due(held(site.server(), &name).expires);
    let (guard, at) = entered(waiter).await;
    assert_prompt(ends, at, EXPIRED);
    assert!(at - killed <= WATCHDOG + EXPIRED, "{:?}", at - killed);
    guard.unlock().await.expect("it is held");
}

async fn java_enters_a_lease_after_the_rust_holder_was_killed(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let mut holder = Process::spawn("hold", &[&site.url(), &name, WATCHDOG_MS]);
    assert_eq!(holder.hear(), "held");
    let theirs = java.lock("one", &name);
    let waiting = theirs.lock();
    listening(site, &name, 1).await;
    renewed(site, &name).await;
    let killed = monotonic();
    holder.kill();
    let ends = due(held(site.server(), &name).expires);
    let at = waiting.await.ended;
    assert_prompt(ends, at, EXPIRED);
    assert!(at - killed <= WATCHDOG + EXPIRED, "{:?}", at - killed);
    assert!(theirs.unlock().await.yes());
}

async fn a_lock_that_java_forces_is_lost_to_its_rust_holder_and_lets_a_rust_waiter_in(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let (holding, waiting) = (connected(site.builder().watchdog_timeout(WATCHDOG)).await, site.rust().await);
    let guard = holding.lock(&name).lock().await.expect("it is free");
    let waiter = enter(&waiting, &name);
    listening(site, &name, 1).await;
    let forced = java.lock("one", &name).force_unlock().await;
    assert!(forced.yes());
    let (next, at) = entered(waiter).await;
    assert_prompt(forced.began, at, STIRRED);
    let told = tokio::time::timeout(SOON, guard.lost()).await.expect("its next renewal tells it");
    assert_lost(Err::<(), _>(told), LostCause::Gone);
    assert_lost(guard.unlock().await, LostCause::Gone);
    assert!(next.is_held());
    next.unlock().await.expect("it is held");
}

async fn a_lock_that_java_forces_is_lost_to_its_rust_holder_and_lets_a_java_waiter_in(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let holding = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let guard = holding.lock(&name).lock().await.expect("it is free");
    let theirs = java.lock("waiting", &name);
    let waiting = theirs.lock();
    listening(site, &name, 1).await;
    let forced = java.lock("forcing", &name).force_unlock().await;
    assert!(forced.yes());
    assert_prompt(forced.began, waiting.await.ended, STIRRED);
    assert_lost(Err::<(), _>(tokio::time::timeout(SOON, guard.lost()).await.expect("it is told")), LostCause::Gone);
    assert_lost(guard.unlock().await, LostCause::Gone);
    assert!(theirs.is_held().await.yes());
    assert!(theirs.unlock().await.yes());
}

async fn a_lock_that_rust_forces_is_lost_to_its_java_holder_and_lets_a_java_waiter_in(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (holder, next) = (java.lock("one", &name), java.lock("two", &name));
    assert!(holder.lock().await.yes());
    let waiting = next.lock();
    listening(site, &name, 1).await;
    let forced = monotonic();
    assert!(rust.lock(&name).force_unlock().await.expect("the server answers"));
    assert_prompt(forced, waiting.await.ended, STIRRED);
    assert_has_lost(&holder).await;
    assert!(next.is_held().await.yes());
    assert!(next.unlock().await.yes());
}

async fn a_lock_that_rust_forces_is_lost_to_its_java_holder_and_lets_a_rust_waiter_in(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let holder = java.lock("one", &name);
    assert!(holder.lock().await.yes());
    let waiting = site.rust().await;
    let waiter = enter(&waiting, &name);
    listening(site, &name, 1).await;
    let forced = monotonic();
    assert!(rust.lock(&name).force_unlock().await.expect("the server answers"));
    let (guard, at) = entered(waiter).await;
    assert_prompt(forced, at, STIRRED);
    assert_has_lost(&holder).await;
    guard.unlock().await.expect("it is held");
}

/// All that Redisson tells a holder: nothing until it asks.
async fn assert_has_lost(lock: &JavaLock) {
    assert!(!lock.is_held().await.yes());
    assert_eq!(lock.hold_count().await.number(), 0);
    assert_refused(&lock.unlock().await);
}

async fn java_is_refused_when_it_unlocks_after_its_lease_and_its_rust_successor_does_not_notice(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let theirs = java.lock("one", &name);
    assert!(theirs.lock_for(SHORT).await.yes());
    let ends = held(site.server(), &name).expires;
    let waiter = enter(&rust, &name);
    let (guard, _) = entered(waiter).await;
    assert_prompt(ends, wall(), EXPIRED);
    let before = held(site.server(), &name);
    assert!(before.is_of(&rust));
    assert_has_lost(&theirs).await;
    assert_eq!(held(site.server(), &name), before);
    guard.unlock().await.expect("it is held");
}

async fn rust_is_refused_when_it_unlocks_after_its_lease_and_its_java_successor_does_not_notice(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let theirs = java.lock("one", &name);
    let guard = rust.lock(&name).lock().lease(SHORT).await.expect("it is free");
    let ends = held(site.server(), &name).expires;
    let (ends, entered) = (due(ends), theirs.lock().await);
    assert_prompt(ends, entered.ended, EXPIRED);
    let before = held(site.server(), &name);
    assert_eq!(before.field, format!("{}:{}", java.client(), entered.tid));
    assert_lost(guard.unlock().await, LostCause::Expired);
    drop(guard);
    // What the dropped guard sends is sent before the client has closed.
    rust.close().await;
    assert_eq!(held(site.server(), &name), before);
    assert!(theirs.unlock().await.yes());
}
