//! What a lease gives up at its end, and how long an answer is waited for.

use super::*;

#[test]
fn the_margin_is_a_256th_and_a_millisecond() {
    let margin = Margin::default();
    assert_eq!(margin.of(Duration::ZERO), MS);
    assert_eq!(margin.of(MS * 256), MS * 2);
    assert_eq!(margin.of(Duration::from_secs(30)), Duration::from_nanos(118_187_500));
}

#[test]
fn a_client_may_give_up_another_part_of_a_lease() {
    let margin = Margin::new(0.01, MS * 2);
    assert_eq!(margin.of(Duration::ZERO), MS * 2);
    assert_eq!(margin.of(LEASE), MS * 302);
    assert_eq!(Margin::new(0.0, MS).of(LEASE), MS);
    let all = Margin::new(1.0, MS).of(LEASE);
    assert!(LEASE < all && all <= LEASE + MS, "{all:?}");
}

/// Whatever a deadline counts from.
#[test]
fn every_deadline_has_the_margin_of_its_client() {
    let mut it = Story::new();
    it.settings.margin = Margin::new(0.01, MS * 2);
    let believed = |it: &Story, since| it.name.deadline() == Some(at(since) + (LEASE - MS * 302));
    it.locks("a", 1);
    it.ms = 1_010;
    it.answered(2, OURS);
    assert!(believed(&it, 1_000), "granted");
    let effects = it.tick_at(11_000);
    let [Effect::Send(Command { id, verb: Verb::Renew { .. }, .. })] = effects[..] else { panic!("{effects:?}") };
    it.answered(id.0, RENEWED);
    assert!(believed(&it, 11_000), "renewed");
    it.ms = 12_000;
    let effects = it.nests("b", 1, 2);
    let [Effect::Send(Command { id, verb: Verb::Acquire { .. }, .. })] = effects[..] else { panic!("{effects:?}") };
    it.answered(id.0, Answer::Granted { holds: 2, fence: None });
    assert!(believed(&it, 12_000), "nested");
    it.ms = 13_000;
    let extend = Event::Extend { id: Id(1_001), lease: LEASE, beyond: Beyond::Cut, waiter: "x" };
    let effects = it.on(extend);
    let [Effect::Send(Command { id, verb: Verb::Renew { .. }, .. })] = effects[..] else { panic!("{effects:?}") };
    it.answered(id.0, RENEWED);
    assert!(believed(&it, 13_000), "extended");
}

#[test]
fn what_is_answered_within_the_margin_of_its_client_comes_too_late() {
    let mut it = Story::new();
    it.settings.margin = Margin::new(0.5, MS * 2);
    it.locks("a", 1);
    it.ms = 1_000 + 14_998;
    assert_eq!(it.answered(2, OURS), [send(4, 1, FREE), send(5, 3, FRESH)]);

    let mut it = Story::new();
    it.shape.succession = crate::state::Succession::HandOver;
    it.settings.margin = Margin::new(0.5, MS * 2);
    it = it.held();
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [send(4, 1, hand_over(3, LEASE))]);
    it.ms = 1_000 + 14_998;
    let moved = it.answered(4, Answer::Moved { published: Published::No, fence: None });
    assert!(moved.contains(&send(5, 1, FREE)), "{moved:?}");
}

#[test]
fn the_deadline_lies_within_the_lease_and_never_before_the_send() {
    let sent = Story::new().now();
    let deadline = |lease| LeaseRequest::first(lease, None, sent).deadline(Margin::default());
    assert_eq!(deadline(MS * 256), sent + MS * 254);
    assert_eq!(deadline(MS), sent);
    assert_eq!(deadline(Duration::ZERO), sent);
    let year = Duration::from_secs(365 * 24 * 3600);
    assert!(deadline(year) > sent + (year - year / 255));
}

/// A way may have just become longer, and a count in doubt is one more for the hold to settle.
#[test]
fn whoever_nests_waits_for_its_answer_as_if_the_server_were_far() {
    let mut it = Story::new();
    let over = it.with(|_, env| env.cut_off_nested(env.now, env.now) - env.now);
    assert_eq!(over, MS * 300);
    it.settings.command_timeout = MS * 100;
    let over = it.with(|_, env| env.cut_off_nested(env.now, env.now) - env.now);
    assert_eq!(over, MS * 100);
}
