//! One client as the store sees it: its links, what is on its way, and what a test did to it. It moves nothing.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use uuid::Uuid;

use super::{
    packet::{Answers, Packet},
    trace::Purpose,
    weather::{Passage, Weather},
    world::after,
};
use crate::backend::{Listener, RoundTrips, backoff::Backoff, dispatch::Dispatches};

/// The number of the first link.
const FIRST_LINK: u64 = 1;

/// One client.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: Uuid,
    pub(super) command_timeout: Duration,
    pub(super) commands: Link,
    pub(super) messages: Link,
    /// Commands that left, the oldest first.
    pub(super) flights: BTreeMap<u64, Flight>,
    /// Commands that found no link, in the order in which they came.
    pub(super) parked: VecDeque<Parked>,
    pub(super) channels: BTreeMap<Arc<str>, Channel>,
    pub(super) path: Path,
    pub(super) armed: Armed,
    /// Its own, in place of that of all.
    pub(super) weather: Option<Weather>,
    /// When a script was last answered, or the client began.
    pub(super) last_answer: Instant,
    pub(super) signals: Signals,
    /// Scripts of its that ran.
    pub(super) calls: u64,
}

/// What is told of a client's links to whoever waits for answers over them.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    /// The number of the link for commands.
    pub(super) eras: watch::Sender<u64>,
    pub(super) round_trips: Arc<RoundTrips>,
}

impl Default for Signals {
    fn default() -> Self {
        Self { eras: watch::Sender::new(FIRST_LINK), round_trips: Arc::default() }
    }
}

/// One link, from this end to the store's.
#[derive(Debug)]
pub(super) struct Link {
    /// Which one this is.
    pub(super) number: u64,
    pub(super) stage: Stage,
    pub(super) opened: Instant,
    pub(super) backoff: Backoff,
    pub(super) there: Lane,
    pub(super) back: Lane,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Up,
    /// To be replaced at a time that is set.
    Replacing,
    /// To be replaced as soon as anything can pass.
    Waiting,
}

/// One direction of a link: what set out first arrives first.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) under_way: usize,
    pub(super) last: Option<Instant>,
}

/// A command that left and was not answered.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) sent: Instant,
    pub(super) answer: Answer,
    pub(super) packet: Packet,
    /// Where it stands in the agenda.
    pub(super) due: Option<(Instant, u64)>,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) enum Answer {
    /// Its caller is still sending, and takes it from here.
    Here(Option<Answers>),
    Wanted(oneshot::Sender<Answers>),
    /// The caller was told that there is none.
    TooLate,
}

/// A command that found no link.
pub(super) struct Parked {
    pub(super) number: u64,
    pub(super) packet: Packet,
    pub(super) dispatches: Arc<Dispatches>,
    pub(super) deadline: Instant,
    /// Taken for as long as it is asked whether it may leave; the place is kept.
    pub(super) answer: Option<oneshot::Sender<Answers>>,
    pub(super) due: (Instant, u64),
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parked").field("number", &self.number).finish_non_exhaustive()
    }
}

/// A channel that somebody of this client listens on.
pub(super) struct Channel {
    /// Which subscription of the channel this is: a late confirmation of an earlier one says nothing.
    pub(super) ticket: u64,
    pub(super) listeners: Vec<(u64, Arc<dyn Listener>)>,
    pub(super) hearing: Hearing,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("ticket", &self.ticket).field("hearing", &self.hearing).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    Asked,
    Confirmed,
}

/// What passes between this client and the store.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) split: Split,
    pub(super) server: Server,
    /// The server came back empty meanwhile, and knows nothing of this client's links.
    pub(super) severed: bool,
    /// Counts the times at which nothing passed any more.
    pub(super) block: u64,
    /// What stands on its way to the store, and in front of it.
    pub(super) held_there: VecDeque<(u64, Upward)>,
    pub(super) held_back: VecDeque<(u64, Downward)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Split {
    #[default]
    Whole,
    Parted,
}

/// The server, as far as this client has to do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Server {
    #[default]
    Runs,
    Frozen,
}

/// What is to befall the next commands.
#[derive(Debug, Default)]
pub(super) struct Armed {
    pub(super) requests: u32,
    pub(super) replies: u32,
    pub(super) copies: VecDeque<Duration>,
}

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
    Answer { flight: u64, answers: Answers },
    Confirm { channel: Arc<str>, ticket: u64 },
    Message { channel: Arc<str>, bytes: Arc<[u8]> },
}

impl Member {
    pub(super) fn new(id: Uuid, command_timeout: Duration, now: Instant, signals: Signals) -> Self {
        Self {
            id,
            command_timeout,
            commands: Link::new(now),
            messages: Link::new(now),
            flights: BTreeMap::new(),
            parked: VecDeque::new(),
            channels: BTreeMap::new(),
            path: Path::default(),
            armed: Armed::default(),
            weather: None,
            last_answer: now,
            signals,
            calls: 0,
        }
    }

    pub(super) fn link(&mut self, purpose: Purpose) -> &mut Link {
        match purpose {
            Purpose::Commands => &mut self.commands,
            Purpose::Messages => &mut self.messages,
        }
    }

    /// Whether a command that comes now may be sent at once.
    pub(super) fn is_open(&self) -> bool {
        self.commands.stage == Stage::Up && self.parked.is_empty()
    }
}

impl Link {
    fn new(now: Instant) -> Self {
        Self {
            number: FIRST_LINK,
            stage: Stage::Up,
            opened: now,
            backoff: Backoff::default(),
            there: Lane::default(),
            back: Lane::default(),
        }
    }

    /// Whether this is the link of that number, and still there.
    pub(super) fn is(&self, number: u64) -> bool {
        self.stage == Stage::Up && self.number == number
    }
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

impl Armed {
    pub(super) fn is_nothing(&self) -> bool {
        self.requests == 0 && self.replies == 0 && self.copies.is_empty()
    }
}

impl Path {
    /// Whether nothing comes through.
    pub(super) fn is_blocked(&self) -> bool {
        self.split == Split::Parted || self.server == Server::Frozen
    }
}

impl Upward {
    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Run { .. } => Purpose::Commands,
            Self::Listen { .. } | Self::Unlisten { .. } => Purpose::Messages,
        }
    }
}

impl Downward {
    pub(super) fn purpose(&self) -> Purpose {
        match self {
            Self::Answer { .. } => Purpose::Commands,
            Self::Confirm { .. } | Self::Message { .. } => Purpose::Messages,
        }
    }
}
