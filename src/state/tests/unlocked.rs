//! Somebody ends a guard, and waits for what comes of it.

use super::*;

#[test]
fn a_hold_that_the_server_does_not_know_any_more_is_lost() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    assert_eq!(it.answered(3, Answer::Gone), [tell("a", Told::Lost(Cause::Gone))]);
}

/// A copy of the release ran, and its answer was lost.
#[test]
fn one_that_a_lost_copy_freed_is_freed() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    it.silent(3);
    it.unlocks("again", 1);
    it.tick_at(1_000);
    assert_eq!(it.answered(4, Answer::Gone), [tell("again", Told::Freed)]);
}

#[test]
fn a_release_without_an_answer_is_repeated_and_whoever_asks_again_waits_for_the_answer() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    assert_eq!(it.silent(3), [failed("a", Failure::Unreachable { may_have_run: true })]);
    assert_eq!(it.unlocks("again", 1), []);
    assert_eq!(it.tick_at(1_000), [send(4, 1, FREE)]);
    assert_eq!(it.answered(4, FREED), [tell("again", Told::Freed)]);
    assert_eq!(it.unlocks("once more", 1), [tell("once more", Told::NotHeld)]);
}

#[test]
fn a_release_is_given_up_when_nothing_of_its_lease_is_left() {
    let mut it = Story::new().held();
    it.dropped(1);
    it.ms = 31_001;
    it.silent(3);
    assert!(matches!(it.logged.last(), Some(LogEvent::GaveUpRelease(_))));
    assert!(it.name.is_done());
}

/// A renewal that has no answer may run for as long as the hold is there.
#[test]
fn it_is_repeated_for_longer_where_a_renewal_may_run_late() {
    let mut it = Story::new().held();
    assert_eq!(it.tick_at(11_000), [send(3, 1, Verb::Renew { lease: LEASE })]);
    it.dropped(1);
    it.ms = 41_001;
    it.silent(4);
    assert_eq!(it.tick_at(41_001), [send(5, 1, FREE)]);
}

#[test]
fn the_count_that_remains_is_told_once_the_server_knows_it() {
    let mut it = Story::new().held();
    assert_eq!(it.nests("inner", 1, 11), [send(3, 1, nested(2))]);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    assert_eq!(it.unlocks("inner", 11), [send(4, 1, Verb::Release { holds: 1, note: Note::Unused })]);
    let told = Answer::Released { holds: 1, published: Published::No };
    assert_eq!(it.answered(4, told), [tell("inner", Told::StillHeld(1))]);
    assert_eq!(it.unlocks("a", 1), [send(5, 1, FREE)]);
}

#[test]
fn a_pass_is_freed_without_a_command() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::Freed), offered("b", 2)]);
}

#[test]
fn guards_that_end_out_of_order_are_said() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    it.dropped(1);
    assert_eq!(it.logged.last(), Some(&LogEvent::OutOfOrder));
}

#[test]
fn a_lost_hold_says_why_without_a_command() {
    let mut it = Story::new().held();
    it.tick_at(11_000);
    assert_eq!(it.answered(3, Answer::Gone), []);
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::Lost(Cause::Gone))]);
    assert!(it.name.is_done());
}

#[test]
fn a_hold_that_ran_out_is_still_released_once_with_its_last_guard() {
    let mut it = Story::new().held_fixed();
    it.tick_at(31_000);
    assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE), tell("a", Told::Lost(Cause::Expired))]);
}

#[test]
fn where_it_counts_as_released_its_release_says_how_it_went() {
    for (answer, told) in
        [(Answer::Expired, Told::AlreadyExpired), (Answer::Gone, Told::Lost(Cause::Gone)), (FREED, Told::Freed)]
    {
        let mut it = Story::new().held_fixed();
        it.shape.expired = crate::state::Expired::IsReleased;
        it.tick_at(31_000);
        assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE)]);
        assert_eq!(it.answered(3, answer), [tell("a", told)]);
        assert!(it.name.is_done());
    }
}

/// Past its slice the process gives the key up, and lets those go first who listened.
#[test]
fn a_hold_that_ends_past_the_slice_is_released_and_the_name_cools_down() {
    let mut it = Story::yielding().held();
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [send(3, 1, FREE)], "b does not have it");
    let heard = Answer::Released { holds: 0, published: Published::To(2) };
    assert_eq!(it.answered(3, heard), [Effect::Listen], "others listened");
    assert_eq!(it.tick_at(1_009), []);
    assert_eq!(it.tick_at(1_010), [send(5, 4, FRESH)]);
}

#[test]
fn it_does_not_cool_down_where_nobody_listened() {
    let mut it = Story::yielding().held();
    it.locks("b", 2);
    it.dropped(1);
    assert_eq!(it.answered(3, FREED), [send(5, 4, FRESH)]);
}

#[test]
fn a_single_try_in_a_cool_down_is_busy() {
    let mut it = Story::yielding().held();
    it.dropped(1);
    assert_eq!(it.ask("b", 2, Lease::Watchdog, Patience::Once), [], "it waits for the answer");
    let heard = Answer::Released { holds: 0, published: Published::To(1) };
    assert_eq!(it.answered(3, heard), [tell("b", Told::Busy)]);
}

#[test]
fn a_primitive_that_is_never_handed_over_is_released() {
    let mut it = Story::new().held();
    it.shape.succession = crate::state::Succession::Release;
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [send(3, 1, FREE), send(5, 4, FRESH)]);
}

/// The server refused it, and may do it now.
#[test]
fn a_release_that_was_given_up_is_asked_for_again_by_whoever_waited_for_it() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    assert_eq!(it.failed(3, FaultKind::Refused, false), [failed("a", Failure::Refused)]);
    assert_eq!(it.unlocks("again", 1), [send(4, 1, FREE)]);
    assert_eq!(it.answered(4, FREED), [tell("again", Told::Freed)]);
    assert!(it.name.is_done());
}

#[test]
fn and_is_forgotten_with_its_guard() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    it.failed(3, FaultKind::Refused, false);
    assert!(!it.name.is_done());
    it.dropped(1);
    assert!(it.name.is_done());
}

#[test]
fn a_hold_whose_name_somebody_else_knows_is_not_passed() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.on(Event::Shown { id: Id(1_001) });
    assert_eq!(it.dropped(1), [send(4, 1, hand_over(3, LEASE))]);
}

#[test]
fn all_who_wait_for_one_release_are_told() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    it.unlocks("too", 1);
    assert_eq!(it.answered(3, FREED), [tell("a", Told::Freed), tell("too", Told::Freed)]);
}
