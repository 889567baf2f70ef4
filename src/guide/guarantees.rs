//! What is promised, and what is not.
//!
//! # Guarantees
//!
//! A *process* is one [`Client`](crate::Client), wherever it lives. A *hold* is one lock in the hands of one owner, from its
//! first acquisition to its last release. The other words are in the [guide](super#six-words).
//!
//! 1. **Exclusion.** At most one hold of a name exists on the server, and the guards of at most one owner answer `is_held()`,
//!    as long as the clocks of client and server run at about the same rate: a difference of 0.4 % is allowed for. The
//!    server alone decides when a hold expires, and no wall clock of a client matters.
//! 2. **Nobody touches another's hold.** Releases, renewals and hand-overs name the hold they are meant for, by a name that is
//!    never used twice; a forced release frees the hold that it saw, or nothing. So a command that is late or repeated cannot
//!    end a later hold, not even one of the same owner.
//! 3. **A loss is told.** Every hold has a local deadline, counted from *before* its request was sent and shortened by a
//!    margin. When it passes, the hold is lost, with or without a network. A renewal without an answer does not move it.
//!    On Linux this includes a machine that was suspended.
//! 4. **Nothing is renewed that is over.** Once a guard is released or dropped, or the hold is lost, no acquire or renewal
//!    of that hold is sent any more.
//! 5. **Nothing is left behind.** Any future of this crate can be dropped at any await. It leaves no waiter, no subscription and
//!    no task, and what it may have taken on the server is gone one lease after the last copy of its command ran, at the
//!    latest. A dropped guard is released in the background. Every key has a TTL.
//! 6. **Scripts may run twice.** Whenever a reply is lost, the script can run again, with the same result and without
//!    an effect on anybody else's hold.
//! 7. **Few round trips.** One command acquires a free lock (and one more, on its heels, asks for replicas where
//!    [`replica_acks`](super::deployments#acknowledged-by-replicas) wants it), one releases it. Between two tasks of one process a lock changes
//!    hands with one command or none. A waiter does not poll while its subscription lives: it is woken by the release. Besides
//!    it looks when the lease that the server named is over, or after one watchdog timeout if that is sooner. (The link of the
//!    subscriptions is pinged once a command timeout, so that a silent one is found.)
//! 8. **Bounds.** Every command has a deadline, every retry an end, and every map and queue is as large at most as the locks
//!    and tasks that use it. Nothing in the background panics, aborts or prints.
//! 9. **Errors say which.** Busy, lost, not held, refused, unreachable, misused and closed are different answers, with
//!    the server's own words as their source.
//! 10. **What is not promised is written down**, below, with a remedy for each.
//!
//! # Of a periodic job
//!
//! What is promised of holds is promised of the attempts of a [periodic job](super::once_an_hour), too. Besides:
//!
//! 1. **One success a period.** Once a period's success is on record, nobody begins its work any more. Work whose success is on record
//!    ran to its end.
//! 2. **Bounded attempts.** The work of a period is begun `max_attempts` times at most. An attempt is counted before its work begins,
//!    so one that kills its process is counted; one whose work never began is given back, unless somebody else began meanwhile.
//! 3. **One at a time.** No two attempts are believed in at once, whichever periods they are of.
//! 4. **Nobody is needed.** As long as one process that calls `schedule` reaches the server, a period is not left out: what failed is
//!    tried again within a round trip, what died within a lease.
//! 5. **Fences grow**, over the attempts of a period and over periods.
//! 6. **The server's clock counts.** A period is never begun before the server's clock says so. No wall clock of a process matters.
//!
//! All of it is as good as the server's memory and clock: the last rows below are of that.
//!
//! # What is not promised
//!
//! | what | remedy |
//! | --- | --- |
//! | A process can be paused *inside* its section (a stopped container, a swapping machine), for longer than its lease, and go on for a moment before it looks. | Let the resource that you protect refuse late writers: a version column, a compare-and-set, or the token of a [fenced lock](super::fencing), which only grows. |
//! | A failover can lose a write that the old master had acknowledged; then somebody else can get the lock. The holder hears of it within 1.5 s of its new link, or at its next renewal where its link stayed. | `min-replicas-to-write` on the server makes it rarer, and so does [`replica_acks`](super::deployments#acknowledged-by-replicas). Where it must not happen, decide by the resource as above. |
//! | A server that may evict keys can evict a lock that is held: a `volatile-*` or `allkeys-*` policy does when memory is full, since every lock has a TTL. Somebody else can be inside until the holder's next renewal. One `warn` a client says so at connect, where it may ask `INFO` or `CONFIG GET`. | `maxmemory-policy noeviction`. |
//! | A step of the *server's* clock ends leases early or late. Forward by more than a lease: the lock is free at once, the holder hears of it at its next renewal, and until then somebody else can be inside. Back: the lock of a dead process stays for that much longer; a release frees it as ever. | Let the server's time be slewed, not stepped. |
//! | A process that forks and does not `exec` has two copies of one client, and neither tokio nor this crate can work in the second. | Do not use or drop anything of a client there. With `exec` nothing is inherited: every descriptor is closed, so a child that outlives its parent keeps no lock. |
//! | On systems other than Linux, a suspended machine's clock may not count the time asleep; its holds believe in themselves for that much longer. | Use `lease` and `max_hold` with work that can be repeated, or do not suspend. |
//! | `mem::forget` of a guard, or an `Arc` cycle around one, keeps the lock for as long as the process lives. | Acquire with `max_hold`. |
//! | `protect` drops a future. It cannot stop code that blocks between two awaits, nor tasks that the future spawned. | Give those `guard.cancellation()`, and look at it. |
//! | A future that was polled, and is then neither polled nor dropped (beside a `select!` that takes its time, in a stream of futures that nobody polls), keeps its turn: others, of its process and elsewhere, enter up to one watchdog timeout later than if it was polled (where its command is on the way: or one command timeout and a moment later, if that is longer). All such futures together cost one such turn; one that is polled in between, and then left again, costs one more, mostly a shorter one. One event says so. Each stands where it stood once it is polled again. | Await it, drop it, or spawn it: a spawned acquisition is always polled. |
//! | A lease that is shorter than four round trips leaves its holder too little time: it can be over before its answer is there, or before a renewal is. One `warn` a client says so, and the errors name the way. | A longer `lease` or `watchdog_timeout`. |
//! | Nothing is tested on systems other than Linux. | Run `tests/run.sh` there first. |
//! | Where the server refuses subscriptions, waiters poll, with pauses of up to 250 ms, and say so in one event. Such a process is no listener: a busy process next to it does not see that somebody waits, and leaves the lock free for one round trip in each hand-over slice. | Grant the channel (`SECURITY.md` has the ACL rule). |
//! | The order in which *processes* get a lock is not fixed. Tasks of one process queue, first come first served; of processes, one whose slice is over lets up to three of those that listened go first, for a moment each that grows to 500 ms at most while some of them do not come. A `try_lock`, or a shorter wait, is held up by that for one slice at most. One that is far from the server rests between its turns. | A smaller `handover_slice` lets others in more often. |
//! | The work of a periodic job is done at least once, not exactly once: a process may die between its work and the record. So it is again where the server forgets the record (a restart without persistence, a failover, eviction, `FLUSHALL`). [`replica_acks`](super::deployments#acknowledged-by-replicas) is waited for before the work begins, and not for the record of its success. | Let the work's own writes happen once: by `ctx.period()` as a key, or by `ctx.fence()`. |
//! | A success that comes after the attempt's lease counts while nobody else began. Where somebody did, it is `Lost`, and the work is done twice. | A longer `attempt_lease`; work that does not block its runtime. |
//! | A server's clock that is set forward leaves out the time between: a `schedule` sleeps by the clock as it knew it, and notices after one period at most. Set back across one boundary, what was done stays done; further back, the record of what seems to be later is forgotten, and periods are done again. | Let the server's time be slewed, not stepped. |
