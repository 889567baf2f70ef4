//! What happens later, and whose it is. It happens to nobody by itself.

use uuid::Uuid;

use super::{
    connection::{LinkId, Route},
    frame::Frame,
    trace::Purpose,
    transit::{ToClient, ToServer},
};

/// What happens later.
#[derive(Debug)]
pub(super) enum Event {
    Arrives {
        client: Uuid,
        link_id: LinkId,
        what: ToServer,
    },
    Returns {
        client: Uuid,
        link_id: LinkId,
        what: ToClient,
    },
    /// A second copy reaches the store.
    Copy {
        client: Uuid,
        instance: u64,
        frame: Frame,
    },
    /// A command has waited for long enough.
    Overdue {
        client: Uuid,
        flight: u64,
    },
    /// A queued command has waited for long enough.
    QueueTimeout {
        client: Uuid,
        queued: u64,
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
        instance: u64,
    },
    /// A slot is where it was to go.
    Settled {
        slot: u16,
    },
    /// Whoever waits in line may have its turn.
    CheckQueues,
}

impl Event {
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self, Self::Arrives { .. } | Self::Returns { .. } | Self::Copy { .. })
    }

    /// Whether it happens though this client is gone.
    pub(super) fn outlives(&self, gone: Uuid) -> bool {
        match self {
            Self::Arrives { .. } | Self::Copy { .. } | Self::Gone { .. } | Self::Settled { .. } | Self::CheckQueues => {
                true
            }
            Self::Returns { client, .. } | Self::Overdue { client, .. } | Self::QueueTimeout { client, .. } => {
                *client != gone
            }
            Self::Replace { route, .. } | Self::Silent { route, .. } => route.client != gone,
        }
    }
}
