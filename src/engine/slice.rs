//! The slice and the cool-down of a name: how long this process keeps it to itself, when it may try again after it gave
//! it up, and whom it lets go first then. Pure: every call gets its `now`, nothing is sent or slept here.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    date::{Date, nanos},
    turns::{LONGEST, Others, Timing},
};
use crate::rules::{Rule, without};

/// So many others go first at most, and once each: not all who listen want it, and of a crowd the order is left to chance.
const STEPS: u8 = 3;

/// Whoever needs more than a slice for so many round trips is far: giving the key up and coming back takes two, and what is
/// left of the slice is for whatever else takes time.
const FAR: u32 = 4;

/// A process that is far keeps the name for so many round trips at least: the key is on its way for one of them.
const KEEPS: u32 = 2;

/// The fairness towards other processes, for one name.
///
/// | state | event | next |
/// | --- | --- | --- |
/// | none | took the free key | running |
/// | running | took it back soon after the end of our own hold | running, not restarted |
/// | running | took it after busy, or a slice after that end | running, restarted |
/// | running | the hold is lost | running, not restarted: an end like any other |
/// | running, over | the hold ends by our own hand | cooling: unanswered |
/// | cooling: unanswered | took the key by a try that left before that end: of a hold that was lost | running, over as before |
/// | running, freed | busy: somebody else took what some listeners were told of | cooling: listeners |
/// | cooling: unanswered | not held: nobody was told | running, over as before |
/// | cooling: unanswered | no listeners | none |
/// | cooling: unanswered | some listeners, or unknown | cooling: listeners, for one slice |
/// | cooling: listeners | somebody else's message, or the slice is over | none |
/// | cooling: listeners | took the key all the same: a wait was nearly over | over |
///
/// All who wait hear the same message, and the first to try gets the lock. So that it is not the same few again and again,
/// those whose own slice is over for longer go first: a process that was told how many others listened lets so many have
/// their turn, and tries a little later until then.
///
/// A process is far where its round trip is longer than a quarter of a slice: after a message its try comes when those that are
/// near have taken the key again. So what a process gives to others, cool-down and steps, changes with each turn that it takes,
/// and its own slice with it:
///
/// | of those who listened | the key lay free | what it gives |
/// | --- | --- | --- |
/// | all were heard | | falls by an eighth |
/// | some were not | for all that it gives, and it took it | grows: by an eighth of its own turn at first, then twice as much each time, up to that turn |
/// | some were not | for less | stays: others give less, and theirs grows |
///
/// So the least that anybody gives grows until those that are far come. It falls more slowly than it grows since messages can be
/// counted and senders cannot: whoever is heard twice is taken for two, and whoever came and went before it listened for none.
///
/// A far process rests for some round trips when its turn is over, and lets those who listened go first when it listens again.
#[derive(Debug)]
pub(crate) struct Slice {
    length_us: u32,
    /// How far the server was when the key was taken last, or nearer by what was measured since.
    round_trip_us: u32,
    started: Option<Date>,
    /// When a hold of ours ended last, whichever way.
    ended: Option<Date>,
    /// Most names are never given up while others listen.
    others: Option<Box<Others>>,
    /// How long the turn was that began the cool-down. Of more than fits, no more counts.
    had_ns: u32,
    cooling: Option<Cooling>,
    /// How many others listened to the last release that was answered, as far as they go first.
    listeners: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cooling {
    Unanswered,
    Listeners,
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
    /// There was none: nothing was freed.
    Untold,
    None,
    Some(u32),
    /// Nobody could count: taken for one.
    Unknown,
}

/// Whether this process may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Not before the release is answered.
    Unanswered,
    /// Others were told: not before somebody else's message, or `at`; who would not wait for that, not before `soon`.
    Until {
        soon: Instant,
        at: Instant,
    },
    /// The key may be free, and others who have waited longer go first until then.
    After(Instant),
    /// Those who are nearer have it to themselves until then: who waits here does not even listen.
    Rest(Instant),
}

impl Listeners {
    fn count(self) -> u8 {
        match self {
            Self::Untold | Self::None => 0,
            Self::Some(others) => u8::try_from(others).unwrap_or(STEPS).min(STEPS),
            Self::Unknown => 1,
        }
    }
}

impl Slice {
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            // The shortest is one.
            length_us: micros(length).max(u32::from(!length.is_zero())),
            round_trip_us: 0,
            started: None,
            ended: None,
            others: None,
            had_ns: 0,
            cooling: None,
            listeners: 0,
        }
    }

    /// As it was asked for. One of no length is none, however far the server is.
    fn usual(&self) -> Duration {
        Duration::from_micros(self.length_us.into())
    }

    fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_us.into())
    }

    fn is_far(&self) -> bool {
        self.length_us > 0 && self.usual() < self.round_trip() * FAR
    }

    fn timing(&self) -> Timing {
        Timing { slice: self.usual(), far: self.is_far().then(|| self.round_trip()) }
    }

    fn length(&self) -> Duration {
        if self.length_us == 0 {
            return Duration::ZERO;
        }
        if self.is_far() {
            return self.usual().max(self.round_trip() * KEEPS);
        }
        let length = self.usual();
        self.others.as_ref().map_or(length, |others| (length + others.longer()).min(LONGEST).max(length))
    }

    /// An acquire of ours took the free key, which took about such a round trip.
    pub(crate) fn taken(&mut self, now: Instant, round_trip: Duration) {
        let date = Date::from(now);
        let took_back = self.ended.is_some_and(|ended| date < ended + self.length());
        if self.started.is_none() || !took_back {
            self.started = Some(date);
        }
        // In the time of others: its own is over with this hold.
        if self.cool_down().is_some_and(|(_, at)| now < at) {
            self.started = None;
        }
        self.cooling = None;
        self.round_trip_us = micros(round_trip);
        let timing = self.timing();
        self.others.take_if(|others| !others.taken(now, timing));
    }

    /// A try that left at `sent` was answered busy: others have their turn, or had it.
    pub(crate) fn busy(&mut self, sent: Instant) {
        let soon = self.ended.filter(|ended| Date::from(sent) < *ended + self.length() && !self.awaits_answer());
        if let Some((started, ended)) = self.started.zip(soon).filter(|_| self.listeners > 0 && self.length_us > 0) {
            let had = ended.saturating_duration_since(started);
            self.others.get_or_insert_default().turn_ended(ended.into(), self.listeners.into(), had);
            self.cooling = Some(Cooling::Listeners);
        }
        self.started = None;
        self.ended = None;
    }

    /// A hold ends at `now`.
    pub(crate) fn turn(&self, now: impl Into<Date>) -> Turn {
        match self.started {
            Some(started) if now.into() < started + self.length() || without(Rule::SliceEnds) => Turn::Keep,
            _ => Turn::Yield,
        }
    }

    /// The same for one that nobody of this process has next. Whoever is far gives the key up for a round trip anyway, so
    /// it was its turn.
    pub(crate) fn turn_of_last(&self, turn: Turn) -> Turn {
        if self.is_far() && self.listeners > 0 { Turn::Yield } else { turn }
    }

    /// The release that a hold ends with was decided, of its owner's will or by force. When its slice began is not forgotten
    /// before the answer: a try that left while that hold was lost already may find the key free, and then goes on with it.
    pub(crate) fn released(&mut self, now: Instant, turn: Turn) {
        let now = Date::from(now);
        self.ended = Some(now);
        if turn == Turn::Yield {
            let had = self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
            self.had_ns = u32::try_from(nanos(had)).unwrap_or(u32::MAX);
            self.cooling = Some(Cooling::Unanswered);
        }
    }

    /// A release that began no cool-down was answered.
    pub(crate) fn counted(&mut self, listeners: Listeners) {
        if listeners != Listeners::Untold {
            self.listeners = listeners.count();
        }
    }

    /// The release that began the cool-down was answered, or given up as unknown. Where nobody was told the turn is as little
    /// over as where a hold is lost.
    pub(crate) fn answered(&mut self, now: Instant, listeners: Listeners) {
        self.counted(listeners);
        if !self.awaits_answer() {
            return;
        }
        self.cooling = None;
        if listeners == Listeners::Untold {
            return;
        }
        self.started = None;
        if listeners == Listeners::None || self.length_us == 0 {
            self.others = None;
            return;
        }
        let had = Duration::from_nanos(self.had_ns.into());
        self.others.get_or_insert_default().turn_ended(now, self.listeners.into(), had);
        self.cooling = Some(Cooling::Listeners);
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard_other(&mut self, now: Instant) {
        let timing = self.timing();
        if let Some(others) = &mut self.others {
            others.heard(now, timing);
        }
        if self.cooling == Some(Cooling::Listeners) && self.rests_until().is_none_or(|rest| rest <= now) {
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
        self.cooling == Some(Cooling::Unanswered)
    }

    /// Answers take no longer than this at present: whoever was held up, and is not far after all, rests no longer.
    pub(crate) fn comes_nearer(&mut self, round_trip: Duration) {
        self.round_trip_us = self.round_trip_us.min(micros(round_trip));
    }

    pub(crate) fn gate(&mut self, now: Instant) -> Gate {
        if let Some(rest) = self.rests_until().filter(|rest| now < *rest && !self.awaits_answer()) {
            return Gate::Rest(rest);
        }
        match (self.cooling, self.cool_down()) {
            // It is far, and nobody listened the last time: its try goes right behind its release, this once.
            (Some(Cooling::Unanswered), _) if self.is_far() && self.listeners == 0 => self.started = None,
            (Some(Cooling::Unanswered), _) => return Gate::Unanswered,
            (_, Some((soon, at))) if now < at => return Gate::Until { soon, at },
            _ => self.cooling = None,
        }
        let goes = self.others.as_ref().and_then(|others| others.goes_after(self.timing()));
        goes.filter(|at| now < *at).map_or(Gate::Open, Gate::After)
    }

    /// How long those who were told are waited for: at least, and at most.
    fn cool_down(&self) -> Option<(Instant, Instant)> {
        let others = self.others.as_ref().filter(|_| self.cooling == Some(Cooling::Listeners))?;
        let (soon, at) = others.come_by(self.timing())?;
        let longer = if without(Rule::CoolDownEnds) {
            at.saturating_duration_since(soon) + LONGEST * 1_000_000
        } else {
            Duration::ZERO
        };
        Some((soon + longer, at + longer))
    }

    /// Until when a far process lets the others alone.
    fn rests_until(&self) -> Option<Instant> {
        let others = self.others.as_ref().filter(|_| self.is_far())?;
        others.listens_at(self.timing())
    }

    /// Until when there is something to remember although nobody holds or waits.
    pub(crate) fn remembers_until(&self) -> Option<Date> {
        let cooling = self.cool_down().map(|(_, at)| Date::from(at));
        let ended = self.ended.map(|ended| ended + self.length());
        cooling.max(ended).max(self.rests_until().map(Date::from))
    }
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::turns::LONGEST_REST, *};

    const SLICE: Duration = Duration::from_millis(10);
    const MS: Duration = Duration::from_millis(1);

    fn fresh() -> (Slice, Instant) {
        (Slice::new(SLICE), Instant::now())
    }

    /// Until then, whoever asks.
    fn until(at: Instant) -> Gate {
        Gate::Until { soon: at, at }
    }

    #[test]
    fn a_hold_that_ends_within_the_slice_is_kept_and_one_after_it_is_yielded() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        assert_eq!(slice.turn(t + 9 * MS), Turn::Keep);
        assert_eq!(slice.turn(t + 10 * MS), Turn::Yield);
    }

    #[test]
    fn taking_back_our_own_key_does_not_restart_the_slice() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        for step in 1..10 {
            slice.released(t + step * MS, Turn::Keep);
            slice.taken(t + step * MS, Duration::ZERO);
        }
        assert_eq!(slice.turn(t + 10 * MS), Turn::Yield);
    }

    #[test]
    fn busy_or_a_slice_since_our_release_restart_it() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + 5 * MS, Turn::Keep);
        slice.busy(t + 5 * MS);
        slice.taken(t + 6 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 15 * MS), Turn::Keep);
        slice.released(t + 15 * MS, Turn::Keep);
        slice.taken(t + 26 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 35 * MS), Turn::Keep);
    }

    #[test]
    fn a_loss_is_an_end_like_any_other_and_holds_nobody_up() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.lost(t + 5 * MS);
        slice.taken(t + 6 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 9 * MS), Turn::Keep);
        slice.lost(t + 11 * MS);
        assert_eq!(slice.gate(t + 11 * MS), Gate::Open);
        slice.taken(t + 12 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 13 * MS), Turn::Yield, "the slice of before");
        slice.lost(t + 13 * MS);
        slice.taken(t + 23 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 32 * MS), Turn::Keep, "a slice after the loss");
    }

    #[test]
    fn an_answer_is_awaited_from_a_yield_to_the_answer() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + MS, Turn::Keep);
        assert!(!slice.awaits_answer());
        slice.released(t + 10 * MS, Turn::Yield);
        assert!(slice.awaits_answer());
        slice.answered(t + 11 * MS, Listeners::Some(1));
        assert!(!slice.awaits_answer());
    }

    /// A hold was lost, and a try left before its release was decided.
    #[test]
    fn whoever_takes_the_key_by_a_try_that_left_before_the_release_goes_on_with_its_slice() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.lost(t + 11 * MS);
        slice.released(t + 12 * MS, Turn::Yield);
        slice.taken(t + 13 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 13 * MS), Turn::Yield);
        slice.answered(t + 14 * MS, Listeners::None);
        assert_eq!(slice.turn(t + 14 * MS), Turn::Yield, "it took the key before that");
        // Refused, it waits for the answer like any other.
        slice.released(t + 14 * MS, Turn::Yield);
        slice.counted(Listeners::Some(1));
        slice.busy(t + 13 * MS);
        assert_eq!(slice.gate(t + 15 * MS), Gate::Unanswered);
    }

    #[test]
    fn a_release_that_found_nothing_told_nobody_and_the_next_one_makes_up_for_it() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.lost(t + 11 * MS);
        slice.released(t + 12 * MS, Turn::Yield);
        slice.answered(t + 13 * MS, Listeners::Untold);
        assert_eq!(slice.gate(t + 13 * MS), Gate::Open, "nobody is waited for");
        slice.taken(t + 14 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 14 * MS), Turn::Yield);
        slice.lost(t + 14 * MS);
        slice.taken(t + 24 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 33 * MS), Turn::Keep, "a slice after the loss");
        // Nor does it say that nobody listens.
        slice.counted(Listeners::Some(1));
        slice.counted(Listeners::Untold);
        assert_eq!(slice.listeners, 1);
    }

    #[test]
    fn a_yield_cools_down_until_the_answer_and_then_for_the_listeners() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + 10 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 500 * MS), Gate::Unanswered);
        slice.answered(t + 500 * MS, Listeners::Some(1));
        assert_eq!(slice.gate(t + 501 * MS), until(t + 510 * MS));
        assert_eq!(slice.gate(t + 510 * MS), Gate::Open);

        slice.taken(t + 510 * MS, Duration::ZERO);
        slice.released(t + 520 * MS, Turn::Yield);
        slice.heard_other(t + 520 * MS);
        assert_eq!(slice.gate(t + 520 * MS), Gate::Unanswered, "a message before the answer may be our own");
        slice.answered(t + 521 * MS, Listeners::Unknown);
        assert_eq!(slice.gate(t + 521 * MS), until(t + 531 * MS));
        slice.heard_other(t + 521 * MS);
        assert_eq!(slice.gate(t + 521 * MS), Gate::Open);
    }

    #[test]
    fn nobody_listening_ends_the_cool_down_with_the_answer() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + 10 * MS, Turn::Yield);
        slice.answered(t + 11 * MS, Listeners::None);
        assert_eq!(slice.gate(t + 11 * MS), Gate::Open);
        slice.taken(t + 11 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 20 * MS), Turn::Keep, "a new slice");
    }

    /// A process whose slice is over while so many others listen.
    fn yielded(others: u32) -> (Slice, Instant) {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + 10 * MS, Turn::Yield);
        slice.answered(t + 10 * MS, Listeners::Some(others));
        (slice, t + 10 * MS)
    }

    #[test]
    fn who_had_its_turn_goes_after_those_who_did_not_and_a_step_earlier_each_time() {
        let (mut slice, t) = yielded(3);
        let mut told = t;
        for steps in [2, 1, 0] {
            told += SLICE;
            slice.heard_other(told);
            let at = told + steps * MS;
            if steps > 0 {
                assert_eq!(slice.gate(told), Gate::After(at));
            }
            assert_eq!(slice.gate(at), Gate::Open);
            slice.busy(told);
        }
        slice.heard_other(told + 2 * MS);
        assert_eq!(slice.gate(told + 2 * MS), Gate::Open, "it is its turn until it had it");
        slice.taken(told + 2 * MS, Duration::ZERO);
        assert_eq!(slice.gate(told + 2 * MS), Gate::Open);
    }

    #[test]
    fn where_one_other_listens_they_take_turns_at_once() {
        let (mut slice, t) = yielded(1);
        slice.heard_other(t + MS);
        assert_eq!(slice.gate(t + MS), Gate::Open);
    }

    #[test]
    fn each_of_several_is_taken_to_have_a_slice_s_time_however_often_it_frees_the_name_and_a_single_one_is_not() {
        for trip in [Duration::ZERO, 5 * MS] {
            for (others, waits) in [(1, [0, 0, 0, 0]), (2, [2, 2, 1, 0])] {
                let (mut slice, mut t) = fresh();
                let stands_back = turn_of(&mut slice, &mut t, SLICE, others, trip);
                if trip > Duration::ZERO {
                    t += stands_back;
                }
                for (ms, waits) in [1, 2, 10, 20].into_iter().zip(waits) {
                    let heard = t + ms * MS;
                    slice.heard_other(heard);
                    let expected = if waits > 0 { Gate::After(heard + waits * MS) } else { Gate::Open };
                    assert_eq!(slice.gate(heard), expected, "{trip:?}, {others}, {ms}");
                }
            }
        }
        // However long it takes, a turn is one that is heard.
        let (mut slice, t) = yielded(2);
        slice.heard_other(t + 1000 * MS);
        assert_eq!(slice.gate(t + 1000 * MS), Gate::After(t + 1001 * MS));
    }

    #[test]
    fn whoever_heard_all_of_several_goes_at_once_though_it_learned_late_that_its_own_turn_was_over() {
        let (mut slice, t) = yielded(3);
        // A fifth of a slice after the next one had taken the key.
        for (turn, waits) in [(1, 2), (2, 1), (3, 0)] {
            let heard = t + turn * SLICE - 2 * MS;
            slice.heard_other(heard);
            let expected = if waits > 0 { Gate::After(heard + waits * MS) } else { Gate::Open };
            assert_eq!(slice.gate(heard), expected, "{turn}");
        }
    }

    #[test]
    fn whoever_loses_the_name_within_its_slice_lets_those_go_first_who_were_told_and_others_not() {
        for (told, since, first) in [(Listeners::Some(2), 1, 1), (Listeners::Some(2), 11, 0), (Listeners::None, 1, 0)] {
            let (mut slice, t) = fresh();
            slice.taken(t, Duration::ZERO);
            slice.released(t + 5 * MS, Turn::Keep);
            slice.counted(told);
            let sent = t + 5 * MS + since * MS;
            slice.busy(sent);
            let expected = if first > 0 { until(t + 15 * MS) } else { Gate::Open };
            assert_eq!(slice.gate(sent), expected, "its subscription may be confirmed, and it tries again");
            let heard = t + 20 * MS;
            slice.heard_other(heard);
            let expected = if first > 0 { Gate::After(heard + first * MS) } else { Gate::Open };
            assert_eq!(slice.gate(heard), expected, "{told:?}, {since}");
            slice.taken(heard + 5 * MS, Duration::ZERO);
            assert_eq!(slice.turn(heard + 14 * MS), Turn::Keep, "a slice like any other");
        }
    }

    #[test]
    fn a_crowd_of_listeners_holds_nobody_up_for_more_than_a_moment() {
        let (mut slice, t) = yielded(10_000);
        slice.heard_other(t + MS);
        assert_eq!(slice.gate(t + MS), Gate::After(t + 4 * MS));
        slice.heard_other(t + 2 * SLICE);
        slice.heard_other(t + 3 * SLICE);
        assert_eq!(slice.gate(t + 3 * SLICE), Gate::Open, "three were before us");
        // Who had it for a minute can wait for longer, and yet not long.
        let mut long = Slice::new(Duration::from_secs(60));
        long.taken(t, Duration::ZERO);
        let over = t + Duration::from_secs(60);
        long.released(over, Turn::Yield);
        long.answered(over, Listeners::Some(10_000));
        long.heard_other(over + MS);
        assert_eq!(long.gate(over + MS), Gate::After(over + MS + LONGEST / 16));
    }

    /// A turn of this process that begins at `t` and ends after `had`, while `others` listen; how long it then stands back.
    fn turn_of(slice: &mut Slice, t: &mut Instant, had: Duration, others: u32, far: Duration) -> Duration {
        slice.taken(*t, far);
        *t += had;
        let turn = slice.turn(*t);
        slice.released(*t, slice.turn_of_last(turn));
        slice.answered(*t, Listeners::Some(others));
        match slice.gate(*t) {
            Gate::Until { at, .. } | Gate::Rest(at) => at - *t,
            gate => panic!("{gate:?}"),
        }
    }

    /// The same of a process that is near and keeps the name for as long as it may; how long it had it, too.
    fn whole_turn_of(slice: &mut Slice, t: &mut Instant, others: u32) -> (Duration, Duration) {
        slice.taken(*t, Duration::ZERO);
        let had = slice.length();
        *t += had;
        slice.released(*t, slice.turn(*t));
        slice.answered(*t, Listeners::Some(others));
        match slice.gate(*t) {
            Gate::Until { at, .. } => (had, at - *t),
            gate => panic!("{gate:?}"),
        }
    }

    #[test]
    fn a_turn_of_more_than_can_be_noted_counts_for_as_much_as_the_longest_one_that_can() {
        let [noted, longer] = [4, 3600].map(|secs| {
            let (mut slice, mut t) = fresh();
            let given = [(); 3].map(|()| {
                let given = turn_of(&mut slice, &mut t, Duration::from_secs(secs), 1, Duration::ZERO);
                t += given;
                given
            });
            (given, slice.length())
        });
        assert_eq!((noted, noted.1), (longer, LONGEST));
    }

    #[test]
    fn the_shortest_slice_is_one_all_the_same() {
        let (mut slice, t) = (Slice::new(Duration::from_nanos(1)), Instant::now());
        slice.taken(t, Duration::ZERO);
        assert_eq!([slice.turn(t), slice.turn(t + MS)], [Turn::Keep, Turn::Yield]);
    }

    /// What is added to a slice and to what others are given, from one turn in vain to the next.
    fn longer() -> impl Iterator<Item = Duration> {
        let micros = [0.0, 1250.0, 2656.25, 5312.5, 10_625.0, 21_250.0, 42_500.0, 85_000.0, 170_000.0, 340_000.0];
        micros.into_iter().map(|us| Duration::from_secs_f64(us / 1e6)).chain([LONGEST; 2])
    }

    /// Turns of a process that is near until it gives others so much, while one listens and does not come.
    fn in_vain_until(given: Duration) -> (Slice, Instant) {
        let (mut slice, mut t) = fresh();
        loop {
            let (had, gave) = whole_turn_of(&mut slice, &mut t, 1);
            assert_eq!(gave, had, "no more than it had");
            if gave >= given {
                assert_eq!(gave, given);
                return (slice, t);
            }
            t += gave;
        }
    }

    #[test]
    fn whoever_listens_and_is_not_heard_is_given_more_each_time_but_no_more_than_this_process_had() {
        let (mut slice, mut t) = fresh();
        for longer in longer() {
            let given = (SLICE + longer).min(LONGEST);
            slice.taken(t, Duration::ZERO);
            assert_eq!(slice.turn(t + given - MS), Turn::Keep, "it keeps the name for as long");
            t += given;
            assert_eq!(slice.turn(t), Turn::Yield);
            slice.released(t, Turn::Yield);
            slice.answered(t, Listeners::Some(1));
            assert_eq!(slice.gate(t), Gate::Until { soon: t + SLICE, at: t + given });
            t += given;
        }
        slice.taken(t, Duration::ZERO);
        // A short turn gives others no more than the usual.
        slice.released(t + 3 * MS, Turn::Yield);
        slice.answered(t + 3 * MS, Listeners::Some(1));
        assert_eq!(slice.gate(t + 3 * MS), until(t + 13 * MS));
    }

    #[test]
    fn once_all_who_listened_were_heard_they_are_given_an_eighth_less_each_time_and_the_usual_in_the_end() {
        let (mut slice, mut t) = in_vain_until(180 * MS);
        for more in [148, 130, 113] {
            slice.heard_other(t);
            assert_eq!(slice.gate(t), Gate::Open);
            assert_eq!(whole_turn_of(&mut slice, &mut t, 1).0.as_millis(), 10 + more);
        }
        for _ in 0..40 {
            slice.heard_other(t);
            let _ = whole_turn_of(&mut slice, &mut t, 1);
        }
        assert_eq!(slice.gate(t), until(t + SLICE));
        // Where nobody listens, nothing is left of it at once.
        let (mut slice, t) = in_vain_until(180 * MS);
        slice.taken(t, Duration::ZERO);
        slice.released(t + 500 * MS, Turn::Yield);
        slice.answered(t + 500 * MS, Listeners::None);
        assert!(slice.others.is_none());
    }

    #[test]
    fn those_who_come_later_than_the_first_are_given_more_too() {
        let (mut slice, mut t) = fresh();
        for longer in longer() {
            let (had, _) = whole_turn_of(&mut slice, &mut t, 2);
            slice.heard_other(t + MS);
            let steps = (2 * MS).max(had / 32);
            let at = t + MS + (steps + longer).min(had);
            assert_eq!(slice.gate(t + MS), Gate::After(at), "{longer:?}");
            t = at;
        }
    }

    #[test]
    fn whoever_takes_the_name_before_its_time_learns_nothing_of_the_others_and_gives_it_up_at_its_end() {
        let (mut slice, t) = yielded(1);
        slice.taken(t + SLICE / 2, Duration::ZERO);
        assert_eq!(slice.turn(t + SLICE / 2), Turn::Yield);
        slice.released(t + SLICE, Turn::Yield);
        slice.answered(t + SLICE, Listeners::Some(1));
        assert_eq!(slice.gate(t + SLICE), until(t + 2 * SLICE));
    }

    #[test]
    fn whoever_is_far_rests_after_its_turn_for_each_that_listens_and_keeps_the_name_for_two_round_trips() {
        let (trip, mut t) = (100 * MS, Instant::now());
        for (others, rest) in [(1, 400), (2, 800), (10_000, 1200)] {
            let mut slice = Slice::new(SLICE);
            slice.taken(t, trip);
            assert_eq!(slice.turn(t + 199 * MS), Turn::Keep);
            assert_eq!(slice.turn(t + 200 * MS), Turn::Yield);
            assert_eq!(turn_of(&mut slice, &mut t, 200 * MS, others, trip), rest * MS);
            assert_eq!(slice.remembers_until(), Some(Date::from(t + rest * MS)));
            // What is on its way from before it stopped listening is nobody's turn.
            slice.heard_other(t + MS);
            t += rest * MS;
            assert_eq!(slice.gate(t), Gate::Open);
        }
        // A quarter of a slice is not far yet.
        let mut near = Slice::new(SLICE);
        assert_eq!(turn_of(&mut near, &mut t, SLICE, 1, SLICE / 4), SLICE);
        assert!(matches!(near.gate(t), Gate::Until { .. }));
    }

    #[test]
    fn a_far_process_whose_rest_is_over_waits_for_longer_each_time_for_those_who_do_not_come_up_to_a_bound() {
        let (mut slice, mut t, trip) = (Slice::new(SLICE), Instant::now(), 5 * MS);
        for more_us in [0, 1250, 2500, 5000, 10_000, 20_000, 40_000, 80_000, 100_000, 100_000] {
            let (rest, more) = (turn_of(&mut slice, &mut t, SLICE, 2, trip), Duration::from_micros(more_us));
            t += rest;
            let expected = if more_us > 0 { Gate::Until { soon: t, at: t + more } } else { Gate::Open };
            assert_eq!(slice.gate(t), expected);
            t += more;
        }
        assert_eq!(slice.length(), SLICE, "and keeps the name no longer");
    }

    #[test]
    fn whoever_is_found_to_be_nearer_rests_for_less_and_who_is_near_not_at_all() {
        let (mut slice, t) = fresh();
        let mut over = t;
        assert_eq!(turn_of(&mut slice, &mut over, 200 * MS, 2, 100 * MS), 800 * MS);
        slice.comes_nearer(200 * MS);
        assert_eq!(
            slice.gate(over + 50 * MS),
            Gate::Rest(over + 800 * MS),
            "only the next turn tells that it is farther"
        );
        slice.comes_nearer(10 * MS);
        assert_eq!(slice.gate(over + 50 * MS), Gate::Rest(over + 80 * MS), "from the same moment on");
        slice.comes_nearer(MS);
        assert_eq!(slice.gate(over + 9 * MS), Gate::Until { soon: over + SLICE, at: over + SLICE });
        assert_eq!(slice.gate(over + 50 * MS), Gate::Open);
        // As before with the next turn.
        slice.taken(over + 50 * MS, 100 * MS);
        assert_eq!(slice.turn(over + 249 * MS), Turn::Keep);
    }

    #[test]
    fn however_far_a_process_is_it_does_not_rest_for_longer_than_some_seconds() {
        let (mut slice, mut t) = fresh();
        assert_eq!(turn_of(&mut slice, &mut t, 800 * MS, 3, 400 * MS), LONGEST_REST);
        assert_eq!(slice.remembers_until(), Some(Date::from(t + LONGEST_REST)));
        // Of 200 ms all three of them have their time.
        let (mut slice, mut t) = fresh();
        assert_eq!(turn_of(&mut slice, &mut t, 400 * MS, 3, 200 * MS), LONGEST_REST);
    }

    #[test]
    fn where_nobody_listened_whoever_is_far_tries_right_behind_its_release_once() {
        let (mut slice, t) = fresh();
        let trip = 100 * MS;
        slice.taken(t, trip);
        assert_eq!(slice.turn_of_last(Turn::Keep), Turn::Keep, "nobody was ever heard of");
        slice.released(t + 200 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 200 * MS), Gate::Open);
        slice.taken(t + 300 * MS, trip);
        assert_eq!(slice.turn(t + 301 * MS), Turn::Keep, "a new slice");
        slice.released(t + 500 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 500 * MS), Gate::Open);
        // Somebody listened to that one.
        slice.answered(t + 600 * MS, Listeners::Some(1));
        slice.taken(t + 600 * MS, trip);
        assert_eq!(slice.turn_of_last(Turn::Keep), Turn::Yield);
        slice.released(t + 601 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 601 * MS), Gate::Unanswered);
        // What a release says that begins no cool-down counts, too.
        slice.answered(t + 701 * MS, Listeners::None);
        slice.counted(Listeners::Some(1));
        assert_eq!(slice.turn_of_last(Turn::Keep), Turn::Yield);
    }

    #[test]
    fn who_could_not_count_the_others_lets_nobody_go_first() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + 10 * MS, Turn::Yield);
        slice.answered(t + 10 * MS, Listeners::Unknown);
        slice.heard_other(t + 11 * MS);
        assert_eq!(slice.gate(t + 11 * MS), Gate::Open);
    }

    #[test]
    fn a_slice_of_zero_never_keeps_a_name() {
        let t = Instant::now();
        let mut slice = Slice::new(Duration::ZERO);
        slice.taken(t, Duration::ZERO);
        assert_eq!(slice.turn(t), Turn::Yield);
        slice.released(t, Turn::Yield);
        slice.answered(t, Listeners::Some(7));
        assert_eq!(slice.gate(t), Gate::Open);
        slice.heard_other(t);
        assert_eq!(slice.gate(t), Gate::Open);
        // However far the server is.
        slice.taken(t, Duration::from_secs(1));
        assert_eq!(slice.turn(t), Turn::Yield);
        slice.released(t + MS, Turn::Yield);
        slice.answered(t + MS, Listeners::Some(7));
        assert_eq!(slice.gate(t + MS), Gate::Open);
    }
}
