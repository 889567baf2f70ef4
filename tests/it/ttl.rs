//! How long a key lives on the server, after each thing that can be done to a hold: never without an end, never longer than
//! was asked for, and no hold by the lease of another one. What is asked for and refused is in `durations.rs`.

use std::time::Duration;

use redis::Commands;
use relatch::{Error, LostCause, Owner};
use tokio::time::timeout;

use crate::{
    harness::{Server, eventually_async, unique_name},
    kept::{client, connected, held, poll_once},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_millis(600);
const SHORT: Duration = Duration::from_millis(200);
const LEASE: Duration = Duration::from_secs(5);
/// The server counts whole milliseconds.
const MS: Duration = Duration::from_millis(1);

fn left(server: &Server, name: &str) -> i64 {
    server.connection().pttl(name).expect("PTTL answers")
}

/// Also nested, extended, handed over and taken again.
#[tokio::test]
async fn after_every_step_of_a_hold_its_key_has_an_end_within_the_lease() {
    let (server, name) = (Server::shared(), unique_name());
    let builder = relatch::Client::builder().url(server.url()).watchdog_timeout(LEASE);
    let client = connected(builder.handover_slice(Duration::from_secs(60))).await;
    let lock = client.lock(&name);
    let audit = |step: &str| {
        let left = left(server, &name);
        assert!(left > 0 && left <= LEASE.as_millis() as i64, "{left} ms after {step}");
    };
    let owner = Owner::new();
    for (step, lease) in [("a fixed lease", Some(LEASE)), ("the watchdog", None)] {
        let acquire = || lease.map_or_else(|| lock.lock(), |lease| lock.lock().lease(lease));
        let outer = acquire().owner(&owner).await.expect("it is free");
        audit(step);
        let inner = lock.lock().owner(&owner).lease(SHORT).await.expect("it nests");
        audit("a nested one");
        outer.extend(SHORT).await.expect("it is held");
        audit("an extension that is no longer");
        outer.extend(LEASE).await.expect("it is held");
        audit("an extension");
        inner.unlock().await.expect("it is held");
        audit("an inner release");
        let mut waiting = acquire().owner(&Owner::new());
        assert!(poll_once(&mut waiting).await.is_pending());
        outer.unlock().await.expect("it is held");
        let next = waiting.await.expect("it goes on to the next");
        audit("the change to the next");
        let detached = next.detach();
        audit("its detaching");
        lock.unlock().owner(&detached).await.expect("it is held");
        assert_eq!(left(server, &name), -2);
    }
}

/// Somebody may have stripped a key of its TTL, and may delete it without a word.
#[tokio::test]
async fn a_waiter_looks_again_within_a_watchdog_timeout_at_a_key_that_has_no_end() {
    let (server, name) = (Server::own(), unique_name());
    let client = connected(relatch::Client::builder().url(server.url()).watchdog_timeout(WATCHDOG)).await;
    let _: () = server.connection().hset(&name, "somebody:1", 1).expect("HSET answers");
    assert_eq!(left(&server, &name), -1);
    let monitor = server.monitor();
    let waiting = tokio::spawn(client.mutex(&name).lock());
    let mut tries = 0;
    // The second one leaves once it listens, and tells it no more than the first.
    eventually_async(SOON, async || {
        tries += monitor.take().iter().filter(|ran| ran.name().starts_with("EVAL") && ran.mentions(&name)).count();
        tries >= 3
    })
    .await;
    let _: () = server.connection().del(&name).expect("DEL answers");
    let entered = timeout(SOON, waiting).await.expect("it looks again").expect("no panic");
    entered.expect("it is free").unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_thousand_extensions_add_up_to_nothing() {
    let (server, name) = (Server::shared(), unique_name());
    let client = client(server.url()).await;
    let guard = client.lock(&name).lock().lease(LEASE).await.expect("it is free");
    for _ in 0..1_000 {
        guard.extend(LEASE).await.expect("it is held");
    }
    assert!(left(server, &name) <= LEASE.as_millis() as i64);
    assert!(guard.expires_in().is_some_and(|left| left <= LEASE));
    guard.unlock().await.expect("it is held");
}

#[tokio::test]
async fn one_lock_object_gives_every_hold_a_lease_and_a_deadline_of_its_own() {
    let server = Server::shared();
    let client = client(server.url()).await;
    let lock = client.lock(unique_name());
    let mut ended = Vec::new();
    for lease in [SHORT, 20 * LEASE, SHORT, LEASE] {
        let guard = lock.lock().lease(lease).await.expect("it is free");
        let expires = guard.expires_in().expect("a fresh deadline");
        assert!(expires <= lease && expires > lease / 2, "{lease:?}: {expires:?}");
        let left = left(server, lock.name());
        assert!(left <= lease.as_millis() as i64 && left > lease.as_millis() as i64 / 2, "{lease:?}: {left} ms");
        if lease == SHORT {
            let lost = timeout(SOON, guard.lost()).await.expect("it runs out");
            assert!(matches!(lost, Error::Lost { cause: LostCause::Expired, .. }), "{lost:?}");
        } else {
            guard.unlock().await.expect("it is held");
        }
        ended.push(guard);
    }
    // Without a word about it, it is the watchdog's.
    let guard = lock.lock().await.expect("it is free");
    assert!(left(server, lock.name()) > 25_000);
    assert!(ended.iter().all(|guard| !guard.is_held()));
    guard.unlock().await.expect("it is held");
}

/// By the server's own clock: from when it ran the command to when the key ends.
#[tokio::test]
async fn a_lease_below_a_second_is_kept_to_two_milliseconds() {
    let server = Server::own();
    let monitor = server.monitor();
    let client = client(server.url()).await;
    let mut nearest = Duration::MAX;
    for lease_ms in [150, 333, 501, 750, 999, 150, 333, 501, 750, 999] {
        let (name, lease) = (unique_name(), Duration::from_millis(lease_ms));
        let guard = client.lock(&name).lock().lease(lease).await.expect("it is free");
        let expires = held(&server, &name).expires;
        let ran = monitor.take();
        let acquired =
            ran.iter().rfind(|ran| !ran.by_script && ran.mentions(&name) && ran.mentions(&lease_ms.to_string()));
        let lives = expires - acquired.expect("it was sent").at;
        // The server may be kept from its work between two looks at its clock, which makes this smaller.
        assert!(lives <= lease + 2 * MS, "{lease:?} became {lives:?}");
        nearest = nearest.min(lease.abs_diff(lives));
        guard.unlock().await.expect("it is held");
    }
    assert!(nearest <= 2 * MS, "{nearest:?} too short every time");
}
