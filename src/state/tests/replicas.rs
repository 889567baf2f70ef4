//! A grant that was answered, and that too few replicas know of.

use super::*;

fn too_few(it: &mut Story, command: u64) -> Effects {
    it.failed(command, FaultKind::TooFewReplicas, true)
}

#[test]
fn it_is_released_at_once_and_tried_anew_under_a_new_number_after_a_pause() {
    let mut it = Story::new();
    it.settings.pauses = (20 * MS, 20 * MS);
    it.locks("a", 1);
    assert_eq!(too_few(&mut it, 2), [send(4, 1, FREE)]);
    it.answered(4, FREED);
    assert_eq!(it.tick_at(1_020), [send(5, 3, FRESH)]);
    assert_eq!(it.answered(5, OURS), [granted("a", 1)]);
}

#[test]
fn its_answer_came_so_nothing_of_it_is_reaped() {
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, Patience::Once);
    assert_eq!(too_few(&mut it, 2), [send(4, 1, FREE), failed("a", Failure::TooFewReplicas)]);
    it.link = 2;
    it.answered(4, FREED);
    assert!(it.name.is_done());
}

#[test]
fn what_an_earlier_try_left_is_reaped_all_the_same() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    it.silent(2);
    it.tick_at(1_000);
    assert_eq!(too_few(&mut it, 3), [send(5, 1, FREE)]);
    it.answered(5, FREED);
    it.dropped(1);
    assert!(!it.name.is_done());
    assert_eq!(it.tick_at(11_000), [send(6, 1, FREE)]);
}

#[test]
fn whoever_waits_for_so_long_is_told_why_at_the_end() {
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, until(1_010));
    assert_eq!(too_few(&mut it, 2), [send(4, 1, FREE)]);
    it.answered(4, FREED);
    assert_eq!(it.tick_at(1_010), [send(5, 3, FRESH)]);
    assert_eq!(too_few(&mut it, 5), [send(7, 3, FREE)]);
    it.answered(7, FREED);
    assert_eq!(it.tick_at(1_010), [failed("a", Failure::TooFewReplicas)]);
    assert!(it.name.is_done());
}

#[test]
fn whoever_wants_it_no_more_has_it_released_when_that_is_told() {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.dropped(1), [withdraw(2), send(3, 1, FREE)]);
    it.answered(3, Answer::Gone);
    assert_eq!(too_few(&mut it, 2), [send(4, 1, FREE)]);
}

#[test]
fn a_grant_whose_replicas_cannot_be_asked_is_released_whatever_the_reason() {
    let mut it = Story::new();
    it.settings.grants = Grants::Acknowledged;
    it.locks("a", 1);
    it.on(Event::Granting { command: CommandId(2) });
    assert_eq!(it.failed(2, FaultKind::Refused, false), [send(4, 1, FREE), failed("a", Failure::Refused)]);
    it.answered(4, FREED);
    assert!(it.name.is_done());
}

#[test]
fn one_that_was_sent_again_since_the_server_lacked_its_script_leaves_no_old_copy() {
    let mut it = Story::new();
    it.settings.grants = Grants::Acknowledged;
    it.locks("a", 1);
    assert!(it.leaves(2));
    assert_eq!(it.answered(2, OURS), [granted("a", 1)]);
    it.dropped(1);
    it.answered(3, FREED);
    assert!(it.name.is_done());
}
