//! The engine: one way to wait, to renew, to hand over and to release, for every primitive. It knows none of them.
//!
//! | rule | file |
//! | --- | --- |
//! | who may enter, who waits | `admit.rs`, nested entries in `nest.rs` |
//! | what the server was told of a hold's count | `counting.rs`, who tells it in `telling.rs` |
//! | the turns of the commands that change a count | `commands.rs` |
//! | one acquisition, from the first poll to the guard | `acquisition.rs` |
//! | try, listen, try again, sleep | `acquire.rs`, what follows from a try in `tried.rs` |
//! | tries whose grants replicas are to know of | `acknowledged.rs` |
//! | when the contender may try, and when it gives up | `pause.rs` |
//! | the futures that users hold, and what makes them | `request.rs`, `progress.rs`, `plan.rs`, `handle.rs` |
//! | several locks at a time | `several.rs`, how they are come by `gather.rs` and `sweep.rs`, who waits for them `caller.rs`, their holds `many.rs`, what begins in one poll `together.rs`, what ends at once `slot.rs` |
//! | from the send to the guard: late answers, undoing | `half_built.rs` |
//! | old copies of acquires | `reap.rs` |
//! | turns that nobody takes | `parked.rs` |
//! | uses that are none | `misuse.rs`, guards that are dropped at once `dropped_at_once.rs` |
//! | what makes a primitive | `protocol.rs` |
//! | which lock a name is within a client | `kinds.rs` |
//! | owners that wait for one another | `circles.rs` |
//! | waiters of this process, first come first served | `queue.rs`, their owners by the hashes of `mix.rs` |
//! | the end of a hold: pass, hand over or release | `hand_over.rs` |
//! | the loss of a hold | `loss.rs` |
//! | how long a process may keep a name to itself | `slice.rs`, and what others are to have of it: `turns.rs` |
//! | tickets, count, deadline, loss, `max_hold` | `hold.rs`, `ticket.rs` |
//! | what a command asks for, and what its answer promises | `term.rs` |
//! | what the guards of one owner share | `tenure.rs` |
//! | what a client's primitives share, name to entry | `shared.rs` |
//! | the end of a client | `ending.rs` |
//! | an entry's life | `registry.rs`, what is done outside its mutex in `effects.rs` |
//! | newest target, repetition, releases before tries | `release.rs`, what is to be released in `why.rs` |
//! | how a release went | `outcome.rs` |
//! | work without a task of its own | `inline.rs` |
//! | what is due, and retries | `watchdog.rs`, the dates in `schedule.rs` |
//! | which renewals go together | `batches.rs` |
//! | asking for holds of which another server may know nothing | `era.rs` |
//! | the wake flag and the subscription of a name | `wake.rs` |
//! | the margin of a deadline, machines that slept | `clock.rs`, instants that are kept in `date.rs` |
//! | the public face of a ticket, and its end | `guard.rs`, `share.rs`, `unlock.rs` |
//! | what is said of a hold with its release | `noted.rs` |
//! | holds that are told to others, given away, and held by a token alone | `by_token.rs` |
//! | a forced release, a longer lease | `force.rs`, `extend.rs` |
//! | where a client lives, and calls from elsewhere | `home.rs`, `elsewhere.rs`, `minding.rs`, their timers in `alarm.rs` |
//!
//! Nothing grows without a bound. Each bound is said once, where it is kept:
//!
//! | what | bound | where |
//! | --- | --- | --- |
//! | one command | the command timeout; of a renewal a third of its lease, or two round trips | the backend, `batches.rs` |
//! | a try without an answer, for those who wait for ever | `unreachable_after` | `pause.rs` |
//! | an acquisition inside a hold, where the server answers nobody | `unreachable_after`, for those who wait for ever | `nest.rs` |
//! | the turn of a command that changes a count | the command timeout, then it goes without | `commands.rs` |
//! | tries in flight at one place | twice `TRIES` where the server is near, twice `MOST_TRIES` where it is far | `tries.rs`, `distance.rs` |
//! | a grant that replicas are to know of | the `within` of `replica_acks` and the command timeout | the backend |
//! | answers later than their own lease | `LATE_ANSWERS` | `tried.rs` |
//! | pauses after faults, and between polls | full jitter, `LONGEST_PAUSE`, `LONGEST_POLL` | `pause.rs` |
//! | a release that is not answered | repeated until its lease is over | `release.rs` |
//! | releases of a name that are not answered | `UNANSWERED`, then tries wait | `release.rs` |
//! | a wait for a TTL that was told | the watchdog's timeout | `pause.rs` |
//! | an old copy that may run | released every third of a lease, for a lease and a third | `reap.rs` |
//! | numbers that are watched for, of a name and of all | `WATCHED`, `WATCHED_IN_ALL`, then the one whose watch ends first is forgotten | `reap.rs` |
//! | a renewal that is not answered | repeated until the hold's deadline | `watchdog.rs` |
//! | names whose guards are dropped at once | `COUNTED` | `dropped_at_once.rs` |
//! | turns that nobody takes | half a watchdog timeout for all who are not there; less than a whole one for those who are polled in between, up to ten of any timeout and 75 of the usual one. A turn counts from when somebody who is polled goes on: it was given, a nudge came, the time it slept for is over, or the command timeout of its try and `GRACE`; from that try on it is a whole watchdog timeout at most, or those two and `ENOUGH` where that is longer | `parked.rs` |
//! | keys in one renewal | `BATCH` | `batches.rs` |
//! | asking for every hold after a link was replaced | a `PIECE` at a time, within `WITHIN` | `era.rs` |
//! | renewals of one node under way | `UNDER_WAY` batches, then they wait in the order of their deadlines | `batches.rs` |
//! | waiters of a name | as many as wait | `queue.rs` |
//! | names that a warning was given for | `WARNED` | `shared.rs` |
//! | commands in a link's queue | `QUEUE`, then callers wait | `backend/redis/options.rs` |
//! | pauses between links | full jitter, `CAP` | `backend/backoff.rs` |
//! | orders of subscriptions | two for each that lives | `backend/redis/pubsub/mod.rs` |
//!
//! Every entry has one `std` mutex. It is never held across an await, and nothing that may call back (a waker, a
//! channel, a guard's drop, a backend) runs under it: such things are collected as [`effects::Effects`].

mod acknowledged;
mod acquire;
mod acquisition;
mod admit;
mod alarm;
mod apart;
mod ask;
mod batches;
mod by_place;
mod by_token;
mod caller;
mod circles;
mod clock;
mod commands;
mod counting;
mod date;
mod distance;
mod dropped_at_once;
mod effects;
mod elsewhere;
mod ending;
mod era;
mod extend;
mod force;
mod gather;
mod guard;
mod half_built;
mod hand_over;
mod handle;
mod hold;
mod home;
mod inline;
mod kinds;
mod loss;
mod many;
mod minding;
mod misuse;
mod mix;
mod nest;
mod noted;
mod outcome;
mod parked;
mod pause;
mod plan;
mod progress;
mod protocol;
mod queue;
mod reap;
mod registry;
mod release;
mod request;
mod schedule;
mod several;
mod share;
mod shared;
mod slice;
mod slot;
mod sweep;
mod telling;
mod tenure;
mod term;
mod thin;
mod ticket;
mod together;
mod tried;
mod tries;
mod turns;
mod unheard;
mod unlock;
mod wake;
mod watchdog;
mod why;

#[cfg(test)]
mod inside;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    by_token::Claim,
    clock::Clock,
    elsewhere::while_driven,
    handle::{Handle, Nesting},
    noted::NotedGuard,
    protocol::{
        Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Published, Renewal, RenewalGroup, Sight, Told,
    },
    several::Several,
    shared::{Engine, Settings},
};
pub use self::{
    ending::Shutdown,
    guard::LockGuard,
    outcome::Released,
    request::{Acquire, TryAcquire, Unlock},
};
