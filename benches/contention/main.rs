//! What a lock costs and how many go through it, beside the same scripts sent raw and beside other libraries, on one
//! server in one run. Latency with criterion's care is in `latency`.
//!
//! ```text
//! cargo bench --bench contention                                        # all cases, then the table
//! cargo bench --bench contention -- --case hot --tasks 64 --secs 10
//! cargo bench --bench contention -- --case curve --json | benches/plot.py > benches/sections.svg
//! ```
//!
//! Figures are ratios to a baseline, or stand beside one: both sides take turns. What has a bound says whether it was
//! kept. `benches/peers` is built first where a case asks for it; without it the rows about other libraries say that
//! they were not measured. Without cargo's own `--bench`, as in `cargo test --benches`, each case runs for a moment
//! only, to see that it works.

#[path = "../load/mod.rs"]
mod load;
#[path = "../load/ours.rs"]
mod ours;

mod bench;
mod contest;
mod deployment;
mod distinct;
mod dropping;
mod elsewhere;
mod hand_over;
mod hot;
mod libraries;
mod masters;
mod peers;
mod preheld;
mod procs;
mod raw;
mod relinked;
mod renew;
mod report;
mod serial;
mod server;
mod token;
mod topologies;
mod turns;
mod waiters;
mod wishes;

use std::{env, process::exit, sync::Arc};

use tokio::runtime::Runtime;

use crate::{
    bench::Bench,
    load::Result,
    report::Report,
    wishes::{Case, Wishes},
};

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let child = args.iter().any(|arg| arg == "--redis");
    if !child {
        server::leave_a_cpu();
    }
    let runtime = Runtime::new()?;
    // A child does its work in a task, as each case does below.
    runtime.block_on(async { if child { tokio::spawn(libraries::run(args)).await? } else { measure(args).await } })
}

async fn measure(args: Vec<String>) -> Result<()> {
    let wishes = Wishes::read(args.into_iter())?;
    let mut report = Report::new(wishes.json);
    let bench = Arc::new(Bench::start(wishes).await?);
    report.begins(&bench.machine());
    for case in bench.wishes.cases() {
        // In a task, as a service locks: the thread of `main` would be woken by another one each time.
        match tokio::spawn(run(Arc::clone(&bench), case)).await? {
            Ok(all) => all.into_iter().for_each(|findings| report.add(findings)),
            // The others are measured all the same.
            Err(error) => report.failed(case.name(), &error.to_string()),
        }
    }
    let sound = report.ends(&bench.machine());
    bench.client.close().await;
    drop(bench);
    if !sound {
        exit(1);
    }
    Ok(())
}

async fn run(bench: Arc<Bench>, case: Case) -> Result<Vec<report::Findings>> {
    Ok(match case {
        Case::Serial => vec![serial::alone(&bench).await?],
        Case::Nested => vec![serial::nested(&bench).await?],
        Case::Fenced => vec![serial::fenced(&bench).await?],
        Case::Token => vec![token::run(&bench).await?],
        Case::Drop => vec![dropping::run(&bench).await?],
        Case::Distinct => vec![distinct::run(&bench).await?],
        Case::Hot => hot::run(&bench).await?,
        Case::Leased => vec![hot::leased(&bench).await?],
        Case::Hold => vec![hot::hold(&bench).await?],
        Case::Procs => vec![procs::run(&bench).await?],
        Case::HandOver => vec![hand_over::run(&bench).await?],
        Case::Renew => vec![renew::run(&bench).await?],
        Case::Waiters => vec![waiters::run(&bench).await?],
        Case::Preheld => vec![preheld::run(&bench).await?],
        Case::Elsewhere => elsewhere::run(&bench).await?,
        Case::Relinked => relinked::run(&bench).await?,
        Case::Masters => masters::run(&bench).await?,
        Case::Topologies => topologies::run(&bench).await?,
        Case::Curve => hot::curve(&bench).await?,
        Case::Slices => procs::slices(&bench).await?,
    })
}
