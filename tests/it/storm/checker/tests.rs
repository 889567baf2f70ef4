//! Chronicles that the checker must complain about, and their honest twins.

use std::time::Duration;

use super::*;

fn at(ms: u64) -> Duration {
    Duration::from_millis(1_000_000 + ms)
}

/// A process whose task 0 goes through these sections, in which every number is the section's own.
fn life(process: u64, events: Vec<(u64, u64, Event)>) -> Life {
    let line = |(ms, section, event)| Line { at: at(ms), task: 0, section, event };
    Life { process, life: 0, killed: None, lines: events.into_iter().map(line).collect() }
}

fn asked(number: u64) -> Event {
    Event::Asked { number, what: What::Lock, name: 0, within: None }
}

fn ended(number: u64, answer: &str) -> Event {
    Event::Ended { number, answer: answer.to_owned() }
}

fn held(guard: u64, seen: u64) -> Event {
    Event::Held { guard, seen: at(seen) }
}

/// A section that believes in its hold from one millisecond to another.
fn section(number: u64, from: u64, to: u64) -> Vec<(u64, u64, Event)> {
    let events =
        [(from, asked(number)), (from, ended(number, "granted")), (from, held(number, from)), (to, held(number, to))];
    events.into_iter().map(|(ms, event)| (ms, number, event)).collect()
}

fn two(first: (u64, u64), second: (u64, u64)) -> Chronicle {
    let lives = vec![life(0, section(1, first.0, first.1)), life(1, section(1, second.0, second.1))];
    Chronicle { lives, ..Chronicle::default() }
}

fn loss(from: u64, until: u64) -> Loss {
    Loss { name: None, from: at(from), until: at(until), told: None, whole: false }
}

#[track_caller]
fn complains(chronicle: &Chronicle, about: &str, excerpt: &str) {
    let complaints = check(chronicle.clone()).complaints;
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].what.contains(about), "{}", complaints[0]);
    assert!(complaints[0].excerpt.contains(excerpt), "{}", complaints[0]);
}

#[track_caller]
fn content(chronicle: &Chronicle) -> Findings {
    let findings = check(chronicle.clone());
    assert!(findings.complaints.is_empty(), "{:?}", findings.complaints);
    findings
}

#[test]
fn two_sections_one_after_the_other_are_well_and_two_at_once_are_not() {
    assert_eq!(content(&two((0, 10), (10, 20))).claims, 2);
    complains(&two((0, 10), (9, 20)), "two believe to hold name 0 for 1ms", "process 1.0: 1000009000000 0 1 held 1");
}

#[test]
fn a_short_section_inside_a_long_one_is_found_behind_others() {
    let mut chronicle = two((0, 100), (50, 60));
    chronicle.lives.push(life(2, section(1, 100, 110)));
    complains(&chronicle, "for 10ms", "");
}

#[test]
fn only_what_is_proven_by_a_look_counts_as_believed() {
    // The first look ends at 5, the last one begins at 8: what lies outside may have been another way.
    let events = vec![(0, asked(1)), (0, held(1, 5)), (8, held(1, 12)), (12, ended(1, "granted"))];
    let first = life(0, events.into_iter().map(|(ms, event)| (ms, 1, event)).collect());
    for (from, to, overlaps) in [(0, 5, false), (8, 20, false), (0, 6, true), (7, 20, true)] {
        let lives = vec![first.clone(), life(1, section(1, from, to))];
        let complaints = check(Chronicle { lives, ..Chronicle::default() }).complaints.len();
        assert_eq!(complaints == 1, overlaps, "{from} to {to}");
    }
}

#[test]
fn guards_of_one_section_are_one_hold_and_other_names_are_other_locks() {
    let mut nested = section(1, 0, 20);
    nested.extend([(5, 1, asked(2)), (5, 1, ended(2, "granted")), (5, 1, held(2, 5)), (10, 1, held(2, 10))]);
    content(&Chronicle { lives: vec![life(0, nested)], ..Chronicle::default() });
    let mut other = two((0, 10), (0, 10));
    for line in &mut other.lives[1].lines {
        if let Event::Asked { name, .. } = &mut line.event {
            *name = 1;
        }
    }
    content(&other);
}

#[test]
fn a_hold_that_the_server_lost_may_be_believed_in_for_one_lease_and_no_longer() {
    let lease = LONGEST_LEASE.as_millis() as u64;
    let mut chronicle = two((0, 20 + lease), (15, 5_000));
    chronicle.losses = vec![loss(10, 20)];
    assert_eq!(content(&chronicle).excused, 1);
    chronicle.lives[0] = life(0, section(1, 0, 21 + lease));
    complains(&chronicle, "two believe", "the server loses all names");
    // Nor is anything excused before the loss, or by that of another name.
    let mut early = two((0, 50), (9, 20));
    early.losses = vec![loss(10, 20)];
    complains(&early, "two believe", "");
    let mut other = two((0, 50), (15, 60));
    other.losses = vec![Loss { name: Some(1), ..loss(10, 20) }];
    complains(&other, "two believe", "");
}

#[test]
fn a_hold_that_a_failover_lost_is_believed_in_until_its_holder_is_told_who_could_hear_it() {
    let mut chronicle = two((0, 300), (25, 1_000));
    let told = Some(Duration::from_millis(200));
    chronicle.losses = vec![Loss { told, ..loss(10, 20) }];
    chronicle.sheltered = BTreeSet::from([1]);
    assert_eq!(content(&chronicle).excused, 1, "its links were harassed");
    chronicle.sheltered = BTreeSet::from([0, 1]);
    complains(&chronicle, "two believe to hold name 0 for 275ms", "");
    chronicle.freezes = vec![Freeze { process: 0, from: at(100), until: at(180) }];
    assert_eq!(content(&chronicle).excused, 1, "it stood still meanwhile");
    chronicle.freezes.clear();
    chronicle.lives[0] = life(0, section(1, 0, 220));
    assert_eq!(content(&chronicle).excused, 1, "it was told in time");
}

#[test]
fn what_the_server_has_lost_for_certain_is_told_in_time_to_a_holder_who_could_hear_it() {
    let told = Some(Duration::from_millis(200));
    let chronicle = |to, whole| Chronicle {
        lives: vec![life(0, section(1, 5, to))],
        losses: vec![Loss { told, whole, ..loss(10, 20) }],
        sheltered: BTreeSet::from([0]),
        ..Chronicle::default()
    };
    assert_eq!(content(&chronicle(220, true)).lost, 1);
    complains(&chronicle(221, true), "believed in for 1ms too long", "the server loses all names");
    content(&chronicle(221, false));
    content(&Chronicle { sheltered: BTreeSet::new(), ..chronicle(221, true) });
    content(&Chronicle {
        losses: vec![Loss { name: Some(1), ..chronicle(0, true).losses[0] }],
        ..chronicle(221, true)
    });
    content(&Chronicle { lives: vec![life(0, section(1, 10, 500))], ..chronicle(0, true) });
    let freezes = vec![Freeze { process: 0, from: at(15), until: at(16) }];
    assert_eq!(content(&Chronicle { freezes, ..chronicle(221, true) }).lost, 1, "it stood still meanwhile");
}

#[test]
fn a_hold_that_a_process_forced_away_is_lost_once_the_command_may_run() {
    let forced = |ms| {
        let mut chronicle = two((0, 10), (5, 20));
        let force = Event::Asked { number: 9, what: What::Force, name: 0, within: None };
        let events = vec![(ms, 2, force), (ms + 1, 2, ended(9, "true"))];
        chronicle.lives.push(life(2, events));
        chronicle
    };
    assert_eq!(content(&forced(4)).excused, 1);
    complains(&forced(6), "two believe", "");
}

fn counted(chronicle: &mut Chronicle, process: usize, ms: u64, from: u64, sure: bool) {
    let event = Event::Counted { guard: 1, from, sure };
    chronicle.lives[process].lines.push(Line { at: at(ms), task: 0, section: 1, event });
}

fn raise(process: u64, from: u64) -> Raise {
    Raise { from, by: Guard { process, life: 0, number: 1 } }
}

#[test]
fn an_update_of_the_counter_that_another_overwrote_is_found() {
    let mut chronicle = two((0, 10), (10, 20));
    counted(&mut chronicle, 0, 5, 0, true);
    counted(&mut chronicle, 1, 15, 0, true);
    chronicle.counters = vec![vec![raise(0, 0), raise(1, 0)]];
    complains(&chronicle, "an update of the counter of name 0 is lost", "counted 1 0 true");
}

#[test]
fn who_wrote_after_its_loss_or_died_writing_may_spoil_the_counter() {
    for known in [true, false] {
        let mut chronicle = two((0, 10), (10, 20));
        if known {
            counted(&mut chronicle, 0, 15, 0, false);
        }
        counted(&mut chronicle, 1, 16, 0, true);
        chronicle.counters = vec![vec![raise(0, 0), raise(1, 0)]];
        assert_eq!(content(&chronicle).raises, 2);
    }
}

#[test]
fn a_number_that_nobody_could_have_read_is_found() {
    let mut chronicle = two((0, 10), (10, 20));
    counted(&mut chronicle, 0, 5, 3, true);
    chronicle.counters = vec![vec![raise(0, 3)]];
    complains(&chronicle, "an update of the counter", "");
}

#[test]
fn a_waiter_that_never_ends_is_found_unless_it_was_killed_in_time() {
    let mut chronicle = Chronicle { lives: vec![life(0, vec![(0, 1, asked(1))])], ..Chronicle::default() };
    complains(&chronicle, "never ends", "asked 1 Lock 0 -");
    chronicle.lives[0].killed = Some(at(500));
    content(&chronicle);
    chronicle.lives[0].killed = Some(at(60_000));
    complains(&chronicle, "takes 60s", "is killed");
}

fn timed(wait: u64, took: u64) -> Chronicle {
    let within = Some(Duration::from_millis(wait));
    let asked = Event::Asked { number: 1, what: What::Lock, name: 0, within };
    let lives = vec![life(0, vec![(0, 1, asked), (took, 1, ended(1, "busy"))])];
    Chronicle { lives, ..Chronicle::default() }
}

#[test]
fn a_timed_wait_ends_in_time_but_for_the_time_that_its_process_stood_still() {
    content(&timed(400, 500));
    let mut late = timed(400, 5_000);
    complains(&late, "takes 5s", "asked 1 Lock 0 400000000");
    late.freezes = vec![Freeze { process: 0, from: at(100), until: at(4_500) }];
    content(&late);
    late.freezes[0].process = 1;
    complains(&late, "takes 5s", "");
}

#[test]
fn a_loss_that_is_told_late_is_found() {
    let told = Event::Asked { number: 2, what: What::Told, name: 0, within: None };
    let mut events = section(1, 0, 10);
    events.extend([(20, 1, told), (20 + 4_000, 1, ended(2, "lost-Expired"))]);
    complains(&Chronicle { lives: vec![life(0, events)], ..Chronicle::default() }, "takes 4s", "asked 2 Told");
}

#[test]
fn answers_that_cannot_be_are_found() {
    let answered = |what, answer: &str| {
        let asked = Event::Asked { number: 2, what, name: 0, within: None };
        let mut events = section(1, 0, 10);
        events.extend([(11, 1, asked), (12, 1, ended(2, answer))]);
        Chronicle { lives: vec![life(0, events)], ..Chronicle::default() }
    };
    for (what, answer) in [
        (What::Unlock, "freed"),
        (What::Unlock, "lost-Gone"),
        (What::UnlockDetached, "not-held"),
        (What::Lock, "unreachable"),
        (What::Told, "dropped"),
    ] {
        content(&answered(what, answer));
    }
    for (what, answer) in [
        (What::Unlock, "not-held"),
        (What::Unlock, "lost-Closed"),
        (What::Told, "lost-Forced"),
        (What::Told, "freed"),
        (What::Lock, "lost-Gone"),
        (What::Lock, "Invalid{}"),
        (What::Look, "refused-Other"),
    ] {
        complains(&answered(what, answer), "is answered", answer);
    }
}

#[test]
fn two_that_both_began_after_a_loss_are_not_excused_unless_the_first_was_passed_on_at_once() {
    let after = |from: u64| {
        let mut chronicle = two((from, from + 60), (from + 50, from + 70));
        chronicle.losses = vec![loss(10, 20)];
        chronicle
    };
    assert_eq!(content(&after(80)).excused, 1, "within a slice");
    complains(&after(81), "two believe to hold name 0 for 10ms", "");
    let mut frozen = after(81);
    frozen.freezes = vec![Freeze { process: 0, from: at(30), until: at(31) }];
    assert_eq!(content(&frozen).excused, 1, "it stood still meanwhile");
}

#[test]
fn a_grant_that_was_on_its_way_when_the_server_lost_its_hold_is_excused_beside_the_one_that_came_first() {
    let granted_late = |asked_at: u64, from: u64| {
        let mut chronicle = two((from - 10, from + 20), (from, from + 5));
        chronicle.lives[1].lines[0].at = at(asked_at);
        chronicle.losses = vec![loss(10, 20)];
        chronicle
    };
    let latest = 20 + (COMMAND + passing()).as_millis() as u64;
    assert_eq!(content(&granted_late(20, latest)).excused, 1);
    complains(&granted_late(20, latest + 1), "two believe", "");
    complains(&granted_late(21, latest), "two believe", "");
}
