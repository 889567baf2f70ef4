//! A future is dropped in each of its stages, or a guard, or a grant that reached nobody.

use super::*;

#[test]
fn in_the_queue_it_leaves_the_queue() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.locks("c", 3);
    assert_eq!(it.dropped(2), []);
    assert_eq!(it.dropped(1), [offered("c", 3)]);
}

#[test]
fn before_its_try_left_it_is_withdrawn_and_nothing_is_released() {
    let mut it = Story::new().waiting();
    it.locks("a", 1);
    assert_eq!(it.dropped(1), [withdraw(2)]);
    assert!(!it.leaves(2));
    assert!(it.name.is_done());
}

#[test]
fn after_its_try_left_it_is_released_behind_it_and_its_answer_is_all_that_is_waited_for() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.dropped(1), [withdraw(2), send(3, 1, FREE)]);
    assert_eq!(it.answered(2, OURS), []);
    assert!(!it.name.is_done());
    assert_eq!(it.answered(3, FREED), []);
    assert!(it.name.is_done(), "nothing is reaped on a link that answers everything");
}

#[test]
fn the_next_of_this_process_tries_behind_the_release() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [withdraw(2), send(3, 1, FREE), send(5, 4, FRESH)]);
}

#[test]
fn on_a_new_link_the_release_goes_out_again_before_the_try() {
    let mut it = Story::new().held();
    assert_eq!(it.dropped(1), [send(3, 1, FREE)]);
    it.link = 2;
    assert_eq!(it.locks("b", 2), [send(5, 1, FREE), send(6, 4, FRESH)]);
    assert_eq!(it.silent(3), [], "the first copy is over, and known to be lost");
}

/// On another link it may have run after the release.
#[test]
fn an_answer_that_comes_after_the_release_was_answered_is_released_again() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.dropped(1);
    assert_eq!(it.answered(3, Answer::Gone), []);
    assert_eq!(it.answered(2, OURS), [send(4, 1, FREE)]);
    it.answered(4, FREED);
    assert!(it.name.is_done());
}

/// It may have run by then, and its answer be lost.
#[test]
fn a_try_that_is_not_answered_yet_is_released_every_third_of_a_lease_too() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    it.dropped(1);
    it.answered(3, Answer::Gone);
    assert_eq!(it.tick_at(11_000), [send(4, 1, FREE)]);
    it.answered(4, FREED);
    assert_eq!(it.silent(2), []);
    assert_eq!(it.tick_at(21_000), [send(5, 1, FREE)]);
}

/// One more, and that is forgotten whose watch ends first; one round of releases is enough for many.
#[test]
fn however_many_are_dropped_a_bounded_number_of_them_is_watched_for() {
    let mut it = Story::new();
    for id in 1..=WATCHED as u64 + 1 {
        it.ms += 1;
        it.locks("a", id);
        it.link += 1;
        let sent = it.dropped(id);
        let Some(Effect::Send(release)) = sent.last() else { panic!("{sent:?}") };
        it.answered(release.id.0, Answer::Gone);
    }
    let first = it.wakes_at.expect("it looks again");
    let released = it.tick_at(first + 1);
    assert_eq!(released.len(), WATCHED);
    assert!(!released.iter().any(|sent| matches!(sent, Effect::Send(Command { number: HoldNumber(1), .. }))));
}

#[test]
fn a_try_that_will_never_be_answered_is_released_every_third_of_a_lease() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.dropped(1);
    it.link = 2;
    it.silent(2);
    it.silent(3);
    // Its pause is nothing here, since chance is.
    assert_eq!(it.tick_at(1_000), [send(4, 1, FREE)]);
    it.answered(4, Answer::Gone);
    for (round, command) in (5..=8).enumerate() {
        let due = 11_000 + 10_000 * round as u64;
        assert_eq!(it.wakes_at, Some(due));
        assert_eq!(it.tick_at(due), [send(command, 1, FREE)], "round {round}");
        assert!(it.leaves(command));
        it.answered(command, Answer::Gone);
    }
    assert!(it.name.is_done());
}

/// It had no answer in time, but the link is the same, and keeps its order.
#[test]
fn what_was_followed_by_an_answer_on_the_same_link_is_not_reaped() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.silent(2);
    assert_eq!(it.dropped(1), [send(3, 1, FREE)]);
    it.answered(3, FREED);
    assert!(it.name.is_done());
}

#[test]
fn nor_are_several_that_left_on_it() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.silent(2);
    assert_eq!(it.tick_at(1_000), [send(3, 1, FRESH)]);
    it.silent(3);
    assert_eq!(it.dropped(1), [send(4, 1, FREE)]);
    it.answered(4, FREED);
    assert!(it.name.is_done());
}

#[test]
fn on_another_link_it_is() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    it.silent(2);
    it.dropped(1);
    it.answered(3, FREED);
    assert!(!it.name.is_done());
    assert_eq!(it.tick_at(11_000), [send(4, 1, FREE)]);
}

#[test]
fn asleep_it_leaves_nothing_but_its_subscription() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.answered(2, BUSY), [Effect::Listen]);
    assert_eq!(it.dropped(1), [Effect::Unlisten]);
    assert!(it.name.is_done());
}

#[test]
fn resting_after_a_try_that_may_have_run_it_is_released() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.silent(2);
    assert_eq!(it.dropped(1), [send(3, 1, FREE)]);
}

#[test]
fn resting_after_one_that_did_not_run_it_leaves_nothing() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.failed(2, FaultKind::Passing, false);
    assert_eq!(it.dropped(1), []);
    assert!(it.name.is_done());
}

#[test]
fn in_a_cool_down_it_leaves_nothing_and_the_next_one_goes_on() {
    let mut it = Story::yielding().held();
    it.locks("b", 2);
    it.locks("c", 3);
    it.dropped(1);
    assert_eq!(it.dropped(2), []);
    assert_eq!(it.answered(3, Answer::Released { holds: 0, published: Published::To(0) }).len(), 1, "c tries");
    assert!(it.name.waits(Id(1_003)));
}

#[test]
fn a_pass_that_reaches_nobody_goes_to_the_next() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.locks("c", 3);
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    assert_eq!(it.dropped(2), [offered("c", 3)]);
    assert!(it.take(3));
    assert!(it.is_held(3));
}

#[test]
fn a_pass_that_reaches_nobody_at_all_is_released() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    assert_eq!(it.dropped(2), [send(3, 1, FREE)]);
}

#[test]
fn what_ended_already_may_be_dropped_once_more() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    assert_eq!(it.dropped(1), []);
    it.answered(3, FREED);
    assert_eq!(it.dropped(1), []);
    assert!(it.name.is_done());
}
