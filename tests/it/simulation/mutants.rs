//! The proof that the simulation bites: each known fault of the library is found by it, and without one the same seeds
//! find nothing. There is one only in a build with `--cfg relatch_mutants`.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use relatch::mutants::{self, Mutant};

use super::{Complained, Outcome, asked, many, watched};

/// So many seeds are tried at most, unless the environment says otherwise.
const MOST: u64 = 2_000;

/// What became of one mutant.
struct Hunt {
    mutant: &'static Mutant,
    /// The first seed that found it, and what was complained of.
    found: Option<(u64, String)>,
}

fn hunt(mutant: &'static Mutant, most: u64) -> Hunt {
    mutants::become_one(Some(mutant));
    let found = (1..=most).find_map(|seed| {
        let complaint = match catch_unwind(AssertUnwindSafe(|| watched(seed, false))) {
            Ok(Outcome { complaint, .. }) => complaint?.rule.to_owned(),
            Err(_) => "the library panicked".to_owned(),
        };
        Some((seed, complaint))
    });
    mutants::become_one(None);
    Hunt { mutant, found }
}

/// All of them, on two threads.
fn hunt_all(most: u64, only: Option<&str>) -> Vec<Hunt> {
    let wanted = |mutant: &&Mutant| only.is_none_or(|only| only.split(',').any(|name| name == mutant.name));
    let all: Vec<&'static Mutant> = mutants::all().iter().filter(wanted).collect();
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut hunts = Vec::new();
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let hunt = hunt(mutant, most);
            eprintln!("{}: {:?}", mutant.name, hunt.found);
            hunts.push(hunt);
        }
        hunts
    };
    let mut hunts: Vec<Hunt> = thread::scope(|scope| {
        let lanes = [scope.spawn(lane), scope.spawn(lane)];
        lanes.into_iter().flat_map(|lane| lane.join().expect("no lane panics")).collect()
    });
    hunts.sort_by_key(|hunt| all.iter().position(|mutant| mutant.name == hunt.mutant.name));
    hunts
}

#[test]
fn each_mutant_is_found() {
    let most = asked("RELATCH_SIM_SEEDS").unwrap_or(MOST);
    let only = std::env::var("RELATCH_SIM_MUTANTS").ok();
    let hunts = hunt_all(most, only.as_deref());
    println!("| mutant | what it does wrong | found at seed | by this complaint |\n| --- | --- | --- | --- |");
    for Hunt { mutant: Mutant { name, fault, .. }, found } in &hunts {
        let (seed, by) = match found {
            Some((seed, by)) => (format!("{seed} of {most}"), by.as_str()),
            None => (format!("none of {most}"), "–"),
        };
        println!("| `{name}` | {fault} | {seed} | {by} |");
    }
    let missed: Vec<_> = hunts.iter().filter(|hunt| hunt.found.is_none()).map(|hunt| hunt.mutant.name).collect();
    let found = hunts.iter().filter_map(|hunt| hunt.found.as_ref());
    let last = found.map(|(seed, _)| *seed).max().unwrap_or(0);
    assert!(missed.is_empty(), "not found: {missed:?}");
    let sound = many(1, last, None, Complained::Stop);
    assert!(sound.reports.is_empty(), "{}", sound.reports.join("\n\n"));
    println!("\n{0} of {0} are found; without one nothing is in these {last} seeds", hunts.len());
}
