//! Another server may answer from now on.

use super::*;

fn new_era(it: &mut Story) -> Effects {
    it.era += 1;
    it.on(Event::NewEra)
}

#[test]
fn every_hold_is_asked_for_at_once() {
    let mut it = Story::new().held();
    assert_eq!(new_era(&mut it), [send(3, 1, Verb::Renew { lease: LEASE })]);
    it.answered(3, Answer::Gone);
    assert_eq!(it.ended, [End::Lost(Cause::Gone)]);
}

#[test]
fn a_fixed_one_for_what_is_left_of_it() {
    let mut it = Story::new().held_fixed();
    let effects = new_era(&mut it);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: Verb::Renew { lease }, .. })] if lease < LEASE));
}

#[test]
fn without_a_hold_there_is_nothing_to_ask() {
    assert_eq!(new_era(&mut Story::new()), []);
}

#[test]
fn a_renewal_that_an_earlier_server_answered_is_asked_again() {
    let mut it = Story::new().held();
    it.tick_at(11_000);
    assert_eq!(new_era(&mut it), [], "one is on its way");
    assert_eq!(it.answered(3, RENEWED), [send(4, 1, Verb::Renew { lease: LEASE })]);
    it.ms = 31_000;
    assert!(!it.is_held(1), "the deadline did not move");
}

#[test]
fn a_grant_of_an_earlier_server_is_asked_of_the_present_one_under_the_same_number() {
    let mut it = Story::new();
    it.locks("a", 1);
    new_era(&mut it);
    assert_eq!(it.answered(2, OURS), [send(3, 1, FRESH)]);
    assert_eq!(it.dropped(1), [withdraw(3), send(4, 1, FREE)]);
}

#[test]
fn a_hand_over_of_an_earlier_server_is_undone() {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, Patience::ForEver);
    it.dropped(1);
    new_era(&mut it);
    let moved = Answer::Moved { published: Published::No, fence: None };
    assert_eq!(it.answered(4, moved), [send(5, 1, FREE)]);
}

#[test]
fn a_nested_grant_of_an_earlier_server_is_asked_again() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    new_era(&mut it);
    let effects = it.answered(3, Answer::Granted { holds: 2, fence: None });
    assert!(effects.contains(&send(5, 1, nested(2))), "{effects:?}");
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Tell(..))));
}

#[test]
fn whoever_did_not_come_yet_for_what_an_earlier_server_granted_asks_the_present_one() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.locks("c", 3);
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    new_era(&mut it);
    assert!(!it.take(2));
    let sent = it.dropped(2);
    assert!(
        matches!(sent[..], [Effect::Send(Command { verb: Verb::HandOver { .. }, .. })]),
        "as it stands it is no one's: {sent:?}"
    );
}

/// What cannot be asked for any more is due no more: else whoever looks at it would do so again and again.
#[test]
fn a_hold_that_is_over_within_a_millisecond_is_asked_for_no_more() {
    let mut it = Story::new().held();
    // The lease that it was taken with reaches farther than its next owner's bound.
    let max_hold = Some(2_000 * MS + MS / 2);
    it.asks("b", 2, Wish { lease: Lease::Watchdog, max_hold, patience: Patience::ForEver });
    it.dropped(1);
    assert!(it.take(2));
    it.ms = 3_000;
    assert_eq!(new_era(&mut it), []);
    it.tick_at(3_000);
    assert!(it.is_held(2));
    it.with(|name, env| assert!(name.next(env).is_some_and(|next| env.now < next)));
    assert_eq!(it.tick_at(3_001), [send(3, 1, FREE)]);
}
