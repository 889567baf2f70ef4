//! One name together with its client: what the world looks like for it, and the one door through which everything that happens
//! reaches it. What is decided is done in `perform.rs`.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    by_place::{AtPlace, ByPlace},
    clock::Moment,
    compact_instant::instant,
    distance::Distance,
    entry::{Effect, Entry, Event, Name},
    shared::Engine,
};
use crate::{
    backend::{Line, Way},
    state::{Chance, CommandId, Env, Era, Id, Instant, Link, Server},
};

/// A name of a client: what every operation works on.
#[derive(Clone)]
pub(crate) struct EntryRef {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
}

impl EntryRef {
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

    /// Asked right before a command leaves, on this way: whether it is still wanted.
    pub(super) fn leaves(&self, command: CommandId, way: Way) -> bool {
        let mut state = self.entry.lock();
        // Under the mutex, as for what happens to the name: what waited for that leaves later.
        self.with_env(self.engine.clock().moment(), Some(way), |env| state.name.leaves(command, env))
    }

    /// The same of one of many that leave together, by a reading for all of them.
    pub(super) fn leaves_at(&self, command: CommandId, moment: Moment, way: Way) -> bool {
        let mut state = self.entry.lock();
        self.with_env(moment, Some(way), |env| state.name.leaves(command, env))
    }

    /// Takes what was offered, or it is over by now.
    pub(super) fn take(&self, id: Id) -> bool {
        // What an earlier server granted says nothing of the present one.
        if self.sees_new_era() {
            self.on(Event::NewEra);
        }
        self.change(|name, env, effects| name.take(id, env, effects))
    }

    /// The world at this moment, as the name sees it. `way`: that of what leaves, if it is asked for that.
    pub(super) fn with_env<R>(&self, moment: Moment, way: Option<Way>, work: impl FnOnce(&mut Env<'_>) -> R) -> R {
        let engine = &*self.engine;
        work(&mut Env {
            now: instant(moment.date, moment.slept),
            server: &Seen { place: self, moment, way },
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
    place: &'a EntryRef,
    moment: Moment,
    way: Option<Way>,
}

/// As much of a number that is counted up with each link as a name keeps: no process ever has more of them.
fn low(number: u64) -> u32 {
    number as u32
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
        Link(low(self.way.map_or_else(|| self.line().link(self.key()), |way| way.link)))
    }

    fn era(&self) -> Era {
        Era(low(self.way.map_or_else(|| self.line().era(self.key()), |way| way.era)))
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

impl fmt::Debug for EntryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EntryRef").field(self.name()).finish()
    }
}

impl Engine {
    /// Every entry, the oldest first, as a list: nothing is worked on while a shard of the map is locked.
    pub(super) fn places(self: &Arc<Self>) -> Vec<EntryRef> {
        let place = |entry: &Arc<Entry>| EntryRef { engine: Arc::clone(self), entry: Arc::clone(entry) };
        let mut places: Vec<_> = self.entries.iter().map(|known| place(&known.key().0)).collect();
        places.sort_unstable_by_key(|place| place.entry.number);
        places
    }
}

/// One entry after the other.
pub(super) fn each(
    engine: &Arc<Engine>,
    entries: impl IntoIterator<Item = Arc<Entry>>,
    mut tell: impl FnMut(&EntryRef),
) {
    let mut engine = Arc::clone(engine);
    for entry in entries {
        let place = EntryRef { engine, entry };
        tell(&place);
        engine = place.engine;
    }
}
