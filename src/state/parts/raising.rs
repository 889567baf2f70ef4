//! Commands that raise the life of a hold: its renewals, and longer leases that were asked for.

use super::super::{
    deadline::{Instant, LeaseRequest},
    id::CommandId,
};

/// The renewal of a hold: idle, or where it is. Few are anything else at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Renewal(Option<Box<Stage>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Sent(Renewing),
    Retry(Retry),
}

/// So many had no answer; the next one is due then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Retry {
    pub(crate) faults: u8,
    pub(crate) at: Instant,
}

impl Renewal {
    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// The one on its way.
    pub(crate) fn sent(&self) -> Option<&Renewing> {
        if let Stage::Sent(renewing) = self.0.as_deref()? { Some(renewing) } else { None }
    }

    pub(crate) fn sent_mut(&mut self) -> Option<&mut Renewing> {
        if let Stage::Sent(renewing) = self.0.as_deref_mut()? { Some(renewing) } else { None }
    }

    pub(crate) fn retry(&self) -> Option<Retry> {
        if let Stage::Retry(retry) = self.0.as_deref()? { Some(*retry) } else { None }
    }

    pub(crate) fn is_sent(&mut self, renewing: Renewing) {
        self.0 = Some(Box::new(Stage::Sent(renewing)));
    }

    pub(crate) fn retries(&mut self, retry: Retry) {
        self.0 = Some(Box::new(Stage::Retry(retry)));
    }

    /// Nothing is on its way, and none had no answer.
    pub(crate) fn rests(&mut self) {
        self.0 = None;
    }
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
