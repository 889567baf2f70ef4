//! When each entry has to be looked at: the driver's list of instants. What is to be seen there, and done, is not known here.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::entry::Entry;
use crate::state::Instant;

/// When each entry has to be looked at: each stands in it once at most.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    instants: Mutex<BTreeMap<Standing, Arc<Entry>>>,
    /// There is something to look at before all that was known.
    pub(super) sooner: Notify,
    ended: AtomicBool,
}

/// Of those that are looked at together the oldest entry is first.
type Standing = (Instant, u64);

impl Schedule {
    /// The entry is looked at then, unless it is looked at sooner.
    pub(crate) fn put(&self, at: Instant, entry: &Arc<Entry>) {
        // Mostly it is. If it is taken out in this moment, it is looked at after whatever asks for this.
        if entry.scheduled.get().is_some_and(|before| before <= at) {
            return;
        }
        let mut instants = self.lock();
        let before = entry.scheduled.get();
        if before.is_some_and(|before| before <= at) || self.has_ended() {
            return;
        }
        let first = instants.first_key_value().is_none_or(|(&(first, _), _)| at < first);
        let known = before.and_then(|before| instants.remove(&(before, entry.number)));
        instants.insert((at, entry.number), known.unwrap_or_else(|| Arc::clone(entry)));
        entry.scheduled.set(Some(at));
        drop(instants);
        if first {
            self.sooner.notify_one();
        }
    }

    /// It is not looked at any more.
    pub(super) fn remove(&self, entry: &Entry) {
        let mut instants = self.lock();
        let known = entry.scheduled.get().and_then(|at| instants.remove(&(at, entry.number)));
        entry.scheduled.set(None);
        drop(instants);
        drop(known);
    }

    /// Ends the driver, which leaves nothing to look at.
    pub(crate) fn end(&self) {
        let mut instants = self.lock();
        self.ended.store(true, Ordering::Release);
        let forgotten = std::mem::take(&mut *instants);
        drop(instants);
        drop(forgotten);
        self.sooner.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.by(1)
    }

    /// Takes out all that are looked at by now.
    pub(super) fn take_due(&self, now: Instant) -> Vec<Arc<Entry>> {
        self.take_first(usize::MAX, now)
    }

    /// The same for so many of them.
    pub(super) fn take_first(&self, count: usize, until: Instant) -> Vec<Arc<Entry>> {
        let mut taken = Vec::new();
        let mut instants = self.lock();
        while let Some(first) = instants.first_entry().filter(|first| taken.len() < count && first.key().0 <= until) {
            let entry = first.remove();
            entry.scheduled.set(None);
            taken.push(entry);
        }
        taken
    }

    /// The first of those that are looked at by then. They stay where they are.
    pub(super) fn first(&self, count: usize, until: Instant) -> Vec<Arc<Entry>> {
        let instants = self.lock();
        instants.range(..=(until, u64::MAX)).take(count).map(|(_, entry)| Arc::clone(entry)).collect()
    }

    /// When so many of them will have been looked at.
    pub(super) fn by(&self, count: usize) -> Option<Instant> {
        self.lock().keys().nth(count - 1).map(|&(at, _)| at)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Standing, Arc<Entry>>> {
        self.instants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
