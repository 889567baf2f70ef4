//! Commands that raise the life of a hold: its renewals, and longer leases that were asked for.

use super::super::{
    deadline::{Instant, LeaseRequest},
    id::CommandId,
};

/// The renewal of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Renewal {
    Idle,
    /// Few are on their way at a time.
    Sent(Box<Renewing>),
    /// So many had no answer; the next one is due then.
    Retry {
        faults: u8,
        at: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Renewing {
    pub(crate) command: CommandId,
    pub(crate) request: LeaseRequest,
    /// The next renewal is due a third of the watchdog after this, wherever this one stood in line.
    pub(crate) decided: Instant,
    /// So many before it had no answer.
    pub(crate) faults: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extension<W> {
    pub(crate) command: CommandId,
    pub(crate) request: LeaseRequest,
    /// An earlier server did it: the present one is asked, too.
    pub(crate) again: bool,
    pub(crate) waiter: W,
}
