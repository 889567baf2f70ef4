//! How the engine's own tests look inside it.

use super::{
    entry::Place,
    shared::Engine,
    tries::{ACKNOWLEDGED_TRIES, TRIES, Tries},
};
use crate::state::HoldNumber;

pub(super) use super::entry::Entry;

impl Place {
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
