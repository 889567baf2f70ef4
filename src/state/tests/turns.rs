//! What others have of a name after the turn of a process: what `parts/turns.rs` knows, by the slice that asks it.

use super::{
    super::parts::{
        gate::Gate,
        slice::{Listeners, Turn},
        turns::{LONGEST, LONGEST_REST},
    },
    slice::{Process, SLICE, at_once, fresh},
    *,
};

impl std::ops::AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

/// A process whose slice is over while so many others listen.
fn yielded(others: u32) -> (Process, Instant) {
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
        let heard = t + (turn * SLICE - 2 * MS);
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
        let expected = if first > 0 { at_once(t + 15 * MS) } else { Gate::Open };
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
    let mut long = Process::new(Duration::from_secs(60));
    long.taken(t, Duration::ZERO);
    let over = t + Duration::from_secs(60);
    long.released(over, Turn::Yield);
    long.answered(over, Listeners::Some(10_000));
    long.heard_other(over + MS);
    assert_eq!(long.gate(over + MS), Gate::After(over + MS + LONGEST / 16));
}

/// A turn of this process that begins at `t` and ends after `had`, while `others` listen; how long it then stands back.
fn turn_of(slice: &mut Process, t: &mut Instant, had: Duration, others: u32, far: Duration) -> Duration {
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
fn whole_turn_of(slice: &mut Process, t: &mut Instant, others: u32) -> (Duration, Duration) {
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
    let [noted, longer] = [4, 7200].map(|secs| {
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
    let (mut slice, t) = (Process::new(Duration::from_nanos(1)), at(1_000));
    slice.taken(t, Duration::ZERO);
    assert_eq!([slice.turn(t), slice.turn(t + MS)], [Turn::Keep, Turn::Yield]);
}

/// What is added to a slice and to what others are given, from one turn in vain to the next.
fn longer() -> impl Iterator<Item = Duration> {
    let micros = [0.0, 1250.0, 2656.25, 5312.5, 10_625.0, 21_250.0, 42_500.0, 85_000.0, 170_000.0, 340_000.0];
    micros.into_iter().map(|us| Duration::from_secs_f64(us / 1e6)).chain([LONGEST; 2])
}

/// Turns of a process that is near until it gives others so much, while one listens and does not come.
fn in_vain_until(given: Duration) -> (Process, Instant) {
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
        assert_eq!(slice.turn(t + (given - MS)), Turn::Keep, "it keeps the name for as long");
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
    assert_eq!(slice.gate(t + 3 * MS), at_once(t + 13 * MS));
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
    assert_eq!(slice.gate(t), at_once(t + SLICE));
    // Where nobody listens, nothing is left of it at once.
    let (mut slice, t) = in_vain_until(180 * MS);
    slice.taken(t, Duration::ZERO);
    slice.released(t + 500 * MS, Turn::Yield);
    slice.answered(t + 500 * MS, Listeners::None);
    assert_eq!(slice.length(), SLICE);
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
    assert_eq!(slice.gate(t + SLICE), at_once(t + 2 * SLICE));
}

#[test]
fn whoever_is_far_rests_after_its_turn_for_each_that_listens_and_keeps_the_name_for_two_round_trips() {
    let (trip, mut t) = (100 * MS, at(1_000));
    for (others, rest) in [(1, 400), (2, 800), (10_000, 1200)] {
        let mut slice = Process::new(SLICE);
        slice.taken(t, trip);
        assert_eq!(slice.turn(t + 199 * MS), Turn::Keep);
        assert_eq!(slice.turn(t + 200 * MS), Turn::Yield);
        assert_eq!(turn_of(&mut slice, &mut t, 200 * MS, others, trip), rest * MS);
        assert_eq!(slice.remembers_until(), Some(t + rest * MS));
        // What is on its way from before it stopped listening is nobody's turn.
        slice.heard_other(t + MS);
        t += rest * MS;
        assert_eq!(slice.gate(t), Gate::Open);
    }
    // A quarter of a slice is not far yet.
    let mut near = Process::new(SLICE);
    assert_eq!(turn_of(&mut near, &mut t, SLICE, 1, SLICE / 4), SLICE);
    assert!(matches!(near.gate(t), Gate::Until { .. }));
}

#[test]
fn a_far_process_whose_rest_is_over_waits_for_longer_each_time_for_those_who_do_not_come_up_to_a_bound() {
    let (mut slice, mut t, trip) = (Process::new(SLICE), at(1_000), 5 * MS);
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
    assert_eq!(slice.gate(over + 50 * MS), Gate::Rest(over + 800 * MS), "only the next turn tells that it is farther");
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
    assert_eq!(slice.remembers_until(), Some(t + LONGEST_REST));
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
