//! SIGTERM: tell the holders to stop, wait until they have released their locks, and close. One call does it.
//!
//! A lock that is held when its process ends stays on the server until its lease is over: 30 s with the default watchdog.
//! The replica that takes over waits for that long. So release before you exit.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use relatch::{Client, Error, Result};
//! use tokio::{signal::unix::{SignalKind, signal}, task::JoinSet};
//!
//! #[tokio::main]
//! async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::connect("redis://127.0.0.1/").await?;
//!     let mut workers = JoinSet::new();
//!     for queue in ["mail", "print"] {
//!         workers.spawn(work(client.clone(), queue));
//!     }
//!
//!     signal(SignalKind::terminate())?.recv().await;
//!     let shutdown = client.shutdown(Duration::from_secs(20)).await;
//!     if !shutdown.is_clean() {
//!         eprintln!("still held: {:?}", shutdown.still_held);
//!     }
//!     workers.shutdown().await; // whoever is left
//!     Ok(())
//! }
//!
//! async fn work(client: Client, queue: &str) -> Result<()> {
//!     loop {
//!         let guard = match client.mutex(queue).lock().await {
//!             Err(Error::Closed) => return Ok(()), // the client shuts down
//!             answer => answer?,
//!         };
//!         let stop = guard.cancellation();
//!         while !stop.is_cancelled() {
//!             // … one piece of work …
//! #           break;
//!         }
//!         guard.unlock().await?;
//!     }
//! }
//! ```
//!
//! # What `shutdown` does
//!
//! [`Client::shutdown`](crate::Client::shutdown)
//!
//! - refuses new acquisitions with [`Error::Closed`](crate::Error::Closed), and answers those who wait with it; a holder may
//!   still take again what it holds;
//! - fires every guard's [`cancellation`](crate::LockGuard::cancellation), while its lock is still held and renewed: work that has
//!   begun can be brought to an end. `is_held` says so, `lost` does not resolve, `protect` goes on;
//! - releases the locks as their guards go, and detached ones as they are unlocked;
//! - closes as soon as nothing is held, or when the grace is over, and says which locks were still held then.
//!
//! A lock that is still held is *not* released: its work may still run, and then nobody else may enter. It is free when its
//! lease is over.
//!
//! Kubernetes sends SIGTERM and, 30 s later by default, SIGKILL: choose a grace below that. After a SIGKILL, a crash or a
//! power cut the lease ends the lock, and nothing else is needed.
//!
//! A lock that was [detached](crate::LockGuard::detach) and not unlocked is waited for, too. A client whose locks are kept on
//! purpose takes the whole grace: give such work a client of its own, and `close` that one.
//!
//! The schedule of a [periodic job](super::once_an_hour) ends with [`Error::Closed`](crate::Error::Closed); work that it is at is told by its
//! `cancellation()`, and recorded when it is done.
//!
//! # What it looks like
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore, Result};
//! use tokio::time::{Instant, sleep};
//!
//! /// Leads until it is told to stop, and needs two seconds to wind down.
//! async fn lead(client: Client) -> Result<()> {
//!     let guard = client.mutex("leader").lock().await?;
//!     guard.cancellation().cancelled().await;
//!     assert!(guard.is_held()); // nobody else leads yet
//!     sleep(Duration::from_secs(2)).await;
//!     guard.unlock().await?;
//!     Ok(())
//! }
//!
//! let store = EmbeddedStore::new();
//! let old = Client::builder().embedded(&store).connect().await?;
//! let new = Client::builder().embedded(&store).connect().await?;
//! let leader = tokio::spawn(lead(old.clone()));
//! sleep(Duration::from_secs(60)).await;
//!
//! let started = Instant::now();
//! let shutdown = old.shutdown(Duration::from_secs(20)).await;
//! assert!(shutdown.is_clean() && shutdown.released == 1);
//! leader.await.expect("the leader does not panic")?;
//!
//! // The next replica leads after these two seconds, and not after a lease.
//! new.mutex("leader").lock().await?.unlock().await?;
//! assert!(started.elapsed() < Duration::from_secs(3));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # Only `close`
//!
//! [`Client::close`](crate::Client::close) is the end without a grace: it refuses new calls, tells every holder that its lock is
//! lost, and sends the releases that are already decided, within one command timeout. It is right where you have stopped and
//! joined your own tasks before.
//!
//! Dropping the last clone of a client does less: it lets the connections go. A `main` that ends right after dropping a
//! guard takes the runtime away before the release is sent.
