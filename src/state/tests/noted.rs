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
