//! Uses of a lock that are none, as far as they can be seen: said once a name, and never refused.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use tokio::{task, time::Instant};

use super::{
    acquisition::Acquisition,
    effects::{Effects, LogEvent},
    pause::bounded,
    queue::{QueuePlace, Told},
    registry::{Place, State},
    share::Share,
    tenure::Tenure,
};
use crate::name::Field;

/// A guard that is dropped sooner, and was never asked for anything, protects nothing: `try_lock().await?.is_some()`, or a
/// guard that is bound to `_`. Short work under a guard is as quick, so one is nothing, and so many in a row are a mistake.
const AT_ONCE: Duration = Duration::from_micros(100);
const IN_A_ROW: u64 = 3;

/// At most so many names are counted at a time: one whose place another takes begins anew.
const COUNTED: usize = 64;

/// Who waits for so long for a lock that its own task took may wait for itself. Branches of one task do no harm by that, and
/// mostly wait less.
const SELF_WAIT: Duration = Duration::from_secs(1);

/// Names whose guards were dropped at once, so often in a row. An entry may live no longer than its hold, so a client counts;
/// and since every end of a hold may ask, nothing is locked for it.
#[derive(Debug)]
pub(super) struct DroppedAtOnce {
    /// Mostly there was none ever, and then no name is looked for.
    any: AtomicBool,
    /// A name's hash, and in its lowest bits how often in a row. Zero is none.
    counts: [AtomicU64; COUNTED],
}

impl Default for DroppedAtOnce {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), counts: [const { AtomicU64::new(0) }; COUNTED] }
    }
}

impl DroppedAtOnce {
    const COUNT: u64 = 0xff;

    /// One more; whether there are as many in a row as are told.
    fn note(&self, hash: u64) -> bool {
        self.any.store(true, Ordering::Relaxed);
        let place = self.place(hash);
        let known = place.load(Ordering::Relaxed);
        let times = if Self::is(known, hash) { known & Self::COUNT } else { 0 } + 1;
        let told = times >= IN_A_ROW;
        place.store(if told { 0 } else { hash & !Self::COUNT | times }, Ordering::Relaxed);
        told
    }

    fn forget(&self, hash: impl FnOnce() -> u64) {
        if self.any.load(Ordering::Relaxed) {
            let hash = hash();
            let place = self.place(hash);
            if Self::is(place.load(Ordering::Relaxed), hash) {
                place.store(0, Ordering::Relaxed);
            }
        }
    }

    fn is(known: u64, hash: u64) -> bool {
        known & Self::COUNT != 0 && known & !Self::COUNT == hash & !Self::COUNT
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.counts[hash as usize % COUNTED]
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_are_told_and_what_is_used_in_between_is_not() {
        let dropped = DroppedAtOnce::default();
        let (one, other) = (0x1234_5600, 0x1234_6501);
        assert_eq!([(); 4].map(|()| dropped.note(one)), [false, false, true, false]);
        dropped.forget(|| one);
        assert_eq!([(); 2].map(|()| dropped.note(one)), [false, false]);
        assert!(!dropped.note(other));
        dropped.forget(|| other);
        assert!(dropped.note(one), "another name is none of its business");
    }

    #[test]
    fn no_more_names_are_counted_than_there_are_places_and_none_for_another() {
        let dropped = DroppedAtOnce::default();
        let in_one_place = |number: u64| (number << 8) * COUNTED as u64;
        (1..1000).for_each(|number| assert!(!dropped.note(in_one_place(number))));
        assert_eq!(dropped.counts.iter().filter(|count| count.load(Ordering::Relaxed) != 0).count(), 1);
    }

    #[test]
    fn before_the_first_no_name_is_looked_for() {
        DroppedAtOnce::default().forget(|| panic!("nobody needs it"));
    }
}
