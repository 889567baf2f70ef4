//! The slice and the cool-down of a name: how long this process keeps it to itself, when it may try again after it gave
//! it up, and whom it lets go first then. Pure: every call gets its `now`, nothing is sent or slept here.

use std::time::Duration;

use tokio::time::Instant;

use super::date::{Date, nanos};
use crate::rules::{Rule, without};

/// Who hears a message goes later by this part of a slice for each process whose turn comes first, and by no more than a
/// moment: a try is sooner answered than a timer is set.
const STEP: u32 = 10;
const LONGEST_STEP: Duration = Duration::from_millis(1);

/// So many others go first at most, and once each: not all who listen want it, and of a crowd the order is left to chance.
const STEPS: u32 = 3;

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
///
/// All who wait hear the same message, and the first to try gets the lock. So that it is not the same few again and again,
/// those whose own slice is over for longer go first: a process that was told how many others listened lets so many have
/// their turn, and tries a little later until then.
#[derive(Debug)]
pub(crate) struct Slice {
    length_ns: u64,
    started: Option<Date>,
    /// When a hold of ours ended last, whichever way.
    ended: Option<Date>,
    cooling: Option<Cooling>,
    /// Most names are never given up while others listen.
    round: Option<Box<Round>>,
}

/// The turns of others since the slice of this process was over.
#[derive(Clone, Copy, Debug)]
struct Round {
    since: Instant,
    /// How many others listened then, as far as they go first.
    others: u32,
    /// How many of them let go since.
    had: u32,
    /// When the last of them did.
    told: Option<Instant>,
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
    Some(u32),
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
    /// The key may be free, and others who have waited longer go first until then.
    After(Instant),
}

impl Slice {
    pub(crate) fn new(length: Duration) -> Self {
        Self { length_ns: nanos(length), started: None, ended: None, cooling: None, round: None }
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
        self.round = None;
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
                Listeners::Some(_) | Listeners::Unknown => {
                    Some(Cooling::Listeners { until: Date::from(now) + self.length() * patience })
                }
            };
            if let Listeners::Some(others) = listeners {
                let others = others.min(STEPS);
                self.round = Some(Box::new(Round { since: now, others, had: 0, told: None }));
            }
        }
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard_other(&mut self, now: Instant) {
        if let Some(round) = &mut self.round {
            round.had = round.had.saturating_add(1);
            round.told = Some(now);
        }
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
            Some(Cooling::Unanswered) => return Gate::Unanswered,
            Some(Cooling::Listeners { until }) if Date::from(now) < until => return Gate::Until(until.into()),
            Some(Cooling::Listeners { .. }) | None => self.cooling = None,
        }
        self.goes_after().filter(|at| now < *at).map_or(Gate::Open, Gate::After)
    }

    /// When it is this process's turn to try, after what it was told last.
    fn goes_after(&self) -> Option<Instant> {
        let Round { since, others, had, told } = **self.round.as_ref()?;
        let told = told?;
        // Whoever gave nothing up within its slice had its turn all the same.
        let slices = told.saturating_duration_since(since).div_duration_f64(self.length()) as u32;
        let first = others.saturating_sub(had.max(slices));
        Some(told + (self.length() / STEP).min(LONGEST_STEP) * first)
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
        slice.answered(t + 11 * MS, Listeners::Some(1));
        assert!(!slice.awaits_answer());
    }

    #[test]
    fn a_yield_cools_down_until_the_answer_and_then_for_the_listeners() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + 10 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 500 * MS), Gate::Unanswered);
        slice.answered(t + 500 * MS, Listeners::Some(1));
        assert_eq!(slice.gate(t + 501 * MS), Gate::Until(t + 510 * MS));
        assert_eq!(slice.gate(t + 510 * MS), Gate::Open);

        slice.taken(t + 510 * MS);
        slice.released(t + 520 * MS, Turn::Yield);
        slice.heard_other(t + 520 * MS);
        assert_eq!(slice.gate(t + 520 * MS), Gate::Unanswered, "a message before the answer may be our own");
        slice.answered(t + 521 * MS, Listeners::Unknown);
        assert_eq!(slice.gate(t + 521 * MS), Gate::Until(t + 531 * MS));
        slice.heard_other(t + 521 * MS);
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

    /// A process whose slice is over while so many others listen.
    fn yielded(others: u32) -> (Slice, Instant) {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + 10 * MS, Turn::Yield);
        slice.answered(t + 10 * MS, Listeners::Some(others));
        (slice, t + 10 * MS)
    }

    #[test]
    fn who_had_its_turn_goes_after_those_who_did_not_and_a_step_earlier_each_time() {
        let (mut slice, t) = yielded(3);
        let mut told = t;
        for steps in [2, 1, 0] {
            told += 2 * MS;
            slice.heard_other(told);
            let at = told + steps * MS;
            if steps > 0 {
                assert_eq!(slice.gate(told), Gate::After(at));
            }
            assert_eq!(slice.gate(at), Gate::Open);
            slice.busy();
        }
        slice.heard_other(told + 2 * MS);
        assert_eq!(slice.gate(told + 2 * MS), Gate::Open, "it is its turn until it had it");
        slice.taken(told + 2 * MS);
        assert_eq!(slice.gate(told + 2 * MS), Gate::Open);
    }

    #[test]
    fn where_one_other_listens_they_take_turns_at_once() {
        let (mut slice, t) = yielded(1);
        slice.heard_other(t + MS);
        assert_eq!(slice.gate(t + MS), Gate::Open);
    }

    #[test]
    fn who_waited_for_as_many_slices_as_others_listened_goes_at_once_whatever_it_heard() {
        let (mut slice, t) = yielded(3);
        slice.heard_other(t + 30 * MS);
        assert_eq!(slice.gate(t + 30 * MS), Gate::Open);
    }

    #[test]
    fn a_crowd_of_listeners_holds_nobody_up_for_more_than_a_moment() {
        let (mut slice, t) = yielded(10_000);
        slice.heard_other(t + MS);
        assert_eq!(slice.gate(t + MS), Gate::After(t + 3 * MS));
        slice.heard_other(t + 2 * MS);
        slice.heard_other(t + 3 * MS);
        assert_eq!(slice.gate(t + 3 * MS), Gate::Open, "three were before us");
        let mut long = Slice::new(Duration::from_secs(60));
        long.taken(t);
        let over = t + Duration::from_secs(60);
        long.released(over, Turn::Yield);
        long.answered(over, Listeners::Some(10_000));
        long.heard_other(over + MS);
        assert_eq!(long.gate(over + MS), Gate::After(over + 3 * MS));
    }

    #[test]
    fn who_could_not_count_the_others_lets_nobody_go_first() {
        let (mut slice, t) = fresh();
        slice.taken(t);
        slice.released(t + 10 * MS, Turn::Yield);
        slice.answered(t + 10 * MS, Listeners::Unknown);
        slice.heard_other(t + 11 * MS);
        assert_eq!(slice.gate(t + 11 * MS), Gate::Open);
    }

    #[test]
    fn a_slice_of_zero_never_keeps_a_name() {
        let t = Instant::now();
        let mut slice = Slice::new(Duration::ZERO);
        slice.taken(t);
        assert_eq!(slice.turn(t), Turn::Yield);
        slice.released(t, Turn::Yield);
        slice.answered(t, Listeners::Some(7));
        assert_eq!(slice.gate(t), Gate::Open);
        slice.heard_other(t);
        assert_eq!(slice.gate(t), Gate::Open);
    }
}
