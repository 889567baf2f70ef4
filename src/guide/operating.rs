//! Running the server: rights, settings, eviction, failover, timeouts.
//!
//! # Which server
//!
//! One Redis with Lua scripts, on its own or as a master with replicas, with or without sentinels, or a cluster:
//! [`deployments`](super::deployments). All tests run on Redis 7.0. What every lock does, and each command of the program
//! [`relatch`](super::command_line), is tested on Redis 6.2, 8.2 and Valkey 9.1 as well, alone, by sentinels and on a cluster: by
//! `tests/matrix.sh`, which is run by hand. What they say when they refuse something is recorded.
//!
//! # Rights
//!
//! What a user must be allowed, and no more, says [`Client::required_acl`](crate::Client::required_acl): for every primitive, on the
//! deployment and the versions that the client found. With a user that has all rights:
//!
//! ```no_run
//! # async fn example(client: relatch::Client) -> relatch::Result<()> {
//! let acl = client.required_acl("app:*")?; // of keys: the client's name prefix is part of it
//! println!("ACL SETUSER locks on >a-long-random-secret {}", acl.data);
//! # Ok(())
//! # }
//! ```
//!
//! Whoever has no client yet takes this line, for one server of version 7.0 and the name prefix `app:`:
//!
//! ```text
//! user locks on >a-long-random-secret resetkeys ~app:* ~redisson_lock_token:{app:*} ~redisson_lock_token:app:* ~relatch_job:{app:*} ~relatch_job:app:* resetchannels &redisson_lock__channel:{app:*} &redisson_lock__channel:app:* &relatch_token__channel:{app:*} &relatch_token__channel:app:* &relatch_job__channel:{app:*} &relatch_job__channel:app:* -@all +del +get +hdel +hexists +hget +hgetall +hincrby +hmget +hset +incr +pexpire +pttl +set +time +eval +evalsha +publish +subscribe +unsubscribe +ping +info +type +client|setname
//! ```
//!
//! With [`replica_acks`](crate::ClientBuilder::replica_acks), and only then, `+wait` is needed, too.
//!
//! `SECURITY.md` says what each one is for, and what is missing without it. Give locks a prefix that nothing else writes to:
//! whoever may write to a lock's key can take the lock away from its holder.
//!
//! # Memory and eviction
//!
//! A lock that is held is one small key with a TTL. So `volatile-*` and `allkeys-*` eviction may remove it when memory is
//! full, and somebody else can enter while the holder still believes in its lock, until its next renewal. A client that
//! may ask `INFO` or `CONFIG GET` warns of it when it connects. Set `maxmemory-policy noeviction`, or keep locks on a server where memory
//! does not run out. Where writes are refused for want of memory, new acquisitions fail with
//! [`Refused`](crate::Error::Refused); renewals and releases go on. The counter of a [fenced lock](super::fencing) is one small key
//! for good, which `allkeys-*` eviction may remove: its tokens begin anew then.
//!
//! # Failover
//!
//! After a failover behind one address (a DNS name, a balancer) a client finds the new master by itself: a link that is cut, or
//! that a replica answers with `READONLY`, is opened again, and the name is looked up anew. A server that goes on answering as a master is not left because a name leads
//! elsewhere by now. With sentinels a client goes where they say; their own names, and those that were given for a cluster, are
//! looked up anew in the same way, those of a cluster where no node that is known answers any more.
//!
//! While a link is away it is tried again with growing pauses, for as long as the client lives. Calls answer
//! [`Unreachable`](crate::Error::Unreachable) when their time is over, holders keep their locks until their leases are over,
//! and releases and renewals are sent when the link is back. The log says once that it is lost (`warn`), and once that it is
//! back and for how long it was away (`info`), or, on a cluster, that other nodes have its names by now: see
//! [`tracing`](super::tracing).
//!
//! Redis replicates asynchronously. A failover can lose the newest writes, a lock among them; the holder hears of it within
//! 1.5 s of its new link. `min-replicas-to-write 1` makes that rarer, and so does
//! [`replica_acks`](super::deployments#acknowledged-by-replicas). `FLUSHALL`, and a restart without persistence, forget
//! all locks. Where two holders would do harm, let the resource decide: [`losing_a_lock`](super::losing_a_lock).
//!
//! # The server's clock
//!
//! Leases are the server's. Let its time be slewed, not stepped: a step forward ends leases early, a step back keeps a dead
//! process's locks for longer.
//!
//! # Timeouts
//!
//! | what you want | set |
//! | --- | --- |
//! | locks of a dead process are free sooner | a shorter `watchdog_timeout`; keep it above 3 × `command_timeout`, so that a slow server costs a renewal and no lock |
//! | a holder survives a longer outage of the server | a longer `watchdog_timeout` |
//! | callers hear sooner that the server is away | a shorter `unreachable_after`, or `try_lock().wait(d)` |
//! | a slow or far server | a longer `command_timeout`: one command must fit into it, connecting included. How long an answer may take beyond a wait follows from the round trips that the client measures. Let leases be four of them long at least: a shorter one gets a `warn` event, once a client, and an error for want of time names the way |
//!
//! [`options`](super::options) has the defaults and bounds.
//!
//! # Proxies
//!
//! When it connects, the client sends `HELLO`, or `AUTH` and `SELECT`, then `CLIENT SETINFO` with the driver's name and
//! `CLIENT SETNAME` with the client's, and runs one script on the key `relatch:probe`. A proxy that only refuses some of that
//! does no harm. One that ends the connection for `HELLO` needs `?protocol=resp2`; one that ends it for `CLIENT` needs a client object of the driver with
//! `set_skip_set_lib_name()`, given to [`redis_client`](crate::ClientBuilder::redis_client).
//!
//! # What a client costs the server
//!
//! Two connections, on a cluster two to each master, and one more with [`replica_acks`](crate::ClientBuilder::replica_acks). One
//! command for a lock, one for an unlock, and one for 100 renewals (on a cluster one for each). Each name that a process waits for
//! is a channel that it listens on. In `CLIENT LIST` you see one connection that runs scripts and one that subscribes; for a
//! moment after connecting a third one asks for `INFO`. They are called `relatch:LABEL:CLIENT`: the label is
//! [`ClientBuilder::label`](crate::ClientBuilder::label), by default the host's name and the process's id, and the client's id is the
//! one that `HGETALL` of a lock shows. The one that subscribes has no name where only RESP2 is spoken.
//!
//! # Which locks there are
//!
//! With the feature `operate` a client finds all locks and jobs of a pattern, says what is known of each, and ends exactly the hold that
//! an operator names. The module `relatch::operate` has the rights that this takes.
//!
//! ```
//! # #[cfg(all(feature = "embedded", feature = "operate"))]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use futures_util::TryStreamExt;
//! use relatch::operate::ForcedRelease;
//!
//! let client = relatch::Client::embedded();
//! let guard = client.lock("orders:17").lock().await?;
//!
//! let mut search = client.find("orders:*");
//! while let Some(found) = search.try_next().await? {
//!     for holder in &found.holders {
//!         // As in `relatch:LABEL:CLIENT` of the server's list; none where this user may not see that.
//!         let label = holder.label.as_deref().unwrap_or("somebody");
//!         println!("{} is held by {label} as {}, {:?} wait", found.name, holder.id, found.listeners);
//!     }
//! }
//!
//! // The holder that was shown, and no other.
//! let holder = client.inspect_key("orders:17").await?.expect("it is held").holders.remove(0).id;
//! assert_eq!(client.force_unlock_held("orders:17", &holder).await?, ForcedRelease::Ended);
//! # drop(guard);
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "embedded", feature = "operate")))]
//! # fn main() {}
//! ```
//!
//! A search asks each server for some hundreds of keys at a time, and looks closer only at those that are small and look like ours. It keeps
//! nothing, so it may tell of a lock twice. A lock whose key has no TTL is found by `client.find_without_ttl(pattern)`: nobody's death
//! frees it.
//!
//! `client.diagnose()` looks at the deployment: whether its servers answer and how fast, eviction and whether memory is full, persistence,
//! replicas and whether as many are there as it needs, a cluster's state, and what this user may do. It says what may happen, and what to do about it.
//!
//! # Looking, and freeing by force
//!
//! [`inspect`](crate::ReentrantLock::inspect) says who holds a lock and for how long;
//! [`force_unlock`](crate::ReentrantLock::force_unlock) frees exactly the hold that it saw, and wakes those who wait. By hand,
//! `HGETALL name` and `PTTL name` show the same. `DEL name` frees a lock, too, but wakes nobody: who waits finds it free
//! within one watchdog timeout.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use relatch::{Client, EmbeddedStore, Error, LostCause};
//!
//! let store = EmbeddedStore::new();
//! let service = Client::builder().embedded(&store).connect().await?;
//! let guard = service.lock("inventory").lock().await?;
//!
//! // Whoever is on call, elsewhere.
//! let lock = Client::builder().embedded(&store).connect().await?.lock("inventory");
//! let seen = lock.inspect().await?.expect("somebody holds it");
//! println!("held {} times by client {}, for {:?}", seen.hold_count, seen.client_id, seen.remaining_lease);
//! assert!(lock.force_unlock().await? && lock.inspect().await?.is_none());
//!
//! // Another process has no guard of the service's: the holder hears of it with its next renewal.
//! assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
