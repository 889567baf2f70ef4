//! Many processes and one lock: what a release costs, and what to do about it.
//!
//! A process that waits listens on the lock's channel. When the lock is freed, the server tells *every* process that
//! listens, and each one tries once. One gets the lock, the others are told that it is busy and go on waiting. So **one
//! release costs one try for each waiting process**, however many tasks wait in each: tasks of one process queue in memory,
//! and only the first one talks to the server.
//!
//! With 10 waiting processes that is nothing. With 200 it is 200 commands for each release, and if each of them wants the
//! lock once, about 20 000 until the last one had it. You see it in the server's command count and, where sections are
//! short, in the latency of its other users.
//!
//! What helps, in this order:
//!
//! 1. **Do not wait where you need not.** For work that only one process shall do, take `try_lock`: it costs one command and
//!    leaves no listener. A leader election with one `lock()` per process is fine: it is released once a deployment.
//! 2. **More names.** `invoice:17` instead of `invoices`. Locks are free to make, and a name that nobody uses costs nothing.
//! 3. **A longer slice.** [`handover_slice`](crate::ClientBuilder::handover_slice) is how long a process may pass the lock
//!    around among its own tasks while others wait, without freeing it. With many tasks in each process, near the server,
//!    50 ms instead of 10 ms means a fifth of the releases, and a longer wait for the other processes. (A slice grows by
//!    itself, to two round trips where the server is far, and up to 500 ms while not all of the others come.)
//! 4. **A bounded wait.** `try_lock().wait(d)` takes a process off the channel after `d`.
//! 5. **One process that asks for all.** A queue in front of one worker needs no lock.
//!
//! # Many locks in one process
//!
//! A client has two connections to a server, one for commands and one for subscriptions, however many locks it holds or waits
//! for; on a cluster two to each master. All its holds are renewed by one task, up to 100 in a command, and on a cluster one in
//! a command and many in a pipeline. [`performance`](super::performance) has the figures for
//! 100 000 holds.
//!
//! # Who goes next
//!
//! Tasks of one process queue, first come first served. Between processes no order is promised: one whose slice is over lets
//! up to three of those that listen go first, so that nobody keeps a lock for ever. It gives them a moment each, and more
//! from turn to turn, up to 500 ms, while some of them do not come. One that is far from the server rests between its turns. A
//! lock that serves processes in the order in which they asked (Redisson's fair lock) is planned.
