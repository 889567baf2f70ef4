//! What travels between a client and the store, and the streams that keep it in order. It moves nothing.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    clock::after,
    conditions::Arrival,
    frame::{Answers, Frame, FrameOrder},
    trace::Purpose,
};

/// What goes to the store.
#[derive(Debug)]
pub(super) enum ToServer {
    Run { flight: u64, frame: Frame, reply: Arrival },
    Subscribe { channel: Arc<str>, generation: u64 },
    Unsubscribe { channel: Arc<str> },
}

/// What comes from the store.
#[derive(Debug)]
pub(super) enum ToClient {
    Answer { flight: u64, answers: Answers, order: FrameOrder },
    Confirm { channel: Arc<str>, generation: u64 },
    Message { channel: Arc<str>, bytes: Arc<[u8]> },
}

/// Both directions.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub(super) to_server: Stream,
    pub(super) to_client: Stream,
}

/// One direction of a way: what set out first arrives first.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) under_way: usize,
    pub(super) last: Option<Instant>,
}

impl Stream {
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

    pub(super) fn arrived(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

impl ToServer {
    pub(super) fn order(&self) -> FrameOrder {
        match self {
            Self::Run { frame, .. } => frame.order,
            Self::Subscribe { .. } | Self::Unsubscribe { .. } => FrameOrder::OfLink,
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Run { .. } => Purpose::Commands,
            Self::Subscribe { .. } | Self::Unsubscribe { .. } => Purpose::Messages,
        }
    }
}

impl ToClient {
    pub(super) fn order(&self) -> FrameOrder {
        match self {
            Self::Answer { order, .. } => *order,
            Self::Confirm { .. } | Self::Message { .. } => FrameOrder::OfLink,
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Answer { .. } => Purpose::Commands,
            Self::Confirm { .. } | Self::Message { .. } => Purpose::Messages,
        }
    }
}
