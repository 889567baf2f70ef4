//! Does what a name decided: its effects in their order, by one performer at a time, and outside of every mutex. It decides
//! nothing.

use std::{
    cell::RefCell,
    mem,
    sync::{Arc, MutexGuard},
    task::Waker,
    time::Duration,
};

use super::{
    entry::{Effect, Place, State},
    log,
    tenure::{Answered, Tenure},
};
use crate::state::{LogEvent, Told};

thread_local! {
    /// Lists that nobody uses just now: most changes are done by whoever makes them.
    static SPARE: RefCell<Vec<Vec<Effect>>> = const { RefCell::new(Vec::new()) };
}

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

impl Place {
    /// Changes the entry, and does what that leaves to do. Where somebody is at it already, what comes now is done after it.
    pub(super) fn perform_after<R>(&self, change: impl FnOnce(&mut State, &Self, &mut Vec<Effect>) -> R) -> R {
        let mut state = self.entry.lock();
        if state.performing {
            let mut outbox = mem::take(&mut state.outbox);
            let out = change(&mut state, self, &mut outbox);
            state.outbox = outbox;
            return out;
        }
        let mut effects = spare();
        let out = change(&mut state, self, &mut effects);
        if effects.is_empty() {
            self.rest(state);
            keep(effects);
            return out;
        }
        state.performing = true;
        drop(state);
        self.perform(effects);
        out
    }

    /// Until nothing is left.
    fn perform(&self, mut effects: Vec<Effect>) {
        let mut performer = Performer { place: self, done: false };
        let mut told = WhoIsTold::default();
        loop {
            let mut held = None;
            for effect in effects.drain(..) {
                self.does(effect, &mut held, &mut told);
            }
            let mut state = self.entry.lock();
            if state.outbox.is_empty() {
                // Mostly there is none ever.
                state.outbox = Vec::new();
                state.performing = false;
                performer.done = true;
                self.rest(state);
                keep(effects);
                return told.wake();
            }
            mem::swap(&mut state.outbox, &mut effects);
        }
    }

    fn does(&self, effect: Effect, held: &mut Option<Duration>, woken: &mut WhoIsTold) {
        match effect {
            Effect::Send(command) => self.send(command),
            Effect::Withdraw(command) => self.withdraw(command),
            Effect::Tell(waiter, told) => {
                let failed = matches!(told, Told::Failed(_));
                let fault = if failed { self.entry.lock().fault.clone() } else { None };
                woken.waiters.extend(waiter.tell(Answered { told, fault }));
            }
            Effect::Ended(share, end) => {
                log::ended(self, &share, end, held.take());
                share.finish(end.into());
                woken.ends.push(share);
            }
            Effect::Listen => self.listen(),
            Effect::Unlisten => self.unlisten(),
            Effect::WakeAt(at) => self.engine.schedule().put(at, &self.entry),
            // Its owner comes with the end itself.
            Effect::Log(LogEvent::Ended { held: so_long, .. }) => *held = Some(so_long),
            Effect::Log(event) => log::emit(self, event),
        }
    }

    /// What follows from any change: one that has nothing more to do is looked at again once it has nothing to remember either,
    /// and whoever ends the client learns of it.
    fn rest(&self, mut state: MutexGuard<'_, State>) {
        let crowded_out = self.engine.watched.follow(&mut state, &self.entry);
        if self.engine.is_ending() {
            self.engine.settled.notify_waiters();
        }
        if state.name.is_done() {
            state.fault = None;
            if !state.dead {
                let at = self.engine.now() + self.engine.state_settings().slice;
                self.engine.schedule().put(at, &self.entry);
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
    waiters: Vec<Waker>,
    ends: Vec<Arc<Tenure>>,
}

impl WhoIsTold {
    fn wake(self) {
        self.ends.iter().for_each(|tenure| tenure.wake());
        self.waiters.into_iter().for_each(Waker::wake);
    }
}

/// One that performs. Where a waker of somebody's panics, the next change goes on with what is left.
struct Performer<'a> {
    place: &'a Place,
    done: bool,
}

impl Drop for Performer<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.place.entry.lock().performing = false;
        }
    }
}
