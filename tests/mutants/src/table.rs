//! The rules that are taken out, one at a time. Those that the explorer finds come first, since it finds them soon.

mod counts;
mod ends;
mod engine;
mod holds;
mod jobs;
mod scripts;
mod servers;
mod tries;
mod turns;
mod votes;

use super::mutant::{By, Mutant};

/// All of them, in the order in which they are printed.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    let explored = |mutant: &&Mutant| matches!(mutant.by, By::Explorer(_));
    each().filter(explored).chain(each().filter(move |mutant| !explored(mutant)))
}

fn each() -> impl Iterator<Item = &'static Mutant> {
    let tables = [
        tries::MUTANTS,
        holds::MUTANTS,
        counts::MUTANTS,
        ends::MUTANTS,
        servers::MUTANTS,
        engine::MUTANTS,
        scripts::MUTANTS,
        jobs::MUTANTS,
        turns::MUTANTS,
        votes::MUTANTS,
    ];
    tables.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::copy::{ROOT, SCRIPTS_ARE_READ};

    fn read(file: &str) -> String {
        fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default()
    }

    #[test]
    fn every_patch_applies_exactly_once() {
        let complaints: Vec<String> =
            all().chain([&SCRIPTS_ARE_READ]).filter_map(|mutant| mutant.apply(&read(mutant.file)).err()).collect();
        assert_eq!(complaints, Vec::<String>::new());
    }

    #[test]
    fn every_mutant_has_a_name_of_its_own_and_worlds_that_there_are() {
        let worlds =
            ["configs", "small", "votes/configs"].map(|file| read(&format!("src/state/explore/{file}.rs"))).concat();
        let mutants: Vec<_> = all().collect();
        for (at, mutant) in mutants.iter().enumerate() {
            assert!(mutants[..at].iter().all(|other| other.name != mutant.name), "{} twice", mutant.name);
            let By::Explorer(its) = mutant.by else { continue };
            assert!(!its.is_empty(), "{} is looked for nowhere", mutant.name);
            let there = |world: &&str| worlds.contains(&format!("\"{world}\","));
            assert!(its.iter().all(there), "{}: no such world", mutant.name);
        }
    }

    #[test]
    fn the_explorer_finds_most_of_the_faults_of_the_state() {
        assert!(all().filter(|mutant| matches!(mutant.by, By::Explorer(_))).count() >= 25);
    }
}
