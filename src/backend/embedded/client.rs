//! One client as the store sees it: its links, its commands and subscriptions, and what is to befall it. It moves nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Range,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use uuid::Uuid;

use super::{
    conditions::Weather,
    connection::{Link, Path, Stage},
    frame::{Answers, Frame},
    trace::Purpose,
};
use crate::backend::{Listener, RoundTrips, dispatch::Dispatches};

/// The number of the first link.
const FIRST_LINK: u64 = 1;

/// One client.
#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) id: Uuid,
    pub(super) command_timeout: Duration,
    /// To each node.
    pub(super) links: Vec<Links>,
    /// Commands that left, the oldest first.
    pub(super) flights: BTreeMap<u64, Flight>,
    pub(super) channels: BTreeMap<Arc<str>, Channel>,
    pub(super) planned: PlannedFaults,
    /// Its own, in place of that of all.
    pub(super) conditions: Option<Weather>,
    pub(super) signals: Signals,
    /// The last number that was drawn for a link for commands, or for the way to a slot that moved.
    newest: u64,
    /// Of the way to each slot that moved, by the last move.
    pub(super) slot_links: BTreeMap<u16, u64>,
    /// Scripts of its that ran.
    pub(super) calls: u64,
}

/// What leads from one client to one node.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) commands: Link,
    pub(super) messages: Link,
    /// Commands that found no link, in the order in which they came.
    pub(super) queued: VecDeque<QueuedCommand>,
    pub(super) path: Path,
    /// When a script was last answered, or the client began.
    pub(super) last_answer: Instant,
}

/// What is told of a client's links to whoever waits for answers over them.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    /// The number of the newest link for commands.
    pub(super) eras: watch::Sender<u64>,
    /// To each node.
    pub(super) round_trips: Arc<[RoundTrips]>,
}

impl Signals {
    pub(super) fn new(nodes: usize) -> Self {
        let newest = FIRST_LINK + nodes.saturating_sub(1) as u64;
        Self { eras: watch::Sender::new(newest), round_trips: (0..nodes).map(|_| RoundTrips::default()).collect() }
    }
}

/// A command that left and was not answered.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) node: usize,
    pub(super) sent: Instant,
    pub(super) answer: AnswerSlot,
    pub(super) frame: Frame,
    /// Whom to ask before it is sent once more, to another node.
    pub(super) dispatches: Option<Arc<Dispatches>>,
    /// Where it stands in the agenda.
    pub(super) due: Option<(Instant, u64)>,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) enum AnswerSlot {
    /// Its caller is still sending, and takes it from here.
    Here(Option<Answers>),
    Wanted(oneshot::Sender<Answers>),
    /// The caller was told that there is none.
    TooLate,
}

/// A command that found no link.
pub(super) struct QueuedCommand {
    pub(super) number: u64,
    pub(super) frame: Frame,
    pub(super) dispatches: Arc<Dispatches>,
    pub(super) deadline: Instant,
    /// Taken for as long as it is asked whether it may leave; the place is kept.
    pub(super) answer: Option<oneshot::Sender<Answers>>,
    pub(super) due: (Instant, u64),
}

impl fmt::Debug for QueuedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedCommand").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A channel that somebody of this client listens on.
pub(super) struct Channel {
    /// Which subscription of the channel this is: a late confirmation of an earlier one says nothing.
    pub(super) generation: u64,
    pub(super) listeners: Vec<(u64, Arc<dyn Listener>)>,
    pub(super) state: SubscriptionState,
    /// Where it is listened to.
    pub(super) node: usize,
    /// Of the key that it is about.
    pub(super) slot: Option<u16>,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("generation", &self.generation)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    Asked,
    Confirmed,
}

/// What is to befall the next commands.
#[derive(Debug, Default)]
pub(super) struct PlannedFaults {
    pub(super) requests: u32,
    pub(super) replies: u32,
    pub(super) copies: VecDeque<Duration>,
}

impl ClientState {
    pub(super) fn new(
        id: Uuid,
        command_timeout: Duration,
        now: Instant,
        signals: Signals,
        instances: impl Iterator<Item = u64>,
    ) -> Self {
        let links: Vec<_> =
            instances.zip(FIRST_LINK..).map(|(instance, number)| Links::new(now, instance, number)).collect();
        let newest = links.last().map_or(FIRST_LINK, |links| links.commands.number);
        Self {
            id,
            command_timeout,
            links,
            flights: BTreeMap::new(),
            channels: BTreeMap::new(),
            planned: PlannedFaults::default(),
            conditions: None,
            signals,
            newest,
            slot_links: BTreeMap::new(),
            calls: 0,
        }
    }

    pub(super) fn nodes(&self) -> Range<usize> {
        0..self.links.len()
    }

    /// Whether somebody of it listens there.
    pub(super) fn listens_at(&self, node: usize) -> bool {
        self.channels.values().any(|channel| channel.node == node)
    }

    /// The number of a link that comes in another's place.
    pub(super) fn next_number(&mut self, node: usize, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Commands => self.newer_number(),
            Purpose::Messages => self.links[node].messages.number + 1,
        }
    }

    /// A number that no way for commands had.
    pub(super) fn newer_number(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }
}

impl Links {
    fn new(now: Instant, instance: u64, number: u64) -> Self {
        Self {
            commands: Link::new(now, instance, number),
            messages: Link::new(now, instance, FIRST_LINK),
            queued: VecDeque::new(),
            path: Path::default(),
            last_answer: now,
        }
    }

    pub(super) fn of(&mut self, purpose: Purpose) -> &mut Link {
        match purpose {
            Purpose::Commands => &mut self.commands,
            Purpose::Messages => &mut self.messages,
        }
    }

    /// Whether a command that comes now may be sent at once.
    pub(super) fn is_open(&self) -> bool {
        self.commands.stage == Stage::Up && self.queued.is_empty()
    }
}

impl PlannedFaults {
    pub(super) fn is_nothing(&self) -> bool {
        self.requests == 0 && self.replies == 0 && self.copies.is_empty()
    }
}
