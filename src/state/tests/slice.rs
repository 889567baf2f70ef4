//! How long a process keeps a name to itself, and when it may try again: what `parts/slice.rs` knows, by itself.

use super::{
    super::parts::{
        gate::Gate,
        slice::{Listeners, Slice, Turn},
    },
    *,
};

pub(super) const SLICE: Duration = Duration::from_millis(10);

/// A slice in its process, which asks the gate and tries where that is open.
pub(super) struct Process {
    slice: Slice,
    settings: Settings,
}

impl Process {
    pub(super) fn new(slice: Duration) -> Self {
        Self { slice: Slice::default(), settings: Settings { slice, cool_down: slice, ..Settings::default() } }
    }

    pub(super) fn taken(&mut self, now: Instant, round_trip: Duration) {
        self.slice.taken(now, round_trip, &self.settings);
    }

    pub(super) fn busy(&mut self, sent: Instant) {
        self.slice.busy(sent, &self.settings);
    }

    pub(super) fn turn(&self, now: Instant) -> Turn {
        self.slice.turn(now, &self.settings)
    }

    pub(super) fn turn_of_last(&self, turn: Turn) -> Turn {
        self.slice.turn_of_last(turn, &self.settings)
    }

    pub(super) fn released(&mut self, now: Instant, turn: Turn) {
        self.slice.released(now, turn);
    }

    pub(super) fn counted(&mut self, listeners: Listeners) {
        self.slice.counted(listeners);
    }

    pub(super) fn answered(&mut self, now: Instant, listeners: Listeners) {
        self.slice.answered(now, listeners, &self.settings);
    }

    pub(super) fn heard_other(&mut self, now: Instant) {
        self.slice.heard_other(now, &self.settings);
    }

    pub(super) fn lost(&mut self, now: Instant) {
        self.slice.lost(now);
    }

    pub(super) fn comes_nearer(&mut self, round_trip: Duration) {
        self.slice.comes_nearer(round_trip);
    }

    pub(super) fn gate(&mut self, now: Instant) -> Gate {
        let gate = self.slice.gate(now, &self.settings);
        if gate == Gate::Open {
            self.slice.tries(&self.settings);
        }
        gate
    }

    pub(super) fn length(&self) -> Duration {
        self.slice.length(&self.settings)
    }

    pub(super) fn remembers_until(&self) -> Option<Instant> {
        self.slice.remembers_until(&self.settings)
    }
}

pub(super) fn fresh() -> (Process, Instant) {
    (Process::new(SLICE), at(1_000))
}

/// Until then, whoever asks.
pub(super) fn at_once(at: Instant) -> Gate {
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

fn awaits_answer(slice: &mut Process) -> bool {
    slice.gate(at(2_000)) == Gate::Unanswered
}

#[test]
fn an_answer_is_awaited_from_a_yield_to_the_answer() {
    let (mut slice, t) = fresh();
    slice.taken(t, Duration::ZERO);
    slice.released(t + MS, Turn::Keep);
    assert!(!awaits_answer(&mut slice));
    slice.released(t + 10 * MS, Turn::Yield);
    assert!(awaits_answer(&mut slice));
    slice.answered(t + 11 * MS, Listeners::Some(1));
    assert!(!awaits_answer(&mut slice));
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
    slice.taken(t + 60 * MS, 100 * MS);
    assert_eq!(slice.turn_of_last(Turn::Keep), Turn::Yield);
}

#[test]
fn a_yield_cools_down_until_the_answer_and_then_for_the_listeners() {
    let (mut slice, t) = fresh();
    slice.taken(t, Duration::ZERO);
    slice.released(t + 10 * MS, Turn::Yield);
    assert_eq!(slice.gate(t + 500 * MS), Gate::Unanswered);
    slice.answered(t + 500 * MS, Listeners::Some(1));
    assert_eq!(slice.gate(t + 501 * MS), at_once(t + 510 * MS));
    assert_eq!(slice.gate(t + 510 * MS), Gate::Open);

    slice.taken(t + 510 * MS, Duration::ZERO);
    slice.released(t + 520 * MS, Turn::Yield);
    slice.heard_other(t + 520 * MS);
    assert_eq!(slice.gate(t + 520 * MS), Gate::Unanswered, "a message before the answer may be our own");
    slice.answered(t + 521 * MS, Listeners::Unknown);
    assert_eq!(slice.gate(t + 521 * MS), at_once(t + 531 * MS));
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

#[test]
fn a_slice_of_zero_never_keeps_a_name() {
    let t = at(1_000);
    let mut slice = Process::new(Duration::ZERO);
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
    // Nor lets others first where a try that left before its end is busy.
    slice.taken(t + MS, Duration::ZERO);
    slice.lost(t + 101 * MS);
    slice.busy(t + 100 * MS);
    assert_eq!(slice.gate(t + 101 * MS), Gate::Open);
}
