//! A holder asks for a longer lease.

use super::*;

fn extend(it: &mut Story, ms: u64) -> Effects {
    extend_or(it, ms, Beyond::Refused)
}

fn extend_or(it: &mut Story, ms: u64, beyond: Beyond) -> Effects {
    it.on(Event::Extend { id: Id(1_001), lease: Duration::from_millis(ms), beyond, waiter: "extends" })
}

#[test]
fn the_hold_lasts_that_long_from_the_sending() {
    let mut it = Story::new().held_fixed();
    it.ms = 20_000;
    assert_eq!(extend(&mut it, 60_000), [send(3, 1, Verb::Renew { lease: 2 * LEASE })]);
    it.ms = 21_000;
    assert_eq!(it.answered(3, RENEWED), [tell("extends", Told::Extended)]);
    it.ms = 79_000;
    assert!(it.is_held(1));
    it.ms = 80_000;
    assert!(!it.is_held(1));
}

#[test]
fn a_shorter_one_shortens_nothing() {
    let mut it = Story::new().held_fixed();
    extend(&mut it, 100);
    it.answered(3, RENEWED);
    it.ms = 30_000;
    assert!(it.is_held(1));
}

#[test]
fn it_may_not_reach_beyond_max_hold() {
    let mut it = Story::new();
    it.asks("a", 1, Wish { lease: FIXED, max_hold: Some(2 * LEASE), patience: Patience::ForEver });
    it.answered(2, OURS);
    assert_eq!(extend(&mut it, 60_001), [failed("extends", Failure::BeyondBound)]);
    assert_eq!(extend(&mut it, 60_000).len(), 1);
}

#[test]
fn one_that_may_be_cut_ends_with_max_hold() {
    let mut it = Story::new();
    it.asks("a", 1, Wish { lease: FIXED, max_hold: Some(2 * LEASE), patience: Patience::ForEver });
    it.answered(2, OURS);
    it.ms = 11_000;
    assert_eq!(extend_or(&mut it, 60_000, Beyond::Cut), [send(3, 1, Verb::Renew { lease: 50_000 * MS })]);
    assert_eq!(it.answered(3, RENEWED), [tell("extends", Told::Extended)]);
    assert_eq!(extend_or(&mut it, 40_000, Beyond::Cut), [send(4, 1, Verb::Renew { lease: 40_000 * MS })]);
    it.ms = 60_000;
    assert!(it.is_held(1));
    assert_eq!(it.tick_at(61_000), [tell("extends", Told::Lost(Cause::MaxHold)), send(5, 1, FREE)]);
}

#[test]
fn of_a_lost_hold_it_is_lost_and_nothing_is_sent() {
    let mut it = Story::new().held_fixed();
    it.tick_at(31_000);
    assert_eq!(extend(&mut it, 60_000), [tell("extends", Told::Lost(Cause::Expired))]);
}

#[test]
fn of_none_it_is_not_held() {
    assert_eq!(extend(&mut Story::new(), 60_000), [tell("extends", Told::NotHeld)]);
}

#[test]
fn an_end_meanwhile_is_told() {
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    assert_eq!(it.dropped(1), [send(4, 1, FREE)], "nothing is known before");
    assert_eq!(it.answered(4, FREED), [tell("extends", Told::NotHeld)]);
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    it.dropped(1);
    let fault = failed("extends", Failure::Unreachable { may_have_run: true });
    assert_eq!(it.silent(4)[0], fault, "as whoever ended it would be told");
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    assert_eq!(it.tick_at(31_000), [tell("extends", Told::Lost(Cause::Expired))]);
}

#[test]
fn one_that_is_gone_loses_the_hold() {
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    assert_eq!(it.answered(3, Answer::Gone), [tell("extends", Told::Lost(Cause::Gone))]);
    assert_eq!(it.ended, [End::Lost(Cause::Gone)]);
}

#[test]
fn one_without_an_answer_leaves_the_deadline_alone() {
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    assert_eq!(it.silent(3), [failed("extends", Failure::Unreachable { may_have_run: true })]);
    it.ms = 31_000;
    assert!(!it.is_held(1));
}

#[test]
fn one_that_an_earlier_server_did_is_asked_of_the_present_one() {
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    it.era = 2;
    assert_eq!(it.answered(3, RENEWED)[0], send(4, 1, Verb::Renew { lease: 2 * LEASE }));
    let effects = it.answered(4, RENEWED);
    assert!(effects.contains(&tell("extends", Told::Extended)), "{effects:?}");
}

/// A server that has the hold of an earlier one has all of its lease only where nothing made it longer.
#[test]
fn a_fixed_lease_that_became_longer_is_not_only_looked_for() {
    let as_taken = |it: &Story| match it.raises {
        Some(Raises::Fixed { as_taken, .. }) => as_taken,
        other => panic!("{other:?}"),
    };
    let mut it = Story::new().held_fixed();
    it.on(Event::NewEra);
    assert!(as_taken(&it));
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    assert_eq!(it.raises, Some(Raises::Longer { since: at(1_000) }));
    it.answered(3, RENEWED);
    it.on(Event::NewEra);
    assert!(!as_taken(&it), "it was extended");
    let mut it = Story::new();
    it.ask("a", 1, FIXED, Patience::ForEver);
    it.silent(2);
    it.on(Event::Tick);
    it.answered(3, OURS);
    it.on(Event::NewEra);
    assert!(!as_taken(&it), "the first try may have taken it");
}

#[test]
fn one_that_is_dropped_is_withdrawn_and_leaves_the_deadline_alone() {
    let mut it = Story::new().held_fixed();
    extend(&mut it, 60_000);
    let mut effects = Vec::new();
    it.with(|name, env| name.drop_extension(|who| *who == "another", env, &mut effects));
    assert_eq!(effects, []);
    it.with(|name, env| name.drop_extension(|who| *who == "extends", env, &mut effects));
    assert_eq!(effects, [withdraw(3)]);
    assert_eq!(it.answered(3, RENEWED), []);
    it.tick_at(31_000);
    assert!(!it.is_held(1));
}
