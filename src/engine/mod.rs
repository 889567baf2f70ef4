//! The engine: does what the names decide, for every primitive. It knows none of them.
//!
//! What is decided about a name is in `src/state`; here nothing is. What users hold comes first, what all else stands on last; no
//! file needs one that needs it.
//!
//! | what is done | file |
//! | --- | --- |
//! | the futures that users hold | `request.rs`, `unlock_request.rs`, of several locks `gathering.rs` |
//! | what makes them, what is asked for before the first poll, and that on its way | `handle.rs`, `plan.rs`, `progress.rs` |
//! | several locks at a time | `several.rs`, how they are come by `gather.rs` and `sweep.rs`, who waits for them `caller.rs`, between attempts `pause.rs`, their holds `many.rs`, one token for all of them `joint.rs`, what begins in one poll `together.rs`, what ends at once `slot.rs` |
//! | one acquisition from the ask to the guard | `acquisition.rs`, what it asks for `ask.rs` |
//! | the guard that users hold | `guard.rs`, whether what it has lasts `guard_lasts.rs` |
//! | a guard's share of a hold | `share.rs`, its end `unlock.rs`, that where home may stand still `minding.rs`, a longer lease `extend.rs` |
//! | the end of a detached hold, how a release went | `detached.rs`, `outcome.rs` |
//! | holds that are known by a token, what is said of a hold with its release | `by_token.rs`, `noted.rs` |
//! | a forced release | `force.rs`, what it has seen `seen.rs` |
//! | uses that are none, guards that are dropped at once | `misuse.rs`, `dropped_at_once.rs` |
//! | the one task that looks after all names | `driver.rs`, what is due `schedule.rs`, other servers `era.rs` |
//! | renewals | those that names decided on `renewals.rs`, which go together `renew.rs`, one call of many names `batches.rs` |
//! | the end of a client | `ending.rs`, what is told of a shutdown `winding_down.rs` |
//! | owners that wait for one another | `circles.rs`, whether anybody may `queued.rs` |
//! | which names there are | `registry.rs`, which lock a name is within a client `kinds.rs` |
//! | the one subscription of a name | `listen.rs` |
//! | what was decided is done, in order | `perform.rs`, what is said of it `log.rs` |
//! | commands leave, each asked whether it is still wanted | `send.rs`, tries in their turn `in_turn.rs` |
//! | commands under way, which are the name's and no caller's | who polls them `flying.rs`, their list `flights.rs`, the answer to one `replying.rs`, what it means to a name `convert.rs`, of those that replicas are to know of `replicas.rs` |
//! | why something could not be done, in words | `failure.rs` |
//! | calls from elsewhere than where the client lives | `elsewhere.rs`, their timers `alarm.rs` |
//! | a name and its client: the door through which everything reaches it | `entry_ref.rs` |
//! | what a client's primitives share | `shared.rs`, what it was built with `settings.rs`, where it lives `home.rs` |
//! | how many tries are under way, how many old copies are watched for | `tries.rs`, `reap.rs` |
//! | one name behind its mutex | `entry.rs` |
//! | where an acquisition is told, and what the guards of its owner share | `tenure.rs`, how that ended `ended.rs` |
//! | how far a server is, whether it is silent, each server by itself | `distance.rs`, `unheard.rs`, `by_place.rs` |
//! | machines that slept, instants that are kept | `clock.rs`, `compact_instant.rs` |
//! | somebody else's code, which may panic | `foreign.rs` |
//! | what makes a primitive | `protocol.rs` |
//!
//! Nothing grows without a bound. Each bound is said once, where it is kept; files of the state are in `src/state`, those of the
//! backend in `src/backend`:
//!
//! | what | bound | where |
//! | --- | --- | --- |
//! | one command | the command timeout; of a renewal a third of its lease, or two round trips, and no longer than its hold | the backend, `batches.rs`, `distance.rs` |
//! | a try without an answer, for those who wait for ever | `unreachable_after`, and what an answer may take | state: `patience.rs` |
//! | an acquisition inside a hold, where the server answers nobody | `unreachable_after`, for those who wait for ever | state: `parts/counting.rs` |
//! | commands that change a hold's count | one under way, which says the newest; the end of the hold waits for none of them | state: `nest.rs`, `end.rs` |
//! | tries in flight at one place | twice `TRIES` where the server is near, twice `MOST_TRIES` where it is far; `ACKNOWLEDGED_TRIES` where replicas are to know of grants | `distance.rs`, `tries.rs` |
//! | a grant that replicas are to know of | the `within` of `replica_acks` and the command timeout | the backend |
//! | answers later than their own lease | `LATE_ANSWERS` | state: `attempt.rs` |
//! | pauses after faults, and between polls | full jitter, the second value of `pauses` and of `polls`; of several locks `LONGEST_PAUSE` | state: `Settings` in `env.rs`; `pause.rs` |
//! | a release that is not answered | repeated until its lease is over | state: `release.rs` |
//! | releases of a name that are not answered | `UNANSWERED`, then tries wait | state: `release.rs` |
//! | ends that may be asked for again | until whoever began one has asked, or its guard is dropped | state: `release.rs`, `undo.rs` |
//! | commands that nobody waits for any more | `GIVEN_UP` of a name, then the first of them counts as lost | `flights.rs` |
//! | a wait for a TTL that was told | the watchdog's timeout | state: `sleep.rs` |
//! | an old copy that may run | released every third of a lease, for a lease and a third | state: `parts/old_copies.rs` |
//! | numbers that are watched for, of a name and of all | `WATCHED`, `WATCHED_IN_ALL`, then the one whose watch ends first is forgotten | state: `parts/old_copies.rs`; `reap.rs` |
//! | a renewal that is not answered | repeated until the hold's deadline | state: `renewal.rs` |
//! | names whose guards are dropped at once | `COUNTED` | `dropped_at_once.rs` |
//! | turns that nobody takes | half a watchdog timeout for the first; from then on a `SHORT_TURN`th of it each, no shorter than `SHORTEST_TURN` and no longer than `ENOUGH`, until somebody comes | `settings.rs`; state: `parts/untaken.rs` |
//! | what others have of a name after a turn | `LONGEST`, and `LONGEST_REST` where this process is far | state: `parts/turns.rs` |
//! | keys in one renewal | `BATCH` | `batches.rs` |
//! | asking for every hold after a link was replaced | a `PIECE` at a time, within `WITHIN` | `era.rs` |
//! | renewals of one node under way | `UNDER_WAY` batches, then they wait in the order of their deadlines | `batches.rs`, `renew.rs` |
//! | waiters of a name | as many as wait | state: `parts/queue.rs` |
//! | names that a warning was given for | `WARNED` | `shared.rs` |
//! | lists that a thread keeps for what is decided next | `KEPT` | `perform.rs` |
//! | commands in a link's queue | `QUEUE`, then callers wait | the backend: `redis/options.rs` |
//! | pauses between links | full jitter, `CAP` | the backend: `backoff.rs` |
//! | orders of subscriptions | two for each that lives | the backend: `redis/pubsub/mod.rs` |
//!
//! Every entry has one `std` mutex. It is never held across an await, and nothing that may call back (a waker, a channel, a
//! guard's drop, a backend) runs under it: a name only says what is to be done, as `state::Effect`s, and `perform.rs` does that
//! once the mutex is free.

mod acquisition;
mod alarm;
mod ask;
mod batches;
mod by_place;
mod by_token;
mod caller;
mod circles;
mod clock;
mod compact_instant;
mod convert;
mod detached;
mod distance;
mod driver;
mod dropped_at_once;
mod elsewhere;
mod ended;
mod ending;
mod entry;
mod entry_ref;
mod era;
mod extend;
mod failure;
mod flights;
mod flying;
mod force;
mod foreign;
mod gather;
mod gathering;
mod guard;
mod guard_lasts;
mod handle;
mod home;
mod in_turn;
mod joint;
mod kinds;
mod listen;
mod log;
mod many;
mod minding;
mod misuse;
mod noted;
mod outcome;
mod pause;
mod perform;
mod plan;
mod progress;
mod protocol;
mod queued;
mod reap;
mod registry;
mod renew;
mod renewals;
mod replicas;
mod replying;
mod request;
mod schedule;
mod seen;
mod send;
mod settings;
mod several;
mod share;
mod shared;
mod slot;
mod sweep;
mod tenure;
mod together;
mod tries;
mod unheard;
mod unlock;
mod unlock_request;
mod winding_down;

pub(crate) use self::{
    by_token::Claim,
    clock::Clock,
    elsewhere::while_driven,
    handle::{Handle, Nesting},
    noted::NotedGuard,
    protocol::{
        Attempt, Forced, HoldNumber, Letting, Moved, Note, Protocol, Published, Publishes, Renewal, RenewalGroup, Sight,
    },
    settings::{Margin, Settings, Voted},
    several::Several,
    shared::Engine,
};
pub use self::{
    guard::LockGuard,
    outcome::Released,
    request::{Acquire, TryAcquire},
    unlock_request::Unlock,
    winding_down::Shutdown,
};

#[cfg(test)]
mod inside;
#[cfg(test)]
mod tests;
