//! Uses of a lock that are none, as far as they can be seen: said once a name, and never refused.

use std::{sync::Arc, time::Duration};

use tokio::task;

use super::{
    circles::{Party, WaitsFor},
    entry::Entry,
    entry_ref::EntryRef,
    log,
    share::Share,
};

/// A guard that is dropped sooner, and was never asked for anything, protects nothing: `try_lock().await?.is_some()`, or a
/// guard that is bound to `_`.
const AT_ONCE: Duration = Duration::from_micros(100);

impl Share {
    /// The guard is dropped.
    pub(super) fn is_dropped(&self) {
        let (place, engine) = (&self.place, &self.place.engine);
        let now = engine.now();
        // What is carried to another task is dropped there for a reason.
        let unused = !self.is_touched() && self.tenure.task == task::try_id();
        let mut state = place.entry.lock();
        if state.dropped_at_once_told {
            return;
        }
        let last = |held: Duration, count: u32| held < AT_ONCE && count == 1;
        let at_once =
            unused && state.name.held_under(self.id, now).is_some_and(|hold| last(now - hold.taken, hold.count()));
        if !at_once {
            engine.dropped_at_once().forget(|| engine.hash(place.name()));
        } else if engine.dropped_at_once().note(engine.hash(place.name())) {
            state.dropped_at_once_told = true;
            drop(state);
            if engine.first_time("unused", place.name()) {
                log::unused(place, &self.tenure.owner);
            }
        }
    }
}

impl EntryRef {
    /// Whether this task took what is held now.
    pub(super) fn is_taken_by(&self, task: Option<task::Id>) -> bool {
        task.is_some() && self.entry.lock().name.holder().is_some_and(|tenure| tenure.task == task)
    }
}

impl Entry {
    /// Who waits here for whom, for as long as it takes.
    pub(super) fn waits(&self) -> Vec<WaitsFor> {
        let state = self.lock();
        let Some(holder) = state.name.holder() else { return Vec::new() };
        let holder = Party { owner: holder.owner.clone(), task: holder.task };
        let wait = |waiter: Party| WaitsFor { name: Arc::clone(self.name()), waiter, holder: holder.clone() };
        state.name.endless().map(|it| wait(Party { owner: it.owner.clone(), task: it.task })).collect()
    }
}
