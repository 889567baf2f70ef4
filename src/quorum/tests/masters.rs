//! One master as a vote sees it.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, advance};

use super::nobody::master;
use crate::{
    backend::{Fault, FaultKind},
    engine::HoldNumber,
};

const SEC: Duration = Duration::from_secs(1);

/// So many of a name are owed, and so many of all.
const OF_A_NAME: u64 = 64;
const IN_ALL: u64 = 4096;

fn key(name: u64) -> Arc<str> {
    Arc::from(name.to_string())
}

fn soon() -> Instant {
    Instant::now() + SEC
}

fn numbers(owed: Vec<(HoldNumber, Instant)>) -> Vec<HoldNumber> {
    owed.into_iter().map(|(number, _)| number).collect()
}

#[test]
fn what_is_owed_is_taken_once_and_by_its_name() {
    let master = master(None);
    assert!(master.owe(&key(1), HoldNumber(1), soon()) && master.owe(&key(1), HoldNumber(2), soon()));
    assert!(master.owe(&key(2), HoldNumber(3), soon()));
    assert!(!master.owe(&key(1), HoldNumber(2), soon()), "it is known");
    assert!(master.take_owed_number(&key(1), HoldNumber(2)) && !master.take_owed_number(&key(1), HoldNumber(2)));
    assert!(!master.take_owed_number(&key(1), HoldNumber(3)), "another name owes it");
    assert_eq!(numbers(master.take_owed("1")), [HoldNumber(1)]);
    assert!(master.take_owed("1").is_empty());
    assert_eq!(numbers(master.take_owed("2")), [HoldNumber(3)]);
}

#[test]
fn of_too_many_of_a_name_the_first_is_forgotten() {
    let master = master(None);
    (0..=OF_A_NAME).for_each(|number| assert!(master.owe(&key(0), HoldNumber(number), soon())));
    let owed: Vec<HoldNumber> = (1..=OF_A_NAME).map(HoldNumber).collect();
    assert_eq!(numbers(master.take_owed("0")), owed);
}

#[test]
fn of_too_many_in_all_the_first_of_any_name_is_forgotten() {
    let master = master(None);
    // Two of each name: none of them is full.
    (0..=IN_ALL).for_each(|number| assert!(master.owe(&key(number / 2), HoldNumber(number), soon())));
    assert_eq!(numbers(master.take_owed("0")), [HoldNumber(1)]);
    let left: usize = (1..=IN_ALL / 2).map(|name| master.take_owed(&name.to_string()).len()).sum();
    assert_eq!(left as u64, IN_ALL - 1);
}

#[test]
fn whoever_was_silent_is_suspect_until_it_says_anything() {
    let master = master(None);
    let says = |kind| master.said(&Err::<(), _>(Fault::of(kind, false, "a test says so")));
    assert!(!master.is_suspect());
    master.was_silent();
    assert!(master.is_suspect());
    master.said(&Ok(()));
    assert!(!master.is_suspect());
    for silent in [FaultKind::Timeout, FaultKind::Dropped] {
        says(silent);
        assert!(master.is_suspect(), "{silent:?}");
        says(FaultKind::Unready);
        assert!(!master.is_suspect(), "a refusal is an answer");
    }
}

#[test]
fn a_suspect_that_leaves_much_unanswered_is_asked_nothing_more_until_it_answers_some_of_it() {
    let master = master(None);
    let mut left: Vec<_> = (0..256).map(|_| master.leaves_behind()).collect();
    assert!(master.is_asked(), "it is not suspect");
    master.was_silent();
    assert!(!master.is_asked());
    left.pop();
    assert!(master.is_asked());
}

#[test]
fn no_more_old_copies_are_watched_for_than_there_is_room_for() {
    let master = master(None);
    let mut watched: Vec<_> = (0..4096).map(|_| master.watches().expect("there is room")).collect();
    assert!(master.watches().is_none());
    assert!(master.watches().is_none(), "whoever found none takes none");
    watched.pop();
    assert!(master.watches().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_master_is_young_until_it_remembers_all_that_may_be_somebodys() {
    let since = Instant::now();
    let restarted = master(Some(since));
    let young = |after: Duration| restarted.young_for("a", 3 * SEC, since + after);
    assert_eq!(young(Duration::ZERO), Some(3 * SEC));
    assert_eq!(young(3 * SEC - Duration::from_nanos(1)), Some(Duration::from_nanos(1)));
    assert_eq!(young(3 * SEC), None);
    assert_eq!(young(9 * SEC), None);
    assert_eq!(restarted.young_for("a", Duration::ZERO, since), None, "there is no quarantine");
    advance(SEC).await;
    assert_eq!(master(None).young_for("a", 3 * SEC, Instant::now()), Some(3 * SEC), "nobody knows since when");
}
