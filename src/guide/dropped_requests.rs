//! A handler is dropped while its COMMIT is on the way: how to keep the lock until the database has answered.
//!
//! A future in Rust can be dropped at any await. It happens to request handlers all the time: the client closes the
//! connection, a timeout layer gives up, a `select!` takes the other branch. Dropping the future drops the guard, and the
//! lock is released at once. That is right for the lock, and wrong for a command that has already left for the database:
//! it goes on there. The next holder can read the old value before that commit lands.
//!
//! # Run the section in a task of its own
//!
//! A spawned task goes on when nobody awaits it any more. The section then ends in its own order: commit, answer, unlock.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::{
//!     panic::resume_unwind,
//!     sync::{Arc, Mutex},
//!     time::Duration,
//! };
//!
//! use relatch::{Client, EmbeddedStore, Result};
//! use tokio::time::{sleep, timeout};
//!
//! /// Reads, adds, commits; the database needs 30 ms for a commit, whether we wait or not.
//! async fn section(client: Client, cell: Arc<Mutex<u32>>) -> Result<()> {
//!     let guard = client.mutex("account").lock().await?;
//!     let new = *cell.lock().unwrap() + 1;
//!     let commit = tokio::spawn(async move {
//!         sleep(Duration::from_millis(30)).await;
//!         *cell.lock().unwrap() = new;
//!     });
//!     commit.await.expect("the database is well");
//!     guard.unlock().await?; // after the commit is answered, never before
//!     Ok(())
//! }
//!
//! /// The handler. Dropping it leaves the section running.
//! async fn add_one(client: Client, cell: Arc<Mutex<u32>>) -> Result<()> {
//!     match tokio::spawn(section(client, cell)).await {
//!         Ok(outcome) => outcome,
//!         Err(panic) => resume_unwind(panic.into_panic()),
//!     }
//! }
//!
//! let store = EmbeddedStore::new();
//! let one = Client::builder().embedded(&store).connect().await?;
//! let two = Client::builder().embedded(&store).connect().await?;
//! let cell = Arc::new(Mutex::new(0));
//!
//! // The first request is given up while its commit is on the way. The second one waits for it all the same.
//! assert!(timeout(Duration::from_millis(15), add_one(one, cell.clone())).await.is_err());
//! add_one(two, cell.clone()).await?;
//! assert_eq!(*cell.lock().unwrap(), 2); // it would be 1 without the spawn
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! On shutdown, [`Client::shutdown`](crate::Client::shutdown) waits until such a section has released its lock. Await the
//! tasks themselves as well (a `JoinSet` or a `TaskTracker` holds them), before the runtime ends.
//!
//! # The order around a transaction
//!
//! 1. Take the lock.
//! 2. Begin the transaction. One that began earlier may read a snapshot from before the lock.
//! 3. Work, and commit.
//! 4. Unlock, once the commit is answered. If its answer never came, the commit may land later: let the lease run out
//!    rather than unlock (`detach` a hold with a fixed lease), or let the database decide by a version column.
//!
//! Variables are dropped in reverse order. With `let guard` above `let transaction` a dropped future rolls back first and
//! releases then, as far as the database driver rolls back on a drop and does not only plan to.
//!
//! # `protect` is a drop, too
//!
//! [`protect`](crate::LockGuard::protect) drops its future when the lock is lost, and a commit that is on the way then may
//! land after somebody else got the lock. Keep the commit outside of `protect`, look at
//! [`is_held`](crate::LockGuard::is_held) just before it, and let the database refuse what is late:
//! [`losing_a_lock`](super::losing_a_lock) shows how.
