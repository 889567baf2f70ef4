//! When each entry has to be looked at: the driver's list of dates. What is to be seen there, and done, is not known here.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::{date::Date, registry::Entry};

/// When each entry has to be looked at. An entry stands in it once at most.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: Mutex<BTreeMap<(Date, u64), Arc<Entry>>>,
    /// There is something to look at before all that was known.
    pub(super) sooner: Notify,
    ended: AtomicBool,
}

impl Schedule {
    /// Moves an entry from where it stood to `at`.
    pub(super) fn put(&self, from: Option<Date>, at: Date, entry: &Arc<Entry>) {
        let id = entry.number;
        let mut entries = self.lock();
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        if let Some(from) = from {
            entries.remove(&(from, id));
        }
        let first = entries.first_key_value().is_none_or(|(&(first, _), _)| at < first);
        entries.insert((at, id), Arc::clone(entry));
        drop(entries);
        if first {
            self.sooner.notify_one();
        }
    }

    /// Ends the driver, which leaves nothing to look at.
    pub(super) fn end(&self) {
        let mut entries = self.lock();
        self.ended.store(true, Ordering::Release);
        let forgotten = std::mem::take(&mut *entries);
        drop(entries);
        drop(forgotten);
        self.sooner.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn next(&self) -> Option<Date> {
        self.lock().first_key_value().map(|(&(at, _), _)| at)
    }

    /// Takes out all that are looked at by now, and says where they stood.
    pub(super) fn take_due(&self, now: Date) -> Vec<(Date, Arc<Entry>)> {
        self.take_first(usize::MAX, now)
    }

    /// The same for so many of them.
    pub(super) fn take_first(&self, count: usize, until: Date) -> Vec<(Date, Arc<Entry>)> {
        let mut entries = self.lock();
        let first = || {
            let first = entries.first_entry().filter(|first| first.key().0 <= until)?;
            let ((at, _), entry) = first.remove_entry();
            Some((at, entry))
        };
        std::iter::from_fn(first).take(count).collect()
    }

    /// The first of those that are looked at by then. They stay where they are.
    pub(super) fn first(&self, count: usize, until: Date) -> Vec<Arc<Entry>> {
        self.lock().range(..=(until, u64::MAX)).take(count).map(|(_, entry)| Arc::clone(entry)).collect()
    }

    /// When so many of them will have been looked at.
    pub(super) fn by(&self, count: usize) -> Option<Date> {
        self.lock().keys().nth(count.checked_sub(1)?).map(|&(at, _)| at)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Date, u64), Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
