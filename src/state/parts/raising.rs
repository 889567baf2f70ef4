//! Commands that raise the life of a hold: its renewals, and longer leases that were asked for.

use super::super::{
    deadline::{Instant, LeaseRequest},
    id::CommandId,
};

/// The renewal of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Renewal {
    Idle,
    Sent {
        command: CommandId,
        request: LeaseRequest,
        faults: u8,
    },
    /// So many had no answer; the next one is due then.
    Retry {
        faults: u8,
        at: Instant,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extension<W> {
    pub(crate) command: CommandId,
    pub(crate) request: LeaseRequest,
    /// An earlier server did it: the present one is asked, too.
    pub(crate) again: bool,
    pub(crate) waiter: W,
}
