//! A runtime that nobody gives any time: its only thread works for several leases, so that no timer, no answer and no
//! renewal is looked at. What the holder believes afterwards.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use relatch::{Client, Error, LockGuard, LostCause};
use tokio::{sync::oneshot, task::yield_now, time::sleep};

use crate::{
    harness::{
        Server, eventually_async,
        process::Process,
        proxy::{Proxy, matching::script},
        unique_name,
    },
    kept::{channel, connected, held, teach},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_millis(300);

/// Works without an await for three leases.
fn starve() {
    let started = Instant::now();
    while started.elapsed() < 3 * WATCHDOG {
        spin_loop();
    }
}

async fn watched(url: String) -> Client {
    connected(Client::builder().url(url).watchdog_timeout(WATCHDOG)).await
}

#[track_caller]
fn assert_expired<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Lost { cause: LostCause::Expired, .. })), "{outcome:?}");
}

#[tokio::test]
async fn after_three_leases_of_other_work_the_first_look_says_lost_while_somebody_else_holds() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = watched(proxy.url()).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    // A process that gets all the time it needs waits for the lock.
    let other = Process::spawn("hold", &[&server.url(), &name, "30000"]);
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    assert!(guard.is_held());
    starve();
    let entered = other.hear_within(Duration::ZERO);
    assert!(!guard.is_held());
    assert_eq!(guard.expires_in(), None);
    assert!(guard.cancellation().is_cancelled());
    assert_eq!(entered.as_deref(), Some("held"), "the lease was over for the server, too");
    let theirs = held(server, &name);
    proxy.clear_log();
    assert_expired(guard.extend(WATCHDOG).await);
    assert_expired(Err::<(), _>(guard.lost().await));
    assert_expired(guard.protect(async {}).await);
    // What was due meanwhile is not made up for.
    sleep(2 * WATCHDOG).await;
    assert_eq!(proxy.count(&script("renew")), 0);
    assert!(!guard.is_held());
    assert_expired(guard.unlock().await);
    drop(guard);
    assert_eq!(held(server, &name).field, theirs.field);
}

/// Work under a guard that would be ready at its next poll, and whether it was polled to that.
async fn protected(guard: LockGuard, ready: oneshot::Receiver<()>, done: Arc<AtomicBool>) -> Result<(), Error> {
    guard
        .protect(async {
            ready.await.expect("it is told");
            done.store(true, Ordering::SeqCst);
        })
        .await
}

/// Whichever of the work and the watchdog comes first when the runtime goes on.
#[tokio::test]
async fn protected_work_that_was_ready_before_the_loss_was_seen_is_not_polled_to_success() {
    let client = watched(Server::shared().url()).await;
    for spawned in [true, false] {
        let guard = client.lock(unique_name()).lock().await.expect("it is free");
        let (tell, ready) = oneshot::channel();
        let done = Arc::new(AtomicBool::new(false));
        let work = protected(guard, ready, Arc::clone(&done));
        let starving = async {
            // The work is under way.
            yield_now().await;
            tell.send(()).expect("the work waits");
            starve();
        };
        let outcome = if spawned {
            let work = tokio::spawn(work);
            starving.await;
            work.await.expect("no panic")
        } else {
            tokio::join!(work, starving).0
        };
        assert_expired(outcome);
        assert!(!done.load(Ordering::SeqCst), "spawned: {spawned}");
    }
}
