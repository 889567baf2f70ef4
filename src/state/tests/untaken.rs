//! Turns that nobody takes, and ends that are asked for again.

use super::*;

/// `b` has what `a` held, and did not come for it.
fn passed_to_b() -> Story {
    let mut it = Story::new().held();
    it.locks("b", 2);
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    it
}

#[test]
fn a_turn_that_nobody_takes_is_over_after_half_a_timeout_and_whoever_is_there_asks_again() {
    let mut it = passed_to_b();
    it.locks("c", 3);
    assert_eq!(it.tick_at(15_999), []);
    assert_eq!(it.tick_at(16_000), [tell("c", Told::PassedOver), send(3, 1, FREE)]);
    assert!(it.logged.contains(&LogEvent::Untaken));
    assert!(!it.is_held(2));
    assert_eq!(it.locks("c", 3), [send(5, 4, FRESH)]);
}

#[test]
fn whoever_comes_in_time_keeps_it() {
    let mut it = passed_to_b();
    it.ms = 15_999;
    assert!(it.take(2));
    it.tick_at(16_000);
    assert!(it.is_held(2));
}

#[test]
fn after_a_turn_that_nobody_took_the_next_ones_are_short_until_somebody_comes() {
    let mut it = passed_to_b();
    it.tick_at(16_000);
    it.answered(3, FREED);
    it.nobody_comes = true;
    it.locks("c", 3);
    assert_eq!(it.answered(5, OURS), [granted("c", 3)]);
    assert_eq!(it.tick_at(16_004), []);
    assert_eq!(it.tick_at(16_005), [send(6, 4, FREE)]);
    it.answered(6, FREED);
    it.nobody_comes = false;
    it.locks("d", 4);
    assert_eq!(it.answered(8, OURS), [granted("d", 4)]);
    it.locks("e", 5);
    assert_eq!(it.dropped(4), [offered("e", 5)]);
    assert_eq!(it.tick_at(16_015), [], "somebody came: it has its whole turn");
    assert!(it.is_held(5));
}

/// However long its answer takes: it was told of it only then.
#[test]
fn a_short_turn_begins_when_it_is_given_and_not_when_it_was_asked_for() {
    let mut it = passed_to_b();
    assert_eq!(it.tick_at(16_000), [send(3, 1, FREE)]);
    it.answered(3, FREED);
    assert_eq!(it.locks("c", 3), [send(5, 4, FRESH)]);
    it.ms = 16_300;
    let answered = Event::Answered { command: CommandId(5), answer: Ok(OURS) };
    it.with(|name, env| name.on(answered, env, &mut Vec::new()));
    assert_eq!(it.tick_at(16_304), []);
    assert!(it.take(3));
}

#[test]
fn what_became_of_an_end_is_kept_for_whoever_was_told_of_a_fault() {
    for (answer, told) in [(FREED, Told::Freed), (Answer::Gone, Told::Lost(Cause::Gone))] {
        let mut it = Story::new().held();
        assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE)]);
        let fault = failed("a", Failure::Unreachable { may_have_run: false });
        assert_eq!(it.failed(3, FaultKind::Passing, false)[0], fault);
        let again = it.on(Event::Tick);
        let Some(Effect::Send(Command { id, .. })) = again.last() else { panic!("{again:?}") };
        assert_eq!(it.answered(id.0, answer), []);
        assert!(!it.name.is_done());
        assert_eq!(it.unlocks("a again", 1), [tell("a again", told)]);
        assert!(it.name.is_done());
    }
}

#[test]
fn whoever_asks_again_waits_for_what_becomes_of_it_and_not_for_one_sending() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    it.failed(3, FaultKind::Passing, false);
    assert_eq!(it.unlocks("a again", 1), []);
    let again = it.on(Event::Tick);
    let Some(Effect::Send(Command { id, .. })) = again.last() else { panic!("{again:?}") };
    let again = it.failed(id.0, FaultKind::Passing, false);
    assert!(!again.iter().any(|effect| matches!(effect, Effect::Tell(..))), "{again:?}");
    let again = it.on(Event::Tick);
    let Some(Effect::Send(Command { id, .. })) = again.last() else { panic!("{again:?}") };
    assert_eq!(it.answered(id.0, FREED), [tell("a again", Told::Freed)]);
}

#[test]
fn what_nobody_will_ask_for_is_not_kept() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    it.failed(3, FaultKind::Passing, false);
    it.dropped(1);
    let again = it.on(Event::Tick);
    let Some(Effect::Send(Command { id, .. })) = again.last() else { panic!("{again:?}") };
    it.answered(id.0, FREED);
    assert!(it.name.is_done());
}

#[test]
fn an_owner_that_asks_for_its_count_is_told_once_the_server_knows() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 2);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    assert_eq!(it.dropped(2), [send(4, 1, Verb::Release { holds: 1, note: Note::Unused })]);
    assert_eq!(it.on(Event::Recount { owner: Owner(1), waiter: "a" }), []);
    assert_eq!(
        it.answered(4, Answer::Released { holds: 1, published: Published::No }),
        [tell("a", Told::StillHeld(1))]
    );
    assert_eq!(it.on(Event::Recount { owner: Owner(1), waiter: "a" }), [tell("a", Told::StillHeld(1))]);
    assert_eq!(it.on(Event::Recount { owner: Owner(7), waiter: "b" }), [tell("b", Told::NotHeld)]);
}

#[test]
fn what_nobody_took_is_nobodys_to_ask_after_though_its_id_stands_for_something_again() {
    let mut it = passed_to_b();
    it.tick_at(16_000);
    it.locks("b", 2);
    assert_eq!(it.answered(5, OURS), [granted("b", 2)]);
    assert_eq!(it.unlocks("b", 2), [send(6, 4, FREE)]);
    assert_eq!(it.unlocks("b again", 2), []);
    // The release of what it did not take is answered first.
    assert_eq!(it.answered(3, FREED), []);
    assert_eq!(it.answered(6, FREED), [tell("b", Told::Freed), tell("b again", Told::Freed)]);
}

#[test]
fn a_turn_that_nobody_takes_is_said_and_is_no_end_of_somebody_s_hold() {
    let mut it = passed_to_b();
    it.logged.clear();
    it.tick_at(16_000);
    assert_eq!(it.logged, [LogEvent::Untaken]);
}

/// Of a lease that is shorter than a look takes nobody was kept out, and its owner is there.
#[test]
fn whoever_comes_later_than_its_lease_lasts_is_called_absent_only_where_others_waited() {
    for others in [false, true] {
        let mut it = Story::new();
        it.ask("a", 1, Lease::Fixed(50 * MS), Patience::ForEver);
        if others {
            it.locks("b", 2);
        }
        let mut effects = Vec::new();
        let ours = Event::Answered { command: CommandId(2), answer: Ok(OURS) };
        it.with(|name, env| name.on(ours, env, &mut effects));
        it.logged.clear();
        it.tick_at(1_050);
        assert_eq!(it.logged, [if others { LogEvent::Untaken } else { LogEvent::TooLate }]);
        assert!(!it.take(1));
    }
}

#[test]
fn an_owner_has_it_since_it_came_for_it() {
    let mut it = passed_to_b();
    it.ms = 1_500;
    assert!(it.take(2));
    it.ms = 1_700;
    it.unlocks("b", 2);
    assert_eq!(it.logged.last(), Some(&LogEvent::Ended { end: End::Over, held: 200 * MS }));
}

/// Whoever comes may be the first to see that it came too late.
#[test]
fn one_that_comes_later_than_its_bound_leaves_the_turn_to_those_who_wait() {
    let mut it = Story::new();
    it.nobody_comes = true;
    let wish = Wish { lease: Lease::Watchdog, max_hold: Some(500 * MS), patience: Patience::ForEver };
    it.asks("a", 1, wish);
    assert_eq!(it.answered(2, OURS), [granted("a", 1)]);
    it.locks("b", 2);
    it.nobody_comes = false;
    it.ms = 2_000;
    assert!(!it.take(1));
    assert_eq!(it.answered(5, OURS), [granted("b", 2)], "it was called, and tried");
}
