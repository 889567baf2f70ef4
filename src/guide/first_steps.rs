//! The first lock, the guard, and what to see when no server answers.
//!
//! # Connect once, lock by name
//!
//! ```no_run
//! use relatch::{Client, Result};
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let client = Client::connect("redis://127.0.0.1/").await?;
//!     let guard = client.lock("invoice:17").lock().await?; // waits for its turn
//!     println!("invoice 17 is ours");
//!     guard.unlock().await?;
//!     client.close().await;
//!     Ok(())
//! }
//! ```
//!
//! Make one [`Client`](crate::Client) for the whole service and clone it; clones share its connections, two to a server. Making a lock
//! costs nothing: `client.lock(name)` sends nothing and can be written where it is used. A name has 1 to 65536 bytes.
//!
//! # The guard is the lock
//!
//! The lock is held for as long as the guard lives. This is the mistake that people bring from Java:
//!
//! ```no_run
//! # async fn example(client: relatch::Client) -> relatch::Result<()> {
//! if client.lock("invoice:17").try_lock().await?.is_some() {
//!     // Wrong: the guard was a temporary, and it is gone. Nothing is locked here.
//! }
//!
//! if let Some(guard) = client.lock("invoice:17").try_lock().await? {
//!     // Right: held until the guard is unlocked or dropped.
//!     guard.unlock().await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `let _ = lock.lock().await?;` drops the guard at once, too; `let _guard = …` keeps it to the end of the block.
//!
//! [`unlock`](crate::LockGuard::unlock) waits for the server's answer and says whether the lock is free. A drop releases
//! in the background. Use `unlock` on the good path, where an error can still be told, and leave the drop to `?`,
//! panics and futures that are dropped. Before a program ends, call [`Client::close`](crate::Client::close): it sends the
//! releases that are still on their way.
//!
//! # Wait, try, or try for a while
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore};
//!
//! let store = EmbeddedStore::new();
//! let ann = Client::builder().embedded(&store).connect().await?;
//! let ben = Client::builder().embedded(&store).connect().await?;
//!
//! let guard = ann.lock("desk").lock().await?; // for as long as it takes
//! assert!(ben.lock("desk").try_lock().await?.is_none()); // not at all
//! let patient = ben.lock("desk").try_lock().wait(Duration::from_secs(5)); // for five seconds
//! assert!(patient.await?.is_none());
//! guard.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! Busy is `Ok(None)` and no error. A free lock is taken by any wait, however far the server is: a try that is on its way when
//! the wait ends is waited for, so the answer may come one round trip later. The acquisitions are ordinary futures, owned and `Send`: spawn them, join them, put
//! them into a `select!`. To stop waiting, drop the future.
//!
//! # A function for every lock
//!
//! Every kind of lock gives the same guard, so a function of yours needs no trait: it takes the acquisition.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, LockGuard, Result};
//!
//! /// `None`: somebody else is at it. If the lock is lost, the work is dropped.
//! async fn section<T>(
//!     acquisition: impl IntoFuture<Output = Result<Option<LockGuard>>>,
//!     work: impl Future<Output = T>,
//! ) -> Result<Option<T>> {
//!     let Some(guard) = acquisition.await? else { return Ok(None) };
//!     let done = guard.protect(work).await?;
//!     guard.unlock().await?;
//!     Ok(Some(done))
//! }
//!
//! let client = Client::embedded();
//! let (lock, second) = (client.lock("index"), Duration::from_secs(1));
//! assert_eq!(section(lock.try_lock(), async { 12 }).await?, Some(12));
//! assert_eq!(section(client.mutex("index").try_lock().wait(second).lease(5 * second), async { 7 }).await?, Some(7));
//! let _guard = lock.lock().await?;
//! assert_eq!(section(client.mutex("index").try_lock(), async { 7 }).await?, None);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # From tokio's `Mutex`
//!
//! There is no data inside, since it lies where all replicas reach it. Every call can fail, `try_lock` is awaited, too, and a
//! second `lock()` of the same task nests, where tokio's waits for itself (a [`mutex`](crate::Client::mutex) does so here).
//!
//! # When no server answers
//!
//! `connect` fails within the command timeout (3 s by default), and its error says which address could not be reached.
//! Later, `lock()` puts up with a silent server for `unreachable_after` (9 s), then answers
//! [`Error::Unreachable`](crate::Error::Unreachable). A hold that exists keeps being renewed as soon as the server is
//! back. Print an error with its chain of sources: the server's own words are there.
//!
//! ```no_run
//! # async fn example(client: relatch::Client) {
//! use std::error::Error;
//!
//! if let Err(error) = client.lock("invoice:17").try_lock().await {
//!     let mut source = error.source();
//!     eprintln!("{error}");
//!     while let Some(deeper) = source {
//!         eprintln!("  because: {deeper}");
//!         source = deeper.source();
//!     }
//! }
//! # }
//! ```
//!
//! # Without a server
//!
//! With the feature `embedded` the same scripts run on a store inside the program: see [`testing`](super::testing). In a
//! checkout of the project, `cargo run --example quickstart --features embedded` shows contention, nesting, the watchdog
//! and a loss as a timeline.
