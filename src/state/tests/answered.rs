//! A try was answered, or will not be.

use super::*;

/// What was answered is not in flight any more: there is nothing to withdraw and nothing to release.
#[test]
fn a_single_try_that_is_answered_busy_leaves_nothing() {
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, Patience::Once);
    assert_eq!(it.answered(2, BUSY), [tell("a", Told::Busy)]);
    assert!(it.name.is_done());
}

/// The release left before the try, and is answered after it: its script was not known, so it was sent again, behind.
#[test]
fn a_busy_answer_that_overtook_a_release_is_asked_again_behind_it() {
    let mut it = Story::new().held();
    it.dropped(1);
    assert_eq!(it.locks("b", 2), [send(5, 4, FRESH)]);
    assert_eq!(it.answered(5, BUSY), [], "what is busy is our own");
    assert_eq!(it.answered(3, FREED), [send(6, 4, FRESH)]);
}

/// The release was answered before the busy answer came: somebody else has the key.
#[test]
fn a_busy_answer_behind_an_answered_release_is_believed() {
    let mut it = Story::new().held();
    it.dropped(1);
    it.locks("b", 2);
    it.answered(3, FREED);
    assert_eq!(it.answered(5, BUSY), [Effect::Listen]);
}

#[test]
fn a_single_try_that_overtook_a_release_waits_for_its_answer() {
    let mut it = Story::new().held();
    it.dropped(1);
    it.ask("b", 2, Lease::Watchdog, Patience::Once);
    assert_eq!(it.answered(5, BUSY), []);
    assert_eq!(it.answered(3, FREED), [send(6, 4, FRESH)]);
    assert_eq!(it.answered(6, OURS), [granted("b", 2)]);
}

#[test]
fn a_wait_on_a_slow_link_is_answered_as_the_server_answers() {
    let mut it = Story::new();
    it.grace = 800 * MS;
    it.ask("a", 1, Lease::Watchdog, until(1_100));
    assert_eq!(it.tick_at(1_200), []);
    assert_eq!(it.answered(2, OURS), [granted("a", 1)]);
}

#[test]
fn a_wait_that_ends_without_an_answer_is_unreachable_and_what_may_be_there_is_released() {
    let mut it = Story::new();
    it.last_answer = Some(500);
    it.ask("a", 1, Lease::Watchdog, until(1_100));
    let unreachable = failed("a", Failure::Unreachable { may_have_run: true });
    assert_eq!(it.tick_at(1_115), [withdraw(2), send(3, 1, FREE), unreachable]);
}

#[test]
fn a_server_that_says_nothing_is_unreachable_for_all_who_would_wait_for_ever() {
    let mut it = Story::new();
    it.last_answer = Some(1_000);
    it.locks("a", 1);
    it.locks("b", 2);
    it.ms = 4_000;
    assert_eq!(it.silent(2), []);
    assert_eq!(it.tick_at(4_000), [send(3, 1, FRESH)]);
    it.ms = 10_500;
    let unreachable = |who| failed(who, Failure::Unreachable { may_have_run: true });
    assert_eq!(it.silent(3), [unreachable("b")]);
    assert_eq!(it.tick_at(10_500), [send(4, 1, FREE), unreachable("a")]);
}

#[test]
fn an_error_that_stays_ends_the_try_and_the_next_head_gets_its_own_answer() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.locks("b", 2);
    assert_eq!(it.failed(2, FaultKind::Refused, false), [failed("a", Failure::Refused), send(4, 3, FRESH)]);
}

#[test]
fn an_answer_later_than_its_lease_ends_the_number() {
    let mut it = Story::new();
    let lease = Lease::Fixed(100 * MS);
    it.ask("a", 1, lease, Patience::ForEver);
    it.ms = 1_200;
    let again = send(5, 3, Verb::Acquire { lease: 100 * MS, holds: 1 });
    assert_eq!(it.answered(2, OURS), [send(4, 1, FREE), again]);
    assert_eq!(it.answered(5, OURS), [granted("a", 1)]);
}

#[test]
fn after_five_such_answers_it_gives_up() {
    let mut it = Story::new();
    it.ask("a", 1, Lease::Fixed(100 * MS), Patience::ForEver);
    let mut command = 2;
    for _ in 0..4 {
        it.ms += 200;
        let effects = it.answered(command, OURS);
        let Some(Effect::Send(Command { id, .. })) = effects.last() else { panic!("{effects:?}") };
        command = id.0;
    }
    it.ms += 200;
    let effects = it.answered(command, OURS);
    assert_eq!(effects.last(), Some(&failed("a", Failure::AnsweredLate)));
}

#[test]
fn nobody_waits_where_nobody_is_to_have_it() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.locks("b", 2);
    assert_eq!(it.answered(2, Answer::Settled), [tell("a", Told::Settled), send(4, 3, FRESH)]);
    assert_eq!(it.answered(4, Answer::Settled), [tell("b", Told::Settled)]);
    assert!(it.name.is_done());
}

#[test]
fn an_answer_that_no_script_gives_is_an_error() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.answered(2, RENEWED), [failed("a", Failure::Unexpected)]);
}

#[test]
fn a_told_ttl_is_slept_for_one_watchdog_timeout_at_most() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, Answer::Busy { retry_in: Some(10 * LEASE) });
    it.hears(Heard::Subscribed);
    it.answered(3, Answer::Busy { retry_in: Some(10 * LEASE) });
    assert_eq!(it.tick_at(31_000), [send(4, 1, FRESH)]);
}

#[test]
fn an_answer_to_nobody_is_nothing() {
    let mut it = Story::new();
    assert_eq!(it.answered(77, OURS), []);
    assert!(it.name.is_done());
}
