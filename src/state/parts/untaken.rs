//! Turns that nobody takes: a hold that was given, and whose owner did not come for it; a try that was somebody's turn.

use std::time::Duration;

use super::{
    super::{deadline::Instant, env::Settings},
    hold::Hold,
    origin::Origin,
    ticket::Guard,
};

/// Which turn it is that nobody takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Untaken {
    #[default]
    First,
    /// Nobody took the one before.
    Next,
}

impl Untaken {
    /// How long a turn is kept. After one that nobody took the next ones are short, until somebody comes.
    pub(crate) fn turn(self, settings: &Settings) -> Duration {
        let (first, next) = settings.turns;
        if self == Self::First { first } else { next }
    }
}

impl<W, S> Hold<W, S> {
    /// Whether its owner still asks for it, as far as that owner knows: it tried, and has not heard of the grant.
    pub(crate) fn is_asked_for(&self) -> bool {
        self.origin == Origin::Tried
    }

    /// Whether nobody came for it yet.
    pub(crate) fn is_offered(&self) -> bool {
        let tickets = self.tickets.as_slice();
        !tickets.is_empty() && tickets.iter().all(|ticket| matches!(ticket.guard, Guard::Offered | Guard::Outdated))
    }

    /// Whether nobody works under it, or ever did.
    pub(crate) fn is_unused(&self) -> bool {
        let tickets = self.tickets.as_slice();
        !tickets.is_empty()
            && tickets.iter().all(|ticket| matches!(ticket.guard, Guard::Offered | Guard::Outdated | Guard::Gathered))
    }

    /// Somebody who worked under it is gone: where those that are left did not come yet, it is their turn from now on.
    pub(crate) fn left_alone(&mut self, now: Instant) {
        if self.is_offered() {
            self.tickets.as_mut_slice().iter_mut().for_each(|ticket| ticket.given = now);
        }
    }

    /// The first of its owner's comes for it: it has it from now on.
    pub(crate) fn taken_at(&mut self, now: Instant) {
        if self.origin == Origin::Tried {
            self.origin = Origin::Taken;
        }
        if self.is_offered() {
            self.taken = now;
            self.tickets.as_mut_slice().iter_mut().for_each(|ticket| ticket.given = now);
        }
    }

    /// Until when it is kept for whoever was given it and did not come.
    pub(crate) fn kept_untaken_until(&self, settings: &Settings, turn: Untaken) -> Option<Instant> {
        if !self.is_offered() {
            return None;
        }
        let given = self.tickets.as_slice().iter().map(|ticket| ticket.given).max()?;
        Some(given + turn.turn(settings))
    }
}
