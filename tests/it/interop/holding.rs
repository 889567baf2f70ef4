//! Who holds a lock, seen from the other side: it waits in vain, reads the count, may not release, and does not renew.

use std::time::Duration;

use relatch::{Error, LostCause};

use super::{AWAKE, MS, SOON, assert_lost, assert_refused, channel, is_script, site::Site};
use crate::{
    harness::{clock::monotonic, eventually_async, lag::Lag, monitor::Ran, unique_name},
    kept::{connected, held, kept},
};

live!(
    Any:
    rust_sees_how_often_and_for_how_long_java_holds,
    java_sees_that_and_for_how_long_rust_holds,
    an_unlock_by_the_other_side_is_refused_and_changes_nothing,
    an_unlock_of_a_hold_that_java_took_away_is_refused_by_the_server_and_changes_nothing,
    java_keeps_rust_out_for_three_leases_of_its_watchdog,
    rust_keeps_java_out_for_three_leases_of_its_watchdog,
    a_renewal_of_redissons_never_extends_a_hold_of_ours,
    a_renewal_of_ours_never_extends_a_hold_of_redissons;
    None:
    a_timed_wait_of_rust_ends_without_the_lock_while_java_holds_it,
    a_timed_wait_of_java_ends_without_the_lock_while_rust_holds_it;
);

clustered!(
    sharded, Any:
    rust_sees_how_often_and_for_how_long_java_holds,
    java_sees_that_and_for_how_long_rust_holds,
    an_unlock_by_the_other_side_is_refused_and_changes_nothing,
    an_unlock_of_a_hold_that_java_took_away_is_refused_by_the_server_and_changes_nothing,
    java_keeps_rust_out_for_three_leases_of_its_watchdog,
    rust_keeps_java_out_for_three_leases_of_its_watchdog,
    a_renewal_of_redissons_never_extends_a_hold_of_ours,
    a_renewal_of_ours_never_extends_a_hold_of_redissons;
);

const WAIT: Duration = Duration::from_millis(300);
/// A lease that both sides may have, and Redisson renews every third of it.
const WATCHDOG: Duration = Duration::from_millis(1500);
const WATCHDOG_MS: &str = "1500";
const LEASE: Duration = Duration::from_secs(5);

async fn a_timed_wait_of_rust_ends_without_the_lock_while_java_holds_it(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, ours) = (java.lock("one", &name), rust.lock(&name));
    assert!(theirs.lock().await.yes());
    assert!(ours.try_lock().await.expect("the server answers").is_none());
    let (lag, asked) = (Lag::watch(), monotonic());
    assert!(ours.try_lock().wait(WAIT).await.expect("the server answers").is_none());
    let (took, bound) = (monotonic() - asked, lag.added_to(WAIT + AWAKE));
    assert!(took >= WAIT && took <= bound, "{took:?} of {bound:?}");
    assert!(theirs.unlock().await.yes());
    assert!(ours.try_lock().await.expect("the server answers").is_some());
}

async fn a_timed_wait_of_java_ends_without_the_lock_while_rust_holds_it(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let theirs = java.lock("one", &name);
    let guard = rust.lock(&name).lock().await.expect("it is free");
    assert!(!theirs.try_lock().await.yes());
    let lag = Lag::watch();
    let waits = [theirs.try_lock_within(WAIT).await, theirs.try_lock_within_for(WAIT, LEASE).await];
    let bound = lag.added_to(WAIT + AWAKE);
    for waited in waits {
        assert!(!waited.yes());
        let took = waited.took();
        // Redisson reckons in whole milliseconds of the wall clock.
        assert!(took + MS >= WAIT && took <= bound, "{took:?} of {bound:?}");
    }
    guard.unlock().await.expect("it is held");
    assert!(theirs.try_lock().await.yes() && theirs.unlock().await.yes());
}

async fn rust_sees_how_often_and_for_how_long_java_holds(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, ours) = (java.lock("one", &name), rust.lock(&name));
    for count in [1, 2, 3] {
        let tid = theirs.lock().await.tid;
        let seen = ours.inspect().await.expect("the server answers").expect("somebody holds it");
        assert_eq!((&*seen.client_id, seen.hold_id, seen.hold_count), (java.client(), tid.to_string(), count));
        let left = ours.remaining_lease().await.expect("the server answers").expect("every lease ends");
        assert!(left > Duration::from_secs(29) && left <= Duration::from_secs(30), "{left:?}");
    }
    for left in [2, 1] {
        assert!(theirs.unlock().await.yes());
        assert_eq!(ours.inspect().await.expect("the server answers").map(|seen| seen.hold_count), Some(left));
        assert!(ours.is_locked().await.expect("the server answers"));
        assert!(ours.try_lock().await.expect("the server answers").is_none());
    }
    assert!(theirs.unlock().await.yes());
    assert!(!ours.is_locked().await.expect("the server answers"));
    assert_eq!(ours.remaining_lease().await.expect("the server answers"), None);
}

async fn java_sees_that_and_for_how_long_rust_holds(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, ours) = (java.lock("one", &name), rust.lock(&name));
    assert_eq!(theirs.ttl().await.number(), -2);
    let mut guards = Vec::new();
    for count in [1, 2, 3] {
        guards.push(ours.lock().await.expect("it is ours"));
        assert_eq!(held(site.server(), &name).count, count);
        assert!(theirs.is_locked().await.yes() && !theirs.is_held().await.yes());
        assert_eq!(theirs.hold_count().await.number(), 0);
        let left = theirs.ttl().await.number();
        assert!(left > 29_000 && left <= 30_000, "{left}");
    }
    while let Some(guard) = guards.pop() {
        assert!(theirs.is_locked().await.yes() && !theirs.try_lock().await.yes());
        guard.unlock().await.expect("it is held");
    }
    assert!(!theirs.is_locked().await.yes());
    assert_eq!(theirs.ttl().await.number(), -2);
}

async fn an_unlock_by_the_other_side_is_refused_and_changes_nothing(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, ours) = (java.lock("one", &name), rust.lock(&name));
    assert!(theirs.lock().await.yes());
    let before = held(site.server(), &name);
    let refused = ours.unlock().await;
    assert!(matches!(refused, Err(Error::NotHeld { .. })), "{refused:?}");
    assert_eq!(held(site.server(), &name), before);
    assert!(theirs.unlock().await.yes());

    let guard = ours.lock().await.expect("it is free");
    let before = held(site.server(), &name);
    assert_refused(&theirs.unlock().await);
    assert_eq!(held(site.server(), &name), before);
    guard.unlock().await.expect("it is held");
}

/// Nothing told our client: it has to ask, and the server refuses.
async fn an_unlock_of_a_hold_that_java_took_away_is_refused_by_the_server_and_changes_nothing(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let theirs = java.lock("one", &name);
    let guard = rust.lock(&name).lock().await.expect("it is free");
    let field = held(site.server(), &name).field;
    assert!(theirs.force_unlock().await.yes() && theirs.lock().await.yes());
    let before = held(site.server(), &name);
    assert_ne!(before.field, field);
    let monitor = site.server().monitor();
    assert_lost(guard.unlock().await, LostCause::Gone);
    let releases = |ran: &Ran| is_script(ran) && ran.mentions(&field) && ran.mentions(&channel(&name));
    assert!(monitor.ran().iter().any(releases));
    assert_eq!(kept(site.server(), &name), Some(before));
    assert!(theirs.unlock().await.yes());
}

async fn java_keeps_rust_out_for_three_leases_of_its_watchdog(site: &Site) {
    let (java, rust, name) = (site.java_with(&[("watchdog", WATCHDOG_MS)]).await, site.rust().await, unique_name());
    let theirs = java.lock("one", &name);
    assert!(theirs.lock().await.yes());
    assert!(rust.lock(&name).try_lock().wait(3 * WATCHDOG).await.expect("the server answers").is_none());
    assert!(theirs.is_held().await.yes());
    assert!(theirs.unlock().await.yes());
    assert!(rust.lock(&name).try_lock().await.expect("the server answers").is_some());
}

async fn rust_keeps_java_out_for_three_leases_of_its_watchdog(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let rust = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let theirs = java.lock("one", &name);
    let guard = rust.lock(&name).lock().await.expect("it is free");
    assert!(!theirs.try_lock_within(3 * WATCHDOG).await.yes());
    assert!(guard.is_held());
    guard.unlock().await.expect("it is held");
    assert!(theirs.try_lock().await.yes() && theirs.unlock().await.yes());
}

async fn a_renewal_of_redissons_never_extends_a_hold_of_ours(site: &Site) {
    let (java, rust, name) = (site.java_with(&[("watchdog", WATCHDOG_MS)]).await, site.rust().await, unique_name());
    let (theirs, ours) = (java.lock("one", &name), rust.lock(&name));
    let tid = theirs.lock().await.tid;
    let owner = format!("{}:{tid}", java.client());
    let monitor = site.server().monitor();
    // Nothing tells a Redisson client: its watchdog goes on until it has asked.
    assert!(ours.force_unlock().await.expect("the server answers"));
    let guard = ours.lock().lease(LEASE).await.expect("it is free");
    let before = held(site.server(), &name);
    // Our forced release names Java's owner as well, so what comes after our acquisition counts and nothing else.
    let since = || {
        let ran = monitor.ran();
        let acquired = ran.iter().position(|ran| is_script(ran) && ran.mentions(&before.field));
        ran[acquired.expect("it was acquired")..].to_vec()
    };
    eventually_async(SOON, async || since().iter().any(|ran| is_script(ran) && ran.mentions(&owner))).await;
    assert_eq!(held(site.server(), &name), before);
    let timed =
        since().iter().filter(|ran| matches!(&*ran.name(), "PEXPIRE" | "EXPIRE" | "PEXPIREAT" | "EXPIREAT")).count();
    assert_eq!(timed, 1, "our acquisition gave the key its time, and nobody else");
    guard.unlock().await.expect("it is held");
    assert_refused(&theirs.unlock().await);
}

async fn a_renewal_of_ours_never_extends_a_hold_of_redissons(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    // Longer than the lease of the other side: one that were renewed would be extended.
    let rust = connected(site.builder().watchdog_timeout(LEASE + LEASE / 2)).await;
    let theirs = java.lock("one", &name);
    let guard = rust.lock(&name).lock().await.expect("it is free");
    assert!(theirs.force_unlock().await.yes());
    assert!(theirs.try_lock_within_for(Duration::ZERO, LEASE).await.yes());
    let before = held(site.server(), &name);
    // Only the answer to a renewal can have told it.
    let told = tokio::time::timeout(SOON, guard.lost()).await.expect("it is told");
    assert_lost(Err::<(), _>(told), LostCause::Gone);
    assert_eq!(held(site.server(), &name), before);
    assert_lost(guard.unlock().await, LostCause::Gone);
    assert_eq!(kept(site.server(), &name), Some(before));
    assert!(theirs.unlock().await.yes());
}
