//! The client is about to end.

use super::*;

const CLOSED: Failure = Failure::Closed;

#[test]
fn whoever_waits_is_told_and_nobody_is_let_in_any_more() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.locks("b", 2);
    assert_eq!(it.on(Event::Ending), [failed("b", CLOSED), withdraw(2), send(3, 1, FREE), failed("a", CLOSED)]);
    assert_eq!(it.locks("c", 3), [failed("c", CLOSED)]);
    it.answered(2, BUSY);
    it.answered(3, Answer::Gone);
    assert!(it.name.is_done());
}

#[test]
fn a_hold_is_renewed_nested_and_released_as_ever() {
    let mut it = Story::new().held();
    assert_eq!(it.on(Event::Ending), []);
    assert_eq!(it.ended, []);
    assert_eq!(it.tick_at(11_000), [send(3, 1, Verb::Renew { lease: LEASE })]);
    it.answered(3, RENEWED);
    assert_eq!(it.nests("inner", 1, 11), [send(4, 1, nested(2))]);
    it.answered(4, Answer::Granted { holds: 2, fence: None });
    assert!(it.is_held(11));
    it.dropped(11);
    it.answered(5, Answer::Released { holds: 1, published: Published::No });
    assert_eq!(it.unlocks("a", 1), [send(6, 1, FREE)]);
    assert_eq!(it.answered(6, FREED), [tell("a", Told::Freed)]);
}

#[test]
fn nested_acquisitions_that_are_under_way_go_on() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    assert_eq!(it.on(Event::Ending), []);
    assert_eq!(it.answered(3, Answer::Granted { holds: 2, fence: None }), [joined("inner", 11)]);
}

#[test]
fn one_whose_hold_is_lost_does_not_go_on_as_a_fresh_one() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.on(Event::Ending);
    assert_eq!(it.answered(3, Answer::Gone), [failed("inner", CLOSED)]);
    assert_eq!(it.ended, [End::Lost(Cause::Gone)]);
}

#[test]
fn what_a_hand_over_brings_is_released() {
    for undone in [false, true] {
        let mut it = Story::new().held_fixed();
        it.ask("b", 2, FIXED, Patience::ForEver);
        it.unlocks("a", 1);
        assert_eq!(it.on(Event::Ending), [failed("b", CLOSED)]);
        if undone {
            assert_eq!(it.failed(4, FaultKind::Silent, true)[1], send(5, 1, FREE));
            it.answered(5, FREED);
            it.answered(6, Answer::Gone);
            assert_eq!(it.unlocks("a again", 1), [tell("a again", Told::Freed)]);
            it.dropped(1);
        } else {
            let moved = Answer::Moved { published: Published::No, fence: None };
            assert_eq!(it.answered(4, moved), [tell("a", Told::Freed), send(5, 3, FREE)]);
            it.answered(5, FREED);
        }
        assert!(it.name.is_done(), "{undone}");
    }
}

#[test]
fn what_was_offered_may_still_be_taken_and_what_runs_out_is_offered_to_nobody() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    assert_eq!(it.on(Event::Ending), []);
    assert!(it.take(2));
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    it.on(Event::Ending);
    assert_eq!(it.tick_at(31_000), [send(3, 1, FREE)]);
    assert!(!it.take(2));
    it.dropped(2);
    assert_eq!(it.locks("b", 2), [failed("b", CLOSED)]);
}

#[test]
fn releases_go_on_and_then_it_may_end() {
    let mut it = Story::new().held();
    it.dropped(1);
    it.on(Event::Ending);
    it.silent(3);
    assert_eq!(it.tick_at(1_000), [send(4, 1, FREE)]);
    it.on(Event::Closed);
    assert!(!it.name.is_settled());
    it.answered(4, FREED);
    assert!(it.name.is_settled());
}

#[test]
fn what_is_still_held_at_the_end_is_lost() {
    let mut it = Story::new().held();
    it.on(Event::Ending);
    assert_eq!(it.on(Event::Closed), []);
    assert_eq!(it.ended, [End::Lost(Cause::Closed)]);
    assert_eq!(it.on(Event::Ending), [], "it is over already");
}
