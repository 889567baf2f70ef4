//! What travels between a client and the store, and the lanes that keep it in order. It moves nothing.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    clock::after,
    conditions::Passage,
    frame::{Answers, Packet, PacketOrder},
    trace::Purpose,
};

/// What goes to the store.
#[derive(Debug)]
pub(super) enum Upward {
    Run { flight: u64, packet: Packet, reply: Passage },
    Listen { channel: Arc<str>, ticket: u64 },
    Unlisten { channel: Arc<str> },
}

/// What comes from the store.
#[derive(Debug)]
pub(super) enum Downward {
    Answer { flight: u64, answers: Answers, order: PacketOrder },
    Confirm { channel: Arc<str>, ticket: u64 },
    Message { channel: Arc<str>, bytes: Arc<[u8]> },
}

/// Both directions.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub(super) there: Lane,
    pub(super) back: Lane,
}

/// One direction of a way: what set out first arrives first.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) under_way: usize,
    pub(super) last: Option<Instant>,
}

impl Lane {
    /// When something arrives that sets out now; `None`: at once.
    pub(super) fn enter(&mut self, now: Instant, delay: Duration) -> Option<Instant> {
        if delay.is_zero() && self.under_way == 0 {
            return None;
        }
        let at = after(now, delay).max(self.last.unwrap_or(now));
        self.under_way += 1;
        self.last = Some(at);
        Some(at)
    }

    /// Whether nothing is on its way here.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way == 0
    }

    pub(super) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

impl Upward {
    pub(super) fn order(&self) -> PacketOrder {
        match self {
            Self::Run { packet, .. } => packet.order,
            Self::Listen { .. } | Self::Unlisten { .. } => PacketOrder::OfLink,
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Run { .. } => Purpose::Commands,
            Self::Listen { .. } | Self::Unlisten { .. } => Purpose::Messages,
        }
    }
}

impl Downward {
    pub(super) fn order(&self) -> PacketOrder {
        match self {
            Self::Answer { order, .. } => *order,
            Self::Confirm { .. } | Self::Message { .. } => PacketOrder::OfLink,
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Answer { .. } => Purpose::Commands,
            Self::Confirm { .. } | Self::Message { .. } => Purpose::Messages,
        }
    }
}
