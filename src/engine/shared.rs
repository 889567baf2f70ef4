//! What all primitives of one client share: its settings, its counter, its entries by name, and its end. What happens at
//! one name is in `entry_ref.rs`.

use std::{
    collections::HashSet,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use tokio::{sync::Notify, time};
use tracing::level_filters::LevelFilter;
use uuid::Uuid;

use super::{
    Clock, Settings,
    alarm::Alarms,
    by_place::ByPlace,
    clock::Moment,
    compact_instant::{CompactInstant, instant, millis, nanos},
    dropped_at_once::DroppedAtOnce,
    entry::{ByKey, ClientRef, Entry},
    home::Home,
    queued::Queued,
    reap::Watched,
    renewals::Renewals,
    schedule::Schedule,
    seen::Seen,
    settings::state_settings,
    tries::Tries,
    unheard::Unheard,
    winding_down::WindingDown,
};
use crate::{
    backend::Line,
    chance::Chance,
    name::Field,
    state::{self, Instant, Log},
};

/// A client remembers so many names for which it gave a warning that is due once a name; more are not warned of.
const WARNED: usize = 4096;

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
    pub(super) entries: DashMap<ByKey, ()>,
    /// What they know this client by, once there is one.
    pub(super) of_entries: OnceLock<Arc<ClientRef>>,
    /// Entries that were made so far.
    pub(super) made: AtomicU64,
    schedule: Arc<Schedule>,
    /// One counter for holds, tickets and waiters: none is ever drawn twice.
    numbers: AtomicU64,
    pub(super) tries: ByPlace<Tries>,
    /// No acquisition begins any more but nested ones.
    pub(super) ending: AtomicBool,
    pub(super) closed: AtomicBool,
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
    pub(super) watched: Watched,
    hears: AtomicBool,
    /// Somebody hears what is said of acquisitions, or did once.
    heard: AtomicBool,
    /// It was not said yet that the server denies to publish.
    tells: AtomicBool,
    reaches: AtomicBool,
    seen: Seen,
    renewals: Arc<Renewals>,
    state_settings: state::Settings,
}

impl Engine {
    pub(super) fn new(
        id: Uuid,
        line: Arc<dyn Line>,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        home: Home,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            line,
            settings,
            clock,
            home,
            alarm: OnceLock::new(),
            chance,
            entries: DashMap::new(),
            of_entries: OnceLock::new(),
            made: AtomicU64::new(0),
            schedule: Arc::default(),
            numbers: AtomicU64::new(1),
            tries: ByPlace::default(),
            ending: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            unheard: ByPlace::default(),
            shutdown: OnceLock::new(),
            settled: Notify::new(),
            ends: Notify::new(),
            hasher: RandomState::new(),
            warned: Mutex::default(),
            queued: Queued::default(),
            watched: Watched::default(),
            dropped_at_once: DroppedAtOnce::default(),
            hears: AtomicBool::new(true),
            heard: AtomicBool::new(false),
            tells: AtomicBool::new(true),
            reaches: AtomicBool::new(true),
            seen: Seen::default(),
            renewals: Arc::new(Renewals::new(settings.watchdog_timeout)),
            state_settings: state_settings(&settings),
        })
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
    pub(crate) fn chance(&self) -> &Chance {
        &self.chance
    }

    pub(super) fn state_settings(&self) -> &state::Settings {
        &self.state_settings
    }

    /// The instant by which names count: it runs on while the machine sleeps.
    pub(super) fn now(&self) -> Instant {
        let Moment { date, slept, .. } = self.clock.moment();
        instant(date, slept)
    }

    /// One of tokio's clock, as things are.
    pub(super) fn instant(&self, at: time::Instant) -> Instant {
        instant(at.into(), self.clock.slept())
    }

    /// The other way round.
    pub(super) fn tokio(&self, at: Instant) -> time::Instant {
        let nanos = at.as_nanos().saturating_sub(nanos(self.clock.slept()));
        CompactInstant::after_first(nanos).into()
    }

    pub(super) fn renewals(&self) -> &Arc<Renewals> {
        &self.renewals
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn schedule(&self) -> &Arc<Schedule> {
        &self.schedule
    }

    /// Every entry, in no order, as a list: nothing is worked on while a shard of the map is locked.
    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.iter().map(|known| Arc::clone(&known.key().0)).collect()
    }

    pub(super) fn draw(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
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

    /// An acquisition began of which somebody hears.
    pub(super) fn is_heard(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Whether there was one. Where there was none nobody looks for whom to tell of.
    pub(super) fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// How much of what happens somebody hears.
    pub(super) fn log(&self) -> Log {
        if self.was_heard() || LevelFilter::current() >= LevelFilter::DEBUG { Log::Details } else { Log::Warnings }
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
}

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
