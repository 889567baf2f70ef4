//! How the engine's own tests look inside it.

use std::sync::Arc;

use super::{
    distance::TRIES,
    entry_ref::EntryRef,
    shared::Engine,
    tries::{ACKNOWLEDGED_TRIES, Tries},
};
use crate::state::HoldNumber;

pub(super) use super::entry::Entry;

impl EntryRef {
    /// Whether somebody of this client answers for a hold on the server: a ticket, or a release that was decided.
    pub(super) fn accounts_for(&self, number: u64) -> bool {
        self.entry.lock().name.answers_for(HoldNumber(number))
    }

    /// Whether a release was decided and is not answered.
    pub(super) fn releases(&self) -> bool {
        !self.entry.lock().name.releases.is_empty()
    }

    /// Whether a turn was given that nobody took.
    pub(super) fn missed_turns(&self) -> bool {
        self.entry.lock().name.untaken != Default::default()
    }
}

impl Engine {
    /// Names that watch for old copies.
    pub(super) fn old_copies(&self) -> usize {
        self.entries().iter().map(|entry| entry.lock().name.old.len()).sum()
    }
}

impl Tries {
    fn under_way(&self) -> usize {
        self.lock().under_way
    }

    fn occupy(&self, count: usize) {
        self.lock().under_way += count;
    }

    fn vacate(&self, count: usize) {
        if count == 0 {
            return;
        }
        let mut turns = self.lock();
        // One of them has to be over for those that wait to have their turn.
        turns.under_way -= count - 1;
        let waiting = turns.waiting.front().map(|(entry, _)| Arc::clone(entry));
        match waiting.and_then(|entry| Some((entry.client()?, entry))) {
            Some((client, entry)) => {
                drop(turns);
                client.has_room(entry);
            }
            None => turns.under_way -= 1,
        }
    }
}

impl Tries {
    /// Places for tries of callers, for those in line, and for those that replicas are to know of.
    pub(super) fn free(&self) -> [Places<'_>; 3] {
        [(0, TRIES), (TRIES, TRIES), (0, ACKNOWLEDGED_TRIES)].map(|(below, all)| Places { tries: self, below, all })
    }
}

pub(super) struct Places<'a> {
    tries: &'a Tries,
    below: usize,
    all: usize,
}

impl Places<'_> {
    pub(super) fn available_permits(&self) -> usize {
        self.all - self.tries.under_way().saturating_sub(self.below).min(self.all)
    }

    pub(super) fn forget_permits(&self, count: usize) -> usize {
        let count = count.min(self.available_permits());
        self.tries.occupy(count);
        count
    }

    pub(super) fn add_permits(&self, count: usize) {
        self.tries.vacate(count);
    }
}
