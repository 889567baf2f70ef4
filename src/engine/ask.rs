//! What a caller asks for, and how long it waits for that. What is done about it is in `acquisition.rs`.

use std::time::Duration;

use tokio::{task, time::Instant};

use crate::{lease::Lease, owner::Owner};

/// What a caller wants.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) owner: Owner,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) patience: Patience,
    /// The task that asks, if it is one.
    pub(crate) task: Option<task::Id>,
    /// Its owner may have the lock already.
    pub(crate) nests: bool,
    /// The caller is elsewhere, and takes what it is given when it is polled there.
    pub(crate) elsewhere: bool,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One try, no queue.
    Once,
    /// The same, and for its answer no longer than somebody waits whose wait ends then.
    OnceBy(Instant),
    Until(Instant),
    /// As long as the server answers.
    ForEver,
}

impl Patience {
    /// Whether the caller has nothing left to wait for by then.
    pub(super) fn ends_by(self, at: Instant) -> bool {
        match self {
            Self::Once | Self::OnceBy(_) => true,
            Self::Until(until) => until <= at,
            Self::ForEver => false,
        }
    }

    /// Whether there is one try, and no waiting for others.
    pub(super) fn asks_once(self) -> bool {
        matches!(self, Self::Once | Self::OnceBy(_))
    }

    /// When the caller's wait ends, where a command's own deadline is not the end of it.
    pub(super) fn until(self) -> Option<Instant> {
        match self {
            Self::Until(until) | Self::OnceBy(until) => Some(until),
            Self::Once | Self::ForEver => None,
        }
    }
}
