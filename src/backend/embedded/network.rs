//! All that a store is, under one mutex: its servers, their clock, its clients, what happens later, and what is to be told. How
//! things travel, and what befalls them, is in the files above it.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    time::Duration,
};

use tokio::{runtime::Handle, time::Instant};
use uuid::Uuid;

use super::{
    client::{ClientState, Flight, Links, Signals},
    clock::Clock,
    conditions::Weather,
    connection::Route,
    events::Event,
    frame::Frame,
    instances::Instances,
    notices::Notice,
    trace::{Happening, Traced},
    transit::ToServer,
};
use crate::{
    chance::Chance,
    error::{Error, Result},
};

/// Everything about a store.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) instances: Instances,
    pub(super) chance: Chance,
    pub(super) conditions: Option<Weather>,
    pub(super) clock: Clock,
    pub(super) clients: BTreeMap<Uuid, ClientState>,
    agenda: BTreeMap<(Instant, u64), Event>,
    /// Numbers for whatever must be told apart.
    last_id: u64,
    pub(super) task: TaskState,
    /// To be told outside of the mutex, in this order.
    pub(super) notices: VecDeque<Notice>,
    /// Whoever tells tells everything, so that the order stays.
    pub(super) delivering: bool,
    trace: Option<Vec<Traced>>,
}

/// Whether there is a task for what happens later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskState {
    #[default]
    Idle,
    Runs,
    /// It runs, and must look again: something is to happen sooner than it knew.
    Late,
    /// Its runtime took it away: nothing happens any more.
    Ended,
}

impl Network {
    pub(super) fn new(chance: Chance, instances: Instances) -> Self {
        Self {
            instances,
            chance,
            conditions: None,
            clock: Clock::new(),
            clients: BTreeMap::new(),
            agenda: BTreeMap::new(),
            last_id: 0,
            task: TaskState::default(),
            notices: VecDeque::new(),
            delivering: false,
            trace: None,
        }
    }

    /// A client comes, if it lives where the store does. When it came.
    pub(super) fn join(&mut self, client: Uuid, command_timeout: Duration, signals: &Signals) -> Result<Instant> {
        self.clock.bind();
        if self.task == TaskState::Ended {
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
        let instances = (0..self.instances.nodes()).map(|node| self.instances.master(node));
        self.clients.insert(client, ClientState::new(client, command_timeout, now, signals.clone(), instances));
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

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Something is to happen at this time.
    pub(super) fn plan(&mut self, at: Instant, event: Event) -> (Instant, u64) {
        let key = (at, self.next_id());
        if self.task == TaskState::Runs && self.agenda.first_key_value().is_none_or(|(&(first, _), _)| at < first) {
            self.task = TaskState::Late;
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

    pub(super) fn nodes(&self) -> usize {
        self.instances.nodes()
    }

    pub(super) fn links(&self, route: Route) -> Option<&Links> {
        self.clients.get(&route.client).map(|state| &state.links[route.node])
    }

    pub(super) fn links_mut(&mut self, route: Route) -> Option<&mut Links> {
        self.clients.get_mut(&route.client).map(|state| &mut state.links[route.node])
    }

    /// To every node.
    pub(super) fn routes(&self, client: Uuid) -> Vec<Route> {
        let state = self.clients.get(&client);
        state.into_iter().flat_map(ClientState::nodes).map(|node| Route { client, node }).collect()
    }

    pub(super) fn routes_to(&self, node: usize) -> Vec<Route> {
        self.clients.keys().map(|client| Route { client: *client, node }).collect()
    }

    pub(super) fn flight(&mut self, client: Uuid, flight: u64) -> Option<&mut Flight> {
        self.clients.get_mut(&client)?.flights.get_mut(&flight)
    }

    /// Whether nothing passes between this client and that process.
    pub(super) fn blocks(&self, route: Route, instance: u64) -> bool {
        let frozen = self.instances.get(instance).is_some_and(|instance| instance.frozen);
        frozen || self.links(route).is_some_and(|links| links.path.is_blocked())
    }

    /// The conditions of a client: its own, or that of all.
    pub(super) fn conditions_of(&self, client: Uuid) -> Option<&Weather> {
        let own = self.clients.get(&client).and_then(|state| state.conditions.as_ref());
        own.or(self.conditions.as_ref()).filter(|conditions| !conditions.is_fair())
    }

    /// What befalls all clients from now on, or one: whether there is such a one.
    pub(super) fn set_conditions(&mut self, of: Option<Uuid>, conditions: Weather) -> bool {
        match of {
            None => self.conditions = Some(conditions),
            Some(client) => match self.clients.get_mut(&client) {
                Some(state) => state.conditions = Some(conditions),
                None => return false,
            },
        }
        true
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

    pub(super) fn note_lost(&mut self, client: Uuid, frame: &Frame) {
        for words in frame.calls() {
            self.note(client, || Happening::Lost { script: words.script.path });
        }
    }

    /// The same for whatever was on its way: of subscriptions nothing is noted.
    pub(super) fn note_lost_on_way(&mut self, client: Uuid, what: &ToServer) {
        if let ToServer::Run { frame, .. } = what {
            self.note_lost(client, frame);
        }
    }

    pub(super) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(super) fn take_trace(&mut self) -> Vec<Traced> {
        self.trace.as_mut().map(mem::take).unwrap_or_default()
    }
}
