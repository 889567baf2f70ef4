//! Explores the worlds of `src/state/explore/` and prints what was met: `cargo run --profile checked -p explore`.
//!
//! ```text
//! explore [ID…]            these worlds, or all of them
//!     --cap N              so many states of each are enough
//!     --secs N             all of them together take no longer; 90 if nothing is said
//!     --threads N          2 if nothing is said
//!     --trace ID           this world, and each world on the way to what is found as it is
//! explore fair             fixed latencies: how often is a far process overtaken
//! ```
//!
//! `RELATCH_EXPLORE=full` explores each world to its end, or to its cap where it has one, however long that takes, and whatever
//! `--secs` says.

// It knows more ways to ask for a name's state than the explorer takes.
#[allow(dead_code, unused_imports)]
#[path = "../../../src/state/mod.rs"]
mod state;

#[path = "../../../src/state/explore/mod.rs"]
mod explore;

mod args;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod other_search;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod stories;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use self::{
    args::{Args, Task},
    explore::{End, Limits, Named, Outcome, Story, all, search},
};

fn main() -> ExitCode {
    let args = match Args::read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(complaint) => {
            eprintln!("{complaint}");
            return ExitCode::from(2);
        }
    };
    let kept = match args.task {
        Task::Worlds => {
            // What panics in a world is a finding, and is told with its story.
            std::panic::set_hook(Box::new(|_| {}));
            explore_all(&args)
        }
        Task::Fair => {
            print!("{}", explore::fair::table());
            true
        }
    };
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether every promise was kept.
fn explore_all(args: &Args) -> bool {
    let began = Instant::now();
    let chosen: Vec<Named> =
        all().into_iter().filter(|it| args.ids.is_empty() || args.ids.iter().any(|id| id == it.id)).collect();
    let (mut states, mut kept, mut left) = (0, true, chosen.len());
    println!("| world | what | states | steps | depth | end | s | states a second |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for Named { id, what, config } in chosen {
        // What small worlds do not need is for those that follow.
        let time = args.time.map(|time| time.saturating_sub(began.elapsed()) / u32::try_from(left).unwrap_or(1));
        left -= 1;
        let limits = Limits { states: args.cap.unwrap_or(config.cap), time, threads: args.threads };
        let outcome = search(&config, limits);
        println!("{}", row(id, what, &outcome));
        states += outcome.states;
        if let Some((_, steps)) = outcome.broken {
            kept = false;
            let story = Story::of(&config, &steps);
            println!("\n{story}\n{}", story.as_test(id));
            if args.traced {
                println!("{}", story.whole_worlds());
            }
        }
    }
    println!("\n{states} states in {:.1} s: {:.0} a second", secs(began.elapsed()), rate(states, began.elapsed()));
    kept
}

fn row(id: &str, what: &str, outcome: &Outcome) -> String {
    let Outcome { states, transitions, depth, took, .. } = outcome;
    let end = match outcome.end {
        End::Exhaustive => "exhaustive".to_owned(),
        End::EnoughStates => "enough states".to_owned(),
        End::OutOfTime => "out of time".to_owned(),
        End::Broken => {
            let (promise, steps) = outcome
                .broken
                .as_ref()
                .map_or((String::new(), 0), |(promise, steps)| (format!("{promise:?}"), steps.len()));
            format!("BROKEN after {steps} steps: {promise}")
        }
    };
    let (took, rate) = (secs(*took), rate(*states, *took));
    format!("| {id} | {what} | {states} | {transitions} | {depth} | {end} | {took:.1} | {rate:.0} |")
}

fn secs(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn rate(states: usize, time: Duration) -> f64 {
    states as f64 / secs(time).max(1e-3)
}
