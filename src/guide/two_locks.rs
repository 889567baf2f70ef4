//! One piece of work, two locks: always in the same order.
//!
//! A transfer needs two accounts. If one replica locks `a` then `b`, and another one `b` then `a`, each can get its first
//! lock and wait for the other's. Both are renewed by their watchdogs, so nothing ends this by itself.
//!
//! Where all of such a circle waits in one client, without a bound, the client sees it: within some 20 s a `warn` event names the
//! locks ("owners of these locks wait for one another"). Between two replicas nobody sees it.
//!
//! # Take both at once
//!
//! `client.multi_lock([a, b]).lock().await?` gives one guard for both, however they are named:
//! [`several_locks`](super::several_locks). What follows is for locks that are taken one inside the other.
//!
//! # Sort the names
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore, LockGuard, Result};
//! use tokio::time::{sleep, timeout};
//!
//! /// Both locks, whichever way round they are asked for.
//! async fn both(client: &Client, a: &str, b: &str) -> Result<[LockGuard; 2]> {
//!     let (first, second) = if a <= b { (a, b) } else { (b, a) };
//!     Ok([client.lock(first).lock().await?, client.lock(second).lock().await?])
//! }
//!
//! async fn transfer(client: Client, from: &str, to: &str) -> Result<()> {
//!     let guards = both(&client, from, to).await?;
//!     sleep(Duration::from_millis(20)).await; // … the transfer …
//!     for guard in guards {
//!         guard.unlock().await?;
//!     }
//!     Ok(())
//! }
//!
//! let store = EmbeddedStore::new();
//! let one = Client::builder().embedded(&store).connect().await?;
//! let two = Client::builder().embedded(&store).connect().await?;
//! let opposite = async { tokio::try_join!(transfer(one, "acc:1", "acc:2"), transfer(two, "acc:2", "acc:1")) };
//! timeout(Duration::from_secs(60), opposite).await.expect("neither waits for the other for ever")?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! This holds for every lock that is taken while another one is held, in whatever function: write down one order for the
//! whole service (by kind, then by id), and keep to it. The names of one transfer may be equal: `lock` nests then, a
//! `mutex` would wait for itself.
//!
//! # Or give up and start anew
//!
//! Where no order can be had, wait for the second lock with a bound, and release the first one when it is over:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, LockGuard, Result};
//!
//! async fn both(client: &Client, a: &str, b: &str) -> Result<Option<[LockGuard; 2]>> {
//!     let first = client.lock(a).lock().await?;
//!     match client.lock(b).try_lock().wait(Duration::from_millis(200)).await? {
//!         Some(second) => Ok(Some([first, second])),
//!         None => first.unlock().await.map(|_| None), // the caller tries again, after a random pause
//!     }
//! }
//!
//! let client = Client::embedded();
//! assert!(both(&client, "acc:2", "acc:1").await?.is_some());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! One lock for both is often the better answer: lock the customer, not the account.
