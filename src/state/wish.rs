//! What a caller asks for.

use std::time::Duration;

use super::deadline::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub(crate) lease: Lease,
    /// So long after its grant the hold is over at the latest.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) patience: Patience,
}

/// How long a hold lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    /// The watchdog's timeout, renewed for as long as the ticket lives.
    Watchdog,
    Fixed(Duration),
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Patience {
    /// One try, no queue.
    Once,
    /// The same, and its answer is waited for until then.
    OnceBy(Instant),
    /// For the lock, and for an answer.
    Until(Instant),
    /// As long as the server answers.
    ForEver,
}

impl Patience {
    /// When the wait is over, if it ends by itself.
    pub(crate) fn until(self) -> Option<Instant> {
        match self {
            Self::Until(until) | Self::OnceBy(until) => Some(until),
            Self::Once | Self::ForEver => None,
        }
    }

    /// Whether the caller has nothing left to wait for by then.
    pub(crate) fn ends_by(self, at: Instant) -> bool {
        match self {
            Self::Once | Self::OnceBy(_) => true,
            Self::Until(until) => until <= at,
            Self::ForEver => false,
        }
    }

    /// Whether it waits for nothing but an answer.
    pub(crate) fn asks_once(self) -> bool {
        matches!(self, Self::Once | Self::OnceBy(_))
    }
}
