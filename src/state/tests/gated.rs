//! What a contender does while others are to have their turn.

use super::*;

/// Freed, and so many others heard of it.
fn heard_by(others: u32) -> Answer {
    Answer::Released { holds: 0, published: Published::To(others) }
}

/// `a` had the lock from 1 s on for as long as it might, and gave it up while so many others listened.
fn gave_up(length: u64, round_trip: u64, others: u32) -> Story {
    let mut it = Story::new();
    (it.settings.slice, it.settings.cool_down) = (80 * MS, 80 * MS);
    it.round_trip = Duration::from_millis(round_trip);
    it.locks("a", 1);
    it.answered(2, OURS);
    it.ms += length;
    assert_eq!(it.dropped(1), [send(3, 1, FREE)]);
    assert_eq!(it.answered(3, heard_by(others)), []);
    it
}

#[test]
fn it_listens_in_a_cool_down_and_goes_after_those_who_were_told() {
    let mut it = gave_up(80, 0, 2);
    assert_eq!(it.locks("b", 2), [Effect::Listen]);
    assert_eq!(it.hears(Heard::Subscribed), []);
    it.ms = 1_090;
    assert_eq!(it.hears(Heard::Message), [], "the other one goes first, for a moment and what it had is a part of");
    assert_eq!(it.tick_at(1_092), []);
    assert_eq!(it.tick_at(1_093), [send(5, 4, FRESH)]);
}

#[test]
fn who_asks_once_or_would_have_no_time_left_goes_at_once_where_the_key_may_be_free() {
    for (patience, goes) in [(Patience::Once, true), (until(1_100), true), (until(1_200), false)] {
        let mut it = gave_up(80, 0, 2);
        it.locks("b", 2);
        it.hears(Heard::Subscribed);
        it.ms = 1_090;
        it.hears(Heard::Message);
        it.dropped(2);
        assert_eq!(it.ask("c", 3, Lease::Watchdog, patience).len(), usize::from(goes), "{patience:?}");
    }
}

/// The name was given up twice, to somebody who did not come: that one is given more time now.
fn gave_up_twice() -> Story {
    let mut it = gave_up(80, 0, 1);
    it.locks("b", 2);
    assert_eq!(it.tick_at(1_160), [send(5, 4, FRESH)]);
    it.answered(5, OURS);
    it.ms = 1_250;
    it.dropped(2);
    it.answered(6, heard_by(1));
    it
}

#[test]
fn those_who_do_not_come_are_waited_for_for_longer_each_time() {
    let mut it = gave_up_twice();
    it.locks("c", 3);
    assert_eq!(it.wakes_at, Some(1_340));
    assert_eq!(it.tick_at(1_339), []);
    assert_eq!(it.tick_at(1_340).len(), 1);
}

#[test]
fn a_wait_that_is_over_before_that_waits_for_the_usual() {
    let mut it = gave_up_twice();
    it.ask("c", 3, Lease::Watchdog, until(1_335));
    assert_eq!(it.wakes_at, Some(1_330));
    assert_eq!(it.tick_at(1_330).len(), 1, "it tries");
    let mut it = gave_up_twice();
    it.ask("c", 3, Lease::Watchdog, until(1_325));
    assert_eq!(it.tick_at(1_325), [tell("c", Told::Busy), Effect::Unlisten]);
}

#[test]
fn who_asks_once_is_busy_until_then() {
    let mut it = gave_up_twice();
    it.ms = 1_329;
    assert_eq!(it.ask("c", 3, Lease::Watchdog, Patience::Once), [tell("c", Told::Busy)]);
    it.ms = 1_330;
    assert_eq!(it.ask("d", 4, Lease::Watchdog, Patience::Once).len(), 1, "it tries");
}

/// Those who are near would stand still while its tries are on their way.
#[test]
fn who_is_far_rests_and_does_not_even_listen() {
    let mut it = gave_up(200, 100, 1);
    assert_eq!(it.locks("b", 2), []);
    assert_eq!(it.wakes_at, Some(1_450));
    assert_eq!(it.tick_at(1_450), [], "it looks whether the server is nearer");
    assert_eq!(it.tick_at(1_599), []);
    assert_eq!(it.tick_at(1_600), [send(5, 4, FRESH)]);
    assert_eq!(it.answered(5, BUSY), [Effect::Listen]);
}

#[test]
fn a_rest_ends_a_subscription() {
    let mut it = gave_up(200, 100, 1);
    // Who has no time to wait for that asks at once, and listens where it is busy.
    it.ask("b", 2, Lease::Watchdog, until(1_500));
    it.locks("c", 3);
    assert_eq!(it.answered(5, BUSY), [Effect::Listen]);
    assert_eq!(it.tick_at(1_500), [tell("b", Told::Busy), Effect::Unlisten], "c rests");
    assert_eq!(it.tick_at(1_600).len(), 1, "and tries then");
}

#[test]
fn a_rest_is_over_once_the_server_is_found_to_be_nearer() {
    let mut it = gave_up(200, 100, 1);
    it.locks("b", 2);
    it.round_trip = MS;
    assert_eq!(it.tick_at(1_450), [send(5, 4, FRESH)]);
}

#[test]
fn who_is_far_and_heard_of_nobody_tries_right_behind_its_release() {
    let mut it = gave_up(200, 100, 0);
    it.locks("b", 2);
    it.answered(5, OURS);
    it.locks("c", 3);
    it.ms = 1_500;
    assert_eq!(it.dropped(2), [send(6, 4, FREE), send(8, 7, FRESH)]);
    // Somebody listened to that one: the next time it waits for the answer.
    it.answered(6, heard_by(1));
    it.answered(8, OURS);
    it.locks("d", 4);
    it.ms = 1_800;
    assert_eq!(it.dropped(3), [send(9, 7, FREE)]);
}

/// Whichever answer comes first.
#[test]
fn such_a_try_begins_a_slice_of_its_own() {
    let mut it = Story::new();
    (it.settings.slice, it.settings.cool_down) = (80 * MS, 80 * MS);
    it.round_trip = 100 * MS;
    let mut it = it.held();
    it.locks("b", 2);
    it.ms = 1_200;
    assert_eq!(it.dropped(1), [send(3, 1, FREE), send(5, 4, FRESH)]);
    it.ms = 1_300;
    it.answered(5, OURS);
    it.locks("c", 3);
    it.ms = 1_350;
    assert_eq!(it.dropped(2), [offered("c", 3)]);
}

/// It gives the key up for a round trip anyway.
#[test]
fn the_turn_of_who_is_far_is_over_with_a_hold_that_nobody_here_has_next() {
    let mut it = gave_up(200, 100, 1);
    it.locks("b", 2);
    it.tick_at(1_600);
    it.answered(5, OURS);
    it.ms = 1_601;
    assert_eq!(it.dropped(2), [send(6, 4, FREE)]);
    assert_eq!(it.locks("c", 3), [], "it waits for the answer");
    assert_eq!(it.answered(6, heard_by(1)), [], "and rests");
    assert_eq!(it.tick_at(2_001).len(), 1);
}

/// Somebody else took what it had just freed, within its slice.
#[test]
fn who_is_busy_soon_after_its_own_end_lets_those_go_first_who_were_told() {
    let mut it = gave_up(5, 0, 2);
    it.locks("b", 2);
    it.answered(5, BUSY);
    assert_eq!(it.hears(Heard::Subscribed), [], "else it would try again");
    assert_eq!(it.tick_at(1_085).len(), 1);
}
