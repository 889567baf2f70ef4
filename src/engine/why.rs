//! What is to be released, and for how long that may have to be repeated. It sends nothing.

use std::time::Duration;

use tokio::time::Instant;

use super::{HoldNumber, Note, hold::Hold, reap::OldCopies, slice::Turn};

/// Why something is released.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    pub(crate) number: HoldNumber,
    pub(crate) then: Option<HoldNumber>,
    /// A message of the hand-over that it undoes is counted as our own.
    pub(super) own: bool,
    pub(crate) turn: Turn,
    /// The lease that the server may still keep it for.
    pub(crate) lease: Duration,
    /// And by how much longer, if something that has no answer runs after this was decided.
    pub(super) late: Duration,
    /// Those of its acquire may run later: released again for a while after the end.
    pub(super) old_copies: OldCopies,
    pub(super) note: Note,
    /// What it means if it is not there: copies of it may have run.
    pub(super) missing: Missing,
}

/// What "not held" as its answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The hold was lost before.
    Lost,
    /// A copy that was sent and not answered ran, and published.
    Copy,
    /// The first half of an abandoned hand-over freed it, or a copy of that half did: there was nothing left to free.
    Needless,
}

impl Why {
    /// A hold of ours is over.
    pub(super) fn of(hold: &Hold, turn: Turn, now: Instant) -> Self {
        let ended = Self::ended(hold.number, hold.may_last(now), OldCopies::of(hold.unclean));
        Self { turn, late: hold.runs_late(), note: hold.tenure.note_of_end(), ..ended }
    }

    pub(super) fn ended(number: HoldNumber, lease: Duration, old_copies: OldCopies) -> Self {
        let (turn, late, note) = (Turn::Keep, Duration::ZERO, Note::Unused);
        Self { number, then: None, own: false, turn, lease, late, old_copies, note, missing: Missing::Lost }
    }
}
