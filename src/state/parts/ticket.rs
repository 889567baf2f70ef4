//! One acquisition's share of a hold. What its end means is decided in `end.rs`.

use std::time::Duration;

use super::super::{
    deadline::Instant,
    id::Id,
    wish::{Lease, Wish},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(crate) id: Id,
    /// Under the watchdog.
    pub(crate) watched: bool,
    pub(crate) guard: Guard,
    /// When its caller was told.
    pub(crate) given: Instant,
    /// When its hold has to be over.
    pub(crate) bound: Option<Instant>,
    /// How far its fixed lease reaches: no bound that is gone by then keeps the hold shorter.
    pub(crate) floor: Option<Instant>,
}

/// What became of a ticket's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// Its caller was told, and did not come for it yet.
    Offered,
    /// The same, and another server may answer by now: whoever comes asks that one.
    Outdated,
    /// It did not come in time.
    Missed,
    Kept,
    /// The same, and nobody works under it before there are others, too.
    Gathered,
    /// Given up, and the ticket kept.
    Detached,
    /// The same, and its owner unlocks it now.
    Unlocked,
}

impl Ticket {
    pub(crate) fn is_detached(&self) -> bool {
        matches!(self.guard, Guard::Detached | Guard::Unlocked)
    }

    /// Its caller is told now. `since` is when its hold's time began: the sending of the request for it, or the pass.
    pub(crate) fn new(id: Id, wish: &Wish, since: Instant, now: Instant) -> Self {
        let mut ticket = Self { id, watched: false, guard: Guard::Offered, given: now, bound: None, floor: None };
        ticket.is_on(wish.lease, wish.max_hold, since);
        ticket
    }

    /// These are its terms, since then.
    pub(crate) fn is_on(&mut self, lease: Lease, max_hold: Option<Duration>, since: Instant) {
        (self.watched, self.floor) = match lease {
            Lease::Watchdog => (true, None),
            Lease::Fixed(lease) => (false, Some(since + lease)),
        };
        self.bound = max_hold.map(|bound| since + bound);
    }
}
