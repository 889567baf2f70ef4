//! Replicas are to know of a grant: acquires take another way than all other commands.

use super::*;

impl Story {
    fn acknowledged() -> Self {
        let mut story = Self::new();
        story.settings.grants = Grants::Acknowledged;
        story
    }
}

#[test]
fn a_try_waits_until_every_release_is_answered() {
    let mut it = Story::acknowledged().held();
    assert_eq!(it.dropped(1), [send(3, 1, FREE)]);
    assert_eq!(it.locks("b", 2), []);
    assert_eq!(it.answered(3, FREED), [send(5, 4, FRESH)]);
}

#[test]
fn a_release_waits_until_its_try_is_answered() {
    let mut it = Story::acknowledged();
    it.locks("a", 1);
    assert_eq!(it.dropped(1), [withdraw(2)]);
    assert_eq!(it.locks("b", 2), [], "and so does the next try");
    assert!(!it.name.is_settled());
    assert_eq!(it.answered(2, OURS), [send(4, 1, FREE)]);
    assert_eq!(it.answered(4, FREED), [send(5, 3, FRESH)]);
}

#[test]
fn a_try_that_came_to_nothing_leaves_nothing_to_release() {
    for never_ran in [false, true] {
        let mut it = Story::acknowledged();
        it.locks("a", 1);
        it.dropped(1);
        assert_eq!(it.locks("b", 2), []);
        let effects = if never_ran { it.failed(2, FaultKind::Withdrawn, false) } else { it.answered(2, BUSY) };
        assert_eq!(effects, [send(4, 3, FRESH)]);
    }
}

/// It may run whenever it likes: an answer to its release, on another way, says nothing of it.
#[test]
fn one_that_is_given_up_is_released_then_and_reaped() {
    let mut it = Story::acknowledged();
    it.locks("a", 1);
    it.dropped(1);
    it.ms = 4_000;
    assert_eq!(it.silent(2), [send(3, 1, FREE)]);
    assert_eq!(it.answered(3, Answer::Gone), []);
    assert!(it.name.is_settled() && !it.name.is_done());
    // Every third of a lease since nobody wants it any more.
    assert_eq!(it.tick_at(11_000), [send(4, 1, FREE)]);
}

/// A release that overtook it would free nothing.
#[test]
fn one_whose_answer_is_late_is_not_released_before_that_however_many_thirds_of_a_lease_go_by() {
    let mut it = Story::acknowledged();
    it.ask("a", 1, Lease::Fixed(300 * MS), Patience::ForEver);
    it.dropped(1);
    for ms in (1_100..4_000).step_by(100) {
        assert_eq!(it.tick_at(ms), []);
    }
    assert_eq!(it.silent(2), [send(3, 1, FREE)]);
    assert_eq!(it.answered(3, Answer::Gone), []);
    assert_eq!(it.tick_at(4_000), [send(4, 1, FREE)]);
}

#[test]
fn each_try_has_a_number_of_its_own() {
    let mut it = Story::acknowledged();
    it.locks("a", 1);
    assert_eq!(it.silent(2), [send(4, 1, FREE)]);
    assert_eq!(it.tick_at(1_000), [], "its release is not answered");
    assert_eq!(it.answered(4, Answer::Gone), [send(5, 3, FRESH)]);
    assert_eq!(it.answered(5, OURS), [granted("a", 1)]);
    assert_eq!(it.tick_at(11_000), [send(6, 1, FREE), send(7, 3, Verb::Renew { lease: LEASE })], "the first is reaped");
}

#[test]
fn what_an_earlier_server_granted_is_not_asked_for_again() {
    let mut it = Story::acknowledged();
    it.locks("a", 1);
    it.era = 2;
    assert_eq!(it.answered(2, OURS), [send(4, 1, FREE)]);
    assert_eq!(it.answered(4, Answer::Gone), [send(5, 3, FRESH)]);
}

#[test]
fn once_it_is_granted_it_waits_for_the_replicas_whatever_it_would_wait_for_the_key() {
    for granting in [false, true] {
        let mut it = Story::acknowledged();
        it.ask("a", 1, Lease::Watchdog, until(2_000));
        if granting {
            assert_eq!(it.on(Event::Granting { command: CommandId(2) }), []);
        }
        let told = it.tick_at(2_015);
        assert_eq!(told.is_empty(), granting, "{told:?}");
        if granting {
            assert_eq!(it.answered(2, OURS), [granted("a", 1)]);
        }
    }
}

#[test]
fn a_client_that_ends_waits_for_what_its_tries_leave() {
    let mut it = Story::acknowledged();
    it.locks("a", 1);
    it.on(Event::Granting { command: CommandId(2) });
    assert_eq!(it.on(Event::Closed), [withdraw(2), failed("a", Failure::Closed)]);
    assert!(!it.name.is_settled());
    assert_eq!(it.failed(2, FaultKind::TooFewReplicas, true), [send(3, 1, FREE)]);
    it.answered(3, FREED);
    assert!(it.name.is_settled() && it.name.is_done());
}

#[test]
fn whoever_asks_once_waits_for_the_releases_for_the_time_of_a_command() {
    let mut it = Story::acknowledged().held();
    it.dropped(1);
    it.ask("b", 2, Lease::Watchdog, Patience::Once);
    assert_eq!(it.tick_at(4_000), [failed("b", Failure::Unreachable { may_have_run: false })]);
}
