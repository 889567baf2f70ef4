//! Uses of a lock that are none, as far as they can be seen: said once a name, and never refused.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{task, time::Instant};

use super::{
    acquisition::Acquisition,
    circles::{Party, WaitsFor},
    effects::{Effects, LogEvent},
    pause::bounded,
    queue::{QueuePlace, Told},
    registry::{Entry, Place, State},
    share::Share,
    tenure::Tenure,
};
use crate::name::Field;

/// A guard that is dropped sooner, and was never asked for anything, protects nothing: `try_lock().await?.is_some()`, or a
/// guard that is bound to `_`.
const AT_ONCE: Duration = Duration::from_micros(100);

/// Who waits for so long for a lock that its own task took may wait for itself. Branches of one task do no harm by that, and
/// mostly wait less.
const SELF_WAIT: Duration = Duration::from_secs(1);

impl Share {
    /// It is asked for something.
    pub(super) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
    }
}

impl State {
    /// The last guard of a hold ended: `unused` if it was dropped and had never been asked for anything.
    pub(super) fn guard_ended(&mut self, unused: bool, tenure: &Tenure, now: Instant, place: &Place, fx: &mut Effects) {
        if self.dropped_at_once_told {
            return;
        }
        // What is carried to another task is dropped there for a reason.
        let at_once = |state: &Self| {
            state.hold.as_ref().is_some_and(|hold| hold.held_for(now) < AT_ONCE) && tenure.task == task::try_id()
        };
        if !unused || !at_once(self) {
            place.engine.dropped_at_once().forget(|| place.engine.hash(place.name()));
        } else if place.engine.dropped_at_once().note(place.engine.hash(place.name())) {
            self.dropped_at_once_told = true;
            if place.engine.first_time("unused", place.name()) {
                fx.log(LogEvent::Unused { owner: tenure.owner.clone() });
            }
        }
    }

    /// Whether this task took what is held now.
    pub(super) fn is_taken_by(&self, task: Option<task::Id>) -> bool {
        task.is_some() && self.hold.as_ref().is_some_and(|hold| hold.tenure.task == task)
    }
}

impl Acquisition {
    /// The turn, for somebody whose own task holds what it waits for.
    pub(super) async fn turn_behind_itself(&self, waiting: &mut QueuePlace) -> Option<Told> {
        let place = waiting.place().clone();
        let soon = place.engine.clock().now() + SELF_WAIT;
        if let Some(told) = bounded(Some(soon), waiting.turn()).await {
            return told;
        }
        let still = place.update(|state, _| state.is_taken_by(self.ask.task));
        if still && place.engine.first_time("self", place.name()) {
            tracing::warn!(
                lock = %Field(place.name()),
                owner = %self.ask.owner,
                "the task that waits for this mutex took it: if it still has the guard, it waits for itself for ever; use \
                 that guard, or client.lock, which its own task may take again"
            );
        }
        waiting.turn().await
    }
}

impl Entry {
    /// Who waits here for whom, for as long as it takes.
    pub(super) fn waits(&self) -> Vec<WaitsFor> {
        let state = self.lock();
        let Some(hold) = &state.hold else { return Vec::new() };
        let holder = Party { owner: hold.owner().clone(), task: hold.tenure.task };
        let waiters = state.queue.iter().filter(|waiter| waiter.for_ever);
        let wait = |waiter: Party| WaitsFor { name: Arc::clone(self.name()), waiter, holder: holder.clone() };
        waiters.map(|waiter| wait(Party { owner: waiter.owner.clone(), task: waiter.task })).collect()
    }
}
