//! Without a rule something is found.

use super::{
    super::search::{End, Limits, search},
    config::{Config, Rule},
    configs::all,
    step::story,
    world::Promise,
};

const LIMITS: Limits = Limits { states: usize::MAX, time: None, threads: 1 };

/// So many states are enough to find what is to be found.
const FEW: usize = 400_000;

#[track_caller]
fn is_broken(config: &Config, promise: Promise) {
    let outcome = search(config, Limits { states: FEW, ..LIMITS });
    let Some((broken, steps)) = outcome.broken else { panic!("{:?} after {} states", outcome.end, outcome.states) };
    assert_eq!(broken, promise, "\n{}", story(config, &steps));
}

fn base() -> Config {
    Config::default()
}

#[test]
fn with_the_number_of_a_lost_round_two_hold() {
    let config = Config { asks: vec![2, 1], cuts: 1, without: Some(Rule::FreshNumbers), ..base() };
    is_broken(&config, Promise::OneBeliever);
}

#[test]
fn with_a_majority_of_those_that_answered_two_hold() {
    is_broken(&Config { cuts: 2, without: Some(Rule::MajorityOfAll), ..base() }, Promise::OneBeliever);
}

#[test]
fn with_a_lease_from_the_deciding_answer_two_hold() {
    let short = Config { lease: 2, quarantine: 2, ticks: 2, at_once: false, ..base() };
    is_broken(&Config { without: Some(Rule::LeaseFromSending), ..short }, Promise::OneBeliever);
}

#[test]
fn without_a_quarantine_two_hold_once_a_master_started_again() {
    is_broken(&Config { restarts: 1, ticks: 3, quarantine: 0, ..base() }, Promise::OneBeliever);
}

#[test]
fn with_a_quarantine_that_is_a_tick_short_two_hold() {
    is_broken(&Config { restarts: 1, ticks: 4, quarantine: 2, ..base() }, Promise::OneBeliever);
}

#[test]
fn the_same_is_found_where_answers_take_their_time() {
    let short = Config { lease: 2, restarts: 1, ticks: 3, at_once: false, ..base() };
    is_broken(&Config { quarantine: 0, ..short.clone() }, Promise::OneBeliever);
    is_broken(&Config { quarantine: 1, ..short }, Promise::OneBeliever);
}

#[test]
fn with_a_mending_that_counts_at_once_two_hold() {
    let short = Config { lease: 2, quarantine: 0, restarts: 1, renewals: 1, ticks: 2, ..base() };
    is_broken(&Config { without: Some(Rule::MendingCountsLater), ..short }, Promise::OneBeliever);
}

/// No quarantine makes up for it: a vote that was lost with its master's data was counted, and its answer was heard.
#[test]
fn with_a_mending_that_counts_at_once_two_hold_behind_a_quarantine_too() {
    let short = Config { lease: 2, quarantine: 2, restarts: 1, renewals: 1, ticks: 3, ..base() };
    is_broken(&Config { without: Some(Rule::MendingCountsLater), ..short }, Promise::OneBeliever);
}

#[test]
fn without_a_reap_old_copies_keep_a_majority_for_nobody() {
    is_broken(&Config { cuts: 2, ..base() }, Promise::NoMajorityIsLeftToNobody);
}

/// What breaks them is nothing but the rule.
#[test]
fn with_all_rules_the_same_worlds_keep_their_promises() {
    let short = || Config { lease: 2, quarantine: 2, ticks: 2, ..base() };
    let worlds = [
        Config { asks: vec![2, 1], cuts: 1, ..base() },
        Config { cuts: 2, reaps: true, ..base() },
        Config { at_once: false, ..short() },
        Config { restarts: 1, ..short() },
    ];
    for config in worlds {
        let outcome = search(&config, LIMITS);
        let steps = outcome.broken.map(|(_, steps)| story(&config, &steps));
        assert_eq!((outcome.end, steps), (End::Exhaustive, None), "{config:?}");
    }
}

#[test]
fn every_world_of_votes_has_a_name_of_its_own() {
    let mut ids: Vec<&str> = all().iter().map(|named| named.id).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
}
