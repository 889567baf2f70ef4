//! One acquisition's share of a hold, and the list of a hold's shares. What their end means is decided in `hand_over.rs`.

use std::{
    ops::{Deref, DerefMut},
    slice,
    time::Duration,
};

use super::date::Date;
use crate::lease::Lease;

/// One acquisition's share of a hold.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) id: u64,
    /// How far its fixed lease was to make the hold last; no further than its start under the watchdog.
    pub(super) floor: Date,
    max_hold: Option<Date>,
    /// Under the watchdog.
    pub(crate) watched: bool,
    pub(crate) detached: bool,
    /// Its guard lies somewhere, and nobody has looked yet.
    pub(super) untaken: bool,
    /// It is renewed, but others are taken with it, and some are missing.
    pub(super) gathered: bool,
}

impl Ticket {
    /// `sent` is the instant before the request left that asked for it.
    pub(crate) fn new(id: u64, lease: Lease, max_hold: Option<Duration>, sent: impl Into<Date>) -> Self {
        let sent = sent.into();
        let max_hold = max_hold.map(|bound| sent + bound);
        let (floor, watched) = match lease {
            Lease::Watchdog => (sent, true),
            Lease::Fixed(lease) => (max_hold.map_or(sent + lease, |bound| bound.min(sent + lease)), false),
        };
        Self { id, floor, max_hold, watched, detached: false, untaken: false, gathered: false }
    }

    /// For somebody who has not looked yet.
    pub(super) fn untaken(self) -> Self {
        Self { untaken: true, ..self }
    }

    /// What its acquisition would be, had it asked for this at this date.
    pub(super) fn on_terms(&self, lease: Lease, max_hold: Option<Duration>, since: Date) -> Self {
        Self { gathered: self.gathered, ..Self::new(self.id, lease, max_hold, since) }
    }

    /// When its hold has to be over.
    pub(crate) fn bound(&self) -> Option<Date> {
        self.max_hold
    }

    /// The ticket that ended before it leaves its bound.
    pub(super) fn inherit(&mut self, last: &Self) {
        self.max_hold = self.max_hold.or(last.max_hold);
    }
}

/// Live guards and detached tickets of one hold, in the order of their acquisition. Mostly there is one, which takes no
/// memory of its own.
#[derive(Debug)]
pub(crate) enum Tickets {
    One(Ticket),
    Any(Vec<Ticket>),
}

impl Tickets {
    pub(crate) fn push(&mut self, ticket: Ticket) {
        let mut tickets = match std::mem::replace(self, Self::Any(Vec::new())) {
            Self::One(first) => vec![first],
            Self::Any(tickets) => tickets,
        };
        tickets.push(ticket);
        *self = Self::Any(tickets);
    }

    /// Takes out the one with this number, if it is there.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Ticket> {
        let at = self.iter().position(|ticket| ticket.id == id)?;
        match std::mem::replace(self, Self::Any(Vec::new())) {
            Self::One(only) => Some(only),
            Self::Any(mut tickets) => {
                let ticket = tickets.remove(at);
                *self = Self::Any(tickets);
                Some(ticket)
            }
        }
    }
}

impl Deref for Tickets {
    type Target = [Ticket];

    fn deref(&self) -> &[Ticket] {
        match self {
            Self::One(only) => slice::from_ref(only),
            Self::Any(tickets) => tickets,
        }
    }
}

impl DerefMut for Tickets {
    fn deref_mut(&mut self) -> &mut [Ticket] {
        match self {
            Self::One(only) => slice::from_mut(only),
            Self::Any(tickets) => tickets,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn ticket(id: u64) -> Ticket {
        Ticket::new(id, Lease::Watchdog, None, Instant::now())
    }

    fn ids(tickets: &Tickets) -> Vec<u64> {
        tickets.iter().map(|ticket| ticket.id).collect()
    }

    #[test]
    fn tickets_stay_in_the_order_of_their_acquisition_however_many_there_are() {
        let mut tickets = Tickets::One(ticket(1));
        assert_eq!(ids(&tickets), [1]);
        assert!(tickets.remove(2).is_none());
        tickets.push(ticket(2));
        tickets.push(ticket(3));
        assert_eq!(tickets.remove(2).map(|ticket| ticket.id), Some(2));
        assert_eq!(ids(&tickets), [1, 3]);
        assert!(tickets.remove(1).is_some() && tickets.remove(3).is_some());
        assert_eq!(ids(&tickets), [0; 0]);
        tickets.push(ticket(4));
        assert_eq!(ids(&tickets), [4]);
        assert!(Tickets::One(ticket(5)).remove(5).is_some());
    }
}
