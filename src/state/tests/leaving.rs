//! Each command is asked for at the moment of sending, and withdrawn by itself.

use super::*;

#[test]
fn what_nobody_wants_does_not_leave_and_the_rest_does() {
    let mut it = Story::new().waiting();
    it.locks("a", 1);
    it.locks("b", 2);
    // The try of `a` is withdrawn, that of `b` goes.
    it.dropped(1);
    let sending = it.waits.clone().unwrap();
    assert_eq!(sending.iter().map(|step| step.id.0).collect::<Vec<_>>(), [2, 4]);
    assert!(!it.leaves(2) && it.leaves(4));
    assert_eq!(it.failed(2, FaultKind::Withdrawn, false), [], "it is nobody's");
    assert_eq!(it.answered(4, OURS), [granted("b", 2)]);
}

#[test]
fn a_lease_counts_from_the_sending() {
    let mut it = Story::new().waiting();
    it.ask("a", 1, FIXED, Patience::ForEver);
    it.ms = 5_000;
    assert!(it.leaves(2));
    it.ms = 6_000;
    it.answered(2, OURS);
    it.ms = 34_000;
    assert!(it.is_held(1));
    it.ms = 35_000;
    assert!(!it.is_held(1));
}

#[test]
fn a_release_and_the_try_behind_it_may_go_together() {
    let mut it = Story::new().held().waiting();
    it.dropped(1);
    it.locks("b", 2);
    let sending = it.waits.clone().unwrap();
    assert_eq!(sending.len(), 2);
    assert!(sending.iter().all(|step| it.leaves(step.id.0)));
}

/// A copy of it was sent on a newer link meanwhile.
#[test]
fn an_older_copy_of_a_release_is_not_wanted() {
    let mut it = Story::new().held().waiting();
    it.dropped(1);
    it.link = 2;
    it.locks("b", 2);
    assert!(!it.leaves(3));
    assert!(it.leaves(5) && it.leaves(6));
}

#[test]
fn reaping_releases_and_forced_ones_are_wanted() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    it.silent(2);
    it.dropped(1);
    it.answered(3, Answer::Gone);
    assert_eq!(it.tick_at(11_000), [send(4, 1, FREE)], "asserted by leaving");
    it.on(Event::Force { seen: vec![HoldNumber(77)], waiter: "forces" });
    assert!(!it.leaves(99));
}

/// A server that does not know its script refuses it unseen.
#[test]
fn a_try_that_leaves_once_more_since_it_was_refused_unseen_leaves_no_copy() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.link = 2;
    assert!(it.leaves(2));
    it.answered(2, OURS);
    it.dropped(1);
    assert_eq!(it.answered(3, FREED), []);
    assert!(it.name.is_done(), "nothing is watched for");
}
