//! Whether this process may try, by what others are to have of the name, and what that is to one who waits. `slice.rs` says which.

use std::time::Duration;

use super::super::{deadline::Instant, wish::Patience};

/// Whether this process may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Not before the release is answered.
    Unanswered,
    /// Others were told: not before somebody else's message, or `at`; who would not wait for that, not before `soon`.
    Until {
        soon: Instant,
        at: Instant,
    },
    /// The key may be free, and others who have waited longer go first until then.
    After(Instant),
    /// Those who are nearer have it to themselves until then: who waits here does not even listen.
    Rest(Instant),
}

impl Gate {
    /// What it is to whoever waits for so long, of which an answer takes `grace`.
    pub(crate) fn to(self, patience: Patience, now: Instant, grace: impl Fn() -> Duration) -> Self {
        match self {
            // Who asks once, or does not wait for so long, gives those that were told no more than a cool-down.
            Self::Until { soon, at } if soon <= now && patience.ends_by(at) => Self::Open,
            Self::Until { soon, at } if patience.ends_by(at) => Self::Until { soon, at: soon },
            // Who asks once asks now, and so does who would have no time left to.
            Self::After(at) if patience.ends_by(at + grace()) => Self::Open,
            Self::Rest(at) if patience.ends_by(at) => Self::Open,
            gate => gate,
        }
    }
}
