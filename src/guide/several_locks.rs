//! Several locks as one: all of them, or none.
//!
//! [`client.multi_lock(names)`](crate::Client::multi_lock) takes several locks of one client, and
//! [`MultiLock::new`](crate::MultiLock::new) locks of any kind and of several clients. There is one guard for all, and they are the
//! ordinary locks of these names: whoever takes one of them alone waits for you, and you wait for them.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore, Result};
//! use tokio::time::{sleep, timeout};
//!
//! async fn transfer(client: Client, from: &str, to: &str) -> Result<()> {
//!     let guard = client.multi_lock([from, to]).lock().await?;
//!     guard.protect(sleep(Duration::from_millis(20))).await?; // … the transfer …
//!     guard.unlock().await?;
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
//! # What is promised
//!
//! - Whoever has the guard has all of them. `is_held` says so, `expires_in` says when the first one ends, and a loss of one is told as a
//!   loss of all, with its name: by `lost`, by `cancellation` and by `protect`. The others stay held, and renewed, until
//!   the guard is released or dropped: do so soon.
//! - Nobody waits in a circle among those who take their locks so: the order is the same for all, by name with its prefix,
//!   however they are named. Of locks of one name that several clients have, only you know which is which elsewhere: these are
//!   taken as you name them, so name them in one order everywhere. If these clients have the same server, such locks are one, and whoever
//!   takes both waits for ever. A lock that is named twice is taken once. Whoever has a lock already and then takes others in
//!   another order can still meet somebody who does the opposite: [`two_locks`](super::two_locks).
//! - `try_lock` takes all or none, and `wait(d)` is one bound for all of them. What was got is let go of with `None`, with an error,
//!   and with a future that is dropped. One that is kept and not polled keeps what it has for about a watchdog's timeout.
//! - All that are free are asked for together: fifty free locks take one round trip, and one to release them.
//! - `unlock` releases all, the last one first. Each is tried, whatever becomes of the others; the first error is the answer, and
//!   names its lock. `Freed` says that all are free, `StillHeld(n)` that one of them is held `n` times more.
//! - One owner takes all and may enter again, by one of them or by several. If one is a [`Mutex`](crate::Mutex) or a [`TokenLock`](crate::TokenLock), nobody enters
//!   again, each acquisition has an owner of its own, and a guard of `client.lock("a")` that you have already keeps you out of
//!   `a` as well: such a call waits for its own guard, and is warned of it as with one mutex.
//!
//! # What is not
//!
//! - They are not taken in one step. While one is missing, those that come before it in the order are held and renewed, and those
//!   behind it are asked for and let go of again. Somebody else who looks at them, or tries, may find them held by you for a
//!   moment though you do not get them. The fewer locks, and the less wanted they are, the better.
//! - They are not one lock on the server: each has a key, a lease and a renewal of its own, and each costs what a lock
//!   costs. Of locks on several servers one may be lost, or unreachable, while the others are well: then the guard is lost.
//! - A fixed lease, and a `max_hold`, begin when all are held. If one had to be waited for, the watchdog renewed the others
//!   until then: such a lease lasts *at least* as long as you said, and after a crash for the watchdog's timeout at least.
//! - There is no `fence` for all of them. For the token of one take that again inside: `fenced.lock().await?.fence()`, by the same
//!   owner.
//! - [`hold_count`](crate::MultiLock::hold_count) and [`is_locked`](crate::MultiLock::is_locked) there are; to free one by force, or to
//!   see who has it, ask that lock.
//!
//! # Who it is shared with
//!
//! With everybody who uses one of these locks, and with Redisson's `RedissonMultiLock` (`getMultiLock`) of plain locks, which is
//! also nothing else on the server. It takes them in the order in which Java names them, and gives up after a while to start
//! over. Java in another order costs such rounds, up to 1.5 s for each lock, and is no dead end; name them in ascending order there,
//! and there are none. Redisson may set a lease without a look whether it still has the lock.
