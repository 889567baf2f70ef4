//! Does what a name decided: its effects in their order, by one performer at a time. What may call somebody's code is done
//! outside of every mutex. It decides nothing.

use std::{
    cell::RefCell,
    mem,
    sync::{Arc, MutexGuard},
    task::Waker,
    time::Duration,
};

use smallvec::SmallVec;

use super::{
    clock::Moment,
    compact_instant::instant,
    entry::{Effect, Event, State},
    entry_ref::EntryRef,
    flights::{Landed, TryOver},
    foreign::{each, unless_it_panics},
    log,
    reap::CrowdedOut,
    tenure::{Answered, Tenure},
};
use crate::state::{End, Env, Instant, LogEvent, Raises, Told};

thread_local! {
    /// Lists that nobody uses just now: most changes are done by whoever makes them.
    static SPARE: RefCell<Vec<Vec<Effect>>> = const { RefCell::new(Vec::new()) };
}

/// One that has nothing more to do is looked at again no sooner than after this: it may have an answer to wait for, and then is
/// looked at again and again.
const REST: Duration = Duration::from_millis(10);

/// So many stay with a thread.
const KEPT: usize = 4;

fn spare() -> Vec<Effect> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}

fn keep(list: Vec<Effect>) {
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.push(list);
        }
    });
}

/// What is found out while a list of effects is done.
#[derive(Default)]
struct Round {
    /// What is to be said of the end that comes next.
    said: Option<LogEvent>,
    /// Commands that were answered at once.
    landed: SmallVec<[Landed; 1]>,
    told: WhoIsTold,
}

impl EntryRef {
    /// Changes the entry, and does what that leaves to do. Where somebody is at it already, what comes now is done after it.
    pub(super) fn perform_after<R>(&self, change: impl FnOnce(&mut State, &mut Env<'_>, &mut Vec<Effect>) -> R) -> R {
        let mut state = self.entry.lock();
        // Under the mutex: for a name no time comes before another that it knows.
        let moment = self.engine.clock().moment();
        if state.performing {
            let mut outbox = mem::take(&mut state.seldom().outbox);
            let out = self.with_env(moment, None, |env| change(&mut state, env, &mut outbox));
            state.seldom().outbox = outbox;
            return out;
        }
        let mut effects = spare();
        let out = self.with_env(moment, None, |env| change(&mut state, env, &mut effects));
        let mut told = WhoIsTold::default();
        // Mostly that is all, and the mutex is taken once.
        self.does_at_once(&mut effects, &mut state, &mut told);
        if effects.is_empty() {
            self.rest(state, moment);
            keep(effects);
            told.wake();
            return out;
        }
        state.performing = true;
        drop(state);
        self.perform(effects, moment, Round { told, ..Round::default() });
        out
    }

    /// The first of them that call nobody's code, under the mutex that keeps their order.
    fn does_at_once(&self, effects: &mut Vec<Effect>, state: &mut State, told: &mut WhoIsTold) {
        let is_ours = |effect: &Effect| match effect {
            Effect::Tell(..) | Effect::Ended(..) | Effect::WakeAt(_) => true,
            Effect::Renew(_, raises) => !matches!(raises, Raises::Longer { .. }),
            _ => false,
        };
        let others = effects.iter().position(|effect| !is_ours(effect));
        for effect in effects.drain(..others.unwrap_or(effects.len())) {
            match effect {
                Effect::Tell(waiter, answer) => {
                    let fault = if let Told::Failed(_) = answer { state.fault() } else { None };
                    told.tell(waiter, Answered { told: answer, fault });
                }
                Effect::Ended(share, end) => told.ended(share, end),
                Effect::WakeAt(at) => self.is_due(at),
                Effect::Renew(command, raises) => self.engine.renewals().push(&self.entry, command, raises),
                _ => {}
            }
        }
    }

    /// Until nothing is left.
    fn perform(&self, mut effects: Vec<Effect>, mut moment: Moment, mut round: Round) {
        let mut performer = Performer { place: self, done: false };
        loop {
            for effect in effects.drain(..) {
                self.does(effect, moment, &mut round);
            }
            let mut state = self.entry.lock();
            // Mostly there is none ever.
            if let Some(seldom) = state.had_seldom() {
                effects.append(&mut seldom.outbox);
            }
            if round.landed.is_empty() {
                if effects.is_empty() {
                    state.performing = false;
                    performer.done = true;
                    self.rest(state, moment);
                    keep(effects);
                    return round.told.wake();
                }
                continue;
            }
            let landed = mem::take(&mut round.landed);
            let tries: SmallVec<[TryOver; 1]> = landed.iter().filter_map(Landed::try_over).collect();
            moment = self.engine.clock().moment();
            for Landed { command, answer, .. } in landed {
                let answer = answer.map_err(|fault| state.befalls(fault));
                self.with_env(moment, None, |env| {
                    state.name.on(Event::Answered { command, answer }, env, &mut effects);
                });
            }
            self.does_at_once(&mut effects, &mut state, &mut round.told);
            drop(state);
            tries.into_iter().for_each(|over| self.try_is_over(over, moment.now));
        }
    }

    fn does(&self, effect: Effect, moment: Moment, round: &mut Round) {
        match effect {
            Effect::Send(command) => {
                if let Some(landed) = self.send(command, moment) {
                    round.landed.push(landed);
                }
            }
            Effect::Renew(command, raises) => {
                if let Some(landed) = self.renew(command, raises, moment) {
                    round.landed.push(landed);
                }
            }
            Effect::Withdraw(command) => self.withdraw(command),
            Effect::Tell(waiter, told) => {
                let failed = matches!(told, Told::Failed(_));
                let fault = if failed { self.entry.lock().fault() } else { None };
                round.told.tell(waiter, Answered { told, fault });
            }
            Effect::Call(_, tenure) => {
                round.told.tell(tenure, Answered { told: Told::Called, fault: None });
            }
            Effect::Missed(tenure) => drop(unless_it_panics(|| log::parked(self, &tenure.owner))),
            Effect::Ended(share, end) => {
                let said = round.said.take();
                unless_it_panics(|| said.into_iter().for_each(|said| log::ended(self, &share, said)));
                round.told.ended(share, end);
            }
            Effect::Listen => drop(unless_it_panics(|| self.listen())),
            Effect::Unlisten => drop(unless_it_panics(|| self.unlisten())),
            Effect::WakeAt(at) => self.is_due(at),
            // Its owner comes with the end itself.
            Effect::Log(event @ (LogEvent::Ended { .. } | LogEvent::RanOut { .. } | LogEvent::Untaken)) => {
                round.said = Some(event);
            }
            Effect::Log(event) => drop(unless_it_panics(|| log::emit(self, event))),
        }
    }

    fn is_due(&self, at: Instant) {
        self.engine.schedule().put(at, &self.entry);
    }

    /// What follows from any change: one that has nothing more to do is looked at again once it has nothing to remember either,
    /// and whoever ends the client learns of it.
    fn rest(&self, mut state: MutexGuard<'_, State>, moment: Moment) {
        let crowded_out = self.engine.watched.follow(&mut state, &self.entry);
        if self.engine.is_ending() {
            self.engine.settled.notify_waiters();
        }
        if state.name.is_done() {
            state.forgets_fault();
            if !state.dead {
                let now = instant(moment.date, moment.slept);
                let at = state.name.remembers_until(self.engine.state_settings()).unwrap_or(now);
                self.is_due(at.max(now + REST));
            }
        }
        drop(state);
        crowded_out.into_iter().for_each(|crowded_out| crowded_out.tell(self));
    }
}

/// Who learns of what was done: they are woken when all of it is done, since a waker is somebody's code that may ask for more,
/// and wait for that.
#[derive(Default)]
struct WhoIsTold {
    waiters: SmallVec<[Waker; 2]>,
    ends: SmallVec<[Arc<Tenure>; 1]>,
    /// Nobody may have them any more: what goes with them may be somebody's code, too.
    over: Vec<Arc<Tenure>>,
}

impl WhoIsTold {
    fn tell(&mut self, waiter: Arc<Tenure>, answered: Answered) {
        if let Some(waker) = waiter.tell(answered) {
            self.waiters.push(waker);
        }
        if waiter.is_watched() {
            self.over.push(waiter);
        }
    }

    fn ended(&mut self, share: Arc<Tenure>, end: End) {
        share.finish(end.into());
        if share.is_watched() {
            self.ends.push(share);
        }
    }

    fn wake(self) {
        if !self.ends.is_empty() {
            each(self.ends, |tenure| tenure.wake());
        }
        if !self.waiters.is_empty() {
            each(self.waiters, Waker::wake);
        }
    }
}

/// One that performs. Where something of our own panics, the next change goes on with what is left.
struct Performer<'a> {
    place: &'a EntryRef,
    done: bool,
}

impl Drop for Performer<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.place.entry.lock().performing = false;
        }
    }
}

impl CrowdedOut {
    /// Not to be called under any entry's mutex.
    pub(super) fn tell(self, place: &EntryRef) {
        let Some(entry) = self.entry.upgrade() else { return };
        let place = EntryRef { engine: Arc::clone(&place.engine), entry };
        place.change(|name, _, _| name.old.forget(self.number));
    }
}
