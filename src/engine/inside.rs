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
