//! Holds that were seen on the server are to be freed.

use super::*;

fn force(it: &mut Story, seen: &[u64]) -> Effects {
    it.on(Event::Force { seen: seen.iter().map(|number| HoldNumber(*number)).collect(), waiter: "forces" })
}

const DONE: Answer = Answer::Done { published: Published::To(0) };

#[test]
fn a_holder_of_this_process_is_told_before_it_is_sent() {
    let mut it = Story::new().held();
    assert_eq!(force(&mut it, &[1]), [send(3, 1, Verb::Force)]);
    assert_eq!(it.ended, [End::Lost(Cause::Forced)]);
    assert_eq!(it.answered(3, DONE), [tell("forces", Told::Forced(true))]);
    assert_eq!(it.unlocks("a", 1), [send(4, 1, FREE), tell("a", Told::Lost(Cause::Forced))], "it may never have run");
}

#[test]
fn somebody_elses_hold_is_no_business_of_ours() {
    let mut it = Story::new().held();
    assert_eq!(force(&mut it, &[77]), [send(3, 77, Verb::Force)]);
    assert!(it.is_held(1));
    assert_eq!(it.answered(3, Answer::Gone), [tell("forces", Told::Forced(false))]);
}

#[test]
fn each_hold_that_was_seen_is_a_step_of_its_own_and_all_are_answered_together() {
    let mut it = Story::new();
    assert_eq!(force(&mut it, &[77, 78]), [send(1, 77, Verb::Force), send(2, 78, Verb::Force)]);
    assert_eq!(it.answered(1, DONE), []);
    assert_eq!(it.answered(2, Answer::Gone), [tell("forces", Told::Forced(true))]);
    assert!(it.name.is_done());
}

#[test]
fn where_nothing_was_seen_nothing_is_freed() {
    let mut it = Story::new();
    assert_eq!(force(&mut it, &[]), [tell("forces", Told::Forced(false))]);
}

#[test]
fn a_grant_that_was_seen_on_its_way_counts_for_nothing_and_is_asked_for_anew() {
    let mut it = Story::new();
    it.locks("a", 1);
    force(&mut it, &[1]);
    assert_eq!(it.answered(2, OURS), [send(5, 1, FREE), send(6, 4, FRESH)]);
    assert_eq!(it.answered(6, OURS), [granted("a", 1)]);
}

#[test]
fn a_number_that_was_seen_is_not_asked_for_again() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.silent(2);
    force(&mut it, &[1]);
    assert_eq!(it.tick_at(1_000), [send(5, 1, FREE), send(6, 4, FRESH)]);
}

#[test]
fn a_hand_over_whose_new_number_was_seen_is_undone() {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, Patience::ForEver);
    it.dropped(1);
    force(&mut it, &[3]);
    let moved = Answer::Moved { published: Published::No, fence: None };
    assert_eq!(it.answered(4, moved), [send(6, 1, FREE)]);
    assert_eq!(it.answered(6, Answer::Gone), [send(8, 3, FREE), send(9, 7, FRESH)]);
}

#[test]
fn past_the_slice_it_cools_the_name_down_like_a_release() {
    let mut it = Story::yielding().held();
    it.locks("b", 2);
    assert_eq!(force(&mut it, &[1]), [send(3, 1, Verb::Force)]);
    let heard = Answer::Done { published: Published::To(1) };
    assert_eq!(it.answered(3, heard), [tell("forces", Told::Forced(true)), Effect::Listen]);
    assert_eq!(it.tick_at(1_010), [send(5, 4, FRESH)]);
}

#[test]
fn one_without_an_answer_is_told() {
    let mut it = Story::new().held();
    force(&mut it, &[1]);
    assert_eq!(it.silent(3), [failed("forces", Failure::Unreachable { may_have_run: true })]);
}
