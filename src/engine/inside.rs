//! How this engine's own tests look inside it.

use super::{hold::Hold, registry::Place, shared::Engine};

pub(super) use super::registry::Entry;

/// So many tasks tell the newest count of a hold.
pub(super) const COUNT_TASKS: usize = 1;

/// Whether the last release of a hold waits for the answer to a count, which it makes needless.
pub(super) const THE_END_WAITS_FOR_COUNTS: bool = true;

/// Whether a release without an answer goes out on a new link only once its wait for the answer is over.
pub(super) const AN_OLD_LINK_IS_WAITED_FOR: bool = true;

/// Whether a grant that was forced away before it was read is told to whoever asked, as a hold that is lost.
pub(super) const A_FORCED_GRANT_IS_TOLD: bool = true;

/// Whether the answer to a forced release counts though whoever called for it was dropped.
pub(super) const A_DROPPED_FORCED_RELEASE_COUNTS: bool = false;

/// So many releases are sent in all for one that was passed over while replicas were waited for, and for those after it.
pub(super) const RELEASES_OF_WHO_WAS_PASSED_OVER: usize = 4;

/// So many tasks there are for one that stands in line, with its own.
pub(super) const TASKS_IN_LINE: usize = 2;

/// Whether a renewal is due by the grant though the one before it had to wait for its turn.
pub(super) const RENEWALS_KEEP_TO_THE_GRANT: bool = true;

/// Whether another server is asked for nothing more than whether a grant is there that nobody came for yet.
pub(super) const WHAT_NOBODY_TOOK_IS_LOOKED_FOR: bool = true;

/// Whether a release of whoever was passed over goes before the others' tries, which wait for its answer.
pub(super) const WHO_WAS_PASSED_OVER_IS_RELEASED: bool = false;

/// So many releases go behind a try that has no answer when its caller's wait is over, by then.
pub(super) const RELEASES_OF_A_TRY_IN_DOUBT: usize = 0;

/// What stands for a name, for its owner's time with it, for a guard, for an acquisition and for an unlock, in bytes.
pub(super) const ROOM: [usize; 5] = [312, 40, 72, 192, 192];

impl Place {
    /// Whether somebody of this client answers for a hold on the server: a ticket, or a release that was decided.
    pub(super) fn accounts_for(&self, number: u64) -> bool {
        let state = self.entry.lock();
        let held = |hold: &Hold| hold.number.0 == number && hold.count() > 0;
        let released =
            |it: &super::release::Releasing| it.number.0 == number || it.then.is_some_and(|then| then.0 == number);
        state.hold.iter().chain(state.lost.iter()).any(held)
            || state.contender.is_some()
            || state.handing.is_some()
            || state.releases.iter().any(released)
    }

    /// Whether a release was decided and is not answered.
    pub(super) fn releases(&self) -> bool {
        !self.entry.lock().releases.is_empty()
    }

    /// Whether a turn was given that nobody took.
    pub(super) fn missed_turns(&self) -> bool {
        self.entry.lock().missed.is_some()
    }
}

impl Engine {
    /// Old copies of all names that are watched for.
    pub(super) fn old_copies(&self) -> usize {
        self.watched().count()
    }
}
