//! One lock over masters that know nothing of each other: a vote by majority, one fresh number a round.
//!
//! A [`Quorum`](protocol::Quorum) is a `Protocol` over the protocols of one name at each master, with an engine of its own: one queue,
//! one contender, one watchdog a name. Each verb is a round: all masters are asked at once, and the ballot is decided as soon as a
//! majority said yes, or can no longer.
//!
//! ```text
//!            one name, n masters, q = n / 2 + 1
//!
//!  free ──acquire──> q yes ────────────────────> held ──renew: q yes──> held, and what is gone is mended
//!    ^                 │ q can no longer come      │  └──renew: q gone──> lost
//!    │                 v                           v
//!    └──released── split: released everywhere <── released everywhere; who kept silent is told later
//! ```
//!
//! | what | file |
//! | --- | --- |
//! | the seam to the engine | `protocol.rs` |
//! | votes for a hold, for an end, for a longer lease and what is mended, looks | `acquire.rs`, `release.rs`, `renewal.rs`, `look.rs` |
//! | one name at all masters, what they share | `everywhere.rs`, `fleet.rs` |
//! | who the masters are | `identity.rs` |
//! | one question, from the first sending to the decision | `round.rs` |
//! | what comes after the decision | `stragglers.rs` |
//! | what is heard from all masters, told as one | `line.rs`, which of it is passed on: decides, and does nothing `waves.rs` |
//! | what an answer counts as | `words.rs` |
//! | how votes are counted: decides, and does nothing | `ballot.rs` |
//! | one master: suspect, young, owed | `master.rs` |
//! | what masters said, in words | `report.rs` |

mod acquire;
mod ballot;
mod everywhere;
mod fleet;
mod identity;
mod line;
mod look;
mod master;
mod protocol;
mod release;
mod renewal;
mod report;
mod round;
mod stragglers;
mod waves;
mod words;

#[cfg(test)]
mod tests;

pub use self::report::{Said, Vote};
pub(crate) use self::{
    everywhere::Everywhere,
    fleet::{Fleet, MOST, Member, Terms},
    line::QuorumLine,
    master::Master,
    protocol::Quorum,
};
