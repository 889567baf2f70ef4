//! What a caller asks for, and how long it waits for that, as the name is told it.

use std::{sync::Arc, time::Duration};

use tokio::{task, time::Instant};

use super::{entry::Event, shared::Engine, tenure::Tenure};
use crate::{
    lease::Lease,
    owner::Owner,
    state::{self, Id, Wish},
};

/// What a caller wants.
#[derive(Clone, Debug)]
pub(crate) struct AcquireOptions {
    pub(crate) owner: Owner,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) patience: Patience,
    /// The task that asks, if it is one.
    pub(crate) task: Option<task::Id>,
    /// Its owner may have the lock already.
    pub(crate) nests: bool,
}

/// How long what is acquired is to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) lease: Lease,
    pub(super) max_hold: Option<Duration>,
}

impl Terms {
    /// Until others are there as well, however long that takes.
    pub(super) const UNTIL_ALL: Self = Self { lease: Lease::Watchdog, max_hold: None };
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

    /// When the caller's wait ends, where a command's own deadline is not the end of it.
    pub(super) fn until(self) -> Option<Instant> {
        match self {
            Self::Until(until) | Self::OnceBy(until) => Some(until),
            Self::Once | Self::ForEver => None,
        }
    }
}

impl AcquireOptions {
    pub(super) fn event(&self, id: Id, waiter: &Arc<Tenure>, engine: &Engine) -> Event {
        let patience = match self.patience {
            Patience::Once => state::Patience::Once,
            Patience::OnceBy(until) => state::Patience::OnceBy(engine.instant(until)),
            Patience::Until(until) => state::Patience::Until(engine.instant(until)),
            Patience::ForEver => state::Patience::ForEver,
        };
        let wish = Wish { lease: lease_of(self.lease), max_hold: self.max_hold, patience };
        let owner = state::Owner(self.owner.number());
        Event::Ask { id, owner, wish, waiter: Arc::clone(waiter) }
    }
}

pub(super) fn lease_of(lease: Lease) -> state::Lease {
    match lease {
        Lease::Watchdog => state::Lease::Watchdog,
        Lease::Fixed(lease) => state::Lease::Fixed(lease),
    }
}
