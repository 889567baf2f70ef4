//! How this engine's own tests look inside it.

use super::{
    entry::Place,
    shared::Engine,
    tries::{ACKNOWLEDGED_TRIES, TRIES, Tries},
};
use crate::state::HoldNumber;

pub(super) use super::entry::Entry;

/// What tells the newest count of a hold is no task.
pub(super) const COUNT_TASKS: usize = 0;

/// Zero frees whatever the count is, and a link keeps its order.
pub(super) const THE_END_WAITS_FOR_COUNTS: bool = false;

/// What is sent again on a new link leaves at once.
pub(super) const AN_OLD_LINK_IS_WAITED_FOR: bool = false;

/// What stands for a name with all that is decided about it, for its owner's time with it and what that is told, for a guard, for
/// an acquisition, which lies in no box of its own, and for an unlock, in bytes.
pub(super) const ROOM: [usize; 5] = [512, 88, 80, 328, 224];

/// It counts for nothing, and is asked for anew.
pub(super) const A_FORCED_GRANT_IS_TOLD: bool = false;

/// What was sent is the name's.
pub(super) const A_DROPPED_FORCED_RELEASE_COUNTS: bool = true;

/// Who comes late finds that it was passed over, and has nothing to let go of.
pub(super) const RELEASES_OF_WHO_WAS_PASSED_OVER: usize = 3;

/// Who stands in line needs none but its own.
pub(super) const TASKS_IN_LINE: usize = 1;

/// What nobody came for is asked for again.
pub(super) const WHAT_NOBODY_TOOK_IS_LOOKED_FOR: bool = false;

/// Whatever was asked for it may have run.
pub(super) const WHO_WAS_PASSED_OVER_IS_RELEASED: bool = true;

/// It is released at once.
pub(super) const RELEASES_OF_A_TRY_IN_DOUBT: usize = 1;

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
