//! A hold can end before its holder is done. How that is noticed, and how to stop.
//!
//! A lease can run out because the server was unreachable for too long, an operator can free the lock, a failover can
//! forget it. The hold is lost then. It stays lost, even if the server comes back: acquire anew, and check how far the
//! interrupted work came.
//!
//! # How soon a holder is told
//!
//! | what happened | told |
//! | --- | --- |
//! | the server cannot be reached | when the lease is over, by the local clock: 30 s after the last renewal that was answered, with the default watchdog |
//! | the server restarted and forgot it, or another server answers | within 1.5 s of the new link: every hold is asked for at once |
//! | the key was deleted or evicted, or the lease ran out on the server | at the next renewal, a third of the watchdog timeout later at most: 10 s by default |
//! | it was freed by force elsewhere | at the next renewal; at once while another task of the process waits for the same name, since that hears the message |
//! | `force_unlock` through the same client | at once, before the command is sent |
//! | `max_hold` is over | at once |
//!
//! A shorter [`watchdog_timeout`](crate::ClientBuilder::watchdog_timeout) makes all of this quicker, and costs more
//! renewals.
//!
//! # Four ways to be told
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use tokio::time::sleep;
//!
//! async fn report(client: relatch::Client) -> relatch::Result<()> {
//!     let guard = client.lock("report").lock().await?;
//!
//!     // 1. Run a future, and drop it if the lock is lost first. A result that comes too late is not returned.
//!     guard.protect(sleep(Duration::from_secs(5))).await?;
//!
//!     // 2. A token, for tasks, blocking code and everything else that cannot be dropped from outside.
//!     let stop = guard.cancellation();
//!     tokio::spawn(async move { stop.run_until_cancelled(sleep(Duration::from_secs(60))).await });
//!
//!     // 3. Await the loss itself.
//!     tokio::select! {
//!         biased;
//!         reason = guard.lost() => return Err(reason),
//!         () = sleep(Duration::from_secs(5)) => {}
//!     }
//!
//!     // 4. Ask. That needs no I/O.
//!     println!("held: {}, good for {:?}", guard.is_held(), guard.expires_in());
//!     guard.unlock().await?;
//!     Ok(())
//! }
//! ```
//!
//! Take `protect` by default. It checks the deadline before every poll and after the last one, so that a result of an
//! unprotected moment is never taken for a good one. It cannot stop code that blocks between two awaits, nor tasks that
//! the future spawned: give those the token.
//!
//! # What it looks like
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore, Error};
//! use tokio::time::{Instant, sleep};
//!
//! let store = EmbeddedStore::new();
//! let client = Client::builder().embedded(&store).connect().await?;
//! let guard = client.lock("report").lock().await?;
//! let started = Instant::now();
//!
//! store.partition(&client); // the network is gone, and stays away
//! let outcome = guard.protect(sleep(Duration::from_secs(3600))).await;
//!
//! assert!(matches!(outcome, Err(Error::Lost { .. })));
//! assert!(started.elapsed() < Duration::from_secs(30)); // before the server gives the lock to somebody else
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # What a lock cannot do
//!
//! A process can be paused in the middle of a write: a stopped container, a machine that swaps. It wakes up after its
//! lease and goes on for a moment before it looks. No lock service can prevent that. Where a late write would do harm,
//! let the resource refuse it: a version column, a compare-and-set, or a number that only grows, as a fenced lock gives to each
//! of its holders: [`fencing`](super::fencing).
//!
//! ```sql
//! UPDATE account SET balance = $1, version = version + 1 WHERE id = $2 AND version = $3
//! ```
//!
//! # Longer or shorter
//!
//! [`extend(d)`](crate::LockGuard::extend) makes a hold last at least `d` from now, for the part of the work that must not
//! be interrupted by a network fault. `max_hold(d)` on the acquisition bounds a hold, renewals and all: for work that may
//! hang. With a fixed lease the lock ends even if nobody notices that the work hangs:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use tokio::time::sleep;
//!
//! let lock = relatch::Client::embedded().lock("import");
//! let guard = lock.lock().lease(Duration::from_secs(30)).await?; // nobody renews it
//! for _file in ["customers.csv", "orders.csv", "refunds.csv"] {
//!     guard.extend(Duration::from_secs(30)).await?; // `Lost` rather than a new life, if it was over
//!     sleep(Duration::from_secs(20)).await;
//! }
//! assert!(guard.is_held()); // after a minute
//! sleep(Duration::from_secs(20)).await;
//! assert!(!guard.is_held() && guard.expires_in().is_none() && !lock.is_locked().await?);
//! assert!(guard.extend(Duration::from_secs(30)).await.is_err_and(|error| error.is_lost()));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
