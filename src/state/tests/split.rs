//! A vote that found no majority: what it got goes back, under a number that is finished, and the next one comes later.

use super::*;
use crate::state::{KeptBy, Succession};

const HELD: Answer = Answer::Split { retry_in: Some(LEASE), kept_by: KeptBy::Holder };
const SPLIT: Answer = Answer::Split { retry_in: None, kept_by: KeptBy::Contenders };

/// Pauses are as long as they may be.
fn longest() -> Story {
    let mut it = Story::new();
    it.chance = u16::MAX;
    it
}

/// `a` tries, and its vote is split in the same moment.
fn split(it: &mut Story) {
    it.locks("a", 1);
    assert_eq!(it.answered(2, SPLIT), [send(4, 1, FREE)]);
    assert_eq!(it.answered(4, FREED), []);
}

/// What this answer to the vote under way is followed by: so many milliseconds, and the next vote.
fn rest_of(it: &mut Story, command: &mut u64, answer: Answer) -> u64 {
    for effect in it.answered(*command, answer) {
        if let Effect::Send(Command { id, verb: FREE, .. }) = effect {
            it.answered(id.0, FREED);
        }
    }
    let rested = it.ms;
    for ms in rested..rested + 2_000 {
        for effect in it.tick_at(ms) {
            if let Effect::Send(Command { id, verb: Verb::Acquire { .. }, .. }) = effect {
                *command = id.0;
                return ms - rested;
            }
        }
    }
    panic!("it rests for ever");
}

#[test]
fn what_it_got_goes_back_at_once_and_the_next_vote_has_a_new_number() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.answered(2, SPLIT), [send(4, 1, FREE)]);
    assert_eq!(it.tick_at(1_000), [send(5, 3, FRESH)]);
    assert_eq!(it.answered(5, OURS), [granted("a", 1)]);
}

#[test]
fn the_same_where_somebody_else_may_have_a_majority() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.answered(2, HELD), [send(4, 1, FREE), Effect::Listen]);
    assert_eq!(it.hears(Heard::Subscribed), [send(5, 3, FRESH)]);
    assert_eq!(it.answered(5, OURS), [granted("a", 1), Effect::Unlisten]);
}

#[test]
fn a_release_that_did_not_leave_on_the_same_link_goes_before_the_next_vote() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, SPLIT);
    it.link = 2;
    assert_eq!(it.tick_at(1_000), [send(5, 1, FREE), send(6, 3, FRESH)]);
}

#[test]
fn what_an_earlier_vote_of_its_number_left_is_reaped_all_the_same() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    it.silent(2);
    it.tick_at(1_000);
    assert_eq!(it.answered(3, SPLIT), [send(5, 1, FREE)]);
    it.answered(5, FREED);
    it.dropped(1);
    assert!(!it.name.is_done());
    assert_eq!(it.tick_at(11_000), [send(6, 1, FREE)]);
}

#[test]
fn where_somebody_else_may_have_a_majority_it_sleeps_for_the_time_that_was_told() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, Answer::Split { retry_in: Some(MS * 400), kept_by: KeptBy::Holder });
    it.answered(4, FREED);
    it.hears(Heard::Subscribed);
    it.answered(5, Answer::Split { retry_in: Some(MS * 400), kept_by: KeptBy::Holder });
    assert_eq!(it.tick_at(1_399), []);
    let effects = it.tick_at(1_400);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: Verb::Acquire { .. }, .. })]), "{effects:?}");
}

#[test]
fn a_message_wakes_whoever_sleeps_for_somebody_else() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, HELD);
    it.answered(4, Answer::Gone);
    it.hears(Heard::Subscribed);
    it.answered(5, HELD);
    it.answered(7, Answer::Gone);
    let effects = it.hears(Heard::Message);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: Verb::Acquire { .. }, .. })]), "{effects:?}");
}

#[test]
fn no_message_cuts_the_rest_short() {
    let mut it = longest();
    it.round_trip = MS * 10;
    it.locks("a", 1);
    it.answered(2, HELD);
    it.hears(Heard::Subscribed);
    it.answered(4, Answer::Gone);
    assert_eq!(it.answered(5, SPLIT), [send(7, 3, FREE)]);
    for heard in [Heard::Message, Heard::Interrupted, Heard::Subscribed] {
        assert_eq!(it.hears(heard), []);
    }
    assert_eq!(it.tick_at(1_039), []);
    let effects = it.tick_at(1_040);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: Verb::Acquire { .. }, .. })]), "{effects:?}");
}

#[test]
fn what_is_heard_in_the_rest_wakes_nobody_after_the_next_vote() {
    let mut it = longest();
    it.locks("a", 1);
    it.answered(2, HELD);
    it.hears(Heard::Subscribed);
    it.answered(4, Answer::Gone);
    it.answered(5, SPLIT);
    it.hears(Heard::Message);
    it.answered(7, Answer::Gone);
    assert_eq!(it.tick_at(1_001), [send(8, 6, FRESH)]);
    assert_eq!(it.answered(8, BUSY), []);
}

#[test]
fn the_rest_is_random_and_its_bound_doubles_from_a_millisecond_to_250() {
    let (mut it, mut command) = (longest(), 2);
    it.locks("a", 1);
    let bounds: Vec<_> = (0..10).map(|_| rest_of(&mut it, &mut command, SPLIT)).collect();
    assert_eq!(bounds, [1, 2, 4, 8, 16, 32, 64, 128, 250, 250]);
    it.chance = u16::MAX / 5;
    assert_eq!(rest_of(&mut it, &mut command, SPLIT), 50);
}

#[test]
fn the_bound_begins_at_four_round_trips() {
    let (mut it, mut command) = (longest(), 2);
    it.round_trip = MS * 10;
    it.locks("a", 1);
    let bounds: Vec<_> = (0..4).map(|_| rest_of(&mut it, &mut command, SPLIT)).collect();
    assert_eq!(bounds, [40, 80, 160, 250]);
    it.round_trip = MS * 400;
    assert_eq!(rest_of(&mut it, &mut command, SPLIT), 250);
}

#[test]
fn nobody_rests_for_longer_than_until_a_majority_may_be_free() {
    let (mut it, mut command) = (longest(), 2);
    it.round_trip = MS * 10;
    it.locks("a", 1);
    let soon = |ms| Answer::Split { retry_in: Some(MS * ms), kept_by: KeptBy::Contenders };
    assert_eq!(rest_of(&mut it, &mut command, soon(25)), 25);
    assert_eq!(rest_of(&mut it, &mut command, soon(70)), 70);
    assert_eq!(rest_of(&mut it, &mut command, soon(0)), 1);
    assert_eq!(rest_of(&mut it, &mut command, SPLIT), 250, "they count all the same");
}

#[test]
fn any_other_answer_lets_the_rests_begin_anew() {
    for other in [BUSY, HELD] {
        let (mut it, mut command) = (longest(), 2);
        it.locks("a", 1);
        for bound in [1, 2, 4] {
            assert_eq!(rest_of(&mut it, &mut command, SPLIT), bound);
        }
        rest_of(&mut it, &mut command, other);
        assert_eq!(rest_of(&mut it, &mut command, SPLIT), 1, "{other:?}");
    }
}

#[test]
fn a_single_try_is_told_that_it_is_busy_and_its_votes_go_back() {
    for answer in [SPLIT, HELD] {
        for patience in [Patience::Once, Patience::OnceBy(at(5_000))] {
            let mut it = Story::new();
            it.ask("a", 1, Lease::Watchdog, patience);
            assert_eq!(it.answered(2, answer), [send(4, 1, FREE), tell("a", Told::Busy)]);
            it.answered(4, FREED);
            assert!(it.name.is_done());
        }
    }
}

#[test]
fn whoever_has_no_more_time_is_told_so_and_its_votes_go_back() {
    for answer in [SPLIT, HELD] {
        let mut it = Story::new();
        it.ask("a", 1, Lease::Watchdog, until(1_010));
        it.ms = 1_012;
        assert_eq!(it.answered(2, answer), [send(4, 1, FREE), tell("a", Told::Busy)]);
    }
}

#[test]
fn a_wait_that_ends_in_the_rest_hears_busy_however_silent_the_server_is() {
    let mut it = longest();
    it.round_trip = MS * 10;
    it.ask("a", 1, Lease::Watchdog, until(1_030));
    it.ask("b", 2, Lease::Watchdog, until(1_020));
    it.answered(2, SPLIT);
    it.answered(4, FREED);
    it.last_answer = Some(1_000);
    assert_eq!(it.tick_at(1_020), [tell("b", Told::Busy)]);
    assert_eq!(it.tick_at(1_029), []);
    assert_eq!(it.tick_at(1_030), [tell("a", Told::Busy)]);
    assert!(it.name.is_done());
}

#[test]
fn after_faults_a_split_vote_is_an_answer() {
    let mut it = longest();
    it.settings.pauses = (20 * MS, 20 * MS);
    it.round_trip = MS * 10;
    it.ask("a", 1, Lease::Watchdog, until(1_050));
    it.failed(2, FaultKind::Passing, false);
    assert_eq!(it.tick_at(1_020), [send(3, 1, FRESH)]);
    it.answered(3, SPLIT);
    assert_eq!(it.tick_at(1_050), [tell("a", Told::Busy)]);
}

#[test]
fn it_is_said_once_that_somebody_else_has_it() {
    for answer in [SPLIT, HELD] {
        let mut it = Story::new();
        it.locks("a", 1);
        it.answered(2, answer);
        assert_eq!(it.logged, [LogEvent::Contended(Id(1_001))]);
    }
}

#[test]
fn whoever_leaves_in_the_rest_leaves_nothing() {
    let mut it = Story::new();
    split(&mut it);
    assert_eq!(it.dropped(1), []);
    assert!(it.name.is_done());
}

#[test]
fn one_that_nobody_waited_for_any_more_is_released_once_more() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.dropped(1), [withdraw(2), send(3, 1, FREE)]);
    it.answered(3, Answer::Gone);
    assert_eq!(it.answered(2, SPLIT), [send(4, 1, FREE)]);
    it.answered(4, FREED);
    assert!(it.name.is_done());
}

#[test]
fn where_a_release_of_ours_was_overtaken_the_next_vote_waits_for_its_answer() {
    let mut it = Story::new().held();
    it.dropped(1);
    let effects = it.locks("b", 2);
    let [Effect::Send(Command { id, .. })] = effects[..] else { panic!("{effects:?}") };
    let effects = it.answered(id.0, HELD);
    let [Effect::Send(Command { id: release, verb: FREE, .. })] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(it.answered(release.0, Answer::Gone), []);
    let effects = it.answered(3, FREED);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: Verb::Acquire { .. }, .. })]), "{effects:?}");
}

/// Nobody had the lock in between.
#[test]
fn a_split_vote_is_no_turn_of_others_and_no_end_of_our_own() {
    let mut it = Story::new();
    it.settings.slice = MS * 100;
    it = it.held();
    it.ms = 1_090;
    it.dropped(1);
    it.answered(3, FREED);
    it.locks("b", 2);
    let release = it.answered(5, SPLIT);
    assert_eq!(release, [send(7, 4, FREE)]);
    it.answered(7, FREED);
    let effects = it.tick_at(1_091);
    let [Effect::Send(Command { id, .. })] = effects[..] else { panic!("{effects:?}") };
    it.answered(id.0, OURS);
    it.locks("c", 3);
    it.ms = 1_110;
    let effects = it.dropped(2);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: FREE, .. })]), "its slice is over: {effects:?}");
}

#[test]
fn a_split_vote_long_after_our_last_hold_does_not_keep_its_slice() {
    let mut it = Story::new();
    it.settings.slice = MS * 100;
    it = it.held();
    it.dropped(1);
    it.answered(3, FREED);
    it.ms = 9_000;
    it.locks("b", 2);
    it.answered(5, SPLIT);
    it.answered(7, FREED);
    let effects = it.tick_at(9_001);
    let [Effect::Send(Command { id, .. })] = effects[..] else { panic!("{effects:?}") };
    it.answered(id.0, OURS);
    it.locks("c", 3);
    assert_eq!(it.dropped(2), [granted("c", 3)], "a slice of its own");
}

/// Somebody had the lock meanwhile.
#[test]
fn a_vote_that_a_holder_won_is_a_turn_of_others() {
    let mut it = Story::new();
    it.settings.slice = MS * 100;
    it = it.held();
    it.ms = 1_090;
    it.dropped(1);
    it.answered(3, FREED);
    it.locks("b", 2);
    it.answered(5, HELD);
    it.answered(7, Answer::Gone);
    let effects = it.hears(Heard::Subscribed);
    let [Effect::Send(Command { id, .. })] = effects[..] else { panic!("{effects:?}") };
    it.answered(id.0, OURS);
    it.locks("c", 3);
    it.ms = 1_110;
    assert_eq!(it.dropped(2), [granted("c", 3)]);
}

#[test]
fn what_cannot_be_moved_is_passed_while_its_slice_lasts() {
    let mut it = Story::new();
    it.shape.succession = Succession::PassOrRelease;
    it = it.held();
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [granted("b", 2)]);
}

#[test]
fn what_cannot_be_moved_is_released_where_it_cannot_be_passed_and_the_next_tries() {
    let mut it = Story::new();
    it.shape.succession = Succession::PassOrRelease;
    it = it.held();
    it.ask("b", 2, Lease::Fixed(LEASE), Patience::ForEver);
    assert_eq!(it.dropped(1), [send(3, 1, FREE), send(5, 4, FRESH)]);
    it.answered(3, FREED);
    assert_eq!(it.answered(5, OURS), [granted("b", 2)]);
}

#[test]
fn what_cannot_be_moved_is_released_for_nobody_who_is_late() {
    let mut it = Story::new();
    it.shape.succession = Succession::PassOrRelease;
    it = it.held();
    it.nobody_comes = true;
    it.ask("b", 2, Lease::Fixed(LEASE), until(1_010));
    it.tick_at(1_010);
    assert_eq!(it.dropped(1), [send(3, 1, FREE), tell("b", Told::Busy)]);
}
