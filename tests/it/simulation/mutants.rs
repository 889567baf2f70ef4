//! The proof that the simulation bites: each known fault of the library is found by it, and without one the same seeds
//! find nothing. There is one only in a build with `--cfg relatch_mutants`.

use std::{
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use relatch::mutants::{self, Mutant};

use super::{Complained, Servers, asked, many, watched};

/// So many seeds are tried at most, unless the environment says otherwise. It may name mutants, too, in `RELATCH_SIM_MUTANTS`:
/// of these it is shown what happened.
const MOST: u64 = 2_000;

/// Those that are found where servers are replaced, and not where there is one for ever.
const OF_NODES: [&str; 2] = ["new-server-is-asked", "grant-of-old-server-is-asked-for"];

fn servers(mutant: &Mutant) -> Servers {
    if mutants::of_jobs().iter().any(|of_jobs| of_jobs.name == mutant.name) {
        Servers::Fleet
    } else if OF_NODES.contains(&mutant.name) {
        Servers::Nodes
    } else {
        Servers::One
    }
}

/// What became of one mutant.
struct Hunt {
    mutant: &'static Mutant,
    /// The first seed that found it, and what was complained of.
    found: Option<(u64, String)>,
}

fn hunt(mutant: &'static Mutant, seeds: RangeInclusive<u64>, told: bool) -> Hunt {
    mutants::become_one(Some(mutant));
    let found = seeds.into_iter().find_map(|seed| {
        let complaint = match catch_unwind(AssertUnwindSafe(|| watched(servers(mutant), seed, false))) {
            Ok(outcome) => {
                let report = outcome.report(seed)?;
                if told {
                    eprintln!("{}: {report}", mutant.name);
                }
                outcome.complaint?.rule.to_owned()
            }
            Err(_) => "the library panicked".to_owned(),
        };
        Some((seed, complaint))
    });
    mutants::become_one(None);
    Hunt { mutant, found }
}

/// All of them, on two threads.
fn hunt_all(first: u64, most: u64, only: Option<&str>) -> Vec<Hunt> {
    let wanted = |mutant: &&Mutant| only.is_none_or(|only| only.split(',').any(|name| name == mutant.name));
    let all: Vec<&'static Mutant> = mutants::all().iter().chain(mutants::of_jobs()).filter(wanted).collect();
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut hunts = Vec::new();
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let hunt = hunt(mutant, first..=first + most - 1, only.is_some());
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
    let first = asked("RELATCH_SIM_FIRST").unwrap_or(1);
    let hunts = hunt_all(first, most, only.as_deref());
    println!("| mutant | what it does wrong | found at seed | by this complaint |\n| --- | --- | --- | --- |");
    for Hunt { mutant: Mutant { name, fault, .. }, found } in &hunts {
        let (seed, by) = match found {
            Some((seed, by)) => (format!("{seed} of {most}"), by.as_str()),
            None => (format!("none of {most}"), "–"),
        };
        println!("| `{name}` | {fault} | {seed} | {by} |");
    }
    let missed: Vec<_> = hunts.iter().filter(|hunt| hunt.found.is_none()).map(|hunt| hunt.mutant.name).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
    println!("\n{0} of {0} are found", hunts.len());
    for of in [Servers::One, Servers::Nodes, Servers::Fleet] {
        let found = hunts.iter().filter(|hunt| servers(hunt.mutant) == of).filter_map(|hunt| hunt.found.as_ref());
        let Some(last) = found.map(|(seed, _)| *seed).max() else { continue };
        let sound = many(of, first, last - first + 1, None, Complained::Stop);
        assert!(sound.reports.is_empty(), "{}", sound.reports.join("\n\n"));
        println!("without one nothing is in the {last} seeds of {of:?}");
    }
}
