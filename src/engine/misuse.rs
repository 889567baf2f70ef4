//! Uses of a lock that are none, as far as they can be seen: said once a name, and never refused.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task, time::Instant};

use super::{
    acquisition::Acquisition,
    effects::{Effects, Said},
    guard::LockGuard,
    pause::bounded,
    queue::{QueuePlace, Told},
    registry::{Place, State},
    tenure::Tenure,
};
use crate::name::Field;

/// A guard that is dropped sooner, and was never asked for anything, protects nothing: `try_lock().await?.is_some()`, or a
/// guard that is bound to `_`. Short work under a guard is as quick, so one is nothing, and so many in a row are a mistake.
const AT_ONCE: Duration = Duration::from_micros(100);
const IN_A_ROW: u8 = 3;

/// At most so many names are counted at a time.
const COUNTED: usize = 4096;

/// Who waits for so long for a lock that its own task took may wait for itself. Branches of one task do no harm by that, and
/// mostly wait less.
const SELF_WAIT: Duration = Duration::from_secs(1);

/// Names whose guards were dropped at once, so often in a row. An entry may live no longer than its hold, so a client counts.
#[derive(Debug, Default)]
pub(super) struct DroppedAtOnce {
    /// Mostly there are none, and then nothing is locked.
    any: AtomicBool,
    counts: Mutex<HashMap<Box<str>, u8>>,
}

impl DroppedAtOnce {
    /// One more; whether there are as many in a row as are told.
    fn note(&self, name: &str) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counts.get(name).copied().unwrap_or_default();
        if known == 0 && counts.len() >= COUNTED {
            return false;
        }
        let told = known + 1 >= IN_A_ROW;
        if told {
            counts.remove(name);
        } else {
            counts.insert(name.into(), known + 1);
        }
        self.any.store(!counts.is_empty(), Ordering::Relaxed);
        told
    }

    fn forget(&self, name: &str) {
        if self.any.load(Ordering::Relaxed) {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.remove(name);
            self.any.store(!counts.is_empty(), Ordering::Relaxed);
        }
    }
}

impl LockGuard {
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
            place.engine.dropped_at_once().forget(place.name());
        } else if place.engine.dropped_at_once().note(place.name()) {
            self.dropped_at_once_told = true;
            if place.engine.first_time("unused", place.name()) {
                fx.say(Said::Unused { owner: tenure.owner.clone() });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_are_told_and_what_is_used_in_between_starts_anew() {
        let dropped = DroppedAtOnce::default();
        assert_eq!([(); 4].map(|()| dropped.note("a")), [false, false, true, false]);
        dropped.forget("a");
        assert_eq!([(); 2].map(|()| dropped.note("a")), [false, false]);
        assert!(!dropped.note("b"));
        dropped.forget("a");
        dropped.forget("b");
        assert!(!dropped.any.load(Ordering::Relaxed));
    }

    #[test]
    fn no_more_names_are_counted_than_are_remembered() {
        let dropped = DroppedAtOnce::default();
        (0..2 * COUNTED).for_each(|number| assert!(!dropped.note(&number.to_string())));
        assert_eq!(dropped.counts.lock().unwrap().len(), COUNTED);
    }
}
