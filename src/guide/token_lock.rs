//! The token lock: one lock with redis-py, redsync, redislock and node-redlock, and a lock that another process goes on with.
//!
//! Most libraries for locks on Redis do the same: `SET name token NX PX lease`, and a script that deletes or lengthens the key only
//! while it has that token. [`client.token_lock(name)`](crate::Client::token_lock) is that lock. It waits, renews and tells a loss as all
//! locks here do, and nobody enters it twice, as with a [`mutex`](crate::Client::mutex). Between Rust and Java take
//! [`lock`](crate::Client::lock): Redisson's are hashes, and the two never share a name.
//!
//! # A hold that ran out
//!
//! A job that took longer than its lease hurt nobody if nobody else wanted the lock. So the end of such a hold is no error here:
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::{Client, EmbeddedStore, Released};
//! use tokio::time::sleep;
//!
//! let store = EmbeddedStore::new();
//! let process = || Client::builder().embedded(&store).connect();
//! let (slow, other) = (process().await?, process().await?);
//! let lease = Duration::from_secs(10);
//!
//! let guard = slow.token_lock("report").lock().lease(lease).await?;
//! sleep(lease * 2).await; // … the job …
//! assert_eq!(guard.unlock().await?, Released::AlreadyExpired);
//!
//! let guard = slow.token_lock("report").lock().lease(lease).await?;
//! sleep(lease * 2).await;
//! let theirs = other.token_lock("report").lock().await?;
//! assert!(guard.unlock().await.is_err_and(|error| error.is_lost())); // somebody else was inside
//! # theirs.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! The server cannot tell a key that ran out from one that was deleted: `AlreadyExpired` is "nobody has it". `lost()`, `protect` and
//! `is_held` go by the lease, as everywhere; and a hold that a renewal found gone is `Lost`.
//!
//! # Another process goes on with it
//!
//! The token is all that it takes. [`LockGuard::into_token`](crate::LockGuard::into_token) gives the lock away,
//! [`TokenLock::resume`](crate::TokenLock::resume) goes on with it, in this language or another. Nobody renews it then: whoever has the
//! token extends it while the work lasts.
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
//! let process = || Client::builder().embedded(&store).connect();
//! let (web, worker) = (process().await?, process().await?);
//!
//! // The handler takes the lock, and puts the token into the job.
//! let guard = web.token_lock("export:acme").lock().lease(Duration::from_secs(600)).await?;
//! let Ok(token) = guard.into_token() else { return Ok(()) };
//! let job = token.as_ref().to_owned();
//!
//! // The worker, when it comes to the job; an error if the lock is not this token's any more.
//! let held = worker.token_lock("export:acme").resume(job.parse()?);
//! held.extend(Duration::from_secs(600)).await?;
//! held.unlock().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! A token is a key: keep it out of logs. Its `Debug` does not show it. Those of one client begin alike and are counted on, so whoever
//! has one can build those of all other locks of that client: give none to whom you would not give those, or take a client for it alone.
//!
//! # Who it is shared with
//!
//! The same server and database, and the same name: `name_prefix` is part of it. Each compares the whole value at the key, and takes it for
//! a text without a meaning. So there is one form, and nothing to choose.
//!
//! | library | its token | takes it by | what to know |
//! | --- | --- | --- | --- |
//! | redis-py 8.1.0, `Lock` | 32 hexadecimal digits, or the caller's | `SET NX`, with `PX` where there is a timeout | without a timeout the key has no TTL: do not repair it. `extend` adds to the TTL unless told otherwise |
//! | redsync 4.18.1 (Go) | 24 characters of base64 | `SET NX PX` | with one pool; with several, the token lock of a [`RedLock`](crate::RedLock). With `SetNXOnExtend` its `extend` makes a key that is gone |
//! | bsm/redislock 0.9.4 (Go) | 22 characters of base64, and metadata | a script with `SET NX PX` | takes over a key whose value begins with its token: give it none of your own. Its metadata stand behind the token, and [`resume`](crate::TokenLock::resume) takes both as one text |
//! | node-redlock 4.2.0 and 5.0.0-beta.2 | 32 hexadecimal digits | a script, `SET PX` where there is nothing | with one client; with several, the token lock of a [`RedLock`](crate::RedLock); `n` resources are `n` names. `extend` replaces the TTL, and may shorten it |
//! | redlock-universal (Node) | any | `SET NX PX` | |
//! | rueidislock (Go) | 24 bytes | `SET NX PXAT`, by the client's clock | only with `KeyMajority: 1`, and our name is then `rueidislock:0:NAME`. Its bytes may be no text, for which [`inspect`](crate::TokenLock::inspect) has no name |
//!
//! The first four take turns with us in live tests, in these versions; of the last two the source was read. Ours is
//! 48 hexadecimal digits. All of them find the lock free by looking again, and none tells of a release. So whoever waits here listens for
//! releases of ours and looks again besides, after 20 ms at first and every 250 ms at most:
//!
//! | | tells of its releases | listens | looks again |
//! | --- | --- | --- | --- |
//! | `token_lock(name)` | yes | yes | every 250 ms at most, and at the end of the TTL |
//! | [`.only_relatch()`](crate::TokenLock::only_relatch) | yes | yes | at the end of the TTL |
//! | [`.silent()`](crate::TokenLock::silent) | no | no | every 250 ms at most, and at the end of the TTL |
//!
//! All clients of ours should take a name in one manner: one that waits for relatch alone finds out about a silent release when the TTL is
//! over. Those who only look again, ours or theirs, have the one moment in which a busy process of ours frees the lock, every
//! [`handover_slice`](crate::ClientBuilder::handover_slice): under load they wait long.
//!
//! # Keys without a TTL
//!
//! `SETNX` and then `EXPIRE`, as it was done before `SET NX PX`, leaves a key without a TTL where the process dies in between: nobody gets
//! the lock any more. [`.repair_orphans(ttl)`](crate::TokenLock::repair_orphans) has whoever waits give such a key that TTL, in one step
//! and once, with a `warn` event; a single try does so on a cluster and with [`replica_acks`](crate::ClientBuilder::replica_acks) only. It
//! is off by default, since redis-py without a timeout holds its locks so. Servers before 2.6.12 have no `SET NX PX`, and are out of scope.
//!
//! # Servers without `EVAL`
//!
//! Some services allow no scripts. A token lock does without them where the server compares by itself: Redis from 8.4 on, by
//! `DELEX … IFEQ`, and Valkey from 9.0 on, by `DELIFEQ`, both with `SET … IFEQ`. The client finds that out when it connects, by asking for
//! the commands, and says so in one `warn` event; [`required_acl`](crate::Client::required_acl) then has the rights for them, and not those
//! for scripts. What differs:
//!
//! - Nobody is told of a release, and nobody listens: it is as with `.silent()`.
//! - A later try is three commands, a release two, in one round trip. A renewal and an extension, by the token alone or not, take two round
//!   trips: the TTL is asked for, and not made shorter.
//! - `SET` sets a TTL, where a script only lengthens it. So what comes between those two round trips may be undone: an extension by whoever
//!   was told the [`token`](crate::LockGuard::token), in the moment of a renewal by the guard, or of another extension. And a renewal that is
//!   held up on a link which was given up, and runs after a longer [`extend`](crate::LockGuard::extend) over the next link, makes the lock's
//!   life shorter than the guard believes, until the next renewal. Do not mix long extensions and a watchdog there, nor extend by a
//!   token whose guard still lives; after [`into_token`](crate::LockGuard::into_token) nobody else renews it.
//! - With [`replica_acks`](crate::ClientBuilder::replica_acks) nobody repairs keys without a TTL.
//!
//! Elsewhere, and so on a server that is older, a token lock is [`Refused`](crate::Error::Refused) as `ScriptDisabled`, before it is taken,
//! with the versions that can; or with the words that it did not say, where it was asked in vain, or may not be asked. `WATCH` could
//! serve those, on a connection of its own and slowly; it is not in this version. On a cluster nobody is asked: a token lock needs scripts
//! there. All other locks need them everywhere.
//!
//! # What it promises, and what it cannot
//!
//! - What [`guarantees`](super::guarantees) says of exclusion, of a loss that is told, and of what a process that dies leaves. A command that
//!   is repeated finds its own token: none of them does anything to somebody else's hold.
//! - Others keep their own promises. One that extends a key without a look at its value, or deletes it after its lease, takes the lock
//!   away from whoever has it: we hear of it at the next renewal.
//! - It has no [fence](super::fencing): `guard.fence()` is `None`. A token says who holds, and not who came later.
//! - One server, with replicas or as a cluster, as for every lock here, or several masters that vote: [`RedLock::token_lock`](crate::RedLock::token_lock).
