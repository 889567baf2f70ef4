//! An owner that holds asks once more.

use super::*;

const TWO: Answer = Answer::Granted { holds: 2, fence: None };

#[test]
fn it_asks_for_two_and_shares_the_hold() {
    let mut it = Story::new().held();
    assert_eq!(it.nests("inner", 1, 11), [send(3, 1, nested(2))]);
    assert_eq!(it.answered(3, TWO), [joined("inner", 11)]);
    assert_eq!(it.name.held(), Some((HoldNumber(1), 2)));
}

#[test]
fn a_hold_does_not_end_while_one_is_under_way() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    assert_eq!(it.dropped(1), []);
    assert_eq!(it.answered(3, TWO), [joined("inner", 11), send(4, 1, Verb::Release { holds: 1, note: Note::Unused })]);
    assert!(it.is_held(11));
}

#[test]
fn one_at_a_time_is_asked_for_and_the_next_says_the_newest_count() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    assert_eq!(it.nests("innermost", 1, 12), []);
    assert_eq!(it.answered(3, Answer::Granted { holds: 3, fence: None }), [joined("inner", 11), send(4, 1, nested(3))]);
}

#[test]
fn one_that_is_dropped_before_it_left_is_withdrawn() {
    let mut it = Story::new().held().waiting();
    it.nests("inner", 1, 11);
    assert_eq!(it.dropped(11), [withdraw(3)]);
    assert!(!it.leaves(3));
    assert_eq!(it.dropped(1), [send(4, 1, FREE)]);
}

#[test]
fn one_that_is_dropped_after_it_left_has_the_count_told_anew() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    assert_eq!(it.dropped(11), []);
    assert_eq!(it.answered(3, TWO), [send(4, 1, Verb::Release { holds: 1, note: Note::Unused })]);
}

#[test]
fn the_end_of_the_hold_waits_for_no_count() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.dropped(1);
    assert_eq!(it.dropped(11), [send(4, 1, FREE)]);
    assert_eq!(it.answered(3, TWO), [], "it ran before");
    it.answered(4, FREED);
    assert!(it.name.is_done());
}

#[test]
fn where_the_outer_hold_is_gone_it_goes_on_as_a_fresh_acquisition_before_all_others() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.nests("inner", 1, 11);
    assert_eq!(it.answered(3, Answer::Gone), [send(5, 4, FRESH)]);
    assert_eq!(it.ended, [End::Lost(Cause::Gone)]);
    assert_eq!(it.answered(5, OURS), [granted("inner", 11)]);
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::Lost(Cause::Gone))]);
}

/// They would wait for themselves, behind the first of them.
#[test]
fn of_several_whose_outer_hold_is_gone_one_goes_on_and_the_others_ask_twice() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.nests("beside", 1, 12);
    it.nests("and beside", 1, 13);
    let twice = |who| failed(who, Failure::AskedTwice);
    assert_eq!(it.answered(3, Answer::Gone), [twice("beside"), twice("and beside"), send(5, 4, FRESH)]);
    assert_eq!(it.answered(5, OURS), [granted("inner", 11)]);
    assert_eq!(it.nests("innermost", 1, 14), [send(6, 4, nested(2))]);
}

/// A client that ends lets nobody in.
#[test]
fn of_several_whose_outer_hold_is_gone_while_the_client_ends_all_are_told_that() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.nests("beside", 1, 12);
    let closed = |who| failed(who, Failure::Closed);
    it.on(Event::Ending);
    assert_eq!(it.answered(3, Answer::Gone), [closed("inner"), closed("beside")]);
}

#[test]
fn a_single_try_ends_with_its_fault_and_others_are_asked_again() {
    let mut it = Story::new().held();
    let wish = Wish { lease: Lease::Watchdog, max_hold: None, patience: Patience::Once };
    it.on(Event::Ask { id: Id(1_011), owner: Owner(1), wish, waiter: "once" });
    assert_eq!(it.silent(3)[0], failed("once", Failure::Unreachable { may_have_run: true }));
    let mut it = Story::new().held();
    it.nests("for ever", 1, 11);
    assert_eq!(it.silent(3), [send(4, 1, nested(2))], "its pause is nothing here, since chance is");
}

#[test]
fn a_wait_that_ends_without_an_answer_is_told_and_the_count_put_right() {
    let mut it = Story::new().held();
    it.last_answer = Some(900);
    let wish = Wish { lease: Lease::Watchdog, max_hold: None, patience: until(2_000) };
    it.on(Event::Ask { id: Id(1_011), owner: Owner(1), wish, waiter: "inner" });
    assert_eq!(it.tick_at(2_015), [failed("inner", Failure::Unreachable { may_have_run: true })]);
    assert_eq!(it.answered(3, TWO), [send(4, 1, Verb::Release { holds: 1, note: Note::Unused })]);
}

#[test]
fn one_that_stands_in_line_goes_on_for_as_long_as_the_server_answers_anybody() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    let wish = Wish { lease: Lease::Watchdog, max_hold: None, patience: until(1_500) };
    it.on(Event::Ask { id: Id(1_012), owner: Owner(1), wish, waiter: "in line" });
    assert_eq!(it.tick_at(2_000), []);
    it.last_answer = Some(2_000);
    assert_eq!(it.tick_at(2_014), []);
    assert_eq!(it.tick_at(2_015), [failed("in line", Failure::Unreachable { may_have_run: false })]);
}

#[test]
fn one_that_says_how_long_it_waits_asks_no_more_once_a_pause_would_outlast_that() {
    let mut it = Story::new().held();
    let wish = Wish { lease: Lease::Watchdog, max_hold: None, patience: until(1_500) };
    it.on(Event::Ask { id: Id(1_011), owner: Owner(1), wish, waiter: "inner" });
    assert_eq!(it.failed(3, FaultKind::Passing, false), [send(4, 1, nested(2))]);
    it.ms = 1_500;
    assert_eq!(
        it.failed(4, FaultKind::Passing, false),
        [failed("inner", Failure::Unreachable { may_have_run: false })]
    );
}

#[test]
fn one_whom_nobody_came_for_has_its_turn_from_when_it_is_left_alone() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    let answer = Event::Answered { command: CommandId(3), answer: Ok(TWO) };
    let mut effects = Vec::new();
    it.with(|name, env| name.on(answer, env, &mut effects));
    it.ms = 20_000;
    it.dropped(1);
    it.tick_at(20_001);
    assert!(it.is_held(11), "nobody could have had a turn before");
}

/// Zero frees whatever the count is: one that is too high does no harm.
#[test]
fn a_count_for_which_the_server_has_no_room_is_told_again_later_and_nobody_waits_for_that() {
    let mut it = Story::new().held();
    it.chance = 1 << 15;
    it.nests("inner", 1, 11);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    let told = Verb::Release { holds: 1, note: Note::Unused };
    assert_eq!(it.unlocks("inner", 11), [send(4, 1, told)]);
    it.chance = u16::MAX;
    assert_eq!(it.failed(4, FaultKind::Full, false), [tell("inner", Told::StillHeld(1))]);
    assert!(it.is_held(1));
    assert_eq!(it.tick_at(2_000), [send(5, 1, told)]);
}

/// Whoever looks after the name would look again and again.
#[test]
fn a_count_that_one_who_rests_will_tell_is_not_due_before_that_one_asks_again() {
    let mut it = Story::new().held();
    it.chance = u16::MAX;
    it.nests("inner", 1, 11);
    it.answered(3, TWO);
    assert_eq!(it.unlocks("inner", 11), [send(4, 1, Verb::Release { holds: 1, note: Note::Unused })]);
    it.silent(4);
    let told_again = it.wakes_at.expect("after a pause");
    it.ms += 5;
    assert_eq!(it.nests("innermost", 1, 12), [send(5, 1, nested(2))]);
    it.silent(5);
    assert_eq!(it.tick_at(told_again), []);
    let asks_again = it.wakes_at.expect("after its own pause");
    assert_eq!(asks_again, told_again + 5);
    assert_eq!(it.tick_at(asks_again), [send(6, 1, nested(2))]);
}
