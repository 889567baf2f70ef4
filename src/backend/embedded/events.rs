//! What happens later, and whose it is. It happens to nobody by itself.

use uuid::Uuid;

use super::{
    connection::{Route, Wire},
    frame::Packet,
    trace::Purpose,
    transit::{Downward, Upward},
};

/// What happens later.
#[derive(Debug)]
pub(super) enum Event {
    Arrives {
        client: Uuid,
        wire: Wire,
        what: Upward,
    },
    Returns {
        client: Uuid,
        wire: Wire,
        what: Downward,
    },
    /// A second copy reaches the store.
    Copy {
        client: Uuid,
        host: u64,
        packet: Packet,
    },
    /// A command has waited for long enough.
    Overdue {
        client: Uuid,
        flight: u64,
    },
    /// A parked command has waited for long enough.
    Unsent {
        client: Uuid,
        parked: u64,
    },
    Replace {
        route: Route,
        link: Purpose,
    },
    /// Nobody has spoken on the link of the subscriptions since this block began.
    Silent {
        route: Route,
        block: u64,
    },
    /// A master that was replaced is gone.
    Gone {
        host: u64,
    },
    /// A slot is where it was to go.
    Settled {
        slot: u16,
    },
    /// Whoever waits in line may have its turn.
    Look,
}

impl Event {
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self, Self::Arrives { .. } | Self::Returns { .. } | Self::Copy { .. })
    }

    /// Whether it happens though this client is gone.
    pub(super) fn outlives(&self, gone: Uuid) -> bool {
        match self {
            Self::Arrives { .. } | Self::Copy { .. } | Self::Gone { .. } | Self::Settled { .. } | Self::Look => true,
            Self::Returns { client, .. } | Self::Overdue { client, .. } | Self::Unsent { client, .. } => {
                *client != gone
            }
            Self::Replace { route, .. } | Self::Silent { route, .. } => route.client != gone,
        }
    }
}
