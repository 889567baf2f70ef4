//! The engine: does what the names decide, for every primitive. It knows none of them.
//!
//! What is decided about a name is in `src/state`; here nothing is.
//!
//! | what is done | file |
//! | --- | --- |
//! | one name behind its mutex, and the door through which everything reaches it | `entry.rs`, its life `registry.rs` |
//! | what was decided is done, in order | `perform.rs`, what is said of it `log.rs` |
//! | commands leave, each asked whether it is still wanted | `send.rs`, what answers mean to a name `convert.rs` |
//! | commands under way, which are the name's and no caller's | `flights.rs`, of those that replicas are to know of `replicas.rs` |
//! | how many tries are under way, how many old copies are watched for | `tries.rs`, `reap.rs` |
//! | the one subscription of a name | `listen.rs` |
//! | the one task that looks after all names: what is due, renewals in batches, other servers | `driver.rs`, `schedule.rs`, `renew.rs`, `batches.rs`, `era.rs` |
//! | one acquisition from the ask to the guard | `acquisition.rs`, `ask.rs`, where it is told `tenure.rs` |
//! | a guard's share of a hold, its end, a longer lease | `share.rs`, `unlock.rs`, `detached.rs`, `extend.rs` |
//! | a forced release, holds that are known by a token | `force.rs`, `by_token.rs` |
//! | why something could not be done, in words | `failure.rs` |
//! | somebody else's code, which may panic | `foreign.rs` |
//! | what a client's primitives share, and its end | `shared.rs`, `ending.rs` |

mod acquisition;
mod alarm;
mod ask;
mod batches;
mod by_place;
mod by_token;
mod caller;
mod circles;
mod clock;
mod convert;
mod date;
mod detached;
mod distance;
mod driver;
mod dropped_at_once;
mod elsewhere;
mod ending;
mod entry;
mod era;
mod extend;
mod failure;
mod flights;
mod force;
mod foreign;
mod gather;
mod guard;
mod handle;
mod home;
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
mod reap;
mod registry;
mod renew;
mod replicas;
mod request;
mod schedule;
mod send;
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

#[cfg(test)]
mod inside;
#[cfg(test)]
mod tests;
