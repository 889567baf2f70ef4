//! Something comes through the subscription.

use super::*;

/// `a` sleeps, and nothing but a message would wake it.
fn asleep() -> Story {
    let mut it = Story::new();
    it.locks("a", 1);
    assert_eq!(it.answered(2, BUSY), [Effect::Listen]);
    assert_eq!(it.hears(Heard::Subscribed), [send(3, 1, FRESH)]);
    assert_eq!(it.answered(3, BUSY), []);
    assert!(it.name.sleeps(it.now()));
    it
}

#[test]
fn a_message_wakes_whoever_sleeps() {
    assert_eq!(asleep().hears(Heard::Message), [send(4, 1, FRESH)]);
}

#[test]
fn a_message_between_a_try_and_its_busy_answer_is_not_slept_through() {
    let mut it = asleep();
    it.hears(Heard::Message);
    assert_eq!(it.hears(Heard::Message), []);
    assert_eq!(it.answered(4, BUSY), [send(5, 1, FRESH)], "it came meanwhile");
    assert_eq!(it.answered(5, BUSY), []);
}

#[test]
fn so_does_a_confirmation() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, BUSY);
    it.tick_at(1_000);
    assert_eq!(it.hears(Heard::Subscribed), [], "it tries already");
    assert_eq!(it.answered(3, BUSY), [send(4, 1, FRESH)]);
}

#[test]
fn an_interrupted_subscription_is_polled_for_until_it_is_back() {
    let mut it = asleep();
    assert_eq!(it.hears(Heard::Interrupted), []);
    assert_eq!(it.wakes_at, Some(1_000), "its pause is nothing here, since chance is");
    assert_eq!(it.tick_at(1_000), [send(4, 1, FRESH)]);
    it.answered(4, BUSY);
    assert_eq!(it.hears(Heard::Subscribed), [send(5, 1, FRESH)]);
}

#[test]
fn a_refused_subscription_is_asked_for_once_and_polled_instead() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, BUSY);
    assert_eq!(it.hears(Heard::Refused), [send(3, 1, FRESH)]);
    assert_eq!(it.answered(3, BUSY), []);
    assert_eq!(it.tick_at(1_000), [send(4, 1, FRESH)]);
}

#[test]
fn where_nobody_publishes_nobody_listens() {
    let mut it = Story::new();
    it.shape.publishes = crate::state::Publishes::Never;
    it.locks("a", 1);
    assert_eq!(it.answered(2, BUSY), []);
    assert_eq!(it.tick_at(1_000), [send(3, 1, FRESH)]);
}

#[test]
fn where_others_may_not_publish_a_live_subscription_is_polled_all_the_same() {
    let mut it = Story::new();
    it.shape.publishes = crate::state::Publishes::Sometimes;
    it.locks("a", 1);
    it.answered(2, BUSY);
    it.hears(Heard::Subscribed);
    it.answered(3, BUSY);
    assert_eq!(it.tick_at(1_000), [send(4, 1, FRESH)]);
}

/// Somebody freed a key that is believed to be held here.
#[test]
fn a_message_probes_the_hold_for_what_is_left_of_its_lease() {
    let mut it = Story::new();
    it.ask("a", 1, FIXED, Patience::ForEver);
    it.ask("b", 2, FIXED, Patience::ForEver);
    it.answered(2, BUSY);
    it.hears(Heard::Subscribed);
    assert_eq!(it.answered(3, OURS), [granted("a", 1)]);
    it.ms = 11_000;
    let left = LEASE - Margin::default().of(LEASE) - Duration::from_secs(10);
    let left = Duration::from_millis(left.as_millis() as u64);
    let effects = it.hears(Heard::Message);
    let [Effect::Send(Command { id, verb: Verb::Renew { lease }, .. })] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(Duration::from_millis(lease.as_millis() as u64), left);
    assert_eq!(it.answered(id.0, Answer::Gone).len(), 1, "b tries");
    assert_eq!(it.ended, [End::Lost(Cause::Gone)]);
}

#[test]
fn somebody_elses_message_ends_a_cool_down_and_our_own_does_not() {
    let mut it = Story::new();
    it.settings.slice = Duration::ZERO;
    it.locks("a", 1);
    it.locks("b", 2);
    it.answered(2, BUSY);
    it.hears(Heard::Subscribed);
    it.answered(3, OURS);
    assert_eq!(it.dropped(1), [send(4, 1, FREE)]);
    assert_eq!(it.answered(4, Answer::Released { holds: 0, published: Published::To(2) }), []);
    assert_eq!(it.hears(Heard::Message), [], "our own");
    assert_eq!(it.hears(Heard::Message), [send(6, 5, FRESH)]);
}

#[test]
fn what_comes_after_the_subscription_was_let_go_is_nothing() {
    let mut it = asleep();
    it.dropped(1);
    assert_eq!(it.hears(Heard::Message), []);
    assert_eq!(it.hears(Heard::Subscribed), []);
    assert!(it.name.is_done());
}
