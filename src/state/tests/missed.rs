//! Turns to try that nobody takes: who waited at the server is called, and may not be there.

use super::*;

/// `a` sleeps, since somebody else has the key for so long; nobody comes when it is called from then on.
fn asleep() -> Story {
    let mut it = Story::new();
    it.locks("a", 2);
    it.answered(2, BUSY);
    it.nobody_comes = true;
    it
}

#[test]
fn whoever_slept_tries_again_only_if_it_is_there() {
    let mut it = asleep();
    it.ms += 10_000;
    assert_eq!(it.hears(Heard::Message), []);
    it.ms += 1_000;
    assert_eq!(it.on(Event::Here { id: Id(1_002) }), [send(3, 1, FRESH)]);
}

#[test]
fn whoever_does_not_come_is_passed_over_after_half_a_timeout_and_whoever_is_there_asks_again() {
    let mut it = asleep();
    it.hears(Heard::Message);
    it.locks("b", 3);
    assert_eq!(it.tick_at(15_999), []);
    let passed_over = ["b", "a"].map(|who| tell(who, Told::PassedOver));
    assert_eq!(it.tick_at(16_000)[..2], passed_over);
    assert_eq!(it.missed, ["a"]);
    assert!(it.name.is_done());
    assert_eq!(it.locks("b", 3)[0], send(4, 3, FRESH), "it was polled, so it is there");
}

#[test]
fn whoever_comes_after_it_was_passed_over_is_no_contender_any_more() {
    let mut it = asleep();
    it.hears(Heard::Message);
    it.tick_at(16_000);
    assert_eq!(it.on(Event::Here { id: Id(1_002) }), []);
    assert!(it.name.is_done());
}

#[test]
fn whoever_asks_again_stands_where_it_stood() {
    let mut it = Story::new().held();
    for (who, id) in [("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        it.locks(who, id);
    }
    it.dropped(1);
    let passed_over = ["c", "d", "e"].map(|who| tell(who, Told::PassedOver));
    let told = it.tick_at(16_000);
    assert_eq!(told[..3], passed_over);
    assert_eq!(told[3..], [send(3, 1, FREE)], "nobody is known to be there");
    assert!(it.logged.contains(&LogEvent::Untaken));
    it.locks("e", 5);
    for (who, id) in [("c", 3), ("b", 2), ("d", 4)] {
        assert_eq!(it.locks(who, id), []);
    }
    let order: Vec<_> = it.name.queue.iter().map(|who| who.waiter).collect();
    assert_eq!(order, ["b", "c", "d"]);
}

#[test]
fn after_a_turn_that_nobody_took_the_next_one_is_short_until_somebody_comes() {
    let mut it = asleep();
    it.hears(Heard::Message);
    it.tick_at(16_000);
    for (long, comes) in [(5, true), (15_000, false)] {
        let asked = it.locks("b", 3);
        let Some(Effect::Send(Command { id, .. })) = asked.last() else { panic!("{asked:?}") };
        it.answered(id.0, BUSY);
        it.hears(Heard::Message);
        let called = it.ms;
        if comes {
            it.tick_at(called + long - 1);
            let asked = it.on(Event::Here { id: Id(1_003) });
            let [Effect::Send(Command { id, .. })] = asked[..] else { panic!("{asked:?}") };
            it.answered(id.0, BUSY);
            it.dropped(3);
        } else {
            assert_eq!(it.tick_at(called + long - 1), []);
            assert_eq!(it.tick_at(called + long)[0], tell("b", Told::PassedOver));
        }
    }
}

#[test]
fn a_wait_that_ends_while_it_is_called_is_busy() {
    let mut it = Story::new();
    it.ask("a", 2, Lease::Watchdog, until(3_000));
    it.answered(2, BUSY);
    it.nobody_comes = true;
    it.hears(Heard::Message);
    assert_eq!(it.tick_at(3_000)[0], tell("a", Told::Busy));
    assert!(it.missed.is_empty());
}

#[test]
fn whoever_was_called_has_its_turn_though_it_is_told_to_rest_before_it_comes() {
    let mut it = Story::new();
    // Far: where it has heard of nobody its try goes right behind its release.
    (it.settings.slice, it.round_trip) = (10 * MS, 20 * MS);
    let mut it = it.held();
    it.ms += 1_000;
    it.locks("b", 2);
    it.nobody_comes = true;
    let [Effect::Send(released), ..] = it.dropped(1)[..] else { panic!("it is released") };
    it.answered(released.id.0, Answer::Released { holds: 0, published: Published::To(3) });
    let asked = it.on(Event::Here { id: Id(1_002) });
    assert!(matches!(asked[..], [Effect::Send(_)]), "{asked:?}");
}
