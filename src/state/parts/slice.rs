//! How long this process keeps a name to itself, and when it may try again after it gave it up.
//!
//! | state | event | next |
//! | --- | --- | --- |
//! | none | took the free key | running |
//! | running | took it back soon after the end of our own hold | running, not restarted |
//! | running | took it after busy, or a slice after that end | running, restarted |
//! | running | the hold is lost | running, not restarted: an end like any other |
//! | running, over | the hold ends by our own hand | cooling: unanswered |
//! | cooling: unanswered | took the key by a try that left before that end: of a hold that was lost | running, over as before |
//! | cooling: unanswered | not held: nobody was told | running, over as before |
//! | cooling: unanswered | no listeners | none |
//! | cooling: unanswered | some listeners, or unknown | cooling: listeners, for one cool-down |
//! | cooling: listeners | somebody else's message, or the cool-down is over | none |
//! | cooling: listeners | took the key all the same | over |

use std::time::Duration;

use super::super::deadline::Instant;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slice {
    started: Option<Instant>,
    /// When a hold of ours ended last, whichever way.
    ended: Option<Instant>,
    cooling: Option<Cooling>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Cooling {
    Unanswered,
    Listeners { until: Instant },
}

/// How a hold of this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Turn {
    /// The slice is still running: a waiter of this process may have it next.
    Keep,
    /// The slice is over: free the key, and let others try first.
    Yield,
}

/// Who heard the message of a release, apart from ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listeners {
    /// There was none: nothing was freed.
    Untold,
    None,
    Some,
    /// Nobody could count: taken for some.
    Unknown,
}

/// Whether this process may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Not before the release is answered.
    Unanswered,
    /// Others were told: not before somebody else's message, or this instant.
    Until(Instant),
}

impl Slice {
    /// An acquire of ours took the free key.
    pub(crate) fn taken(&mut self, now: Instant, length: Duration) {
        let took_back = self.ended.is_some_and(|ended| now < ended + length);
        if self.started.is_none() || !took_back {
            self.started = Some(now);
        }
        // In the time of others: its own is over with this hold.
        if matches!(self.cooling, Some(Cooling::Listeners { until }) if now < until) {
            self.started = None;
        }
        self.cooling = None;
    }

    /// A try was answered busy: others have their turn, or had it.
    pub(crate) fn busy(&mut self) {
        (self.started, self.ended) = (None, None);
    }

    /// A hold ends now.
    pub(crate) fn turn(&self, now: Instant, length: Duration) -> Turn {
        match self.started {
            Some(started) if now < started + length => Turn::Keep,
            _ => Turn::Yield,
        }
    }

    /// The release that a hold ends with was decided. When its slice began is not forgotten before the answer: a try that
    /// left while that hold was lost already may find the key free, and then goes on with it.
    pub(crate) fn released(&mut self, now: Instant, turn: Turn) {
        self.ended = Some(now);
        if turn == Turn::Yield {
            self.cooling = Some(Cooling::Unanswered);
        }
    }

    /// The release that began the cool-down was answered, or given up as unknown.
    pub(crate) fn answered(&mut self, now: Instant, listeners: Listeners, cool_down: Duration) {
        if self.cooling != Some(Cooling::Unanswered) {
            return;
        }
        self.cooling = match listeners {
            Listeners::Untold | Listeners::None => None,
            Listeners::Some | Listeners::Unknown => Some(Cooling::Listeners { until: now + cool_down }),
        };
        if listeners != Listeners::Untold {
            self.started = None;
        }
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard_other(&mut self) {
        self.cooling.take_if(|cooling| matches!(cooling, Cooling::Listeners { .. }));
    }

    /// A hold was lost, and nobody here freed it. Nobody was told, so nobody counted who else waits: it does not cool down.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    pub(crate) fn gate(&self, now: Instant) -> Gate {
        match self.cooling {
            Some(Cooling::Unanswered) => Gate::Unanswered,
            Some(Cooling::Listeners { until }) if now < until => Gate::Until(until),
            Some(Cooling::Listeners { .. }) | None => Gate::Open,
        }
    }

    /// Nothing is to be remembered any more.
    pub(crate) fn is_idle(&self, now: Instant, length: Duration) -> bool {
        self.gate(now) == Gate::Open && self.ended.is_none_or(|ended| ended + length <= now)
    }
}
