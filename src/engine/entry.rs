//! One name of a client: its state behind one mutex, what the world looks like for it, and the one door through which everything
//! that happens reaches it. What is decided is done in `perform.rs`.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicU64},
    time::Duration,
};

use super::{
    Protocol, Told,
    by_place::{AtPlace, ByPlace},
    clock::Moment,
    convert::fault_of,
    distance::Distance,
    flights::Flights,
    listen::Listening,
    reap::Watches,
    schedule::Scheduled,
    shared::{Engine, instant},
    tenure::Tenure,
};
use crate::{
    backend::{Fault, Line},
    state::{self, Chance, CommandId, Env, Era, Expired, Id, Instant, Link, Publishes, Server, Shape, Succession},
};

pub(super) type Name = state::Name<Arc<Tenure>, Arc<Tenure>>;
pub(super) type Event = state::Event<Arc<Tenure>>;
pub(super) type Effect = state::Effect<Arc<Tenure>, Arc<Tenure>>;

/// One mapped key of a client, shared by all owners, guards and primitives.
pub(crate) struct Entry {
    /// In the order in which the client's entries were made.
    pub(super) number: u64,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(super) engine: Weak<Engine>,
    shape: Shape,
    state: Mutex<State>,
    /// When the driver looks at it.
    pub(super) scheduled: Scheduled,
    /// What it was told last of the servers behind its key.
    pub(super) told_era: AtomicU64,
    /// Commands that were sent and not answered.
    pub(super) flights: Flights,
}

/// What is behind the mutex.
pub(super) struct State {
    pub(super) name: Name,
    /// What is to be done, once whoever performs comes to it.
    pub(super) outbox: Vec<Effect>,
    /// Somebody does what was decided: in order, so one at a time.
    pub(super) performing: bool,
    /// Taken out of the registry: look the name up again.
    pub(super) dead: bool,
    pub(super) listening: Listening,
    /// Its old copies among those of all names.
    pub(super) watches: Watches,
    /// What befell this name last, in words.
    pub(super) fault: Option<Box<Fault>>,
    /// Of guards that are dropped at once there is nothing more to say.
    pub(super) dropped_at_once_told: bool,
}

/// A name of a client: what every operation works on.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
}

impl Entry {
    pub(super) fn new(number: u64, engine: &Arc<Engine>, protocol: Arc<dyn Protocol>) -> Self {
        let state = State {
            name: Name::default(),
            outbox: Vec::new(),
            performing: false,
            dead: false,
            listening: Listening::default(),
            watches: Watches::default(),
            fault: None,
            dropped_at_once_told: false,
        };
        let shape = shape(&*protocol);
        let told_era = AtomicU64::new(engine.line().era(protocol.key()));
        Self {
            number,
            protocol,
            engine: Arc::downgrade(engine),
            shape,
            state: Mutex::new(state),
            scheduled: Scheduled::default(),
            told_era,
            flights: Flights::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the mutex can only be a broken invariant of ours; the state is still the best that is known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.protocol.name()
    }
}

/// How a primitive differs from the plain lock.
fn shape(protocol: &dyn Protocol) -> Shape {
    let succession = match (protocol.passes(), protocol.hands_over()) {
        (true, _) => Succession::Pass,
        (false, true) => Succession::HandOver,
        (false, false) => Succession::Release,
    };
    let publishes = match protocol.told() {
        Told::Always => Publishes::Always,
        Told::Sometimes => Publishes::Sometimes,
        Told::Never => Publishes::Never,
    };
    let expired = if protocol.expired_is_released() { Expired::IsReleased } else { Expired::IsLost };
    Shape { succession, publishes, expired }
}

impl Place {
    pub(crate) fn name(&self) -> &Arc<str> {
        self.entry.name()
    }

    /// Something happens to the name.
    pub(super) fn on(&self, event: Event) {
        self.change(|name, env, effects| name.on(event, env, effects));
    }

    /// The same to one that is in the registry; false where it was taken out.
    pub(super) fn on_live(&self, event: Event) -> Result<(), Event> {
        let mut event = Some(event);
        self.perform_after(|state, env, effects| {
            if !state.dead
                && let Some(event) = event.take()
            {
                state.name.on(event, env, effects);
                if !state.name.queue.is_empty() {
                    self.engine.queued.note();
                }
            }
        });
        event.map_or(Ok(()), Err)
    }

    /// A question that is answered at once, and may leave something to do.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Name, &mut Env<'_>, &mut Vec<Effect>) -> R) -> R {
        self.perform_after(|state, env, effects| change(&mut state.name, env, effects))
    }

    /// Reads, and changes nothing.
    pub(super) fn look<R>(&self, read: impl FnOnce(&Name, Instant) -> R) -> R {
        let now = self.engine.now();
        read(&self.entry.lock().name, now)
    }

    /// Asked right before a command leaves, in this era: whether it is still wanted.
    pub(super) fn leaves(&self, command: CommandId, era: u64) -> bool {
        self.leaves_at(command, self.engine.clock().moment(), era)
    }

    /// The same of one of many that leave together, by a reading for all of them.
    pub(super) fn leaves_at(&self, command: CommandId, moment: Moment, era: u64) -> bool {
        let mut state = self.entry.lock();
        self.with_env(moment, Some(era), |env| state.name.leaves(command, env))
    }

    /// Takes what was offered, or it is over by now.
    pub(super) fn take(&self, id: Id) -> bool {
        // What an earlier server granted says nothing of the present one.
        if self.sees_new_era() {
            self.on(Event::NewEra);
        }
        self.change(|name, env, effects| name.take(id, env, effects))
    }

    /// The world at this moment, as the name sees it. `era`: which servers answer, where that is known.
    pub(super) fn with_env<R>(&self, moment: Moment, era: Option<u64>, work: impl FnOnce(&mut Env<'_>) -> R) -> R {
        let engine = &*self.engine;
        work(&mut Env {
            now: instant(moment.date, moment.slept),
            server: &Seen { place: self, moment, era },
            chance: Chance::Fresh(&|| engine.chance().of_65_536()),
            shape: self.entry.shape,
            settings: engine.state_settings(),
            log: engine.log(),
            draw: &mut || engine.draw(),
        })
    }

    /// What is kept for the place where this name is.
    fn here<'a, T: Default>(&self, all: &'a ByPlace<T>) -> AtPlace<'a, T> {
        all.at(self.engine.line().place(self.entry.protocol.key()))
    }

    /// What left at this instant is waited for no longer.
    pub(super) fn unheard_since(&self, since: tokio::time::Instant) {
        let heard = self.engine.line().last_answer(self.entry.protocol.key());
        self.here(&self.engine.unheard).note(since, heard);
    }

    /// How far the server is where this name is.
    pub(super) fn distance(&self) -> Distance {
        let key = self.entry.protocol.key();
        let distance = Distance::new(self.engine.line().round_trip(key), self.engine.settings().command_timeout);
        distance.unheard_since(self.here(&self.engine.unheard).since(|| self.engine.line().last_answer(key)))
    }
}

/// The server of a name as its client sees it at a moment.
struct Seen<'a> {
    place: &'a Place,
    moment: Moment,
    era: Option<u64>,
}

impl Seen<'_> {
    fn line(&self) -> &dyn Line {
        self.place.engine.line()
    }

    fn key(&self) -> &str {
        self.place.entry.protocol.key()
    }
}

impl Server for Seen<'_> {
    fn link(&self) -> Link {
        Link(self.line().link(self.key()))
    }

    fn era(&self) -> Era {
        Era(self.era.unwrap_or_else(|| self.line().era(self.key())))
    }

    fn last_answer(&self) -> Instant {
        instant(self.line().last_answer(self.key()).into(), self.moment.slept)
    }

    fn grace(&self) -> Duration {
        self.place.distance().patience(self.moment.now)
    }

    fn round_trip(&self) -> Duration {
        self.place.distance().shortest()
    }
}

impl State {
    /// There was no answer: what that is to the name, and in words for whoever is told of it.
    pub(super) fn befalls(&mut self, fault: Fault) -> state::Fault {
        let told = fault_of(&fault);
        // What nobody wanted any more says nothing of what was in the way.
        if told.kind != state::FaultKind::Withdrawn {
            self.fault = Some(Box::new(fault));
        }
        told
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", self.protocol.key()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(self.name()).finish()
    }
}
