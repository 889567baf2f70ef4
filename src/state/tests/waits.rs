//! What somebody is told whose wait ends while something was asked.

use super::{super::TryPlace, *};

#[test]
fn a_try_without_an_answer_is_an_error_unless_it_was_told_busy_and_the_server_answers_others() {
    for (told_busy, others_answered) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut it = Story::new();
        it.ask("a", 1, Lease::Watchdog, until(1_100));
        let mut command = 2;
        if told_busy {
            it.answered(2, BUSY);
            let effects = it.hears(Heard::Subscribed);
            let Some(Effect::Send(Command { id, .. })) = effects.last() else { panic!("{effects:?}") };
            command = id.0;
        }
        it.last_answer = Some(if others_answered { 1_050 } else { 900 });
        let over = it.tick_at(1_115);
        let told = if told_busy && others_answered {
            Told::Busy
        } else {
            Told::Failed(Failure::Unreachable { may_have_run: true })
        };
        assert!(over.contains(&tell("a", told)), "{told_busy} {others_answered}: {over:?}");
        assert!(over.contains(&withdraw(command)));
    }
}

#[test]
fn what_stands_in_line_asked_nothing_and_hears_busy_while_the_server_answers_others() {
    for (others_answered, told) in
        [(true, Told::Busy), (false, Told::Failed(Failure::Unreachable { may_have_run: false }))]
    {
        let mut it = Story::new().waiting();
        it.ask("a", 1, Lease::Watchdog, until(1_100));
        let mut effects = Vec::new();
        it.with(|name, env| name.stands(CommandId(2), TryPlace::Line, env, &mut effects));
        it.last_answer = Some(if others_answered { 1_050 } else { 900 });
        let over = it.tick_at(1_115);
        assert!(over.contains(&tell("a", told)), "{over:?}");
    }
}

#[test]
fn whoever_stands_behind_one_that_hears_nothing_for_as_long_as_an_answer_may_take_is_told_so() {
    for (wait, told) in [(1_010, Told::Busy), (1_020, Told::Failed(Failure::Unreachable { may_have_run: false }))] {
        let mut it = Story::new();
        it.locks("a", 1);
        it.ask("b", 2, Lease::Watchdog, until(wait));
        it.last_answer = Some(900);
        assert_eq!(it.tick_at(wait), [tell("b", told)]);
    }
}

#[test]
fn those_who_hear_of_one_interruption_wait_for_a_poll_of_their_own() {
    let mut it = Story::new();
    it.locks("a", 1);
    it.answered(2, BUSY);
    let effects = it.hears(Heard::Subscribed);
    let Some(Effect::Send(Command { id, .. })) = effects.last() else { panic!("{effects:?}") };
    it.answered(id.0, BUSY);
    it.ms = 5_000;
    it.settings.polls = (20 * MS, 20 * MS);
    it.chance = u16::MAX;
    assert_eq!(it.hears(Heard::Interrupted), []);
    assert_eq!(it.tick_at(5_019), []);
    assert!(matches!(it.tick_at(5_020)[..], [Effect::Send(_)]));
}

/// Who has it is `a`; the wait of `b` is over, and it was called and did not come to hear that.
fn over() -> Story {
    let mut it = Story::new().held();
    it.ask("b", 2, Lease::Watchdog, until(2_000));
    it.nobody_comes = true;
    assert_eq!(it.tick_at(2_000), []);
    it
}

#[test]
fn whose_wait_is_over_in_the_queue_is_told_so_once_it_comes() {
    let mut it = over();
    assert_eq!(it.on(Event::Here { id: Id(1_002) }), [tell("b", Told::Busy)]);
    assert_eq!(it.on(Event::Here { id: Id(1_002) }), []);
    let mut it = over();
    it.dropped(2);
    assert_eq!(it.on(Event::Here { id: Id(1_002) }), []);
}

#[test]
fn until_then_it_gets_what_nobody_else_here_waits_for_and_not_for_long() {
    let mut it = over();
    assert_eq!(it.dropped(1), [offered("b", 2)]);
    assert_eq!(it.tick_at(2_005), [send(3, 1, FREE)]);
    let mut it = over();
    it.locks("c", 3);
    assert_eq!(it.dropped(1), [offered("c", 3)]);
    assert_eq!(it.on(Event::Here { id: Id(1_002) }), [tell("b", Told::Busy)]);
}

#[test]
fn and_it_never_tries() {
    let mut it = over();
    it.settings.slice = Duration::ZERO;
    assert_eq!(it.dropped(1), [send(3, 1, FREE), tell("b", Told::Busy)]);
}

#[test]
fn a_try_is_waited_for_as_long_as_the_way_takes_by_what_was_heard_since() {
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, until(1_001));
    it.last_answer = Some(999);
    it.grace = 300 * MS;
    let failed = failed("a", Failure::Unreachable { may_have_run: true });
    assert_eq!(it.tick_at(1_016).last(), Some(&failed));
    let mut it = Story::new();
    it.ask("a", 1, Lease::Watchdog, until(1_001));
    it.last_answer = Some(1_010);
    it.grace = 300 * MS;
    assert_eq!(it.tick_at(1_299), []);
    assert!(it.tick_at(1_300).iter().any(|effect| matches!(effect, Effect::Tell("a", _))));
}
