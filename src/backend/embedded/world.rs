//! All that a store is, under one mutex: the server, its clock, its clients, what happens later, and what is to be told. How
//! things travel is in `traffic.rs`, `breaks.rs` and `subscribers.rs`.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt, mem,
    sync::Arc,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{oneshot, watch},
    time::Instant,
};
use uuid::Uuid;

use super::{
    member::{Downward, Member, Parked, Signals, Upward},
    packet::{self, Answers, Packet},
    ran::Ran,
    server::{MAX_BYTES, Published, Reply, Server},
    trace::{Happening, Purpose, Road, Traced},
    weather::Weather,
};
use crate::{
    backend::{Fault, Heard, Listener, Value},
    chance::Chance,
    error::{Error, Result},
};

/// What the store's clock shows at its beginning: far enough from zero to be set back.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

/// As good as never, for whatever is to happen later than a clock can tell.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600 * 30);

/// So much later.
pub(super) fn after(now: Instant, by: Duration) -> Instant {
    now + by.min(NEVER)
}

/// Everything about a store.
#[derive(Debug)]
pub(super) struct World {
    server: Server,
    pub(super) chance: Chance,
    pub(super) weather: Option<Weather>,
    /// What the server may keep, where that was said.
    memory: Option<usize>,
    clock: Clock,
    pub(super) members: BTreeMap<Uuid, Member>,
    /// Who listens where, as the server knows it.
    pub(super) audience: BTreeMap<Arc<str>, BTreeSet<Uuid>>,
    agenda: BTreeMap<(Instant, u64), Event>,
    /// Numbers for whatever must be told apart.
    drawn: u64,
    pub(super) pump: Pump,
    /// To be told outside of the mutex, in this order.
    pub(super) news: VecDeque<News>,
    /// Whoever tells tells everything, so that the order stays.
    pub(super) telling: bool,
    trace: Option<Vec<Traced>>,
}

/// Whose runtime's time it is, and how far the store's clock was set.
#[derive(Debug, Default)]
struct Clock {
    runtime: Option<Handle>,
    start: Option<Instant>,
    /// The time of the step that is being made: asked for once.
    moment: Cell<Option<Instant>>,
    ahead: Duration,
    behind: Duration,
}

/// Whether there is a task for what happens later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pump {
    #[default]
    Idle,
    Runs,
    /// It runs, and must look again: something is to happen sooner than it knew.
    Late,
    /// Its runtime took it away: nothing happens any more.
    Ended,
}

/// What happens later.
#[derive(Debug)]
pub(super) enum Event {
    Arrives {
        client: Uuid,
        link: u64,
        what: Upward,
    },
    Returns {
        client: Uuid,
        link: u64,
        what: Downward,
    },
    /// A second copy reaches the store.
    Copy {
        client: Uuid,
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
        client: Uuid,
        link: Purpose,
    },
    /// Nobody has spoken on the link of the subscriptions since this block began.
    Silent {
        client: Uuid,
        block: u64,
    },
}

/// What is told outside of the mutex.
pub(super) enum News {
    Subscribed(Arc<dyn Listener>),
    Interrupted(Arc<dyn Listener>),
    Message(Arc<dyn Listener>, Arc<[u8]>),
    Answer(oneshot::Sender<Answers>, Answers),
    /// There is a new link for commands, of this number.
    Linked(watch::Sender<u64>, u64),
    /// Nothing to tell: only to be dropped, and with it what it was to ask.
    Over(Parked),
}

impl News {
    pub(super) fn tell(self) {
        match self {
            Self::Subscribed(listener) => listener.hear(Heard::Subscribed),
            Self::Interrupted(listener) => listener.hear(Heard::Interrupted),
            Self::Message(listener, bytes) => listener.hear(Heard::Message(&bytes)),
            // Nobody waits any more: so be it.
            Self::Answer(caller, answers) => drop(caller.send(answers)),
            Self::Linked(eras, number) => drop(eras.send_replace(number)),
            Self::Over(parked) => drop(parked),
        }
    }
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("News")
    }
}

impl World {
    pub(super) fn new(chance: Chance) -> Self {
        Self {
            server: Server::default(),
            chance,
            weather: None,
            memory: None,
            clock: Clock::default(),
            members: BTreeMap::new(),
            audience: BTreeMap::new(),
            agenda: BTreeMap::new(),
            drawn: 0,
            pump: Pump::default(),
            news: VecDeque::new(),
            telling: false,
            trace: None,
        }
    }

    /// A client comes, if it lives where the store does. When it came.
    pub(super) fn join(&mut self, client: Uuid, command_timeout: Duration, signals: &Signals) -> Result<Instant> {
        self.bind();
        if self.pump == Pump::Ended {
            return Err(Error::invalid(
                "runtime",
                "the tokio runtime of this embedded store has ended; make a new store",
            ));
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        if here != self.clock.runtime.as_ref().map(Handle::id) {
            return Err(Error::invalid(
                "runtime",
                "this embedded store lives on another tokio runtime, that of its first client; make one store for each",
            ));
        }
        Ok(self.enter(client, command_timeout, signals))
    }

    /// The first one to come says whose time it is.
    pub(super) fn bind(&mut self) {
        if self.clock.runtime.is_none() {
            self.clock.runtime = Handle::try_current().ok();
            self.clock.start = self.clock.runtime.is_some().then(Instant::now);
        }
    }

    pub(super) fn enter(&mut self, client: Uuid, command_timeout: Duration, signals: &Signals) -> Instant {
        let now = self.now();
        self.members.insert(client, Member::new(client, command_timeout, now, signals.clone()));
        now
    }

    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.clock.runtime.as_ref()
    }

    /// A step begins: no time goes by until the next one.
    pub(super) fn step(&self) {
        self.clock.moment.set(None);
    }

    /// The time of the store's runtime, wherever it is asked.
    pub(super) fn now(&self) -> Instant {
        let moment = self.clock.moment.get().unwrap_or_else(|| self.time());
        self.clock.moment.set(Some(moment));
        moment
    }

    fn time(&self) -> Instant {
        let here = Handle::try_current().ok().map(|here| here.id());
        match &self.clock.runtime {
            Some(own) if here != Some(own.id()) => {
                let _entered = own.enter();
                Instant::now()
            }
            _ => Instant::now(),
        }
    }

    fn since_start(&self) -> Duration {
        self.clock.start.map_or(Duration::ZERO, |start| self.now().saturating_duration_since(start))
    }

    fn server_time(&self) -> Duration {
        (BEGINNING + self.since_start()).saturating_add(self.clock.ahead).saturating_sub(self.clock.behind)
    }

    pub(super) fn set_clock_ahead(&mut self, by: Duration) {
        self.clock.ahead = self.clock.ahead.saturating_add(by);
    }

    pub(super) fn set_clock_back(&mut self, by: Duration) {
        self.clock.behind = self.clock.behind.saturating_add(by);
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// Something is to happen at this time.
    pub(super) fn plan(&mut self, at: Instant, event: Event) -> (Instant, u64) {
        let key = (at, self.draw());
        if self.pump == Pump::Runs && self.agenda.first_key_value().is_none_or(|(&(first, _), _)| at < first) {
            self.pump = Pump::Late;
        }
        self.agenda.insert(key, event);
        key
    }

    pub(super) fn cancel(&mut self, key: (Instant, u64)) {
        self.agenda.remove(&key);
    }

    /// What is due, the oldest first.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<Event> {
        let first = self.agenda.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(super) fn next_time(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|(&(at, _), _)| at)
    }

    /// What was to happen and now will not, the soonest first.
    pub(super) fn take_planned(&mut self, which: impl Fn(&Event) -> bool) -> Vec<Event> {
        let (taken, kept): (BTreeMap<_, _>, _) = mem::take(&mut self.agenda).into_iter().partition(|(_, it)| which(it));
        self.agenda = kept;
        taken.into_values().collect()
    }

    /// Runs what a packet holds, and sends what it published on its way.
    pub(super) fn execute(&mut self, client: Uuid, packet: &Packet, road: Road) -> Answers {
        let answers: Answers = (0..packet.words().len()).map(|place| self.run(client, packet, place, road)).collect();
        if let Some(member) = self.members.get_mut(&client) {
            member.calls += answers.len() as u64;
        }
        answers
    }

    fn run(&mut self, client: Uuid, packet: &Packet, place: usize, road: Road) -> std::result::Result<Value, Fault> {
        let now = self.server_time();
        let reply = packet.words()[place].run(&mut self.server, now);
        self.note(client, || Happening::Ran(Ran::new(packet, place, &reply, road)));
        self.publish();
        packet::value(reply)
    }

    /// Runs a command of the store's own.
    pub(super) fn command(&mut self, words: &[&[u8]]) -> Reply {
        let now = self.server_time();
        let reply = self.server.execute(now, words);
        self.publish();
        reply
    }

    /// What a hash has at this instant.
    pub(super) fn hash(&self, key: &str) -> Vec<(String, String)> {
        self.step();
        self.server.hash(self.server_time(), key.as_bytes())
    }

    /// Lets the store itself write, however full it is.
    pub(super) fn unlimited<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.server.limit(usize::MAX);
        let written = write(self);
        self.server.limit(self.memory.unwrap_or(MAX_BYTES));
        written
    }

    /// Nothing was ever there.
    pub(super) fn forget_everything(&mut self) {
        self.server = Server::default();
        self.audience.clear();
        if let Some(bytes) = self.memory {
            self.server.limit(bytes);
        }
    }

    pub(super) fn limit_memory(&mut self, bytes: usize) {
        self.memory = Some(bytes);
        self.server.limit(bytes);
    }

    fn publish(&mut self) {
        for Published { channel, message, sharded } in self.server.take_published() {
            let channel = std::str::from_utf8(&channel).ok().filter(|_| !sharded);
            let found = channel.and_then(|channel| self.audience.get_key_value(channel));
            let Some((channel, audience)) = found else { continue };
            let (channel, audience) = (Arc::clone(channel), audience.iter().copied().collect::<Vec<_>>());
            let bytes: Arc<[u8]> = message.into();
            for client in audience {
                self.send_message(client, &channel, &bytes);
            }
        }
    }

    /// The server counts who listens.
    pub(super) fn count_listeners(&mut self, channel: &str) {
        let count = self.audience.get(channel).map_or(0, BTreeSet::len);
        self.server.listen(channel.as_bytes(), count);
        if count == 0 {
            self.audience.remove(channel);
        }
    }

    pub(super) fn note(&mut self, client: Uuid, what: impl FnOnce() -> Happening) {
        // Without a trace the time is not asked for: a client may go when its thread has no time any more.
        if self.trace.is_none() {
            return;
        }
        let at = self.since_start();
        if let Some(trace) = &mut self.trace {
            trace.push(Traced { at, client, what: what() });
        }
    }

    pub(super) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(super) fn take_trace(&mut self) -> Vec<Traced> {
        self.trace.as_mut().map(mem::take).unwrap_or_default()
    }
}
