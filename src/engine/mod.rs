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
//! | uses that are none | `misuse.rs` |
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
//! | where a client lives, and calls from elsewhere | `home.rs`, `elsewhere.rs`, their timers in `alarm.rs` |
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
//! | names whose guards are dropped at once | `COUNTED` | `misuse.rs` |
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
mod misuse;
mod mix;
mod nest;
mod noted;
mod outcome;
mod parked;
mod pause;
mod plan;
mod progress;
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
mod tests;

use std::{fmt, sync::Arc, time::Duration};

pub(crate) use self::{
    by_token::Claim,
    clock::Clock,
    elsewhere::while_driven,
    handle::{Handle, Nesting},
    noted::NotedGuard,
    several::Several,
    shared::{Engine, Settings},
};
pub use self::{
    ending::Shutdown,
    guard::LockGuard,
    outcome::Released,
    request::{Acquire, TryAcquire, Unlock},
};
use crate::{
    backend::{Acknowledged, Dispatch, Fault, Pending, Replicas, Reply},
    token::Token,
};

/// The number of one hold: with the client's UUID it is the hold's name on the server. Never drawn twice by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HoldNumber(pub(crate) u64);

impl fmt::Display for HoldNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What makes a primitive: its key, its scripts, how to read their replies. It has no loop, no renewal and no guard.
///
/// Every answer comes within the command timeout, and every call may be repeated.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// The user's name for it, as errors and events say it.
    fn name(&self) -> &Arc<str>;

    /// The mapped key: one entry of the registry.
    fn key(&self) -> &Arc<str>;

    /// Which primitive this is; two of them on one key are refused.
    fn kind(&self) -> &'static str;

    /// The TTL that a key of somebody else is given which has none; another one on one key is refused, too.
    fn repairs(&self) -> Option<Duration> {
        None
    }

    /// Where releases are published.
    fn channel(&self) -> Arc<str>;

    /// Whether a hold may change its owner without a word to the server.
    fn passes(&self) -> bool;

    /// Whether the key may go to the next owner of this process without ever being free.
    fn hands_over(&self) -> bool {
        true
    }

    /// Stands for how it is taken: where one is in use, another of its kind that is taken otherwise is refused.
    fn options(&self) -> u64 {
        0
    }

    /// Whether those who wait are told of every release.
    fn told(&self) -> Told {
        Told::Always
    }

    /// Whether a hold that ran out counts as released where nobody has the key by then.
    fn expired_is_released(&self) -> bool {
        false
    }

    /// The text by which whoever knows it can extend and release a hold of this number, if there is one.
    fn token(&self, _: HoldNumber) -> Option<Token> {
        None
    }

    /// Asks for a hold that counts `holds` afterwards, if `dispatch` lets it leave.
    fn acquire(&self, number: HoldNumber, lease: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt>;

    /// Asks for a fresh hold, and for how many replicas know of it; what is known of the order of commands is not true of
    /// this one, and the count is not to be believed of a number that was asked for before.
    fn acquire_acknowledged(
        &self,
        number: HoldNumber,
        lease: Duration,
        replicas: Replicas,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>>;

    /// Lets go until `holds` remain; `note` says what was done under a hold that ends.
    fn release(&self, number: HoldNumber, holds: u32, note: Note) -> Reply<Letting>;

    /// Moves a hold to another number without freeing the key.
    fn hand_over(&self, from: HoldNumber, to: HoldNumber, lease: Duration) -> Pending<Result<Moved, Fault>>;

    /// Holds with an equal group can be renewed by one call of [`Protocol::renew`].
    fn renewal_group(&self) -> RenewalGroup;

    /// Renews holds of one group, within `within`, if `dispatch` lets it leave; one answer for each, in order: one that fails
    /// fails no other. With a lease of zero nothing is raised: it only looks whether they are there.
    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        lease: Duration,
        within: Duration,
        dispatch: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>>;

    /// Who holds now.
    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>>;

    /// Frees the key if one of the holds that were seen still has it.
    fn force_release(&self, seen: &Sight) -> Pending<Result<Forced, Fault>>;
}

/// Whether those who wait are told when a key is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// By everybody who frees it.
    Always,
    /// By us, and perhaps not by others: whoever waits looks again every now and then.
    Sometimes,
    /// By nobody, and nobody listens.
    Never,
}

/// Which renewals can share a script call: one kind of script on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RenewalGroup(pub(crate) &'static str, pub(crate) u64);

/// The end of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Ours, counted `holds` times.
    Granted { holds: u32, fence: Option<u64> },
    /// Somebody else's, for this long unless it is renewed; `None` where the key has no TTL.
    Busy { retry_in: Option<Duration> },
    /// A nested acquire found its outer hold missing.
    Gone,
    /// Nobody holds it, and nobody is to have it for now: there is nothing to wait for.
    Settled,
}

/// What is said of a hold with its release, where that makes a difference to its primitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Note {
    /// Nothing was done under it.
    #[default]
    Unused,
    /// What was done under it, under this fencing token, came to nothing.
    Failure(u64),
    /// It was done.
    Success(u64),
}

/// The end of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letting {
    /// `holds` remain; at zero the key is free.
    Done { holds: u32, published: Published },
    /// There was no such hold.
    NotHeld,
    /// There was none, and nobody else has the key either.
    Expired,
}

/// What became of a message to those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// There was none: there was nothing to tell, or the server would not let us publish.
    No,
    /// It reached so many listeners.
    To(u32),
    /// It was sent, and nobody knows how many heard it.
    Uncounted,
}

/// The end of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// The new number has it, for exactly the lease. Where that ends sooner than before, those who wait were told.
    Done { published: Published, fence: Option<u64> },
    /// The old number had nothing to give.
    Gone,
    /// The same, and nobody else has the key either.
    Expired,
}

/// The end of a renewal; no answer at all is a [`Fault`], and leaves the deadline alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The TTL is at least the lease.
    Renewed,
    /// There is no such hold.
    Gone,
}

/// The end of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    /// The key is free.
    Done { published: Published },
    /// None of the holds that were seen was still there.
    Gone,
}

/// What a look at the server showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Every holder's client and hold number as they stand on the server, with its count.
    pub(crate) holders: Vec<(String, u32)>,
    /// `None` where the key has no TTL.
    pub(crate) remaining_lease: Option<Duration>,
    /// Those of the holders that are holds of this client.
    pub(crate) ours: Vec<HoldNumber>,
}
