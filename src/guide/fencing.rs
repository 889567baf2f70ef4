//! Fencing: how what a lock protects refuses a holder that comes too late.
//!
//! A process can be paused in the middle of a write, wake up after its lease, and write once more before it looks. No lock can
//! prevent that; what is written to can refuse it. [`client.fenced_lock(name)`](crate::Client::fenced_lock) is a lock like
//! [`lock`](crate::Client::lock) whose every holder has a token that is greater than all before, `guard.fence()`. The token goes
//! along with every write, and the resource keeps one rule: **take a write only if its token is not less than the greatest that
//! was taken before, and keep the greatest.**
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore, fence::Newest};
//! use tokio::time::sleep;
//!
//! let (store, newest) = (EmbeddedStore::new(), Newest::new());
//! let process = || Client::builder().embedded(&store).connect();
//! let (slow, other) = (process().await?, process().await?);
//!
//! let paused = slow.fenced_lock("account:17").lock().lease(Duration::from_secs(10)).await?;
//! sleep(Duration::from_secs(11)).await; // a stopped container
//! let guard = other.fenced_lock("account:17").lock().await?;
//! assert!(newest.admits(guard.fence().unwrap_or(0)));
//! assert!(!newest.admits(paused.fence().unwrap_or(0))); // it wakes up, and is refused
//! # guard.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! # In a database
//!
//! The row has a column for the greatest token, a signed 64-bit integer. In one statement, which looks and keeps. No row
//! changed means that somebody newer was there: stop, and write nothing else.
//!
//! ```sql
//! UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//! ```
//!
//! Where the row may not be there yet:
//!
//! ```sql
//! INSERT INTO account (balance, fence, id) VALUES ($1, $2, $3)
//! ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence WHERE account.fence <= excluded.fence
//! ```
//!
//! Where one token guards many rows, it has a row of its own, and this is the first statement of every transaction; it locks the
//! row, so that the check holds until the commit. No row: roll back.
//!
//! ```sql
//! UPDATE guarded SET fence = $1 WHERE name = $2 AND fence <= $1
//! ```
//!
//! A holder that writes once may use `<` for `<=`: then a statement that is sent twice counts once.
//!
//! # In Redis
//!
//! [`fence::LUA`](crate::fence::LUA) is the rule as a function to put before a script. It compares tokens as text, since a number
//! of Lua has 53 bits.
//!
//! ```
//! let write = format!(
//!     "{}
//!     if not admits(KEYS[2], ARGV[2]) then return 0 end
//!     redis.call('SET', KEYS[1], ARGV[1])
//!     return 1",
//!     relatch::fence::LUA
//! );
//! // EVAL write 2 {balance:17} {balance:17}:fence 250 <guard.fence()>
//! ```
//!
//! # What it costs, and what it cannot
//!
//! - The token comes in the round trip of the acquisition. Between tasks of one process the lock goes on by one round trip, where a
//!   plain lock is passed on without any: each of them has a token of its own.
//! - Guards of one hold have one token; a nested acquisition gets no new one. A token that was drawn for an acquisition that came
//!   to nothing is a gap.
//! - The counter is the key `redisson_lock_token:{name}`, which stays when the lock is free. Whoever deletes it, a server that
//!   loses it, and a failover that forgets the newest writes make tokens begin anew, or come again: then the resource refuses
//!   everybody until they have passed what it kept, or takes a late writer with the same token. With
//!   [`replica_acks`](super::deployments#acknowledged-by-replicas) a token that was given out is known to so many replicas.
//! - Tokens are exact to the end of the server's integers, 2^63 - 1, should somebody set the counter so high; then the lock stays
//!   free, and whoever wants it is told [`Error::Refused`](crate::Error::Refused).
//! - A lock and its counter are in one slot of a cluster. While that slot moves, a lock that is free can be taken again when the
//!   slot has moved: an acquisition is tried until then, as long as its caller waits.
//! - A plain lock of the same name excludes it and gives no token. Use a name for one kind only; one client refuses the other.
//! - Redisson's `RFencedLock` is the same lock and counts with the same counter. A Java thread that takes it again while it has
//!   it draws a new token; then the one that it drew first is refused after the one that it drew last.
