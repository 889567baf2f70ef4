//! Redisson: what its calls and objects are here, and how a Java and a Rust service share locks.
//!
//! # Calls
//!
//! | Redisson | relatch |
//! | --- | --- |
//! | `lock()` | `lock.lock().await?` |
//! | `lock(lease)` | `lock.lock().lease(d).await?` |
//! | `tryLock()` | `lock.try_lock().await?` |
//! | `tryLock(wait)` | `lock.try_lock().wait(d).await?` |
//! | `tryLock(wait, lease)` | `lock.try_lock().wait(d).lease(l).await?` |
//! | `unlock()` | `guard.unlock().await?`; after `guard.detach()`, `lock.unlock().await?` |
//! | `forceUnlock()` | `lock.force_unlock().await?` |
//! | `isLocked()` | `lock.is_locked().await?` |
//! | `isHeldByCurrentThread()` | `lock.is_held()` |
//! | `getHoldCount()` | `lock.hold_count()` |
//! | `remainTimeToLive()` | `lock.remaining_lease().await?` |
//! | `lockInterruptibly()` | drop the future |
//!
//! The guard is the lock: where Java calls `unlock()` in a `finally`, the guard releases when it is dropped, and a guard that
//! nobody keeps is dropped at once. `try_lock` answers `Ok(None)` if somebody else has the lock; that is no error. The
//! acquisitions are ordinary futures, owned and `Send`: spawn them, join them, put them into a `select!`.
//!
//! # Everything that locks
//!
//! Redisson has ten lock-like objects. Each row says what it is here, or what to take until then.
//!
//! | Redisson | here | until then |
//! | --- | --- | --- |
//! | `RLock` (`getLock`) | [`client.lock(name)`](crate::Client::lock), [`client.mutex(name)`](crate::Client::mutex); shared with Java | |
//! | `RSpinLock` (`getSpinLock`) | later | `lock`: it waits for a message instead of polling |
//! | `RFairLock` (`getFairLock`) | later | `lock`: tasks of one process queue already; between processes the order is not fixed |
//! | `RFencedLock` (`getFencedLock`) | [`client.fenced_lock(name)`](crate::Client::fenced_lock), `lockAndGetToken()` is `guard.fence()`: [`fencing`](super::fencing) | |
//! | `RReadWriteLock` (`getReadWriteLock`) | later | `lock`, where readers can take turns, too |
//! | `RedissonMultiLock` (`getMultiLock`) | [`client.multi_lock(names)`](crate::Client::multi_lock), of other kinds and clients [`MultiLock::new`](crate::MultiLock::new): [`several_locks`](super::several_locks) | |
//! | `RedissonRedLock` (`getRedLock`) | [`RedLock::lock`](crate::RedLock::lock); shared with Java: [`red_lock`](super::red_lock) | |
//! | `RSemaphore` (`getSemaphore`) | later | as many locks as permits, `slot:0` to `slot:9`, tried one after the other |
//! | `RPermitExpirableSemaphore` (`getPermitExpirableSemaphore`) | later | the same, with leases |
//! | `RCountDownLatch` (`getCountDownLatch`) | later | a counter, and polling it |
//!
//! The async, reactive and Rx variants need no counterpart: every call is a future. `RScheduledExecutorService` and
//! `RRateLimiter` are no locks; for a job on one of many replicas see [`once_an_hour`](super::once_an_hour).
//!
//! # Sharing
//!
//! A Java service and a Rust service can use the same plain locks: `redisson.getLock(name)` on one side, `client.lock(name)` or
//! `client.mutex(name)` on the other. Tested live and both ways with Redisson 4.7.0 on Java 17 and Redis 7.0: on a single server, on a
//! master that sentinels watch over, and on a cluster, over sharded channels and over others, while masters are killed and hand
//! over. `tests/it/interop.rs` starts both sides, and `tests/run.sh` runs it wherever Maven is installed.
//!
//! | shared | how |
//! | --- | --- |
//! | exclusion | one hash at the name, with one field for the hold; whoever finds another one waits |
//! | waking | the release of either side publishes what the other one listens for; the 99th of 100 is in its section 50 ms later at most |
//! | TTL and count | `remainTimeToLive` and `isLocked` see our holds, `remaining_lease` and `inspect` see Redisson's, with thread and count |
//! | refusals | an unlock by the other side's holder, or after the lease, is refused and changes nothing |
//! | forced unlocks | either side can free the other's hold, and wakes who waits |
//! | a killed process | its locks are free when its lease is over, and the other side enters then |
//!
//! ## What can surprise
//!
//! - The number behind the client's id is Java's thread there, and here another one for each hold; tasks that pass a lock on share
//!   it. Neither side reads the other's.
//! - A nested `lock(lease)` shortens a hold of Redisson's, and a nested unlock starts its lease anew. Here a nested acquisition never
//!   shortens a hold, and a nested release leaves its time alone.
//! - Tasks of one Rust process hand a lock over without a message, unless that leaves the lock a shorter life. A Java waiter
//!   does not see it; it enters after the next message, or when the TTL that it saw last is over and nobody holds the lock.
//! - A Java process frees the lock after each section. A Rust process passes it on among its own tasks for a slice while
//!   others wait: 10 ms, or two round trips if those are longer, and up to 500 ms while not all of the others come. See
//!   [`handover_slice`](crate::ClientBuilder::handover_slice).
//! - Redisson tells a holder nothing when its lock is forced away or expires: its `unlock()` throws. Its own `forceUnlock()` frees
//!   the lock, whoever holds it.
//! - After a failover our waiters are woken by the first release at the new master. Redisson looks where its masters are each five
//!   seconds (`scanInterval`), and a waiter of its that heard nothing by then asks when the TTL that it saw is over: in tests with
//!   leases of 10 s our waiters were in 5 ms to 5 s after the release was asked for, and Redisson's after 3 to 10 s.
//! - Where a master has replicas, Redisson waits for them after each acquisition (`WAIT`), and gives up the lock if they are silent
//!   (`checkLockSyncedSlaves`). Here nobody waits for replicas unless
//!   [`replica_acks`](super::deployments#acknowledged-by-replicas) says so.
//! - Redisson has a key `redisson_unlock_latch:{name}:…` beside the lock for a moment after each unlock. It is nothing to us.
//!
//! Fenced locks are shared with `RFencedLock`: both count with one counter, and take their turns in a live test. What is in the table
//! above is of plain locks. Several plain locks as one are shared with `RedissonMultiLock`, in whatever order. Nothing else is
//! shared in this version; the [token lock](super::token_lock) is of other libraries. Use a name for one kind only: a fair lock and a plain lock of one
//! name exclude each other, but neither wakes the other.
//!
//! ## Settings
//!
//! | setting | must it agree? |
//! | --- | --- |
//! | server and database | Yes. `useSingleServer` and the same server, `useSentinelServers` and `redis-sentinel://` with the same master's name, `useClusterServers` and `redis-cluster://`. |
//! | pub/sub | On a cluster. Both sides decide alike by default (`AUTO` and [`ShardedPubSub::Auto`](crate::ShardedPubSub)): sharded channels from Redis 7.0 on. `OFF` goes with `Off`. A release is told in one of the two ways, and does not reach who listens in the other: both sides still keep each other out, but whoever waits is in only when the TTL that it saw is over |
//! | names | Yes, byte by byte in UTF-8. A name mapper that puts a text in front is `name_prefix` |
//! | names with braces | Nothing to set: both sides take a name with a `{` anywhere as its own hash tag |
//! | codec | No: what Redisson keeps of a lock is text with its default codec. Other codecs are not tested |
//! | `lockWatchdogTimeout` and `watchdog_timeout` | No. Each side renews its own holds only; it is how long the other one waits after a crash |
//!
//! ## Faults of Redisson
//!
//! Some faults of Redisson 4.7.0, as they were seen with that version, and what the same steps do here. Each row is a test in
//! `tests/it/interop/faults.rs` or `several.rs` that shows both.
//!
//! | steps | Redisson 4.7.0 | relatch |
//! | --- | --- | --- |
//! | `lock()`, inside of it `lock(lease)` and `unlock()` | the outer hold is renewed no more and runs out | it is renewed |
//! | a caller is interrupted (here: its future is dropped) while the answer to its acquisition is on its way | the lock stays, is renewed for good, and nobody has it | it is released at once |
//! | three locks are held on three shards of a cluster, and one shard falls silent with its replica | no lock is renewed any more, and those of the other shards run out, too | the locks of the others are renewed; that one is lost at its deadline, and its holder is told |
//! | three locks are held, and the key of the one that is renewed first is overwritten with a text, on a single server | renewals of the locks behind it end, and they run out | only that one is lost, and its holder is told |
//! | a hundred short holds, then a long one | the long one is renewed many times as often as it should be (375 instead of 9 times in one run) | as often as ever |
//! | a hold that was nested nine times is deleted, then another thread of the same client locks | the new hold is not renewed and runs out | it is renewed |
//! | an acquisition whose answer is lost with the link, master/slave mode | the lock is held twice, and one `unlock()` does not free it | it is held once |
//! | waiters for 300 names in one client | 250 at a time wait, the others get a `RedisTimeoutException` | all wait, on one connection |
