//! An entry's life: what happens at one name, and how it is changed. What a change means is decided in the files that
//! make it; which entries there are, in `shared.rs`.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use once_cell::race::OnceBox;
use tokio::{sync::Notify, time::Instant};

use super::{
    HoldNumber, Protocol,
    admit::Contender,
    by_place::{AtPlace, ByPlace},
    date::Date,
    distance::Distance,
    effects::Effects,
    hold::Hold,
    outcome::Outcome,
    parked::MissedTurns,
    pause::Trouble,
    queue::Queue,
    reap::Reaps,
    release::Releasing,
    shared::Engine,
    slice::Slice,
    tenure::Tenure,
    thin::ThinVec,
    tries::Tries,
    wake::Listening,
};
use crate::{backend::Dispatch, owner::Owner};

/// One mapped key of a client, shared by all owners, guards and primitives.
pub(crate) struct Entry {
    /// In the order in which the client's entries were made.
    pub(super) number: u64,
    pub(crate) protocol: Arc<dyn Protocol>,
    state: Mutex<State>,
    /// Nudges the contender to look again; made for the first that has to wait.
    nudge: OnceBox<Notify>,
}

/// What happens at one name.
#[derive(Debug)]
pub(crate) struct State {
    /// Taken out of the registry: look the name up again.
    pub(crate) dead: bool,
    pub(crate) hold: Option<Hold>,
    /// Lost holds that still have tickets.
    pub(super) lost: ThinVec<Hold>,
    /// The one task that tries at the server for this process.
    pub(crate) contender: Option<Box<Contender>>,
    /// A hand-over is on its way.
    pub(crate) handing: Option<Box<Successor>>,
    pub(crate) queue: Queue,
    pub(super) releases: ThinVec<Releasing>,
    pub(crate) reaps: Reaps,
    pub(crate) slice: Slice,
    pub(crate) listening: Listening,
    /// Turns that nobody took, the latest ones.
    pub(super) missed: Option<Box<MissedTurns>>,
    /// Of guards that are dropped at once there is nothing more to say.
    pub(super) dropped_at_once_told: bool,
    /// The latest tries had no answer that counts.
    pub(crate) trouble: Option<Box<Trouble>>,
    /// When the driver looks at this entry next.
    pub(crate) scheduled: Option<Date>,
}

/// Whom a hand-over is for.
#[derive(Debug)]
pub(crate) struct Successor {
    /// The waiter's number.
    pub(crate) id: u64,
    /// `None` once it waits no more.
    pub(crate) owner: Option<Owner>,
    /// The hold that it makes, once its number is drawn.
    pub(super) to: Option<HoldNumber>,
    /// A forced release was sent for that.
    pub(super) forced: bool,
    /// How it goes.
    pub(super) outcome: Arc<Outcome>,
}

/// A name of a client: what every operation works on.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) engine: Arc<Engine>,
    pub(crate) entry: Arc<Entry>,
}

impl Entry {
    pub(super) fn new(number: u64, protocol: Arc<dyn Protocol>, slice: Duration) -> Self {
        Self { number, protocol, state: Mutex::new(State::new(slice)), nudge: OnceBox::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the mutex can only be a broken invariant of ours; the state is still the best that is known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.protocol.name()
    }

    /// The contender is to look again, if there is one that waits.
    pub(super) fn nudge(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge.notify_one();
        }
    }

    /// Waits for a nudge. The first one to do so is sent back to look again: what happened before was told to nobody.
    pub(super) async fn nudged(&self) {
        match self.nudge.get() {
            Some(nudge) => nudge.notified().await,
            None => drop(self.nudge.set(Box::default())),
        }
    }
}

impl State {
    fn new(slice: Duration) -> Self {
        Self {
            dead: false,
            hold: None,
            lost: ThinVec::default(),
            contender: None,
            handing: None,
            queue: Queue::default(),
            releases: ThinVec::default(),
            reaps: Reaps::default(),
            slice: Slice::new(slice),
            listening: Listening::default(),
            missed: None,
            dropped_at_once_told: false,
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
            || self.handing.as_ref().is_some_and(|successor| successor.owner.as_ref() == Some(owner))
            || self.queue.has(owner)
    }

    /// Nothing is left to do or to remember, but for the slice.
    pub(super) fn is_idle(&self) -> bool {
        self.hold.is_none()
            && self.lost.is_empty()
            && self.contender.is_none()
            && self.handing.is_none()
            && self.queue.is_empty()
            && self.releases.is_empty()
            && self.reaps.is_empty()
            && !self.slice.awaits_answer()
    }

    /// Nothing is left to send.
    pub(super) fn is_settled(&self) -> bool {
        self.contender.is_none() && self.handing.is_none() && self.releases.is_empty() && !self.slice.awaits_answer()
    }

    /// How the end of a hold goes that this owner's `unlock` of a detached one began: a release, or a hand-over.
    pub(super) fn ending_of(&self, owner: &Owner) -> Option<Arc<Outcome>> {
        let handing = self.handing.iter().map(|successor| &successor.outcome);
        let mut endings = self.releases.iter().map(|release| &release.outcome).chain(handing);
        endings.find(|outcome| outcome.is_detached_of(owner)).map(Arc::clone)
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
    fn next_look(&self, place: &Place) -> Option<Date> {
        let watchdog = place.engine.settings().watchdog_timeout;
        let mut next: Option<Date> = None;
        // Not by `zip`, `map` and `or`: optimised for size, Rust 1.95 makes nothing at all of one date and none.
        let mut sooner = |at: Option<Date>| {
            next = match (next, at) {
                (Some(next), Some(at)) => Some(next.min(at)),
                (next, at) => next.or(at),
            };
        };
        if let Some(hold) = &self.hold {
            sooner(Some(hold.known_deadline()));
            sooner(hold.bounded());
            // What is to be renewed is worked under.
            sooner(hold.due(watchdog).or_else(|| self.taken_back_at(place)));
        }
        if self.contender.is_some() && (!self.queue.is_empty() || self.may_keep_others_out(watchdog)) {
            sooner(self.passed_over_at(place));
        }
        sooner(self.lost.iter().filter_map(Hold::remembered_until).min());
        sooner(self.reaps.next().map(Date::from));
        if self.is_idle() {
            sooner(Some(self.slice.remembers_until().unwrap_or_else(|| Instant::now().into())));
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

    /// Which link the next command for this name takes.
    pub(super) fn link(&self) -> u64 {
        self.engine.line().link(self.entry.protocol.key())
    }

    /// What is kept for the place where this name is.
    fn here<'a, T: Default>(&self, all: &'a ByPlace<T>) -> AtPlace<'a, T> {
        all.at(self.engine.line().place(self.entry.protocol.key()))
    }

    /// For tries of this name, and of all others where it is.
    pub(super) fn tries(&self) -> AtPlace<'_, Tries> {
        self.here(&self.engine.tries)
    }

    /// When a script was last answered where this name is.
    pub(super) fn last_answer(&self) -> Instant {
        self.engine.line().last_answer(self.entry.protocol.key())
    }

    /// How far the server is where this name is.
    pub(super) fn distance(&self) -> Distance {
        let round_trip = self.engine.line().round_trip(self.entry.protocol.key());
        let distance = Distance::new(round_trip, self.engine.settings().command_timeout);
        distance.unheard_since(self.here(&self.engine.unheard).since(|| self.last_answer()))
    }

    /// What left at this instant is waited for no longer.
    pub(super) fn unheard_since(&self, since: Instant) {
        self.here(&self.engine.unheard).note(since, self.last_answer());
    }

    /// For a command that asks for so much more of a hold: while this tenure of it lives.
    pub(super) fn while_held(
        &self,
        tenure: &Arc<Tenure>,
        lease: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Arc<Dispatch> {
        let (place, tenure) = (self.clone(), Arc::clone(tenure));
        Dispatch::new(move || {
            let clock = place.engine.clock();
            let lives = |hold: &&mut Hold| Arc::ptr_eq(&hold.tenure, &tenure) && hold.lives(clock.moment());
            let mut state = place.entry.lock();
            state.hold.as_mut().filter(lives).map(|hold| hold.leaves((clock.now() + lease()).into())).is_some()
        })
    }

    /// Changes the entry, then does outside its mutex what the change left to do.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State, &mut Effects) -> R) -> R {
        let mut fx = Effects::default();
        let out = self.change(&mut fx, change);
        fx.run(self);
        out
    }

    /// The same for whoever changes many, one after the other: `fx` is empty before and after.
    /// Where it stood in the schedule, and where it is to stand, is the caller's to see to.
    pub(super) fn update_with(
        &self,
        fx: &mut Effects,
        change: impl FnOnce(&mut State, &mut Effects),
    ) -> Option<(Option<Date>, Date)> {
        let mut state = self.entry.lock();
        change(&mut state, fx);
        let moved = self.rest(&mut state, fx);
        drop(state);
        fx.run(self);
        moved
    }

    /// Changes the entry; what that leaves to do is the caller's to run, once it has let go of its own locks.
    pub(super) fn change<R>(&self, fx: &mut Effects, change: impl FnOnce(&mut State, &mut Effects) -> R) -> R {
        let mut state = self.entry.lock();
        let out = change(&mut state, fx);
        if let Some((from, at)) = self.rest(&mut state, fx) {
            self.engine.schedule().put(from, at, &self.entry);
        }
        out
    }

    /// What follows from any change: nobody listens where nobody waits, whoever is nudged is to look, and the driver looks in
    /// time. Where the entry stood in the schedule, and where it is to stand from now on.
    fn rest(&self, state: &mut State, fx: &mut Effects) -> Option<(Option<Date>, Date)> {
        if state.contender.is_none() && state.handing.is_none() && state.queue.is_empty() {
            state.listening.close(fx);
            state.trouble = None;
        }
        if fx.nudges() {
            state.nudges_contender(self);
        }
        while let Some(out) = state.reaps.crowded_out() {
            fx.crowds_out(out);
        }
        if state.dead {
            return None;
        }
        if self.engine.is_ending() && state.hold.is_none() {
            fx.settled();
        }
        let at = state.next_look(self)?;
        let sooner = state.scheduled.is_none_or(|scheduled| at < scheduled);
        sooner.then(|| (state.scheduled.replace(at), at))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", self.protocol.key()).finish_non_exhaustive()
    }
}
