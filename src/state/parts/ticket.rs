//! One acquisition's share of a hold. What its end means is decided in `end.rs`.

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
    /// When its hold has to be over.
    pub(crate) bound: Option<Instant>,
    /// How far its fixed lease reaches: no bound that is gone by then keeps the hold shorter.
    pub(crate) floor: Option<Instant>,
}

/// What became of a ticket's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    Kept,
    /// Given up, and the ticket kept.
    Detached,
    /// The same, and its owner unlocks it now.
    Unlocked,
}

impl Ticket {
    pub(crate) fn is_detached(&self) -> bool {
        self.guard != Guard::Kept
    }

    /// `since` is when its time began: the sending of the request for it, or the pass.
    pub(crate) fn new(id: Id, wish: &Wish, since: Instant) -> Self {
        let (watched, floor) = match wish.lease {
            Lease::Watchdog => (true, None),
            Lease::Fixed(lease) => (false, Some(since + lease)),
        };
        Self { id, watched, guard: Guard::Kept, bound: wish.max_hold.map(|bound| since + bound), floor }
    }
}
