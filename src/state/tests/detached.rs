//! A guard is given up, and its hold kept.

use super::*;

fn detach(it: &mut Story, id: u64) {
    assert_eq!(it.on(Event::Detached { id: Id(1_000 + id) }), []);
}

fn attach(it: &mut Story, owner: u64) -> Option<u64> {
    it.name.attach(Owner(owner)).map(|(id, _)| id.0 - 1_000)
}

#[test]
fn it_is_renewed_and_can_be_taken_back_once() {
    let mut it = Story::new().held();
    detach(&mut it, 1);
    assert_eq!(it.tick_at(11_000), [send(3, 1, Verb::Renew { lease: LEASE })]);
    assert_eq!((attach(&mut it, 0), attach(&mut it, 2)), (None, None));
    assert_eq!(attach(&mut it, 1), Some(1));
    assert_eq!(attach(&mut it, 1), None);
}

#[test]
fn the_newest_one_is_taken_back_first() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    detach(&mut it, 11);
    detach(&mut it, 1);
    assert_eq!(attach(&mut it, 1), Some(11));
}

#[test]
fn it_is_no_guard_that_ends_out_of_order() {
    let mut it = Story::new().held();
    it.nests("inner", 1, 11);
    it.answered(3, Answer::Granted { holds: 2, fence: None });
    detach(&mut it, 11);
    it.dropped(1);
    assert!(!it.logged.contains(&LogEvent::OutOfOrder));
}

#[test]
fn a_lost_one_is_remembered_for_a_lease_and_then_let_go() {
    let mut it = Story::new().held_fixed();
    detach(&mut it, 1);
    it.tick_at(30_882);
    assert_eq!(it.ended, [End::Lost(Cause::Expired)]);
    assert_eq!(it.wakes_at, Some(60_882));
    assert_eq!(it.tick_at(60_882), [send(3, 1, FREE)]);
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::NotHeld)]);
}

/// Its last renewal asked for no more than the 100 ms that its bound left.
#[test]
fn one_that_its_bound_cut_short_is_remembered_for_a_whole_lease() {
    let mut it = Story::new();
    it.asks("a", 1, Wish { lease: Lease::Watchdog, max_hold: Some(10_100 * MS), patience: Patience::ForEver });
    it.answered(2, OURS);
    detach(&mut it, 1);
    it.tick_at(11_000);
    it.answered(3, RENEWED);
    it.tick_at(11_100);
    assert_eq!(it.ended, [End::Lost(Cause::MaxHold)]);
    it.answered(4, FREED);
    assert_eq!(it.wakes_at, Some(41_100));
    it.ms = 41_099;
    assert_eq!(attach(&mut it, 1), Some(1));
    assert_eq!(it.unlocks("a", 1), [tell("a", Told::Lost(Cause::MaxHold))]);
}

#[test]
fn until_then_it_says_that_it_is_lost() {
    let mut it = Story::new().held_fixed();
    detach(&mut it, 1);
    it.tick_at(31_000);
    assert_eq!(attach(&mut it, 1), Some(1));
    assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE), tell("a", Told::Lost(Cause::Expired))]);
}

/// Its time is over, and the runtime is late to wake us.
#[test]
fn one_whose_end_nobody_has_seen_says_so_to_whoever_asks_first() {
    let over = || {
        let mut it = Story::new().held_fixed();
        detach(&mut it, 1);
        it.ms = 31_000;
        it
    };
    let mut it = over();
    assert_eq!(unlockable(&mut it, 1), Unlockable::Ticket(Id(1_001)));
    assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE), tell("a", Told::Lost(Cause::Expired))]);
    assert_eq!(unlockable(&mut it, 1), Unlockable::Nothing { guards: 0 });
    let mut it = over();
    assert_eq!(attach(&mut it, 1), Some(1));
    assert!(!it.is_held(1));
    assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE), tell("a", Told::Lost(Cause::Expired))]);
}

fn unlockable(it: &mut Story, owner: u64) -> Unlockable {
    it.with(|name, env| name.unlockable(Owner(owner), env.now))
}

#[test]
fn its_owner_unlocks_it_and_may_ask_again_while_that_is_under_way() {
    let mut it = Story::new().held();
    assert_eq!(unlockable(&mut it, 1), Unlockable::Nothing { guards: 1 });
    detach(&mut it, 1);
    assert_eq!(unlockable(&mut it, 2), Unlockable::Nothing { guards: 0 });
    assert_eq!(unlockable(&mut it, 1), Unlockable::Ticket(Id(1_001)));
    assert_eq!(unlockable(&mut it, 1), Unlockable::Nothing { guards: 1 }, "nobody gets it twice");
    assert_eq!(it.unlocks("a", 1), [send(3, 1, FREE)]);
    assert_eq!(unlockable(&mut it, 1), Unlockable::UnderWay(Id(1_001)));
    it.unlocks("again", 1);
    assert_eq!(it.answered(3, FREED), [tell("a", Told::Freed), tell("again", Told::Freed)]);
    assert_eq!(unlockable(&mut it, 1), Unlockable::Nothing { guards: 0 });
}

#[test]
fn an_end_of_it_by_a_hand_over_can_be_asked_for_too() {
    let mut it = Story::new().held_fixed();
    it.ask("b", 2, FIXED, Patience::ForEver);
    detach(&mut it, 1);
    unlockable(&mut it, 1);
    it.unlocks("a", 1);
    assert_eq!(unlockable(&mut it, 1), Unlockable::UnderWay(Id(1_001)));
}

#[test]
fn the_guard_of_an_owner_is_not_unlocked_by_it() {
    let mut it = Story::new().held();
    it.unlocks("a", 1);
    assert_eq!(unlockable(&mut it, 1), Unlockable::Nothing { guards: 0 });
}

/// What somebody has at hand, or what is to be renewed, is lost before its time.
#[test]
fn one_whose_fixed_lease_is_over_ended_as_it_was_meant_to() {
    for detached in [true, false] {
        let mut it = Story::new().held_fixed();
        if detached {
            detach(&mut it, 1);
        }
        it.tick_at(30_882);
        let held = 29_882 * MS;
        let lost = LogEvent::Ended { end: End::Lost(Cause::Expired), held };
        assert_eq!(it.logged.last(), Some(&if detached { LogEvent::RanOut { held } } else { lost }));
    }
    let mut it = Story::new().held();
    detach(&mut it, 1);
    it.tick_at(30_882);
    assert!(matches!(it.logged.last(), Some(LogEvent::Ended { end: End::Lost(Cause::Expired), .. })));
}
