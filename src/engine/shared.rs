//! What all primitives of one client share: its settings, its counter, its entries by name, and its end. What happens at
//! one name is in `registry.rs`.

use std::{
    borrow::Borrow,
    collections::HashSet,
    fmt,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use tokio::{sync::Notify, time::Instant};
use uuid::Uuid;

use super::{
    Clock, HoldNumber, Protocol,
    alarm::Alarms,
    by_place::ByPlace,
    circles::Queued,
    dropped_at_once::DroppedAtOnce,
    effects::{Effects, millis},
    ending::{HomeEnds, WindingDown},
    era::{Era, Eras},
    home::Home,
    kinds::{in_use_as_another, in_use_with_other_options},
    reap::Watched,
    registry::{Entry, Place, State},
    schedule::Schedule,
    tries::Tries,
    unheard::Unheard,
    watchdog,
};
use crate::{
    backend::{Line, Replicas},
    chance::Chance,
    error::{Error, Result},
    lease::Lease,
    name::Field,
    rules::{Rule, without},
};

/// A client remembers so many names for which it gave a warning that is due once a name; more are not warned of.
const WARNED: usize = 4096;

/// What a client was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) unreachable_after: Duration,
    pub(crate) handover_slice: Duration,
    /// Those that are to know of a grant before it counts.
    pub(crate) replicas: Option<Replicas>,
}

impl Settings {
    /// How long a try may stand behind others whose grants replicas are to know of.
    pub(super) fn in_line(&self) -> Duration {
        self.replicas.map_or(Duration::ZERO, Replicas::told_within)
    }

    /// After so long a try is over, and so is what replicas are to know of it.
    pub(super) fn longest_try(&self) -> Duration {
        self.command_timeout + 2 * self.in_line()
    }
}

/// Everything that one client's primitives share.
pub(crate) struct Engine {
    id: Uuid,
    line: Arc<dyn Line>,
    settings: Settings,
    clock: Clock,
    home: Home,
    /// For calls that are awaited elsewhere, once there is one.
    pub(super) alarm: OnceLock<Alarms>,
    chance: Chance,
    entries: DashMap<ByKey, ()>,
    /// Entries that were made so far.
    made: AtomicU64,
    schedule: Arc<Schedule>,
    /// One counter for holds, tickets and waiters: none is ever drawn twice.
    numbers: AtomicU64,
    pub(super) tries: ByPlace<Tries>,
    /// No acquisition begins any more but nested ones.
    pub(super) ending: AtomicBool,
    pub(super) closed: AtomicBool,
    pub(super) era: Era,
    pub(super) unheard: ByPlace<Unheard>,
    pub(super) shutdown: OnceLock<Arc<WindingDown>>,
    /// Told whenever something changes at an entry that holds nothing, for the end.
    pub(super) settled: Notify,
    /// Told when `ending` is set.
    pub(super) ends: Notify,
    hasher: RandomState,
    warned: Mutex<HashSet<u64>>,
    dropped_at_once: DroppedAtOnce,
    pub(super) queued: Queued,
    hears: AtomicBool,
    /// It was not said yet that the server denies to publish.
    tells: AtomicBool,
    reaches: AtomicBool,
    watched: Arc<Watched>,
}

impl Engine {
    /// Must be called on the runtime that the client lives on; the watchdog's driver starts here.
    pub(crate) fn start(id: Uuid, line: Arc<dyn Line>, settings: Settings, clock: Clock, chance: Chance) -> Arc<Self> {
        let schedule = Arc::new(Schedule::default());
        let engine = Arc::new(Self {
            id,
            line,
            settings,
            clock,
            home: Home::here(),
            alarm: OnceLock::new(),
            chance,
            entries: DashMap::new(),
            made: AtomicU64::new(0),
            schedule: Arc::clone(&schedule),
            numbers: AtomicU64::new(1),
            tries: ByPlace::default(),
            ending: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            era: Era::default(),
            unheard: ByPlace::default(),
            shutdown: OnceLock::new(),
            settled: Notify::new(),
            ends: Notify::new(),
            hasher: RandomState::new(),
            warned: Mutex::default(),
            queued: Queued::default(),
            dropped_at_once: DroppedAtOnce::default(),
            hears: AtomicBool::new(true),
            tells: AtomicBool::new(true),
            reaches: AtomicBool::new(true),
            watched: Arc::default(),
        });
        if engine.home.runtime().is_ok() {
            let (ends, slept, eras) = (HomeEnds::of(&engine), engine.clock.slept(), Eras::told_by(engine.line.eras()));
            let driver = watchdog::drive(Arc::downgrade(&engine), schedule, slept, eras);
            engine.spawn(Box::pin(async move {
                let _ends = ends;
                driver.await;
            }));
        }
        engine
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    pub(super) fn line(&self) -> &dyn Line {
        &*self.line
    }

    pub(super) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where all that this client draws comes from.
    pub(super) fn chance(&self) -> &Chance {
        &self.chance
    }

    /// How long a hold of this kind is promised for.
    pub(crate) fn lease(&self, lease: Lease) -> Duration {
        match lease {
            Lease::Watchdog => self.settings.watchdog_timeout,
            Lease::Fixed(lease) => lease,
        }
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The old copies of all names that are watched for.
    pub(super) fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    /// Every entry, in no order, as a list: nothing is worked on while a shard of the map is locked.
    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.iter().map(|known| Arc::clone(&known.key().0)).collect()
    }

    /// Every entry, the oldest first, as a list: nothing is worked on while a shard of the map is locked.
    pub(super) fn places(self: &Arc<Self>) -> Vec<Place> {
        let place = |entry: &Arc<Entry>| Place { engine: Arc::clone(self), entry: Arc::clone(entry) };
        let mut places: Vec<_> = self.entries.iter().map(|known| place(&known.key().0)).collect();
        places.sort_unstable_by_key(|place| place.entry.number);
        places
    }

    pub(super) fn draw(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn draw_hold(&self) -> HoldNumber {
        if without(Rule::NumberPerHold) { HoldNumber(0) } else { HoldNumber(self.draw()) }
    }

    pub(super) fn downgrade(self: &Arc<Self>) -> Weak<Self> {
        Arc::downgrade(self)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether it is closed, or about to be.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// What stands for a name where its words are not needed.
    pub(super) fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Whether this is the first time that `what` is to be said of `name`.
    pub(super) fn first_time(&self, what: &'static str, name: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.len() < WARNED && warned.insert(self.hasher.hash_one((what, name)))
    }

    /// Guards that are dropped at once.
    pub(super) fn dropped_at_once(&self) -> &DroppedAtOnce {
        &self.dropped_at_once
    }

    /// A lease is too short for the way to the server: said once a client.
    pub(super) fn lease_is_short(&self, name: &str, lease: Duration, round_trip: Duration) {
        if self.reaches.swap(false, Ordering::Relaxed) {
            let (lease_ms, round_trip_ms) = (millis(lease), millis(round_trip));
            tracing::warn!(lock = %Field(name), lease_ms, round_trip_ms, "a lease is shorter than four round trips to the server");
        }
    }

    /// Subscriptions are refused: said once a client.
    pub(super) fn cannot_hear(&self) {
        if self.hears.swap(false, Ordering::Relaxed) {
            tracing::warn!("the server refuses subscriptions: waiting for locks by polling");
        }
    }

    /// Releases are not told: said once a client.
    pub(super) fn cannot_tell(&self) {
        if self.tells.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                "the server refuses to publish releases: whoever waits for a lock elsewhere finds it free only by looking again"
            );
        }
    }

    /// The entry of a key that is known, if it has one.
    pub(crate) fn find(self: &Arc<Self>, key: &str) -> Option<Place> {
        let entry = Arc::clone(&self.entries.get(key)?.key().0);
        Some(Place { engine: Arc::clone(self), entry })
    }

    /// The entry of a protocol's key.
    fn place(self: &Arc<Self>, protocol: &Arc<dyn Protocol>) -> Place {
        if let Some(place) = self.find(protocol.key()) {
            return place;
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let made = Arc::new(Entry::new(number, Arc::clone(protocol), self.settings.handover_slice));
        // Another may have made one meanwhile: that one stays.
        let entry = Arc::clone(&self.entries.entry(ByKey(made)).or_default().key().0);
        Place { engine: Arc::clone(self), entry }
    }

    /// Works on a protocol's entry, whichever is in the registry at that moment.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where another primitive has the key; [`Error::Closed`].
    pub(super) fn at<R>(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        mut change: impl FnMut(&Place, &mut State, &mut Effects) -> R,
    ) -> Result<R> {
        loop {
            if self.is_closed() {
                return Err(Error::Closed);
            }
            let place = self.place(protocol);
            if let Some(error) = in_use_as_another(&*place.entry.protocol, &**protocol) {
                return Err(error);
            }
            if place.entry.protocol.options() != protocol.options() {
                if self.replaces(&place.entry) {
                    continue;
                }
                return Err(in_use_with_other_options(&**protocol));
            }
            let done = place.update(|state, fx| (!state.dead).then(|| change(&place, state, fx)));
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// Lets the links go, and forgets everything; a thread of its own ends.
    pub(super) fn leave(self: &Arc<Self>) {
        self.schedule.end();
        self.line.close();
        // Guards that are still there keep their own; nothing ends while a shard of the map is locked.
        let known = self.places();
        self.entries.clear();
        drop(known);
        if let Some(shutdown) = self.shutdown.get() {
            shutdown.report();
        }
        self.home.leave();
    }

    /// Forgets an entry that has nothing to remember.
    pub(super) fn forget(&self, entry: &Arc<Entry>, now: Instant) {
        self.forget_if(entry, |state| state.is_idle() && state.slice.remembers_until() <= Some(now.into()));
    }

    /// Forgets an entry that nobody uses, for one with other options; false where somebody does.
    fn replaces(&self, entry: &Arc<Entry>) -> bool {
        self.forget_if(entry, |state| state.is_idle());
        entry.lock().dead
    }

    fn forget_if(&self, entry: &Arc<Entry>, is_idle: impl Fn(&State) -> bool) {
        self.entries.remove_if(&**entry.protocol.key(), |found, ()| {
            let mut state = entry.lock();
            let idle = Arc::ptr_eq(&found.0, entry) && is_idle(&state);
            state.dead = state.dead || idle;
            idle
        });
    }
}

/// An entry as the registry knows it: by its key, of which it has the only copy.
struct ByKey(Arc<Entry>);

impl Borrow<str> for ByKey {
    fn borrow(&self) -> &str {
        self.0.protocol.key()
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As its borrowed form hashes.
        str::hash(self.0.protocol.key(), state);
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.protocol.key() == other.0.protocol.key()
    }
}

impl Eq for ByKey {}

impl Drop for Engine {
    fn drop(&mut self) {
        self.schedule.end();
        self.line.close();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("id", &self.id).field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
