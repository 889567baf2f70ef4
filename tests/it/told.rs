//! What those who wait were told of a lock's life: a hand-over that makes it shorter tells them, and where nobody does they
//! find out within one watchdog timeout.

use std::time::Duration;

use relatch::{Client, Lease, LockGuard};
use tokio::task::JoinHandle;

use crate::{
    harness::{Server, asleep::nobody_asks, clock::monotonic, eventually_async, lag::Lag},
    kept::{channel, connected, poll_once},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// How late a waiter may be.
const AWAKE: Duration = Duration::from_millis(50);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_secs(6);

/// A client that keeps a lock among its own tasks for as long as it likes.
async fn keeper(server: &Server) -> Client {
    let builder = Client::builder().url(server.url()).handover_slice(60 * SECOND);
    connected(builder.watchdog_timeout(WATCHDOG)).await
}

/// Somebody elsewhere who waits: it listens, and was told twice, the second time after its subscription; or before, where that took so
/// long that it asked meanwhile. No renewal asks for a field in this way.
async fn elsewhere(server: &Server, name: &str, watchdog: Duration) -> JoinHandle<(LockGuard, Duration)> {
    let client = connected(Client::builder().url(server.url()).watchdog_timeout(watchdog)).await;
    let (asked, lock) = (server.count("hget"), client.mutex(name));
    let waiting = tokio::spawn(async move {
        let guard = lock.lock().await.expect("the lock is ours in the end");
        (guard, monotonic())
    });
    eventually_async(SOON, async || {
        let listens = server.listeners(&channel(name)) == 1;
        listens && server.count("hget") >= asked + 2
    })
    .await;
    waiting
}

#[tokio::test]
async fn a_waiter_elsewhere_is_in_when_a_hand_over_to_a_shorter_lease_ran_out() {
    let server = Server::own();
    for first in [Lease::Watchdog, Lease::Fixed(3600 * SECOND)] {
        let (ours, name) = (keeper(&server).await.mutex("told"), "told");
        let first = ours.lock().lease(first).await.expect("it is free");
        let mut next = ours.lock().lease(200 * MS);
        assert!(poll_once(&mut next).await.is_pending(), "it waits inside of this process");
        let waiting = elsewhere(&server, name, WATCHDOG).await;
        // Only who sleeps has to be told.
        nobody_asks(async || server.count("hget")).await;
        let (lag, messages, handed) = (Lag::watch(), server.count("publish"), monotonic());
        first.unlock().await.expect("it is held");
        let next = next.await.expect("it is handed over");
        assert_eq!(server.count("publish"), messages + 1);
        let (guard, entered) = waiting.await.expect("no panic");
        assert!(!next.is_held(), "nobody holds together with somebody else");
        let took = entered - handed;
        let bound = lag.added_to(200 * MS + AWAKE);
        assert!((190 * MS..=bound).contains(&took), "{took:?} of {bound:?}");
        guard.unlock().await.expect("it is held");
        eventually_async(SOON, async || server.listeners(&channel(name)) == 0).await;
    }
}

#[tokio::test]
async fn a_hand_over_to_no_shorter_lease_sends_no_message() {
    let server = Server::own();
    let ours = keeper(&server).await.mutex("told");
    for (first, next) in [(2, 2), (2, 3), (2, 6)] {
        let first = ours.lock().lease(first * SECOND).await.expect("it is free");
        let mut waiting = ours.lock().lease(next * SECOND);
        assert!(poll_once(&mut waiting).await.is_pending());
        let messages = server.count("publish");
        first.unlock().await.expect("it is held");
        let next = waiting.await.expect("it is handed over");
        assert_eq!(server.count("publish"), messages);
        next.unlock().await.expect("it is held");
    }
}

/// As the keys of a server that evicts go.
#[tokio::test]
async fn a_waiter_finds_a_lock_that_was_deleted_without_a_message_within_one_watchdog_timeout() {
    let (server, name) = (Server::own(), "told");
    let held = keeper(&server).await.mutex(name).lock().lease(3600 * SECOND).await.expect("it is free");
    let waiting = elsewhere(&server, name, SECOND).await;
    let (lag, deleted) = (Lag::watch(), monotonic());
    server.delete(name);
    let (guard, entered) = waiting.await.expect("no panic");
    let (took, bound) = (entered - deleted, lag.added_to(SECOND + AWAKE));
    assert!(took <= bound, "{took:?} of {bound:?}");
    guard.unlock().await.expect("it is held");
    drop(held);
}

#[cfg(feature = "embedded")]
mod in_this_process {
    use relatch::EmbeddedStore;
    use tokio::time::{Instant, sleep};

    use super::*;

    async fn two(store: &EmbeddedStore) -> [Client; 2] {
        let client = || connected(Client::builder().embedded(store));
        [client().await, client().await]
    }

    /// Waits for the lock; the guard, and how long after `since` it came.
    fn waits(client: &Client, since: Instant) -> JoinHandle<(LockGuard, Duration)> {
        let lock = client.mutex("x");
        tokio::spawn(async move { (lock.lock().await.expect("it is free in the end"), since.elapsed()) })
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_an_hour_s_lease_is_in_when_the_shorter_one_after_it_is_over() {
        for (next, dies, least) in [(Lease::Fixed(SECOND), false, SECOND), (Lease::Watchdog, true, 30 * SECOND)] {
            let store = EmbeddedStore::new();
            let [ann, ben] = two(&store).await;
            let first = ann.mutex("x").lock().lease(3600 * SECOND).await.expect("it is free");
            let lock = ann.mutex("x");
            let next = tokio::spawn(async move { lock.lock().lease(next).await });
            let waiting = waits(&ben, Instant::now());
            sleep(5 * MS).await;
            first.unlock().await.expect("it is held");
            let next = next.await.expect("no panic").expect("it is handed over");
            if dies {
                store.partition(&ann).expect("it is known");
            }
            let (guard, took) = waiting.await.expect("no panic");
            assert!(!next.is_held(), "nobody holds together with somebody else");
            assert!((least..=least + AWAKE).contains(&took), "{took:?}");
            guard.unlock().await.expect("it is held");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_told_an_hour_finds_a_lost_key_within_one_watchdog_timeout() {
        let store = EmbeddedStore::new();
        let [ann, ben] = two(&store).await;
        let held = ann.mutex("x").lock().lease(3600 * SECOND).await.expect("it is free");
        let waiting = waits(&ben, Instant::now() + 100 * SECOND);
        sleep(100 * SECOND).await;
        store.expire("x");
        let (_guard, took) = waiting.await.expect("no panic");
        assert!(took <= 30 * SECOND + AWAKE, "{took:?}");
        drop(held);
    }
}
