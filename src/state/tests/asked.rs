//! Somebody wants the lock.

use super::*;

#[test]
fn an_uncontended_section_is_two_commands() {
    let mut it = Story::new();
    assert_eq!(it.locks("a", 1), [send(2, 1, FRESH)]);
    assert_eq!(it.answered(2, OURS), [granted("a", 1)]);
    assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE)]);
    assert_eq!(it.answered(3, FREED), [tell("a", Told::Freed)]);
    assert!(it.name.is_done());
    assert_eq!(it.logged.len(), 2, "one for the grant, one for the end: {:?}", it.logged);
}

#[test]
fn whoever_asks_while_another_task_tries_or_holds_waits_without_a_command() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.locks("b", 2), []);
    it.answered(2, OURS);
    assert_eq!(it.locks("c", 3), []);
    assert!(it.name.waits(Id(1_002)) && it.name.waits(Id(1_003)));
}

#[test]
fn a_single_try_does_not_stand_behind_anybody() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.ask("b", 2, Lease::Watchdog, Patience::Once), [tell("b", Told::Busy)]);
    it.answered(2, OURS);
    assert_eq!(it.ask("b", 2, Lease::Watchdog, Patience::Once), [tell("b", Told::Busy)]);
}

#[test]
fn an_owner_that_asks_twice_at_a_time_is_refused() {
    let mut it = Story::new();
    let twice = |who| [failed(who, Failure::AskedTwice)];
    it.locks("a", 1);
    assert_eq!(it.nests("again", 1, 11), twice("again"));
    it.locks("b", 2);
    assert_eq!(it.nests("again", 2, 12), twice("again"));
}

/// A server may be so fast that the grant is there before a second branch of the same task asks.
#[test]
fn an_owner_asks_until_it_comes_for_what_it_tried_for_and_nests_from_then_on() {
    let mut it = Story::new();
    it.nobody_comes = true;
    it.locks("a", 1);
    assert_eq!(it.answered(2, OURS), [granted("a", 1)]);
    assert_eq!(it.nests("again", 1, 11), [failed("again", Failure::AskedTwice)]);
    assert!(it.take(1));
    assert_eq!(it.nests("inner", 1, 12), [send(3, 1, nested(2))]);
    // Nobody comes for the inner one before the outer one is over.
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    it.dropped(1);
    assert_eq!(it.nests("innermost", 1, 13), [], "behind the count that is told");
}

/// It waited, and was given what another task had: its wait is over, whoever polls it.
#[test]
fn an_owner_nests_in_what_it_was_given() {
    let mut it = Story::new().held();
    it.nobody_comes = true;
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    assert_eq!(it.nests("inner", 2, 12), [send(3, 1, nested(2))]);
}

#[test]
fn contended_is_said_once_an_acquisition() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, BUSY);
    it.hears(Heard::Subscribed);
    it.answered(3, BUSY);
    assert_eq!(it.logged, [LogEvent::Contended(Id(1_001))]);
}

/// The server may still have what its deadline ended here: it would keep its own owner out.
#[test]
fn an_owner_lets_go_of_its_lost_hold_before_it_asks_again() {
    let mut it = Story::new().held_fixed();
    it.tick_at(31_000);
    assert_eq!(it.ended, [End::Lost(Cause::Expired)]);
    assert_eq!(it.nests("again", 1, 11), [send(3, 1, FREE), send(5, 4, FRESH)]);
    assert_eq!(it.dropped(1), [], "and only once");
}

#[test]
fn a_fence_comes_with_the_grant_and_goes_with_a_pass() {
    let mut it = Story::new();
    it.locks("a", 1);
    let fenced =
        |who, id: u64, fence| [tell(who, Told::Granted { id: Id(1_000 + id), share: Of(who), fence: Some(fence) })];
    assert_eq!(it.answered(2, Answer::Granted { holds: 1, fence: Some(7) }), fenced("a", 1, 7));
    it.locks("b", 2);
    assert_eq!(it.dropped(1), fenced("b", 2, 7));
}

#[test]
fn one_that_asks_once_by_an_instant_waits_for_its_answer_until_then_and_for_nothing_else() {
    let once = Patience::OnceBy(at(1_100));
    let mut it = Story::new();
    it.last_answer = Some(900);
    it.ask("a", 1, Lease::Watchdog, once);
    let unreachable = failed("a", Failure::Unreachable { may_have_run: true });
    assert_eq!(it.tick_at(1_115), [withdraw(2), send(3, 1, FREE), unreachable]);
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, once);
    assert_eq!(it.ask("b", 2, Lease::Watchdog, once), [tell("b", Told::Busy)]);
    assert_eq!(it.answered(2, BUSY), [tell("a", Told::Busy)]);
}
