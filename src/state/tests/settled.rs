//! A hold was taken on other terms, while others were missing that it is taken with: now its own are true of it.

use super::*;

/// `a` has the lock under the watchdog since 1 s, and waits for others.
fn gathering() -> Story {
    Story::new().held()
}

fn settle(it: &mut Story, lease: Lease, max_hold: Option<Duration>) -> Effects {
    let since = it.now();
    it.on(Event::Settle { id: Id(1_001), lease, max_hold, since })
}

#[test]
fn a_fixed_lease_counts_from_then_and_is_asked_for_at_once() {
    let mut it = gathering();
    it.ms = 5_000;
    assert_eq!(settle(&mut it, FIXED, None), [send(3, 1, Verb::Renew { lease: LEASE })]);
    it.answered(3, RENEWED);
    it.ms = 34_000;
    assert!(it.is_held(1));
    assert_eq!(it.tick_at(35_000), [], "nobody renews it, and it is over");
    assert!(!it.is_held(1));
}

#[test]
fn a_bound_counts_from_then() {
    let mut it = gathering();
    it.ms = 5_000;
    assert_eq!(settle(&mut it, Lease::Watchdog, Some(10_000 * MS)), []);
    assert_eq!(it.wakes_at, Some(11_000), "to renew it as before");
    it.tick_at(11_000);
    it.answered(3, RENEWED);
    assert_eq!(it.wakes_at, Some(15_000));
    it.tick_at(15_000);
    assert_eq!(it.ended, [End::Lost(Cause::MaxHold)]);
}

#[test]
fn a_bound_that_was_only_for_the_meantime_is_gone() {
    let mut it = Story::new();
    it.asks("a", 1, Wish { lease: Lease::Watchdog, max_hold: Some(10_000 * MS), patience: Patience::ForEver });
    it.answered(2, OURS);
    it.ms = 9_000;
    assert_eq!(settle(&mut it, Lease::Watchdog, None), [send(3, 1, Verb::Renew { lease: LEASE })]);
    it.answered(3, RENEWED);
    it.ms = 38_000;
    assert!(it.is_held(1));
}

#[test]
fn a_ticket_that_was_given_up_stays_so_and_the_terms_of_others_stay() {
    let mut it = gathering();
    it.nests("inner", 1, 11);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    it.on(Event::Detached { id: Id(1_001) });
    settle(&mut it, FIXED, None);
    assert_eq!(it.tick_at(11_000), [send(4, 1, Verb::Renew { lease: LEASE })], "the inner one is under the watchdog");
    assert_eq!(it.name.attach(Owner(1)).map(|(id, _)| id), Some(Id(1_001)));
}

#[test]
fn of_a_hold_that_was_lost_meanwhile_nothing_is_true() {
    let mut it = gathering();
    it.ms = 31_000;
    assert_eq!(settle(&mut it, FIXED, None), []);
    assert_eq!(it.ended, [End::Lost(Cause::Expired)]);
    assert!(!it.is_held(1));
    assert_eq!(settle(&mut Story::new(), FIXED, None), []);
}
