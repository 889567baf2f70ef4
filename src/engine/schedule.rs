//! When each entry has to be looked at: the driver's list of instants. What is to be seen there, and done, is not known here.

use std::{
    cmp::Ordering as Order,
    collections::BTreeSet,
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
    instants: Mutex<BTreeSet<Standing>>,
    /// There is something to look at before all that was known.
    pub(super) sooner: Notify,
    ended: AtomicBool,
}

/// An entry and when it is looked at. Of those that are looked at together the oldest is first.
#[derive(Debug)]
struct Standing {
    at: Instant,
    entry: Arc<Entry>,
}

impl Ord for Standing {
    fn cmp(&self, other: &Self) -> Order {
        // Mostly the instants say it, and no entry has to be read.
        self.at.cmp(&other.at).then_with(|| self.entry.number.cmp(&other.entry.number))
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Standing {}

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
        let first = instants.first().is_none_or(|first| at < first.at);
        let mut standing = Standing { at, entry: Arc::clone(entry) };
        if let Some(before) = before {
            standing.at = before;
            instants.remove(&standing);
            standing.at = at;
        }
        instants.insert(standing);
        entry.scheduled.set(Some(at));
        drop(instants);
        if first {
            self.sooner.notify_one();
        }
    }

    /// It is not looked at any more.
    pub(super) fn remove(&self, entry: &Arc<Entry>) {
        let mut instants = self.lock();
        if let Some(at) = entry.scheduled.get() {
            // Whoever asks for this has it, too: it is not the last that is dropped here.
            instants.remove(&Standing { at, entry: Arc::clone(entry) });
        }
        entry.scheduled.set(None);
    }

    /// Ends the driver, which leaves nothing to look at.
    pub(crate) fn end(&self) {
        let mut instants = self.lock();
        self.ended.store(true, Ordering::Release);
        #[allow(clippy::mutable_key_type, reason = "what orders them does not change")]
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
        // Mostly there are as many, where so many are asked for.
        let mut taken = Vec::with_capacity(if count == usize::MAX { 0 } else { count });
        let mut instants = self.lock();
        while taken.len() < count && instants.first().is_some_and(|first| first.at <= until) {
            let Some(Standing { entry, .. }) = instants.pop_first() else { break };
            entry.scheduled.set(None);
            taken.push(entry);
        }
        taken
    }

    /// The first of those that are looked at by then. They stay where they are.
    pub(super) fn first(&self, count: usize, until: Instant) -> Vec<Arc<Entry>> {
        let instants = self.lock();
        let by_then = instants.iter().take(count).take_while(|standing| standing.at <= until);
        by_then.map(|standing| Arc::clone(&standing.entry)).collect()
    }

    /// When so many of them will have been looked at.
    pub(super) fn by(&self, count: usize) -> Option<Instant> {
        self.lock().iter().nth(count - 1).map(|standing| standing.at)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Standing>> {
        self.instants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
