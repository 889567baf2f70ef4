//! What a command asks for, and the promise that its answer makes. Which hold it is for is not known here.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    clock::{self, Clock, Moment},
    date::{Date, nanos},
};
use crate::rules::{Rule, without};

/// What a command asked for, and when it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) sent: Instant,
    /// What the machine had slept when it left.
    pub(crate) slept: Duration,
    pub(crate) lease: Duration,
    pub(crate) cut: bool,
}

/// The promise of the hold: good until then, unless told otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) at: Date,
    /// What the machine had slept when it was set; sleep since then shortens it.
    slept_ms: u64,
    /// The lease it stands for.
    lease_ns: u64,
    /// `max_hold` made the lease shorter than was asked for.
    pub(super) cut: bool,
}

/// A lease that was raised by an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raised {
    /// When it was asked for.
    pub(super) sent: Date,
    /// How far it reaches by what was asked for.
    pub(super) reached: Date,
    pub(super) deadline: Deadline,
}

impl Term {
    /// A lease that is asked for now. It never reaches beyond `bound`; `None` if nothing is left before it.
    pub(crate) fn now(lease: Duration, bound: Option<Instant>, clock: &Clock) -> Option<Self> {
        Self::at(lease, bound, clock.moment())
    }

    /// The same for one that is asked for at this moment.
    pub(super) fn at(lease: Duration, bound: Option<Instant>, moment: Moment) -> Option<Self> {
        let Moment { now: sent, slept, .. } = moment;
        let left = bound.map_or(Duration::MAX, |bound| bound.saturating_duration_since(sent));
        // Whole milliseconds are sent, rounded down here: the bound is a promise.
        let left = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        if left.is_zero() {
            return None;
        }
        Some(Self { sent, slept, lease: lease.min(left), cut: left < lease })
    }

    /// The first lease of a hold, which is asked for now and may last for no longer than `max_hold` from now on.
    pub(super) fn first(lease: Duration, max_hold: Option<Duration>, clock: &Clock) -> Self {
        let Moment { now: sent, slept, .. } = clock.moment();
        let bound = max_hold.unwrap_or(lease);
        Self { sent, slept, lease: lease.min(bound), cut: bound < lease }
    }

    /// Whether an answer that comes at this moment still stands for something.
    pub(crate) fn holds(&self, moment: Moment) -> bool {
        moment.date < Deadline::of(*self).effective(moment)
    }

    /// What its answer makes of a lease, however many holds it is for.
    pub(super) fn raised(self, moment: Moment) -> Raised {
        let sent = Date::from(self.sent);
        Raised { sent, reached: sent + self.lease, deadline: Deadline::by(self, moment) }
    }
}

impl Raised {
    /// Whether it was more than a look.
    pub(super) fn raises(&self) -> bool {
        self.sent < self.reached
    }

    /// How long the server may keep the hold by it, whose answer came at this moment: it ran then at the latest.
    pub(super) fn kept(&self, moment: Moment) -> Date {
        moment.date + self.reached.saturating_duration_since(self.sent)
    }
}

impl Deadline {
    fn of(term: Term) -> Self {
        let from = if without(Rule::DeadlineFromSending) { Instant::now() } else { term.sent };
        let lease = if without(Rule::DeadlineHasMargin) { term.lease * 5 / 4 } else { term.lease };
        let at = clock::deadline(from, lease).into();
        Self { at, slept_ms: whole_ms(term.slept), lease_ns: nanos(term.lease), cut: term.cut }
    }

    /// The same, with all sleep until now taken off: whoever looks at it later need not ask for that again.
    pub(super) fn by(term: Term, moment: Moment) -> Self {
        let mut deadline = Self::of(term);
        deadline.note_sleep(moment);
        deadline
    }

    pub(super) fn note_sleep(&mut self, moment: Moment) {
        self.at = self.effective(moment);
        self.slept_ms = self.slept_ms.max(whole_ms(moment.slept));
    }

    /// The lease it stands for.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease_ns)
    }

    pub(super) fn effective(&self, moment: Moment) -> Date {
        match whole_ms(moment.slept).saturating_sub(self.slept_ms) {
            0 => self.at,
            slept => self.at - Duration::from_millis(slept),
        }
    }
}

/// Sleep is counted in whole milliseconds: see [`Clock::slept`].
fn whole_ms(slept: Duration) -> u64 {
    slept.as_secs().saturating_mul(1_000).saturating_add(slept.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_lease_lasts_for_all_of_its_max_hold_and_only_a_shorter_one_cuts_it() {
        const MS: Duration = Duration::from_millis(1);
        let clock = Clock::new();
        for (lease, max_hold, asked, cut) in [
            (MS * 50, None, MS * 50, false),
            (MS * 50, Some(MS * 60), MS * 50, false),
            (MS * 50, Some(MS * 50), MS * 50, false),
            (MS * 50, Some(MS * 49), MS * 49, true),
            (MS * 10, Some(MS * 10), MS * 10, false),
        ] {
            let before = clock.now();
            let term = Term::first(lease, max_hold, &clock);
            assert_eq!((term.lease, term.cut), (asked, cut), "{lease:?}, {max_hold:?}");
            assert!(before <= term.sent && term.sent <= clock.now());
            // A later one of the same hold, whose bound counts from its own moment.
            let moment = clock.moment();
            let term = Term::at(lease, max_hold.map(|max_hold| moment.now + max_hold), moment).expect("it is not over");
            assert_eq!((term.lease, term.cut), (asked, cut), "{lease:?}, {max_hold:?}");
        }
    }
}
