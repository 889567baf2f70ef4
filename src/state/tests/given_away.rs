//! A hold is given to whoever knows its number.

use super::*;

#[test]
fn it_is_over_here_and_neither_renewed_nor_released() {
    let mut it = Story::new().held();
    assert_eq!(it.gives_away(1), (Some(1), vec![]));
    assert_eq!(it.ended, [End::Over]);
    assert!(!it.is_held(1));
    assert!(it.name.is_done());
    assert_eq!(it.tick_at(11_000), []);
    assert_eq!(it.dropped(1), []);
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::NotHeld)]);
}

#[test]
fn whoever_waits_tries_at_the_server() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    assert_eq!(it.gives_away(1), (Some(1), vec![send(4, 3, FRESH)]));
    assert_eq!(it.answered(4, BUSY), [Effect::Listen]);
}

#[test]
fn its_owner_may_ask_again_and_waits_like_others() {
    let mut it = Story::new().held();
    it.gives_away(1);
    assert_eq!(it.nests("again", 1, 11), [send(4, 3, FRESH)]);
}

/// They would release what is somebody else's now.
#[test]
fn old_copies_of_its_acquire_are_not_reaped() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    it.silent(2);
    it.tick_at(1_000);
    assert_eq!(it.answered(3, OURS), [granted("a", 1)]);
    assert_eq!(it.gives_away(1), (Some(1), vec![]));
    assert!(it.name.is_done());
    assert_eq!(it.tick_at(11_000), []);
}

#[test]
fn nothing_is_given_that_is_lost_or_shared_or_asked_for() {
    let mut it = Story::new().held();
    assert_eq!(it.gives_away(2), (None, vec![]));
    it.nests("inner", 1, 11);
    assert_eq!(it.gives_away(1), (None, vec![]), "a nested acquisition is under way");
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    assert_eq!(it.gives_away(1), (None, vec![]), "there are two tickets");
    assert!(it.is_held(1) && it.is_held(11));
    let mut it = Story::new().held_fixed();
    it.ms = 31_000;
    assert_eq!(it.gives_away(1), (None, vec![]));
    assert_eq!(it.ended, [End::Lost(Cause::Expired)]);
}

#[test]
fn whoever_waits_for_something_of_it_is_told_that_it_is_over() {
    let mut it = Story::new().held();
    it.on(Event::Extend { id: Id(1_001), lease: LEASE, beyond: Beyond::Refused, waiter: "extends" });
    assert_eq!(it.gives_away(1), (Some(1), vec![tell("extends", Told::NotHeld)]));
    assert_eq!(it.answered(3, RENEWED), []);
}

/// Nobody was told, and nobody counted who else waits.
#[test]
fn it_does_not_cool_down() {
    let mut it = Story::yielding().held();
    it.gives_away(1);
    assert_eq!(it.locks("b", 2), [send(4, 3, FRESH)]);
}
