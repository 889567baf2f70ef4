//! A hold moves to the next owner of this process by a command.

use super::*;

const MOVED: Answer = Answer::Moved { published: Published::No, fence: None };

/// `a` hands its hold 1 over to `b` as hold 3, by command 4.
fn handing_over() -> Story {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, Patience::ForEver);
    assert_eq!(it.unlocks("a", 1), [send(4, 1, hand_over(3, LEASE))]);
    it
}

#[test]
fn one_round_trip_and_the_key_is_never_free() {
    let mut it = handing_over();
    assert_eq!(it.answered(4, MOVED), [tell("a", Told::Freed), offered("b", 2)]);
    assert!(it.take(2));
    assert_eq!(it.name.believed(it.now()), Some((Owner(2), HoldNumber(3))));
}

#[test]
fn a_fence_is_drawn_for_every_owner() {
    let mut it = Story::new().held();
    it.shape.succession = crate::state::Succession::HandOver;
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [send(4, 1, hand_over(3, LEASE))], "it is not passed");
    let effects = it.answered(4, Answer::Moved { published: Published::No, fence: Some(8) });
    assert_eq!(effects, [tell("b", Told::Granted { id: Id(1_002), share: Of("b"), fence: Some(8) })]);
}

#[test]
fn without_an_answer_it_is_undone_in_order() {
    let mut it = handing_over();
    assert_eq!(it.silent(4), [failed("a", Failure::Unreachable { may_have_run: true }), send(5, 1, FREE)]);
    assert_eq!(it.answered(5, Answer::Gone), [send(7, 3, FREE), send(8, 6, FRESH)], "its successor tries behind both");
    assert_eq!(it.answered(7, FREED), []);
    assert_eq!(it.answered(8, Answer::Granted { holds: 1, fence: None }), [granted("b", 2)]);
}

#[test]
fn both_halves_are_undone_where_nobody_tries_behind_them() {
    let mut it = handing_over();
    it.dropped(2);
    it.silent(4);
    assert_eq!(it.answered(5, Answer::Gone), [send(6, 3, FREE)]);
    it.answered(6, Answer::Gone);
    assert!(!it.name.is_done(), "whoever unlocked it may ask again");
    it.dropped(1);
    assert!(it.name.is_done());
}

#[test]
fn what_never_ran_leaves_only_the_old_number() {
    let mut it = handing_over();
    it.failed(4, FaultKind::Passing, false);
    assert_eq!(it.answered(5, FREED), []);
    assert!(!it.name.is_released(HoldNumber(3)));
}

#[test]
fn an_answer_that_comes_too_late_is_undone_and_the_one_before_is_over() {
    let mut it = handing_over();
    it.ms = 31_000;
    assert_eq!(it.answered(4, MOVED), [tell("a", Told::Freed), send(5, 1, FREE)]);
    assert_eq!(it.answered(5, Answer::Gone)[0], send(7, 3, FREE));
}

#[test]
fn one_that_is_gone_is_lost_for_the_one_before_and_the_next_contends() {
    let mut it = handing_over();
    assert_eq!(it.answered(4, Answer::Gone), [tell("a", Told::Lost(Cause::Gone)), send(6, 5, FRESH)]);
}

#[test]
fn one_that_had_run_out_is_said_so() {
    let mut it = handing_over();
    assert_eq!(it.answered(4, Answer::Expired)[0], tell("a", Told::AlreadyExpired));
}

#[test]
fn a_successor_that_waits_no_more_leaves_it_to_the_next() {
    let mut it = handing_over();
    it.ask("c", 3, FIXED, Patience::ForEver);
    assert_eq!(it.dropped(2), []);
    assert_eq!(it.answered(4, MOVED), [tell("a", Told::Freed), send(6, 3, hand_over(5, LEASE))]);
    assert_eq!(it.answered(6, MOVED), [offered("c", 3)]);
}

#[test]
fn or_it_is_released() {
    let mut it = handing_over();
    it.dropped(2);
    assert_eq!(it.answered(4, MOVED), [tell("a", Told::Freed), send(5, 3, FREE)]);
    assert_eq!(it.ended, [End::Over], "it was nobody's");
}

#[test]
fn a_successor_whose_wait_is_over_is_busy_and_the_answer_is_awaited_all_the_same() {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, until(2_000));
    it.dropped(1);
    assert_eq!(it.tick_at(2_000), [tell("b", Told::Busy)]);
    assert_eq!(it.answered(4, MOVED), [send(5, 3, FREE)]);
}

/// Where its lease ends sooner it tells those who sleep for the longer one. Our own subscription hears that, too: it must not
/// be taken for somebody else's release, which would end a cool-down and probe the hold.
#[test]
fn the_message_of_a_shortening_hand_over_is_our_own() {
    let mut it = Story::new();
    it.ask("a", 1, FIXED, Patience::ForEver);
    it.answered(2, BUSY);
    it.hears(Heard::Subscribed);
    assert_eq!(it.answered(3, OURS), [granted("a", 1), Effect::Unlisten]);
    let short = Lease::Fixed(LEASE / 3);
    it.ask("b", 2, short, Patience::ForEver);
    it.ask("c", 3, short, Patience::ForEver);
    // They listen since a message may come for them.
    let mut it = listening(it);
    assert_eq!(it.dropped(1), [send(5, 1, hand_over(4, LEASE / 3))]);
    assert_eq!(it.answered(5, Answer::Moved { published: Published::To(2), fence: None }), [offered("b", 2)]);
    assert!(it.take(2));
    assert_eq!(it.hears(Heard::Message), [], "no probe");
    let probes = it.hears(Heard::Message);
    assert!(matches!(probes[..], [Effect::Send(Command { number: HoldNumber(4), verb: Verb::Renew { .. }, .. })]));
}

/// A subscription that somebody of this process asked for before is still there.
fn listening(mut it: Story) -> Story {
    it.name.subscription.open();
    it.hears(Heard::Subscribed);
    it
}

#[test]
fn a_hand_over_that_published_nothing_is_not_waited_for() {
    let mut it = listening(handing_over_with_waiters());
    it.dropped(1);
    it.answered(5, MOVED);
    assert!(it.take(2));
    assert_eq!(it.hears(Heard::Message).len(), 1, "somebody else's: the hold is probed");
}

fn handing_over_with_waiters() -> Story {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, Patience::ForEver);
    it.ask("c", 3, FIXED, Patience::ForEver);
    it.drawn += 1;
    it
}

/// Only a watchdog's hold with at least half of its lease is passed as it stands.
#[test]
fn a_hold_with_little_life_left_is_handed_over() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.ms = 16_500;
    let effects = it.dropped(1);
    assert!(matches!(effects[..], [Effect::Send(Command { verb: Verb::HandOver { .. }, .. })]), "{effects:?}");
}
