//! The slice and the cool-down of a name: how long this process keeps it to itself, and when it may try again after it
//! gave it up. Pure: every call gets its `now`, nothing is sent or slept here.

use std::time::Duration;

use tokio::time::Instant;

use super::date::{Date, nanos};
use crate::rules::{Rule, without};

/// The fairness towards other processes, for one name.
///
/// | state | event | next |
/// | --- | --- | --- |
/// | none | took the free key | running |
/// | running | took it back soon after the end of our own hold | running, not restarted |
/// | running | took it after busy, or a slice after that end | running, restarted |
/// | running | the hold is lost | running, not restarted: an end like any other |
/// | running, over | the hold ends by our own hand | cooling: unanswered |
/// | cooling: unanswered | no listeners, or not held | none |
/// | cooling: unanswered | some listeners, or unknown | cooling: listeners, for one slice |
/// | cooling: listeners | somebody else's message, or the slice is over | none |
#[derive(Debug)]
pub(crate) struct Slice {
    length_ns: u64,
    started: Option<Date>,
    /// When a hold of ours ended last, whichever way.
    ended: Option<Date>,
    cooling: Option<Cooling>,
}

#[derive(Clone, Copy, Debug)]
enum Cooling {
    Unanswered,
    Listeners { until: Date },
}

/// How a hold of this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The slice is still running: a waiter of this process may have it next.
    Keep,
    /// The slice is over: free the key, and let others try first.
    Yield,
}

/// Who heard the message of a release, apart from ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listeners {
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
    pub(crate) fn new(length: Duration) -> Self {
        Self { length_ns: nanos(length), started: None, ended: None, cooling: None }
    }

    fn length(&self) -> Duration {
        Duration::from_nanos(self.length_ns)
    }

    /// An acquire of ours took the free key.
    pub(crate) fn taken(&mut self, now: Instant) {
        let now = Date::from(now);
        let took_back = self.ended.is_some_and(|ended| now < ended + self.length());
        if self.started.is_none() || !took_back {
            self.started = Some(now);
        }
        self.cooling = None;
    }

    /// A try was answered busy: others have had their turn.
    pub(crate) fn busy(&mut self) {
        self.started = None;
        self.ended = None;
    }

    /// A hold ends at `now`.
    pub(crate) fn turn(&self, now: Instant) -> Turn {
        match self.started {
            Some(started) if Date::from(now) < started + self.length() || without(Rule::SliceEnds) => Turn::Keep,
            _ => Turn::Yield,
        }
    }

    /// The release that a hold ends with was decided, of its owner's will or by force.
    pub(crate) fn released(&mut self, now: Instant, turn: Turn) {
        self.ended = Some(now.into());
        if turn == Turn::Yield {
            self.started = None;
            self.cooling = Some(Cooling::Unanswered);
        }
    }

    /// The release that began the cool-down was answered, or given up as unknown.
    pub(crate) fn answered(&mut self, now: Instant, listeners: Listeners) {
        let patience = if without(Rule::CoolDownEnds) { 1_000_000 } else { 1 };
        if let Some(Cooling::Unanswered) = self.cooling {
            self.cooling = match listeners {
                Listeners::None => None,
                Listeners::Some | Listeners::Unknown => {
                    Some(Cooling::Listeners { until: Date::from(now) + self.length() * patience })
                }
            };
        }
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard_other(&mut self) {
        if let Some(Cooling::Listeners { .. }) = self.cooling {
            self.cooling = None;
        }
    }

    /// A hold was lost, and nobody here freed it. It does not cool the name down: nobody was told, so nobody counted who
    /// else waits, and a waiter here would stand a whole slice for nobody. The next end makes up for it.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.ended = Some(now.into());
    }

    /// A release that is to tell who listens is not answered yet.
    pub(crate) fn awaits_answer(&self) -> bool {
        matches!(self.cooling, Some(Cooling::Unanswered))
    }

    pub(crate) fn gate(&mut self, now: Instant) -> Gate {
        match self.cooling {
            None => Gate::Open,
            Some(Cooling::Unanswered) => Gate::Unanswered,
            Some(Cooling::Listeners { until }) if Date::from(now) < until => Gate::Until(until.into()),
            Some(Cooling::Listeners { .. }) => {
                self.cooling = None;
                Gate::Open
            }
        }
    }

    /// Until when there is something to remember although nobody holds or waits.
    pub(crate) fn remembers_until(&self) -> Option<Instant> {
        let cooling = match self.cooling {
            Some(Cooling::Listeners { until }) => Some(until),
            _ => None,
        };
        cooling.max(self.ended.map(|ended| ended + self.length())).map(Instant::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(10);
    const MS: Duration = Duration::from_millis(1);

    fn fresh() -> (Slice, Instant) {
        (Slice::new(SLICE), Instant::now())
    }

    #[test]
    fn a_hold_that_ends_within_the_slice_is_kept_and_one_after_it_is_yielded() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        assert_eq!(slice.turn(t + 9 * MS), Turn::Keep);
        assert_eq!(slice.turn(t + 10 * MS), Turn::Yield);
    }

    #[test]
    fn taking_back_our_own_key_does_not_restart_the_slice() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        for step in 1..10 {
            slice.released(t + step * MS, Turn::Keep);
            slice.taken(t + step * MS);
        }
        assert_eq!(slice.turn(t + 10 * MS), Turn::Yield);
    }

    #[test]
    fn busy_or_a_slice_since_our_release_restart_it() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + 5 * MS, Turn::Keep);
        slice.busy();
        slice.taken(t + 6 * MS);
        assert_eq!(slice.turn(t + 15 * MS), Turn::Keep);
        slice.released(t + 15 * MS, Turn::Keep);
        slice.taken(t + 26 * MS);
        assert_eq!(slice.turn(t + 35 * MS), Turn::Keep);
    }

    #[test]
    fn a_loss_is_an_end_like_any_other_and_holds_nobody_up() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.lost(t + 5 * MS);
        slice.taken(t + 6 * MS);
        assert_eq!(slice.turn(t + 9 * MS), Turn::Keep);
        slice.lost(t + 11 * MS);
        assert_eq!(slice.gate(t + 11 * MS), Gate::Open);
        slice.taken(t + 12 * MS);
        assert_eq!(slice.turn(t + 13 * MS), Turn::Yield, "the slice of before");
        slice.lost(t + 13 * MS);
        slice.taken(t + 23 * MS);
        assert_eq!(slice.turn(t + 32 * MS), Turn::Keep, "a slice after the loss");
    }

    #[test]
    fn an_answer_is_awaited_from_a_yield_to_the_answer() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + MS, Turn::Keep);
        assert!(!slice.awaits_answer());
        slice.released(t + 10 * MS, Turn::Yield);
        assert!(slice.awaits_answer());
        slice.answered(t + 11 * MS, Listeners::Some);
        assert!(!slice.awaits_answer());
    }

    #[test]
    fn a_yield_cools_down_until_the_answer_and_then_for_the_listeners() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + 10 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 500 * MS), Gate::Unanswered);
        slice.answered(t + 500 * MS, Listeners::Some);
        assert_eq!(slice.gate(t + 501 * MS), Gate::Until(t + 510 * MS));
        assert_eq!(slice.gate(t + 510 * MS), Gate::Open);

        slice.taken(t + 510 * MS);
        slice.released(t + 520 * MS, Turn::Yield);
        slice.heard_other();
        assert_eq!(slice.gate(t + 520 * MS), Gate::Unanswered, "a message before the answer may be our own");
        slice.answered(t + 521 * MS, Listeners::Unknown);
        assert_eq!(slice.gate(t + 521 * MS), Gate::Until(t + 531 * MS));
        slice.heard_other();
        assert_eq!(slice.gate(t + 521 * MS), Gate::Open);
    }

    #[test]
    fn nobody_listening_ends_the_cool_down_with_the_answer() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + 10 * MS, Turn::Yield);
        slice.answered(t + 11 * MS, Listeners::None);
        assert_eq!(slice.gate(t + 11 * MS), Gate::Open);
        slice.taken(t + 11 * MS);
        assert_eq!(slice.turn(t + 20 * MS), Turn::Keep, "a new slice");
    }

    #[test]
    fn a_slice_of_zero_never_keeps_a_name() {
        let t = Instant::now();
        let mut slice = Slice::new(Duration::ZERO);
        slice.taken(t);
        assert_eq!(slice.turn(t), Turn::Yield);
        slice.released(t, Turn::Yield);
        slice.answered(t, Listeners::Some);
        assert_eq!(slice.gate(t), Gate::Open);
    }
}
