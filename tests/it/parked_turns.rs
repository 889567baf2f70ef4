//! Acquisitions that were polled once, and are neither polled again nor dropped when their turn comes: others go first. On
//! the embedded store, whose time a test need not wait for.

use std::time::Duration;

use relatch::{Acquire, Client, EmbeddedStore, LockGuard, embedded::Weather};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    embedded::client,
    harness::traces::{Said, Traces},
    kept::poll_once,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Of a client with the default options.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Asked for, and then left.
async fn parked(acquisition: Acquire) -> Acquire {
    let mut acquisition = acquisition;
    assert!(poll_once(&mut acquisition).await.is_pending());
    acquisition
}

async fn entered(client: &Client, within: Duration) -> LockGuard {
    let entered = timeout(within, client.mutex("x").lock()).await;
    entered.expect("others are not held up").expect("the store answers")
}

/// A millisecond each way.
fn far() -> Weather {
    Weather::fair().request_delay(MS..=MS).reply_delay(MS..=MS)
}

/// The warnings of acquisitions that nobody polls.
fn warnings(traces: &Traces) -> Vec<Said> {
    let about = |said: &Said| said.is_ours() && said.what.starts_with("an acquisition is neither polled nor dropped");
    traces.all().into_iter().filter(about).collect()
}

#[derive(Clone, Copy, Debug)]
enum Lease {
    Watchdog,
    Fixed(Duration),
}

fn asks(client: &Client, lease: Lease) -> Acquire {
    match lease {
        Lease::Watchdog => client.mutex("x").lock(),
        Lease::Fixed(lease) => client.mutex("x").lock().lease(lease),
    }
}

const LEASES: [Lease; 3] = [Lease::Watchdog, Lease::Fixed(Duration::from_secs(5)), Lease::Fixed(HOUR)];

#[tokio::test(start_paused = true)]
async fn what_is_passed_to_a_parked_acquisition_is_let_in_to_other_processes_within_a_watchdog_timeout() {
    for lease in LEASES {
        let traces = Traces::here();
        let store = EmbeddedStore::new();
        let (ann, ben) = (client(&store).await, client(&store).await);
        let held = ann.mutex("x").lock().await.expect("a free lock");
        let waits = parked(asks(&ann, lease)).await;
        held.unlock().await.expect("it is held");
        assert!(ben.mutex("x").try_lock().await.expect("the store answers").is_none(), "it was passed on");
        let inside = entered(&ben, WATCHDOG).await;
        let said = warnings(&traces);
        assert_eq!(said.len(), 1, "{lease:?}: {said:?}");
        assert_eq!((said[0].level, said[0].field("lock")), (tracing::Level::WARN, "x"));
        // Polled again it starts over: behind others, and not for ever.
        let again = tokio::spawn(waits);
        sleep(SECOND).await;
        assert!(!again.is_finished());
        inside.unlock().await.expect("it is held");
        let guard = again.await.expect("no panic").expect("its turn");
        assert!(guard.is_held());
        guard.unlock().await.expect("it is held");
        assert!(store.keys().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_parked_acquisition_enter_within_a_watchdog_timeout_however_many_are_parked() {
    for (lease, count) in LEASES.into_iter().flat_map(|lease| [(lease, 1)]) {
        let store = EmbeddedStore::new();
        let ann = client(&store).await;
        let held = ann.mutex("x").lock().await.expect("a free lock");
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(parked(asks(&ann, lease)).await);
        }
        let behind = tokio::spawn(ann.mutex("x").lock());
        sleep(MS).await;
        held.unlock().await.expect("it is held");
        let started = Instant::now();
        let guard = timeout(WATCHDOG, behind).await.expect("it is not held up").expect("no panic").expect("its turn");
        assert!(guard.is_held(), "{lease:?} {count} after {:?}", started.elapsed());
        drop((guard, all));
        sleep(SECOND).await;
        assert!(store.keys().is_empty(), "{lease:?} {count}: {:?}", store.keys());
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_nested_acquisition_alone_keeps_the_lock_no_longer_than_a_watchdog_timeout() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    store.set_weather(far());
    let lock = ann.lock("x");
    let outer = lock.lock().lease(HOUR).await.expect("a free lock");
    let nested = parked(lock.lock().lease(HOUR)).await;
    outer.unlock().await.expect("it is held");
    let inside = entered(&ben, WATCHDOG).await;
    let again = tokio::spawn(nested);
    sleep(SECOND).await;
    assert!(!again.is_finished(), "the outer hold is gone: it waits like any other");
    inside.unlock().await.expect("it is held");
    again.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
    assert!(store.keys().is_empty());
}
