//! Sees who misses a rule: worlds of the explorer, seeds of a simulation, or tests.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    build,
    copy::Copy,
    mutant::{By, Simulation},
    run::{Ended, Ran, run},
};

/// A world that has found nothing by then does not count as one that finds it.
const WORLD_SECS: u64 = 60;

/// So many seeds of a simulation are tried at most, and for so long.
const SEEDS: u64 = 2_000;
const SIMULATION_SECS: u64 = 120;

/// Or for as long as this says.
const SECS: &str = "RELATCH_SIM_SECS";

/// A simulation is given so much more than it asks for: one of its seeds may stand still until that is noticed.
const GRACE: Duration = Duration::from_secs(90);

/// In the tests of distances these are of turns.
const TURNS: &str = "have_their_turn";
const TURNS_SECS: u64 = 300;

/// How a mutant was found.
pub(crate) struct Found {
    pub(crate) by: String,
    pub(crate) how: String,
    /// The seed that found it.
    pub(crate) seed: Option<u64>,
}

/// What is to find it, or why that does not compile.
pub(crate) fn build(copy: &Copy, by: By) -> io::Result<Result<PathBuf, String>> {
    match by {
        By::Explorer(_) => build::explorer(copy),
        By::Simulation(_) => build::test(copy, "simulated"),
        By::Distances => build::test(copy, "apart"),
    }
}

/// How it is found, or why it is not.
pub(crate) fn hunt(copy: &Copy, program: &Path, by: By) -> io::Result<Result<Found, String>> {
    match by {
        By::Explorer(worlds) => explore(copy, program, worlds),
        By::Simulation(simulation) => simulate(copy, program, simulation, SEEDS),
        By::Distances => measure(copy, program),
    }
}

/// Whether nothing is found where no rule is missing, in as many seeds as found one. The worlds of the explorer are explored by
/// `tests/run.sh` without one.
pub(crate) fn is_sound(copy: &Copy, seeds: &BTreeMap<Simulation, u64>, turns: bool) -> io::Result<bool> {
    let mut hunts = Vec::new();
    for (&simulation, &seeds) in seeds {
        let program = build(copy, By::Simulation(simulation))?.map_err(io::Error::other)?;
        hunts.push((simulation.called(), simulate(copy, &program, simulation, seeds)?));
    }
    if turns {
        let program = build(copy, By::Distances)?.map_err(io::Error::other)?;
        hunts.push(("distances", measure(copy, &program)?));
    }
    for (by, hunt) in &hunts {
        let said = hunt.as_ref().map_or_else(String::clone, |found| format!("{} is found, {}", found.how, found.by));
        println!("without any of these faults: {said} ({by})");
    }
    Ok(hunts.iter().all(|(_, hunt)| hunt.is_err()))
}

fn explore(copy: &Copy, program: &Path, worlds: &[&str]) -> io::Result<Result<Found, String>> {
    for world in worlds {
        let mut command = Command::new(program);
        command.args([world, "--secs", &WORLD_SECS.to_string()]);
        let ran = run(command, Duration::from_secs(WORLD_SECS * 2), &copy.folder)?;
        if let Some(how) = broken(&ran, world) {
            return Ok(Ok(Found { by: format!("explorer, `{world}`"), how, seed: None }));
        }
    }
    Ok(Err(format!("no complaint in {}", worlds.join(", "))))
}

/// How a world is broken.
fn broken(ran: &Ran, world: &str) -> Option<String> {
    if ran.ended == Ended::Killed {
        return Some("goes on for ever".to_owned());
    }
    let row = ran.said.lines().find(|line| line.starts_with(&format!("| {world} |")))?;
    row.split(" | ").find_map(|cell| cell.strip_prefix("BROKEN ")).map(str::to_owned)
}

fn simulate(copy: &Copy, program: &Path, simulation: Simulation, seeds: u64) -> io::Result<Result<Found, String>> {
    let secs = std::env::var(SECS).ok().and_then(|secs| secs.parse().ok()).unwrap_or(SIMULATION_SECS);
    let mut command = Command::new(program);
    command
        .args([simulation.test(), "--exact", "--nocapture"])
        .current_dir(&copy.folder)
        .env("RELATCH_SIM_SEEDS", seeds.to_string())
        .env(SECS, secs.to_string());
    let ran = run(command, Duration::from_secs(secs) + GRACE, &copy.folder)?;
    let found = |seed: Option<u64>, how: &str| {
        let seed_of = seed.map_or_else(String::new, |seed| format!(", seed {seed}"));
        Ok(Ok(Found { by: format!("{}{seed_of}", simulation.called()), how: how.to_owned(), seed }))
    };
    match ran.ended {
        Ended::Killed => found(None, "goes on for ever"),
        Ended::Badly => match complaint(&ran.said) {
            Some((seed, how)) => found(Some(seed), &how),
            None => found(None, "the library panicked"),
        },
        Ended::Well => Ok(Err(format!("no complaint in {} seeds", seeds_of(&ran.said).unwrap_or(seeds)))),
    }
}

/// The complaint of the first seed that has one. A report begins with its rule, and ends with its seed.
fn complaint(said: &str) -> Option<(u64, String)> {
    let said = &said[said.rfind("panicked at ")?..];
    let (mut reports, mut first) = (&said[said.find('\n')? + 1..], None);
    while let Some((report, rest)) = reports.split_once("RELATCH_SIM_SEED=") {
        let rule = report.lines().next()?.split(": ").next()?;
        let seed = rest.split(|it: char| !it.is_ascii_digit()).next()?;
        let this = (seed.parse().ok()?, rule.to_owned());
        first = Some(first.map_or_else(|| this.clone(), |first: (u64, String)| first.min(this.clone())));
        reports = rest[seed.len()..].trim_start();
    }
    first
}

/// How many there were: `12 seeds in 3.4s: …`.
fn seeds_of(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once(" seeds in ")?.0.rsplit(' ').next()?.parse().ok())
}

fn measure(copy: &Copy, program: &Path) -> io::Result<Result<Found, String>> {
    let mut command = Command::new(program);
    command.args([TURNS, "--test-threads=2"]).current_dir(&copy.folder);
    let ran = run(command, Duration::from_secs(TURNS_SECS), &copy.folder)?;
    if ran.ended == Ended::Killed {
        return Ok(Ok(Found { by: "distances".to_owned(), how: "goes on for ever".to_owned(), seed: None }));
    }
    let failed =
        ran.said.lines().find_map(|line| line.strip_prefix("test it::distances::")?.strip_suffix(" ... FAILED"));
    Ok(match failed {
        Some(test) => Ok(Found { by: "distances".to_owned(), how: format!("`{test}`"), seed: None }),
        None if ran.ended == Ended::Well => Err("all tests of turns pass".to_owned()),
        None => Ok(Found { by: "distances".to_owned(), how: "the library panicked".to_owned(), seed: None }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_of_the_first_seed_is_found_in_what_a_simulation_says() {
        let said = "thread 'a' panicked at tests/it/simulation.rs:9:5:\n\
            two believe in one name: A, and B, at 2.1s\n2.0 something\nAgain with RELATCH_SIM_SEED=7\n\n\
            a task is left: 1, at 2.1s\n\nAgain with RELATCH_SIM_SEED=12\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(complaint(said), Some((7, "two believe in one name".to_owned())));
        assert_eq!(complaint("thread 'a' panicked at src/lib.rs:1:1:\nno lane panics: Any"), None);
        assert_eq!(seeds_of("running 1 test\n104 seeds in 2.5s: 7 sections"), Some(104));
    }

    #[test]
    fn a_world_is_broken_where_its_row_says_so_or_it_never_ends() {
        let ran = |ended, said: &str| Ran { ended, said: said.to_owned() };
        let row = "| m1 | A, X | 12 | 30 | 4 | BROKEN after 4 steps: OneBeliever | 0.1 | 120 |\n";
        assert_eq!(broken(&ran(Ended::Badly, row), "m1").as_deref(), Some("after 4 steps: OneBeliever"));
        assert_eq!(broken(&ran(Ended::Well, "| m1 | A, X | 12 | 30 | 4 | exhaustive | 0.1 | 120 |"), "m1"), None);
        assert_eq!(broken(&ran(Ended::Killed, ""), "m1").as_deref(), Some("goes on for ever"));
    }
}
