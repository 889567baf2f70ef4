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

mod quorum;

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
    fmt::Debug,
    process::ExitCode,
    time::{Duration, Instant},
};

use self::{
    args::{Args, Task},
    explore::{End, Limits, Named, Outcome, Story, Worlds, all, search, votes},
    quorum::ballot,
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
    let (names, votes) = (chosen(args, all()), chosen(args, votes::all()));
    let mut course = Course { args, began, left: names.len() + votes.len(), states: 0, kept: true };
    println!("| world | what | states | steps | depth | end | s | states a second |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for named in names {
        course.explore(&named, named.config.cap, |steps| {
            let story = Story::of(&named.config, steps);
            let whole = if args.traced { story.whole_worlds() } else { String::new() };
            format!("{story}\n{}\n{whole}", story.as_test(named.id))
        });
    }
    for named in votes {
        course.explore(&named, named.config.cap, |steps| votes::story(&named.config, steps));
    }
    let Course { states, kept, .. } = course;
    println!("\n{states} states in {:.1} s: {:.0} a second", secs(began.elapsed()), rate(states, began.elapsed()));
    kept
}

fn chosen<C>(args: &Args, all: Vec<Named<C>>) -> Vec<Named<C>> {
    all.into_iter().filter(|it| args.ids.is_empty() || args.ids.iter().any(|id| id == it.id)).collect()
}

/// How far the exploration of all worlds is.
struct Course<'a> {
    args: &'a Args,
    began: Instant,
    /// So many worlds are left.
    left: usize,
    states: usize,
    kept: bool,
}

impl Course<'_> {
    fn explore<C>(&mut self, named: &Named<C>, cap: usize, story: impl Fn(&[C::Step]) -> String)
    where
        C: Worlds<Promise: Debug>,
    {
        // What small worlds do not need is for those that follow.
        let left = u32::try_from(self.left).unwrap_or(1);
        let time = self.args.time.map(|time| time.saturating_sub(self.began.elapsed()) / left);
        self.left -= 1;
        let limits = Limits { states: self.args.cap.unwrap_or(cap), time, threads: self.args.threads };
        let outcome = search(&named.config, limits);
        println!("{}", row(named.id, named.what, &outcome));
        self.states += outcome.states;
        if let Some((_, steps)) = outcome.broken {
            self.kept = false;
            println!("\n{}", story(&steps));
        }
    }
}

fn row<W: Worlds<Promise: Debug>>(id: &str, what: &str, outcome: &Outcome<W>) -> String {
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
