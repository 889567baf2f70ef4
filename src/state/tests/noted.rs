//! What was done under a hold is said with its release.

use super::*;

#[test]
fn the_newest_note_goes_with_the_release() {
    let mut it = Story::new().held();
    let free = |note| Verb::Release { holds: 0, note };
    it.on(Event::Noted { id: Id(1_001), note: Note::Failure(7) });
    it.on(Event::Noted { id: Id(1_001), note: Note::Success(7) });
    assert_eq!(it.dropped(1), [send(3, 1, free(Note::Success(7)))]);
    it.silent(3);
    assert_eq!(it.tick_at(1_000), [send(4, 1, free(Note::Success(7)))], "and with its repetition");
}

#[test]
fn it_goes_with_the_release_of_a_lost_hold() {
    let mut it = Story::new().held_fixed();
    it.tick_at(31_000);
    it.on(Event::Noted { id: Id(1_001), note: Note::Failure(7) });
    assert_eq!(it.dropped(1), [send(3, 1, Verb::Release { holds: 0, note: Note::Failure(7) })]);
}

#[test]
fn the_next_owner_begins_without_one() {
    let mut it = Story::new().held();
    it.locks("b", 2);
    it.on(Event::Noted { id: Id(1_001), note: Note::Success(7) });
    it.dropped(1);
    assert!(it.take(2));
    assert_eq!(it.dropped(2), [send(3, 1, FREE)]);
}

/// An old copy of its acquire may keep the key: what was done is said with each release, until one of its own is answered.
#[test]
fn it_goes_with_the_releases_of_one_whose_old_copies_may_run_until_its_own_is_answered() {
    let free = |note| Verb::Release { holds: 0, note };
    for (lost, answered) in [(false, false), (false, true), (true, false)] {
        let mut it = Story::new();
        it.ask("a", 1, FIXED, Patience::ForEver);
        it.silent(2);
        it.link = 2;
        assert_eq!(it.tick_at(1_000), [send(3, 1, FRESH)]);
        assert_eq!(it.answered(3, OURS), [granted("a", 1)]);
        it.on(Event::Noted { id: Id(1_001), note: Note::Success(7) });
        let (ends, released) = if lost { (31_000, 4) } else { (1_000, 4) };
        it.tick_at(ends);
        assert_eq!(it.dropped(1), [send(released, 1, free(Note::Success(7)))]);
        let repeats = it.settings.lease(FIXED) / 3;
        let said = if answered {
            it.answered(released, FREED);
            Note::Unused
        } else {
            it.ms = 61_000;
            it.silent(released);
            Note::Success(7)
        };
        let due = if answered { ends + repeats.as_millis() as u64 } else { 61_000 };
        let sent = it.tick_at(due);
        let [Effect::Send(reaped)] = sent[..] else { panic!("{sent:?}") };
        assert_eq!((reaped.number, reaped.verb), (HoldNumber(1), free(said)), "{lost} {answered}");
        it.logged.clear();
        it.answered(reaped.id.0, FREED);
        let found = it.logged.iter().any(|event| matches!(event, LogEvent::ReapedOldCopy(_)));
        assert_eq!(found, answered, "what its own release would have said is no news");
    }
}
