//! Name to entry, owner to hold, and an entry's life. What a change leaves to do outside the entry's mutex is collected
//! here as [`Effects`]; what it means is decided in the files that make the change.

use std::{
    collections::HashSet,
    fmt,
    hash::{BuildHasher, RandomState},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use tokio::{
    runtime::{self, Handle},
    sync::{Notify, Semaphore, oneshot},
    time::{Instant, timeout},
};
use uuid::Uuid;

use super::{
    Clock, HoldNumber, Protocol,
    acquire::{Contender, Trouble},
    hold::{End, Hold, Tenure},
    queue::{Queue, Told},
    reap::Reap,
    release::Releasing,
    slice::Slice,
    wake::Ear,
    watchdog::Schedule,
};
use crate::{
    backend::{Backend, Pending, Subscription},
    error::{Error, LostCause, Result},
    lease::Lease,
    owner::Owner,
};

/// At most so many tries of one client are in flight: waiters that are all woken at once never stand before renewals and
/// releases.
const TRIES: usize = 128;

/// A client remembers so many names for which it gave a warning that is due once a name; more are not warned of.
const WARNED: usize = 4096;

/// What a client was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) unreachable_after: Duration,
    pub(crate) handover_slice: Duration,
}

/// Everything that one client's primitives share.
pub(crate) struct Engine {
    id: Uuid,
    backend: Arc<dyn Backend>,
    settings: Settings,
    clock: Clock,
    runtime: Handle,
    entries: DashMap<Arc<str>, Arc<Entry>>,
    schedule: Arc<Schedule>,
    /// One counter for holds, tickets and waiters: none is ever drawn twice.
    numbers: AtomicU64,
    tries: Semaphore,
    closed: AtomicBool,
    /// Told whenever an entry has nothing left to send, for `close`.
    settled: Notify,
    hasher: RandomState,
    warned: Mutex<HashSet<u64>>,
    hears: AtomicBool,
}

/// One mapped key of a client, shared by all owners, guards and primitives.
pub(crate) struct Entry {
    pub(crate) protocol: Arc<dyn Protocol>,
    state: Mutex<State>,
    /// Nudges the contender to look again.
    pub(crate) nudge: Notify,
}

/// What happens at one name.
#[derive(Debug)]
pub(crate) struct State {
    /// Taken out of the registry: look the name up again.
    pub(crate) dead: bool,
    pub(crate) hold: Option<Hold>,
    /// Lost holds that still have tickets.
    pub(crate) lost: Vec<Hold>,
    /// The one task that tries at the server for this process.
    pub(crate) contender: Option<Contender>,
    /// A hand-over is on its way to this owner.
    pub(crate) handing: Option<Owner>,
    pub(crate) queue: Queue,
    pub(crate) releases: Vec<Releasing>,
    pub(crate) reaps: Vec<Reap>,
    pub(crate) slice: Slice,
    pub(crate) ear: Ear,
    /// The latest tries had no answer that counts.
    pub(crate) trouble: Option<Trouble>,
    /// When the driver looks at this entry next.
    pub(crate) scheduled: Option<Instant>,
}

/// A name of a client: what every operation works on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
}

impl Engine {
    /// Must be called on the runtime that the client lives on; the watchdog's driver starts here.
    pub(crate) fn start(id: Uuid, backend: Arc<dyn Backend>, settings: Settings, clock: Clock) -> Arc<Self> {
        let schedule = Arc::new(Schedule::default());
        let engine = Arc::new(Self {
            id,
            backend,
            settings,
            clock,
            runtime: Handle::current(),
            entries: DashMap::new(),
            schedule: Arc::clone(&schedule),
            numbers: AtomicU64::new(1),
            tries: Semaphore::new(TRIES),
            closed: AtomicBool::new(false),
            settled: Notify::new(),
            hasher: RandomState::new(),
            warned: Mutex::default(),
            hears: AtomicBool::new(true),
        });
        engine.runtime.spawn(super::watchdog::drive(Arc::downgrade(&engine), schedule));
        engine
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long a hold of this kind is promised for.
    pub(crate) fn lease(&self, lease: Lease) -> Duration {
        match lease {
            Lease::Watchdog => self.settings.watchdog_timeout,
            Lease::Fixed(lease) => lease,
        }
    }

    pub(super) fn tries(&self) -> &Semaphore {
        &self.tries
    }

    /// Every entry, as a list: nothing is worked on while a shard of the map is locked.
    pub(super) fn places(self: &Arc<Self>) -> Vec<Place> {
        let place = |entry: &Arc<Entry>| Place { engine: Arc::clone(self), entry: Arc::clone(entry) };
        self.entries.iter().map(|entry| place(entry.value())).collect()
    }

    pub(super) fn draw(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn draw_hold(&self) -> HoldNumber {
        HoldNumber(self.draw())
    }

    pub(super) fn downgrade(self: &Arc<Self>) -> Weak<Self> {
        Arc::downgrade(self)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Background work of the client. On a runtime that ended it is dropped, and with it what it would have sent.
    pub(super) fn spawn(&self, work: Pending<()>) {
        self.runtime.spawn(work);
    }

    /// Refuses a caller that runs elsewhere than the client does: its timers and links would never wake it.
    pub(crate) fn on_own_runtime(&self) -> Result<()> {
        let here = Handle::try_current().ok().map(|handle| handle.id());
        let own: runtime::Id = self.runtime.id();
        match here {
            Some(here) if here == own => Ok(()),
            Some(_) => Err(Error::invalid(
                "runtime",
                "this client lives on another tokio runtime, the one that connected it; connect one client for each",
            )),
            None => Err(Error::invalid(
                "runtime",
                "this client must be used inside the tokio runtime that connected it, and there is none here",
            )),
        }
    }

    /// Whether this is the first time that `what` is to be said of `name`.
    pub(super) fn first_time(&self, what: &'static str, name: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.len() < WARNED && warned.insert(self.hasher.hash_one((what, name)))
    }

    /// Subscriptions are refused: said once a client.
    pub(super) fn cannot_hear(&self) {
        if self.hears.swap(false, Ordering::Relaxed) {
            tracing::warn!("the server refuses subscriptions: waiting for locks by polling");
        }
    }

    /// The entry of a key that is known, if it has one.
    pub(crate) fn find(self: &Arc<Self>, key: &str) -> Option<Place> {
        let entry = Arc::clone(self.entries.get(key)?.value());
        Some(Place { engine: Arc::clone(self), entry })
    }

    /// The entry of a protocol's key.
    fn place(self: &Arc<Self>, protocol: &Arc<dyn Protocol>) -> Place {
        if let Some(place) = self.find(protocol.key()) {
            return place;
        }
        let made = || {
            Arc::new(Entry {
                protocol: Arc::clone(protocol),
                state: Mutex::new(State::new(self.settings.handover_slice)),
                nudge: Notify::new(),
            })
        };
        let entry = Arc::clone(self.entries.entry(Arc::clone(protocol.key())).or_insert_with(made).value());
        Place { engine: Arc::clone(self), entry }
    }

    /// Works on a protocol's entry, whichever is in the registry at that moment.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where another primitive has the key.
    pub(super) fn at<R>(
        self: &Arc<Self>,
        protocol: &Arc<dyn Protocol>,
        mut change: impl FnMut(&Place, &mut State, &mut Effects) -> R,
    ) -> Result<R> {
        loop {
            let place = self.place(protocol);
            let there = place.entry.protocol.kind();
            if there != protocol.kind() {
                return Err(Error::invalid(
                    "name",
                    format!(
                        "{:?} is in use as a {there} of this client, and cannot be a {} too",
                        &**protocol.name(),
                        protocol.kind()
                    ),
                ));
            }
            let done = place.update(|state, fx| (!state.dead).then(|| change(&place, state, fx)));
            if let Some(done) = done {
                return Ok(done);
            }
        }
    }

    /// Tells everybody that the client ends, sends what was released, within one command timeout, and lets the links go.
    pub(crate) async fn close(self: &Arc<Self>) {
        self.closed.store(true, Ordering::Release);
        let places = self.places();
        for place in &places {
            place.update(|state, fx| {
                for waiter in state.queue.drain(false) {
                    fx.deliver(waiter.turn, Told::Failed(Error::Closed));
                }
                state.lose(place, LostCause::Closed, fx);
                fx.nudge();
            });
        }
        let settled = async {
            loop {
                let mut told = pin!(self.settled.notified());
                told.as_mut().enable();
                if places.iter().all(|place| place.entry.lock().is_settled()) {
                    return;
                }
                told.await;
            }
        };
        // What is not answered by then is left to its lease.
        let _ = timeout(self.settings.command_timeout, settled).await;
        self.schedule.end();
        self.backend.close();
    }

    /// Forgets an entry that has nothing to remember.
    pub(super) fn forget(&self, entry: &Arc<Entry>, now: Instant) {
        self.entries.remove_if(&**entry.protocol.key(), |_, found| {
            let mut state = entry.lock();
            let idle = Arc::ptr_eq(found, entry) && state.is_idle() && state.slice.remembers_until() <= Some(now);
            state.dead = state.dead || idle;
            idle
        });
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.schedule.end();
        self.backend.close();
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the mutex can only be a broken invariant of ours; the state is still the best that is known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.protocol.name()
    }

    pub(super) fn channel(&self) -> Arc<str> {
        Arc::clone(self.protocol.channel())
    }
}

impl State {
    fn new(slice: Duration) -> Self {
        Self {
            dead: false,
            hold: None,
            lost: Vec::new(),
            contender: None,
            handing: None,
            queue: Queue::default(),
            releases: Vec::new(),
            reaps: Vec::new(),
            slice: Slice::new(slice),
            ear: Ear::default(),
            trouble: None,
            scheduled: None,
        }
    }

    /// Somebody of this process holds, is about to, or waits.
    pub(super) fn is_taken(&mut self) -> bool {
        self.hold.is_some() || self.contender.is_some() || self.handing.is_some() || self.queue.head().is_some()
    }

    /// An outermost acquisition of this owner is on its way.
    pub(super) fn is_asked_by(&self, owner: &Owner) -> bool {
        self.contender.as_ref().is_some_and(|contender| contender.owner == *owner)
            || self.handing.as_ref() == Some(owner)
            || self.queue.has(owner)
    }

    /// Nothing is left to do or to remember, but for the slice.
    fn is_idle(&self) -> bool {
        self.hold.is_none()
            && self.lost.is_empty()
            && self.contender.is_none()
            && self.handing.is_none()
            && self.queue.is_empty()
            && self.releases.is_empty()
            && self.reaps.is_empty()
    }

    /// Nothing is left to send.
    pub(super) fn is_settled(&self) -> bool {
        self.contender.is_none() && self.handing.is_none() && self.releases.is_empty()
    }

    /// The live hold of an owner.
    pub(super) fn held_by(&mut self, owner: &Owner) -> Option<&mut Hold> {
        self.hold.as_mut().filter(|hold| hold.owner() == owner)
    }

    /// A hold, live or lost, by its tenure.
    pub(super) fn hold_of(&mut self, tenure: &Arc<Tenure>) -> Option<&mut Hold> {
        self.hold.iter_mut().chain(self.lost.iter_mut()).find(|hold| Arc::ptr_eq(&hold.tenure, tenure))
    }

    /// When the driver must look at this entry.
    fn next_look(&self, engine: &Engine) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        let mut sooner = |at: Option<Instant>| next = [next, at].into_iter().flatten().min();
        if let Some(hold) = &self.hold {
            sooner(Some(hold.deadline(&engine.clock)));
            sooner(hold.bound());
            sooner(hold.due(engine.settings.watchdog_timeout));
        }
        sooner(self.lost.iter().filter_map(Hold::remembered_until).min());
        sooner(self.reaps.iter().map(|reap| reap.next).min());
        if self.is_idle() {
            sooner(Some(self.slice.remembers_until().unwrap_or_else(Instant::now)));
        }
        next
    }
}

impl Place {
    pub(super) fn entry_weak(&self) -> Weak<Entry> {
        Arc::downgrade(&self.entry)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.entry.name()
    }

    /// Changes the entry, then does outside its mutex what the change left to do.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State, &mut Effects) -> R) -> R {
        let mut fx = Effects::default();
        let out = {
            let mut state = self.entry.lock();
            let out = change(&mut state, &mut fx);
            self.rest(&mut state, &mut fx);
            out
        };
        if !fx.is_empty() {
            fx.run(self);
        }
        out
    }

    /// What follows from any change: the ear closes when nobody waits, and the driver looks in time.
    fn rest(&self, state: &mut State, fx: &mut Effects) {
        if state.contender.is_none() && state.handing.is_none() && state.queue.is_empty() {
            state.ear.close(fx);
            state.trouble = None;
        }
        if state.dead {
            return;
        }
        if let Some(at) = state.next_look(&self.engine)
            && state.scheduled.is_none_or(|scheduled| at < scheduled)
        {
            self.engine.schedule.put(state.scheduled.replace(at), at, &self.entry);
        }
        if state.is_settled() && self.engine.is_closed() {
            fx.settled = true;
        }
    }
}

/// What is left to do after an entry's mutex was let go, in this order.
#[derive(Default)]
pub(crate) struct Effects {
    ends: Vec<(Arc<Tenure>, End)>,
    deliveries: Vec<(oneshot::Sender<Told>, Told)>,
    work: Vec<Pending<()>>,
    unlisten: Vec<Subscription>,
    listen: Option<u64>,
    nudge: bool,
    settled: bool,
}

impl Effects {
    pub(super) fn end(&mut self, tenure: &Arc<Tenure>, end: End) {
        tenure.note(end);
        self.ends.push((Arc::clone(tenure), end));
    }

    pub(super) fn deliver(&mut self, turn: oneshot::Sender<Told>, told: Told) {
        self.deliveries.push((turn, told));
    }

    pub(super) fn spawn(&mut self, work: Pending<()>) {
        self.work.push(work);
    }

    pub(super) fn listen(&mut self, epoch: u64) {
        self.listen = Some(epoch);
    }

    pub(super) fn unlisten(&mut self, subscription: Subscription) {
        self.unlisten.push(subscription);
    }

    pub(super) fn nudge(&mut self) {
        self.nudge = true;
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty()
            && self.deliveries.is_empty()
            && self.work.is_empty()
            && self.unlisten.is_empty()
            && self.listen.is_none()
            && !self.nudge
            && !self.settled
    }

    fn run(self, place: &Place) {
        for (tenure, end) in self.ends {
            tenure.finish(end);
        }
        for work in self.work {
            place.engine.spawn(work);
        }
        for (turn, told) in self.deliveries {
            // Nobody there any more: what was told cleans up after itself as it is dropped.
            drop(turn.send(told));
        }
        drop(self.unlisten);
        if let Some(epoch) = self.listen {
            place.listen(epoch);
        }
        if self.nudge {
            place.entry.nudge.notify_one();
        }
        if self.settled {
            place.engine.settled.notify_waiters();
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("id", &self.id).field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", self.protocol.key()).finish_non_exhaustive()
    }
}
