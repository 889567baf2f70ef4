//! One link of a client, and the way on which it lies: which one it is, whether it is there, and what passes. It moves nothing.

use std::collections::VecDeque;

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    frame::FrameOrder,
    transit::{Streams, ToClient, ToServer},
};
use crate::backend::backoff::Backoff;

/// Whose links, and to which node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) client: Uuid,
    pub(super) node: usize,
}

/// One link of a client: to which node, to which process there, and which one it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkId {
    pub(super) node: usize,
    pub(super) instance: u64,
    pub(super) number: u64,
}

/// One link, from this end to the store's.
#[derive(Debug)]
pub(super) struct Link {
    /// Which one this is.
    pub(super) number: u64,
    /// The process that it leads to.
    pub(super) instance: u64,
    pub(super) stage: Stage,
    pub(super) opened: Instant,
    pub(super) backoff: Backoff,
    /// For what keeps the order of the link, and for what does not.
    streams: [Streams; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Up,
    /// To be replaced at a time that is set.
    Replacing,
    /// To be replaced as soon as anything can pass.
    Waiting,
}

/// Why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Cut,
    /// Nothing came over it any more.
    Silent,
}

/// What passes between this client and the store.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) partition: Partition,
    pub(super) server: ServerState,
    /// The process at the other end is gone, or knows nothing of this client's links.
    pub(super) severed: bool,
    /// Counts the times at which nothing passed any more.
    pub(super) block: u64,
    /// What stands on its way to the store, and in front of it.
    pub(super) held_to_server: VecDeque<(LinkId, ToServer)>,
    pub(super) held_to_client: VecDeque<(LinkId, ToClient)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Partition {
    #[default]
    Healed,
    Partitioned,
}

/// The server, as far as this client has to do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerState {
    #[default]
    Runs,
    Frozen,
}

impl Route {
    /// Of the same client, where this link leads.
    pub(super) fn of(client: Uuid, link_id: LinkId) -> Self {
        Self { client, node: link_id.node }
    }
}

impl Link {
    pub(super) fn new(now: Instant, instance: u64, number: u64) -> Self {
        Self {
            number,
            instance,
            stage: Stage::Up,
            opened: now,
            backoff: Backoff::default(),
            streams: Default::default(),
        }
    }

    /// This one, for whatever travels on it.
    pub(super) fn link_id(&self, node: usize) -> LinkId {
        LinkId { node, instance: self.instance, number: self.number }
    }

    pub(super) fn streams(&mut self, order: FrameOrder) -> &mut Streams {
        &mut self.streams[usize::from(order == FrameOrder::Apart)]
    }

    /// Whether nothing of this order is on its way.
    pub(super) fn is_clear(&self, order: FrameOrder) -> bool {
        let Streams { to_server, to_client } = &self.streams[usize::from(order == FrameOrder::Apart)];
        to_server.is_empty() && to_client.is_empty()
    }

    /// Nothing is on its way any more.
    pub(super) fn clear(&mut self) {
        self.streams = Default::default();
    }

    /// Whether this is the link of that number, and still there.
    pub(super) fn is(&self, number: u64) -> bool {
        self.stage == Stage::Up && self.number == number
    }
}

impl Path {
    /// Whether nothing comes through.
    pub(super) fn is_blocked(&self) -> bool {
        self.partition == Partition::Partitioned || self.server == ServerState::Frozen
    }
}
