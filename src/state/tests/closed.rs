//! The client ends.

use super::*;

#[test]
fn whoever_waits_is_told_and_what_may_be_there_is_released() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.locks("b", 2);
    let closed = |who| failed(who, Failure::Closed);
    assert_eq!(it.on(Event::Closed), [closed("b"), withdraw(2), send(3, 1, FREE), closed("a")]);
    assert_eq!(it.locks("c", 3), [closed("c")]);
    assert!(!it.name.is_settled());
    it.answered(3, FREED);
    assert!(it.name.is_settled());
}

#[test]
fn a_hold_is_told_and_neither_renewed_nor_released() {
    let mut it = Story::new().held();
    assert_eq!(it.on(Event::Closed), []);
    assert_eq!(it.ended, [End::Lost(Cause::Closed)]);
    assert_eq!(it.tick_at(11_000), []);
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::Lost(Cause::Closed))]);
    assert!(it.name.is_done());
}

#[test]
fn a_nested_acquisition_is_told_too() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    assert_eq!(it.on(Event::Closed), [failed("inner", Failure::Closed)]);
}

#[test]
fn a_hand_over_is_not_granted_any_more() {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, Patience::ForEver);
    it.dropped(1);
    assert_eq!(it.on(Event::Closed), [failed("b", Failure::Closed)]);
    let moved = Answer::Moved { published: Published::No, fence: None };
    assert_eq!(it.answered(4, moved), [send(5, 3, FREE)]);
}

/// Nobody works under it.
#[test]
fn a_hold_that_was_offered_and_not_taken_is_released() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    assert_eq!(it.on(Event::Closed), [send(3, 1, FREE)]);
    assert_eq!(it.ended, [End::Over, End::Over]);
    assert!(!it.take(2));
    assert_eq!(it.dropped(2), []);
    it.answered(3, FREED);
    assert!(it.name.is_done());
}

#[test]
fn an_owner_that_nests_in_what_it_did_not_take_yet_is_told() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    assert_eq!(it.nests("inner", 2, 12), [send(3, 1, nested(2))]);
    assert_eq!(it.on(Event::Closed), [failed("inner", Failure::Closed), send(4, 1, FREE)]);
    assert_eq!(it.answered(3, Answer::Granted { holds: 2, fence: None }), []);
}

#[test]
fn releases_go_on() {
    let mut it = Story::new().held();
    it.dropped(1);
    it.on(Event::Closed);
    it.silent(3);
    assert_eq!(it.tick_at(1_000), [send(4, 1, FREE)]);
}

#[test]
fn what_is_held_while_others_are_missing_is_released() {
    let mut it = Story::new().held();
    it.with(|name, _| name.gather(Id(1_001)));
    assert_eq!(it.on(Event::Closed), [send(3, 1, FREE)]);
    assert_eq!(it.ended, [End::Over]);
    // All are there.
    let mut it = Story::new().held();
    it.with(|name, _| name.gather(Id(1_001)));
    it.with(|name, _| name.offer_again(Id(1_001)));
    assert!(it.take(1));
    assert_eq!(it.on(Event::Closed), []);
}
