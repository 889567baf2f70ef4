//! Takes one rule out of the library at a time, in a copy, and sees who misses it: `cargo run -p mutants`.
//!
//! ```text
//! mutants [NAME…]    these mutants, or all of them: those of the explorer first, which are soon found
//!     --explored     those that the explorer must find
//!     --simulated    those that a simulation must find
//!     --scripts      those of scripts, for which little is built
//!     --turns        those that the tests of distances must find
//! ```
//!
//! `RELATCH_SIM_SECS` says for how long a simulation looks for one at most, in place of two minutes.
//!
//! What people read has no switch for this: a rule is taken out by a patch of text that must apply exactly once, to a file of the
//! state, of the engine, of the backend, or to a script. The table that it prints is that of `tests/mutants.md`.

mod build;
mod copy;
mod hunt;
mod mutant;
mod run;
mod table;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
};

use self::{
    copy::Copy,
    hunt::Found,
    mutant::{By, Mutant, Simulation},
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match chosen(&args).and_then(|chosen| hunt_all(&chosen).map_err(|error| format!("they cannot be run: {error}"))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(complaint) => {
            eprintln!("{complaint}");
            ExitCode::from(2)
        }
    }
}

/// Those that were asked for, in the order of the table.
fn chosen(args: &[String]) -> Result<Vec<&'static Mutant>, String> {
    let is_asked = |mutant: &Mutant, arg: &str| match arg {
        "--explored" => matches!(mutant.by, By::Explorer(_)),
        "--simulated" => matches!(mutant.by, By::Simulation(_)),
        "--scripts" => mutant.is_of_script(),
        "--turns" => matches!(mutant.by, By::Distances),
        name => mutant.name == name,
    };
    if let Some(unknown) = args.iter().find(|arg| !table::all().any(|mutant| is_asked(mutant, arg))) {
        return Err(format!("there is no mutant {unknown:?}"));
    }
    Ok(table::all().filter(|mutant| args.is_empty() || args.iter().any(|arg| is_asked(mutant, arg))).collect())
}

/// Prints who is found by what. Whether all of them are, and nothing is found where no rule is taken out.
fn hunt_all(chosen: &[&Mutant]) -> io::Result<bool> {
    let copy = Copy::new()?;
    let (mut missed, mut last) = (Vec::new(), BTreeMap::<Simulation, u64>::new());
    println!("| mutant | what it does wrong | found by | how |\n| --- | --- | --- | --- |");
    for mutant in chosen {
        // What runs a script reads it: it is built before there is a fault.
        let built = if mutant.is_of_script() { Some(hunt::build(&copy, mutant.by)?) } else { None };
        let found = copy.mutated(mutant, |copy| match built.map_or_else(|| hunt::build(copy, mutant.by), Ok)? {
            Ok(program) => hunt::hunt(copy, &program, mutant.by),
            Err(complaint) => Ok(Err(complaint)),
        })?;
        match found {
            Ok(Found { by, how, seed }) => {
                println!("| `{}` | {} | {by} | {how} |", mutant.name, mutant.fault);
                if let (By::Simulation(simulation), Some(seed)) = (mutant.by, seed) {
                    let last = last.entry(simulation).or_default();
                    *last = seed.max(*last);
                }
            }
            Err(why) => {
                println!("| `{}` | {} | NOBODY | {why} |", mutant.name, mutant.fault);
                missed.push(mutant.name);
            }
        }
        io::stdout().flush()?;
    }
    println!("\n{} of {} are found", chosen.len() - missed.len(), chosen.len());
    if !missed.is_empty() {
        println!("missed: {}", missed.join(", "));
    }
    let sound = hunt::is_sound(&copy, &last, chosen.iter().any(|mutant| matches!(mutant.by, By::Distances)))?;
    Ok(missed.is_empty() && sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_or_names_can_be_asked_for_and_what_is_no_mutant_is_refused() {
        let asked = |args: &[&str]| {
            chosen(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
                .map(|chosen| chosen.iter().map(|mutant| mutant.name).collect::<Vec<_>>())
        };
        assert_eq!(asked(&["gone-is-lost"]), Ok(vec!["gone-is-lost"]));
        assert!(asked(&["gone-is-forgotten"]).is_err_and(|complaint| complaint.contains("gone-is-forgotten")));
        let groups =
            ["--explored", "--simulated", "--turns"].map(|group| asked(&[group]).map_or(0, |names| names.len()));
        assert_eq!(Ok(groups.iter().sum()), asked(&[]).map(|all| all.len()));
        assert!(groups.iter().all(|group| *group > 0));
    }
}
