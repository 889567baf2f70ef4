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

/// Whoever had the lock for long can wait for longer: by this part of that, for the others' tries to come.
const PART: u32 = 32;

/// Where others listen and are not heard, what they are given grows, and so does what this process takes; but no further.
/// Whoever is not farther than this from the server gets the lock in the end, whatever chance does.
const LONGEST: Duration = Duration::from_millis(500);

/// Whoever needs more than a slice for so many round trips is far: giving the key up and coming back takes two, and what is
/// left of the slice is for whatever else takes time.
const FAR: u32 = 4;

/// A process that is far keeps the name for so many round trips at least: the key is on its way for one of them.
const KEEPS: u32 = 2;

/// And after its turn it neither tries nor listens for so many, for each that listens: while it asks, everybody nearer
/// stands still for longer than a turn of theirs takes. However far it is, it does not rest for longer than this: what it
/// measured may be true no more, and while it rests nobody need be there.
const RESTS: u32 = 4;
const LONGEST_REST: Duration = Duration::from_millis(2_400);

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
///
/// A process whose round trip is longer than a quarter of a slice is far: after a message its try comes when those that are near
/// have taken the key again. So where fewer were heard than listen, cool-down and steps double from turn to turn, up to what
/// this process itself had, and where nobody was heard so does the slice; once all were heard everything is as it was. In
/// return a far process whose turn is over rests for some round trips.
#[derive(Debug)]
pub(crate) struct Slice {
    length_ns: u64,
    started: Option<Date>,
    /// When a hold of ours ended last, whichever way.
    ended: Option<Date>,
    cooling: Option<Cooling>,
    /// How far the server was when the key was taken last, or nearer by what was measured since.
    round_trip_us: u32,
    /// Whether others listened to the last release that was answered.
    heard: bool,
    /// Most names are never given up while others listen.
    others: Option<Box<Others>>,
}

/// What others are to have of a name.
#[derive(Clone, Copy, Debug)]
struct Others {
    round: Option<Round>,
    /// How long this process had the lock before.
    had: Duration,
    /// So many times as long as usual they are waited for.
    patience: u32,
    /// So many times as long as usual this process keeps the name: nobody came the last time.
    keeps: u32,
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
    Unanswered { had_ns: u64 },
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
    /// Nobody could count: taken for one.
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
    /// Those who are nearer have it to themselves until then: who waits here does not even listen.
    Rest(Instant),
}

impl Default for Others {
    fn default() -> Self {
        Self { round: None, had: Duration::ZERO, patience: 1, keeps: 1 }
    }
}

impl Listeners {
    fn count(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Some(others) => others.min(STEPS),
            Self::Unknown => 1,
        }
    }
}

impl Others {
    /// This process has the lock again, and the round is over. Whether anything is to be remembered of it.
    fn taken(&mut self, far: bool) -> bool {
        if let Some(Round { others, had, .. }) = self.round.take() {
            let most = LONGEST.as_millis() as u32;
            self.patience = if had < others { (self.patience * 2).min(most) } else { 1 };
            self.keeps = if had == 0 && !far { (self.keeps * 2).min(most) } else { 1 };
        }
        self.patience > 1 || self.keeps > 1
    }

    /// What one of these spans is for this process now: never more than it had itself.
    fn given(&self, usual: Duration) -> Duration {
        let part = (self.had / PART).min(LONGEST / (PART / 2));
        (usual.max(part) * self.patience).min(self.had.min(LONGEST)).max(usual)
    }
}

impl Slice {
    pub(crate) fn new(length: Duration) -> Self {
        Self {
            length_ns: nanos(length),
            started: None,
            ended: None,
            cooling: None,
            round_trip_us: 0,
            heard: false,
            others: None,
        }
    }

    /// As it was asked for. One of no length is none, however far the server is.
    fn usual(&self) -> Duration {
        Duration::from_nanos(self.length_ns)
    }

    fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip_us.into())
    }

    fn is_far(&self) -> bool {
        self.length_ns > 0 && self.usual() < self.round_trip() * FAR
    }

    fn length(&self) -> Duration {
        if self.length_ns == 0 {
            return Duration::ZERO;
        }
        let keeps = u64::from(self.round_trip_us) * u64::from(KEEPS) * 1_000;
        let length = Duration::from_nanos(self.length_ns.max(keeps));
        self.others.as_ref().map_or(length, |others| (length * others.keeps).min(LONGEST).max(length))
    }

    /// An acquire of ours took the free key, which took about such a round trip.
    pub(crate) fn taken(&mut self, now: Instant, round_trip: Duration) {
        let now = Date::from(now);
        let took_back = self.ended.is_some_and(|ended| now < ended + self.length());
        if self.started.is_none() || !took_back {
            self.started = Some(now);
        }
        self.cooling = None;
        self.round_trip_us = micros(round_trip);
        let far = self.is_far();
        if self.others.as_mut().is_some_and(|others| !others.taken(far)) {
            self.others = None;
        }
    }

    /// A try was answered busy: others have had their turn.
    pub(crate) fn busy(&mut self) {
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
        if self.is_far() && self.heard { Turn::Yield } else { turn }
    }

    /// The release that a hold ends with was decided, of its owner's will or by force.
    pub(crate) fn released(&mut self, now: Instant, turn: Turn) {
        let now = Date::from(now);
        self.ended = Some(now);
        if turn == Turn::Yield {
            let had = self.started.take().map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
            self.cooling = Some(Cooling::Unanswered { had_ns: nanos(had) });
        }
    }

    /// A release that began no cool-down was answered.
    pub(crate) fn told(&mut self, listeners: Listeners) {
        self.heard = listeners != Listeners::None;
    }

    /// The release that began the cool-down was answered, or given up as unknown.
    pub(crate) fn answered(&mut self, now: Instant, listeners: Listeners) {
        self.told(listeners);
        let Some(Cooling::Unanswered { had_ns }) = self.cooling else { return };
        if listeners == Listeners::None {
            self.cooling = None;
            self.others = None;
            return;
        }
        let (usual, count) = (self.usual(), listeners.count());
        let others = self.others.get_or_insert_default();
        others.had = Duration::from_nanos(had_ns);
        others.round = Some(Round { since: now, others: count, had: 0, told: None });
        let span = if usual.is_zero() { usual } else { others.given(usual) };
        let patience = if without(Rule::CoolDownEnds) { 1_000_000 } else { 1 };
        self.cooling = Some(Cooling::Listeners { until: Date::from(now) + span * patience });
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard_other(&mut self, now: Instant) {
        if let Some(round) = self.others.as_mut().and_then(|others| others.round.as_mut()) {
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
        matches!(self.cooling, Some(Cooling::Unanswered { .. }))
    }

    /// Answers take no longer than this at present: whoever was held up, and is not far after all, rests no longer.
    pub(crate) fn comes_nearer(&mut self, round_trip: Duration) {
        self.round_trip_us = self.round_trip_us.min(micros(round_trip));
    }

    pub(crate) fn gate(&mut self, now: Instant) -> Gate {
        let date = Date::from(now);
        if let Some(rest) = self.rests_until().filter(|rest| date < *rest && !self.awaits_answer()) {
            return Gate::Rest(rest.into());
        }
        match self.cooling {
            // It is far, and nobody listened the last time: its try goes right behind its release, this once.
            Some(Cooling::Unanswered { .. }) if self.is_far() && !self.heard => {}
            Some(Cooling::Unanswered { .. }) => return Gate::Unanswered,
            Some(Cooling::Listeners { until }) if date < until => return Gate::Until(until.into()),
            Some(Cooling::Listeners { .. }) | None => self.cooling = None,
        }
        self.goes_after().filter(|at| now < *at).map_or(Gate::Open, Gate::After)
    }

    /// When it is this process's turn to try, after what it was told last.
    fn goes_after(&self) -> Option<Instant> {
        let waiting = self.others.as_ref()?;
        let Round { since, others, had, told } = waiting.round?;
        let told = told?;
        // Whoever gave nothing up in the time that this process had, or within its slice, had its turn all the same.
        let turn = self.usual().max(waiting.had);
        let turns = told.saturating_duration_since(since).div_duration_f64(turn) as u32;
        let first = others.saturating_sub(had.max(turns));
        Some(told + waiting.given((self.usual() / STEP).min(LONGEST_STEP)) * first)
    }

    /// Until when a far process lets the others alone.
    fn rests_until(&self) -> Option<Date> {
        let Round { since, others, .. } = self.others.as_ref()?.round?;
        let rest = || (self.round_trip() * RESTS * others).min(LONGEST_REST);
        self.is_far().then(|| Date::from(since) + rest())
    }

    /// Until when there is something to remember although nobody holds or waits.
    pub(crate) fn remembers_until(&self) -> Option<Date> {
        let cooling = match self.cooling {
            Some(Cooling::Listeners { until }) => Some(until),
            _ => None,
        };
        let ended = self.ended.map(|ended| ended + self.length());
        cooling.max(ended).max(self.rests_until())
    }
}

fn micros(round_trip: Duration) -> u32 {
    u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX)
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
        slice.busy();
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

    #[test]
    fn a_yield_cools_down_until_the_answer_and_then_for_the_listeners() {
        let (mut slice, t) = fresh();
        slice.taken(t, Duration::ZERO);
        slice.released(t + 10 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 500 * MS), Gate::Unanswered);
        slice.answered(t + 500 * MS, Listeners::Some(1));
        assert_eq!(slice.gate(t + 501 * MS), Gate::Until(t + 510 * MS));
        assert_eq!(slice.gate(t + 510 * MS), Gate::Open);

        slice.taken(t + 510 * MS, Duration::ZERO);
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
        // Who had it for a minute can wait for longer, and yet not long.
        let mut long = Slice::new(Duration::from_secs(60));
        long.taken(t, Duration::ZERO);
        let over = t + Duration::from_secs(60);
        long.released(over, Turn::Yield);
        long.answered(over, Listeners::Some(10_000));
        long.heard_other(over + MS);
        assert_eq!(long.gate(over + MS), Gate::After(over + MS + 2 * LONGEST / 16));
    }

    /// A turn of this process that begins at `t` and ends after `had`, while `others` listen; how long it then stands back.
    fn turn_of(slice: &mut Slice, t: &mut Instant, had: Duration, others: u32, far: Duration) -> Duration {
        slice.taken(*t, far);
        *t += had;
        let turn = slice.turn(*t);
        slice.released(*t, slice.turn_of_last(turn));
        slice.answered(*t, Listeners::Some(others));
        match slice.gate(*t) {
            Gate::Until(at) | Gate::Rest(at) => at - *t,
            gate => panic!("{gate:?}"),
        }
    }

    #[test]
    fn whoever_listens_and_is_not_heard_is_given_more_each_time_but_no_more_than_this_process_had() {
        let (mut slice, mut t) = fresh();
        for given in [10, 20, 40, 80, 160, 320, 500, 500] {
            let had = slice.length().max(given * MS);
            assert_eq!(turn_of(&mut slice, &mut t, had, 1, Duration::ZERO), given * MS);
            t += given * MS;
        }
        // Heard at last, all is as it was.
        slice.heard_other(t);
        assert_eq!(slice.gate(t), Gate::Open);
        assert_eq!(turn_of(&mut slice, &mut t, SLICE, 1, Duration::ZERO), SLICE);
        t += SLICE;
        // A short turn gives others no more than it took.
        slice.taken(t, Duration::ZERO);
        slice.released(t + 3 * MS, Turn::Yield);
        slice.answered(t + 3 * MS, Listeners::Some(1));
        assert_eq!(slice.gate(t + 3 * MS), Gate::Until(t + 13 * MS), "the usual");
    }

    #[test]
    fn a_process_keeps_a_name_for_longer_while_nobody_comes_and_for_a_slice_once_somebody_did() {
        let (mut slice, mut t) = fresh();
        for keeps in [10, 20, 40, 80, 160, 320, 500, 500] {
            slice.taken(t, Duration::ZERO);
            assert_eq!(slice.turn(t + (keeps - 1) * MS), Turn::Keep);
            assert_eq!(slice.turn(t + keeps * MS), Turn::Yield);
            slice.released(t + keeps * MS, Turn::Yield);
            slice.answered(t + keeps * MS, Listeners::Some(2));
            t += 2 * keeps * MS;
        }
        // One of the two: the other is waited for, but the slice is as it was.
        slice.heard_other(t);
        slice.taken(t + 2 * MS, Duration::ZERO);
        assert_eq!(slice.turn(t + 12 * MS), Turn::Yield);
        slice.released(t + 12 * MS, Turn::Yield);
        slice.answered(t + 12 * MS, Listeners::None);
        slice.taken(t + 12 * MS, Duration::ZERO);
        slice.released(t + 22 * MS, Turn::Yield);
        slice.answered(t + 22 * MS, Listeners::Some(2));
        assert_eq!(slice.gate(t + 22 * MS), Gate::Until(t + 32 * MS), "nobody listened: nothing is left of it");
    }

    #[test]
    fn steps_grow_while_fewer_were_heard_than_listen() {
        let (mut slice, mut t) = fresh();
        for steps in [1, 2, 4, 8, 10, 10] {
            let _ = turn_of(&mut slice, &mut t, SLICE, 2, Duration::ZERO);
            slice.heard_other(t + MS);
            let at = t + MS + steps * MS;
            assert_eq!(slice.gate(t + MS), Gate::After(at));
            t = at;
        }
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
            assert_eq!(slice.gate(t + rest * MS), Gate::Open);
        }
        // A quarter of a slice is not far yet.
        let mut near = Slice::new(SLICE);
        assert_eq!(turn_of(&mut near, &mut t, SLICE, 1, SLICE / 4), SLICE);
        assert!(matches!(near.gate(t), Gate::Until(_)));
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
        // Somebody listened to that one.
        slice.answered(t + 300 * MS, Listeners::Some(1));
        slice.taken(t + 300 * MS, trip);
        assert_eq!(slice.turn_of_last(Turn::Keep), Turn::Yield);
        slice.released(t + 301 * MS, Turn::Yield);
        assert_eq!(slice.gate(t + 301 * MS), Gate::Unanswered);
        // What a release says that begins no cool-down counts, too.
        slice.answered(t + 401 * MS, Listeners::None);
        slice.told(Listeners::Some(1));
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
