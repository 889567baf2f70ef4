//! Time passes.

use super::*;

#[test]
fn a_third_of_the_watchdog_after_the_last_renewal_was_sent_the_next_is_due() {
    let mut it = Story::new().held();
    assert_eq!(it.wakes_at, Some(11_000));
    assert_eq!(it.tick_at(11_000), [send(3, 1, Verb::Renew { lease: LEASE })]);
    it.ms = 11_500;
    it.answered(3, RENEWED);
    it.on(Event::Tick);
    assert_eq!(it.wakes_at, Some(21_000), "since it was sent");
}

#[test]
fn a_renewal_that_is_due_a_little_later_goes_along_with_others() {
    let mut it = Story::new().held();
    it.ms = 10_000;
    assert_eq!(it.on(Event::RenewAlong { by: at(10_999) }), []);
    assert_eq!(it.on(Event::RenewAlong { by: at(11_000) }), [send(3, 1, Verb::Renew { lease: LEASE })]);
    assert_eq!(it.on(Event::RenewAlong { by: at(11_000) }), [], "one at a time");
    it.answered(3, RENEWED);
    it.on(Event::Tick);
    assert_eq!(it.wakes_at, Some(20_000));
}

/// It comes before the tick that was asked for, and in its place.
#[test]
fn a_hold_that_goes_along_or_stays_is_looked_at_again_in_time() {
    let mut it = Story::new().held();
    it.wakes_at = None;
    it.on(Event::RenewAlong { by: at(10_999) });
    assert_eq!(it.wakes_at, Some(11_000));
    it.on(Event::RenewAlong { by: at(11_000) });
    assert_eq!(it.wakes_at, Some(11_000), "a third after this one, which goes at once");
    it.wakes_at = None;
    it.answered(3, RENEWED);
    assert_eq!(it.wakes_at, None, "it stays so");
    assert_eq!(it.tick_at(11_000), [send(4, 1, Verb::Renew { lease: LEASE })]);
}

#[test]
fn one_whose_renewal_is_under_way_for_a_third_is_looked_at_again_at_its_deadline() {
    let mut it = Story::new().held();
    it.tick_at(11_000);
    assert_eq!(it.wakes_at, Some(21_000));
    assert_eq!(it.tick_at(21_000), []);
    assert_eq!(it.wakes_at, Some(30_881));
    it.ms = 22_000;
    assert_eq!(it.answered(3, RENEWED), [send(4, 1, Verb::Renew { lease: LEASE })], "the next is due");
}

/// Else a look at the instant that was asked for would find nothing to do.
#[test]
fn the_next_renewal_is_due_a_third_after_the_last_was_decided_on_wherever_that_stood_in_line() {
    let mut it = Story::new().held().waiting();
    it.tick_at(11_000);
    it.ms = 11_005;
    assert!(it.leaves(3));
    it.ms = 11_010;
    it.answered(3, RENEWED);
    assert_eq!(it.tick_at(21_000), [send(4, 1, Verb::Renew { lease: LEASE })]);
}

#[test]
fn a_renewal_says_what_it_is_for() {
    let deadline = Instant::from_nanos(30_881_812_500);
    let mut it = Story::new().held();
    it.tick_at(11_000);
    assert_eq!(it.raises, Some(Raises::Watched { deadline, again: false }));
    it.silent(3);
    assert_eq!(it.raises, Some(Raises::Watched { deadline, again: true }));
}

#[test]
fn a_hold_that_is_not_renewed_does_not_go_along() {
    let mut it = Story::new().held_fixed();
    assert_eq!(it.on(Event::RenewAlong { by: at(30_000) }), []);
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    assert_eq!(it.on(Event::RenewAlong { by: at(30_000) }), [], "nobody took it");
}

#[test]
fn a_renewal_without_an_answer_leaves_the_deadline_alone_and_is_repeated_until_then() {
    let mut it = Story::new().held();
    it.tick_at(11_000);
    assert_eq!(it.silent(3), [send(4, 1, Verb::Renew { lease: LEASE })]);
    it.ms = 31_000 - 119;
    assert!(it.is_held(1));
    it.ms = 31_000 - 118;
    assert!(!it.is_held(1), "the lease, less its margin");
    assert_eq!(it.on(Event::Tick), []);
    assert_eq!(it.ended, [End::Lost(Cause::Expired)]);
    assert_eq!(it.answered(4, RENEWED), [], "lost is lost");
    assert!(!it.is_held(1));
}

#[test]
fn a_hold_that_is_gone_is_lost_at_the_answer() {
    let mut it = Story::new().held();
    it.tick_at(11_000);
    it.answered(3, Answer::Gone);
    assert_eq!(it.ended, [End::Lost(Cause::Gone)]);
    assert_eq!(it.dropped(1), [], "and nothing is sent");
}

#[test]
fn no_renewal_leaves_after_the_end() {
    let mut it = Story::new().held().waiting();
    it.tick_at(11_000);
    it.dropped(1);
    assert!(!it.leaves(3));
    let mut it = Story::new().held().waiting();
    it.tick_at(11_000);
    it.ms = 40_000;
    assert!(!it.leaves(3));
}

#[test]
fn at_max_hold_the_hold_is_lost_and_released_once() {
    let mut it = Story::new();
    it.asks("a", 1, Wish { lease: Lease::Watchdog, max_hold: Some(2_000 * MS), patience: Patience::ForEver });
    it.answered(2, OURS);
    assert_eq!(it.tick_at(3_000), [send(3, 1, FREE)]);
    assert_eq!(it.ended, [End::Lost(Cause::MaxHold)]);
    it.answered(3, FREED);
    assert_eq!(it.dropped(1), []);
}

/// It lasts for longer, and its next owner did not want it to.
#[test]
fn a_hold_that_was_passed_ends_at_the_bound_of_whoever_has_it() {
    let mut it = Story::new().held();
    it.asks("b", 2, Wish { lease: Lease::Watchdog, max_hold: Some(2_000 * MS), patience: Patience::ForEver });
    it.ms = 2_000;
    it.dropped(1);
    assert!(it.take(2));
    it.ms = 3_999;
    assert!(it.is_held(2));
    assert_eq!(it.tick_at(4_000), [send(3, 1, FREE)]);
    assert_eq!(it.ended, [End::Over, End::Lost(Cause::MaxHold)]);
}

/// The bound kept the lease short, and is gone with its ticket.
#[test]
fn what_a_bound_kept_back_is_asked_for_when_its_ticket_is_over() {
    let mut it = Story::new();
    it.asks("a", 1, Wish { lease: FIXED, max_hold: None, patience: Patience::ForEver });
    it.answered(2, OURS);
    it.ms = 2_000;
    let longer = Lease::Fixed(2 * LEASE);
    let wish = Wish { lease: longer, max_hold: Some(40_000 * MS), patience: Patience::ForEver };
    it.on(Event::Ask { id: Id(1_011), owner: Owner(1), wish, waiter: "inner" });
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    let effects = it.dropped(11);
    assert!(effects.contains(&send(5, 1, Verb::Renew { lease: 2 * LEASE })), "{effects:?}");
}

#[test]
fn a_hold_that_nobody_takes_is_not_renewed_and_is_released_when_it_runs_out() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    assert_eq!(it.tick_at(11_000), []);
    assert_eq!(it.tick_at(30_882), [send(3, 1, FREE)]);
    assert!(!it.take(2));
}

#[test]
fn nobody_takes_what_ran_out_before_the_timer_said_so() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    it.ms = 30_882;
    assert!(!it.take(2));
    assert_eq!(it.ended, [End::Over, End::Lost(Cause::Expired)]);
}

/// The timer of the one before was for its renewal; nobody had to be woken while nobody took it.
#[test]
fn once_it_is_taken_it_is_renewed_in_time() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.dropped(1);
    assert_eq!(it.tick_at(11_000), []);
    it.ms = 12_000;
    assert!(it.take(2));
    assert_eq!(it.with(|name, env| name.check(env)), Ok(()));
    let renews = |name: &Name<&'static str, Of>| !name.is_quiet();
    assert!(renews(&it.name), "it was due");
}

#[test]
fn a_wait_that_ends_in_the_queue_is_busy() {
    let mut it = Story::new().held();
    it.ask("b", 2, Lease::Watchdog, until(2_000));
    it.ask("c", 3, Lease::Watchdog, until(3_000));
    assert_eq!(it.tick_at(2_000), [tell("b", Told::Busy)]);
    assert_eq!(it.wakes_at, Some(3_000));
}

#[test]
fn a_wait_that_ends_asleep_is_busy() {
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, until(2_000));
    it.answered(2, BUSY);
    it.hears(Heard::Subscribed);
    it.answered(3, BUSY);
    assert_eq!(it.tick_at(2_000), [tell("a", Told::Busy), Effect::Unlisten]);
    assert!(it.name.is_done());
}

#[test]
fn a_wait_that_ends_behind_an_unanswered_release_is_unreachable() {
    let mut it = Story::yielding().held();
    it.dropped(1);
    it.last_answer = Some(900);
    it.ask("b", 2, Lease::Watchdog, until(2_000));
    assert_eq!(it.tick_at(2_015), [failed("b", Failure::Unreachable { may_have_run: false })]);
}

#[test]
fn the_process_keeps_the_name_for_its_slice() {
    let mut it = Story::new();
    it.settings.slice = 10 * MS;
    it.locks("a", 1);
    it.answered(2, OURS);
    it.locks("b", 2);
    it.locks("c", 3);
    it.ms += 9;
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    assert!(it.take(2));
    it.ms += 1;
    assert_eq!(it.dropped(2), [send(3, 1, FREE)], "the slice counts from the free key");
}
