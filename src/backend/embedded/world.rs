//! All that a store is, under one mutex: its servers, their clock, its clients, what happens later, and what is to be told. How
//! things travel is in `traffic.rs`, `breaks.rs` and `subscribers.rs`.

use std::{
    collections::{BTreeMap, VecDeque},
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
    cargo::{Downward, Upward},
    clock::Clock,
    hosts::Hosts,
    member::{Member, Route, Signals, Wire},
    packet::{self, Answers, Packet},
    ran::Ran,
    server::{Published, Reply},
    trace::{Happening, Purpose, Road, Traced},
    traffic::moved,
    weather::Weather,
};
use crate::{
    backend::{Fault, Heard, Listener, Value, dispatch::Dispatches},
    chance::Chance,
    error::{Error, Result},
};

/// Everything about a store.
#[derive(Debug)]
pub(super) struct World {
    pub(super) hosts: Hosts,
    pub(super) chance: Chance,
    pub(super) weather: Option<Weather>,
    pub(super) clock: Clock,
    pub(super) members: BTreeMap<Uuid, Member>,
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
        wire: Wire,
        what: Upward,
    },
    Returns {
        client: Uuid,
        wire: Wire,
        what: Downward,
    },
    /// A second copy reaches the store.
    Copy {
        client: Uuid,
        host: u64,
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
        host: u64,
    },
    /// A slot is where it was to go.
    Settled {
        slot: u16,
    },
    /// Whoever waits in line may have its turn.
    Look,
}

/// What is told outside of the mutex.
pub(super) enum News {
    Subscribed(Arc<dyn Listener>),
    Interrupted(Arc<dyn Listener>),
    Message(Arc<dyn Listener>, Arc<[u8]>),
    Answer(oneshot::Sender<Answers>, Answers),
    /// There is a new link for commands, of this number.
    Linked(watch::Sender<u64>, u64),
    /// Nothing to tell: only to be dropped. With the question whether a command may leave the last of its client may go.
    Over(Arc<Dispatches>),
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
            Self::Over(question) => drop(question),
        }
    }
}

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("News")
    }
}

impl World {
    pub(super) fn new(chance: Chance, hosts: Hosts) -> Self {
        Self {
            hosts,
            chance,
            weather: None,
            clock: Clock::default(),
            members: BTreeMap::new(),
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
        self.clock.bind();
        if self.pump == Pump::Ended {
            return Err(Error::invalid(
                "runtime",
                "the tokio runtime of this embedded store has ended; make a new store",
            ));
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        if here != self.clock.runtime().map(Handle::id) {
            return Err(Error::invalid(
                "runtime",
                "this embedded store lives on another tokio runtime, that of its first client; make one store for each",
            ));
        }
        Ok(self.enter(client, command_timeout, signals))
    }

    pub(super) fn enter(&mut self, client: Uuid, command_timeout: Duration, signals: &Signals) -> Instant {
        let now = self.now();
        let hosts = (0..self.hosts.nodes()).map(|node| self.hosts.master(node));
        self.members.insert(client, Member::new(client, command_timeout, now, signals.clone(), hosts));
        now
    }

    /// A step begins: no time goes by until the next one.
    pub(super) fn step(&self) {
        self.clock.step();
    }

    /// The time of the store's runtime, wherever it is asked.
    pub(super) fn now(&self) -> Instant {
        self.clock.now()
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

    /// Runs what a packet holds where it came to, and sends what it published on its way.
    pub(super) fn execute(&mut self, client: Uuid, host: u64, packet: &Packet, road: Road) -> Answers {
        let answers: Answers =
            (0..packet.calls().len()).map(|place| self.run(client, host, packet, place, road)).collect();
        if let Some(member) = self.members.get_mut(&client) {
            member.calls += answers.len() as u64;
        }
        answers
    }

    fn run(
        &mut self,
        client: Uuid,
        host: u64,
        packet: &Packet,
        place: usize,
        road: Road,
    ) -> std::result::Result<Value, Fault> {
        let (now, time, words) = (self.now(), self.clock.server_time(), &packet.calls()[place]);
        let Some(node) = self.hosts.get(host).map(|host| host.node).filter(|_| self.hosts.has(host, words)) else {
            return Err(moved());
        };
        let rival = self.hosts.is_rival(host);
        self.hosts.note(host, now, words.keys.iter().map(String::as_str));
        let Some(at) = self.hosts.get_mut(host) else { return Err(moved()) };
        let reply = words.run(&mut at.server, time);
        self.note(client, || Happening::Ran(Ran::new(packet, place, &reply, road).at_rival(rival)));
        self.publish(node, host);
        packet::value(reply)
    }

    /// Runs a command of the store's own, on a key.
    pub(super) fn command(&mut self, words: &[&[u8]]) -> Reply {
        let (now, time) = (self.now(), self.clock.server_time());
        let key = words.get(1).and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
        let node = self.hosts.node_of(key);
        let host = self.hosts.master(node);
        self.hosts.note(host, now, [key]);
        let reply = self.hosts.get_mut(host).map_or(Reply::Nil, |host| host.server.execute(time, words));
        self.publish(node, host);
        reply
    }

    /// Every key that lives.
    pub(super) fn keys(&self) -> Vec<String> {
        self.step();
        let time = self.clock.server_time();
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        let keys = self.hosts.masters().flat_map(|host| {
            let its = |key: &String| self.hosts.node_of(key) == host.node;
            host.server.keys(time).into_iter().map(text).filter(its)
        });
        keys.collect()
    }

    /// What a hash has at this instant.
    pub(super) fn hash(&self, key: &str) -> Vec<(String, String)> {
        self.step();
        let host = self.hosts.get(self.hosts.master(self.hosts.node_of(key)));
        host.map_or_else(Vec::new, |host| host.server.hash(self.clock.server_time(), key.as_bytes()))
    }

    pub(super) fn string(&self, key: &str) -> Option<String> {
        self.step();
        let host = self.hosts.get(self.hosts.master(self.hosts.node_of(key)))?;
        host.server.string(self.clock.server_time(), key.as_bytes())
    }

    /// Lets the store itself write, however full it is.
    pub(super) fn unlimited<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.hosts.lift_limit(true);
        let written = write(self);
        self.hosts.lift_limit(false);
        written
    }

    fn publish(&mut self, node: usize, host: u64) {
        let Some(at) = self.hosts.get_mut(host) else { return };
        for Published { channel, message, sharded } in at.server.take_published() {
            let Some(at) = self.hosts.get(host) else { return };
            let channel = std::str::from_utf8(&channel).ok().filter(|_| !sharded);
            let found = channel.and_then(|channel| at.audience.get_key_value(channel));
            let Some((channel, audience)) = found else { continue };
            let (channel, audience) = (Arc::clone(channel), audience.iter().copied().collect::<Vec<_>>());
            let bytes: Arc<[u8]> = message.into();
            for client in audience {
                self.send_message(Route { client, node }, &channel, &bytes);
            }
        }
    }

    pub(super) fn note(&mut self, client: Uuid, what: impl FnOnce() -> Happening) {
        // Without a trace the time is not asked for: a client may go when its thread has no time any more.
        if self.trace.is_none() {
            return;
        }
        let at = self.clock.since_start();
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
