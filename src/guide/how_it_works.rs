//! What is sent when, in nine steps.
//!
//! A *hold* is one lock in the hands of one owner; a *process* is one client; a *slice* is how long a process may pass a lock
//! around among its own tasks while others wait.
//!
//! 1. A lock is a hash at its name, with one field: the hold, named by the client's UUID and a number that is drawn for each
//!    outermost acquisition. Its value is how often it is held; the key's TTL is the lease.
//! 2. Each operation is one Lua script. It says what the count shall be, not by how much it changes, so it can be repeated.
//! 3. Tasks of one process queue for a name in memory. Only the first in the queue talks to the server.
//! 4. It tries; if the lock is taken it subscribes to the lock's channel, tries again, and sleeps until a message comes, or the
//!    lease that the server named is over, or one watchdog timeout.
//! 5. A release passes the lock to the next task of the same process, if there is one: without a command where both holds are
//!    renewed by the watchdog, otherwise by one script that moves the hold. After one slice of that the lock is freed, and other
//!    processes get their turn:
//!    - This process stands back for a slice, or until it hears somebody else's release. A `try_lock`, or a wait that ends
//!      sooner, is never held up for longer than a slice by this.
//!    - It lets up to three of those that listen go first, each by a moment: a tenth of a slice and 1 ms at most, or a 32nd of
//!      the turn that it had, if that is longer. A process that loses the lock to another one within its slice does the same.
//!    - If it gets the lock again before all of them came, it waits for more than twice as long the next time, up to the time
//!      that it had the lock and to 500 ms, and the slice of a process that is near grows as well. If all came, it waits for an
//!      eighth less.
//!    - A process is far if four round trips are longer than its slice. It keeps a lock for two round trips at least. After its
//!      turn it rests for four round trips for each of up to three that listen. Then it listens again, and lets those go first,
//!      too: for up to twice the time that it had the lock and rested.
//! 6. One task per client renews all holds under the watchdog, up to 100 in a script (on a cluster one in a script, all
//!    for a master in one pipeline), a third of a lease after the last time.
//! 7. A hold whose local deadline passes is lost without asking anybody.
//! 8. If a future is dropped while its command is under way, the hold that may exist is released before anything else is tried
//!    for that name.
//! 9. To each server one connection carries commands, another one subscriptions. Both are replaced when they fall silent or end.
//!
//! In the repository, `lua/README.md` has every key, field, channel and reply, and the table of states; `CONTRIBUTING.md`
//! says where to read on in the code.
