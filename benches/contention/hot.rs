//! Many tasks, one name: how fast it goes round, how fairly, and whether it excludes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::{JoinSet, yield_now};

use crate::{
    Bench, Result,
    raw::round,
    report::{line, median, micros, percentile, title},
};

const ROUNDS: u32 = 5;

/// A counter that only a lock can keep right: it is read and written in two steps, with an await between.
#[derive(Default)]
struct Cell(AtomicU64);

impl Cell {
    async fn add_one(&self) {
        let seen = self.0.load(Ordering::Relaxed);
        yield_now().await;
        self.0.store(seen + 1, Ordering::Relaxed);
    }
}

/// What all rounds saw.
#[derive(Default)]
struct Seen {
    sections_a_second: Vec<f64>,
    raw_pairs_a_second: Vec<f64>,
    ratios: Vec<f64>,
    waits: Vec<Duration>,
    /// Of each round, the least served task's share of the most served one's.
    fairness: Vec<f64>,
    sections: u64,
    evalsha: u64,
    violations: u64,
}

pub(crate) async fn run(bench: &Bench) -> Result<()> {
    let span = round(bench.span, ROUNDS);
    let mut raw = bench.raw.clone();
    let mut seen = Seen::default();
    for _ in 0..ROUNDS {
        let (started, mut pairs) = (Instant::now(), 0_u32);
        while started.elapsed() < span {
            raw.pair("hot-raw").await?;
            pairs += 1;
        }
        let raw_rate = f64::from(pairs) / started.elapsed().as_secs_f64();
        raw.forget_calls().await?;
        let rate = sections(bench, span, &mut seen).await?;
        seen.evalsha += raw.evalsha_calls().await?;
        seen.ratios.push(rate / raw_rate);
        seen.sections_a_second.push(rate);
        seen.raw_pairs_a_second.push(raw_rate);
    }
    let longest = seen.waits.iter().max().copied().unwrap_or_default();
    title(format!("hot: {} tasks, one name, one client, {} sections", bench.tasks, seen.sections));
    line("sections a second", format!("{:.0}", median(seen.sections_a_second)));
    line("two raw EVALSHA by one task, a second", format!("{:.0}", median(seen.raw_pairs_a_second)));
    line("ratio, median of rounds", format!("{:.2}", median(seen.ratios)));
    line("wait, p50", micros(percentile(&mut seen.waits, 50)));
    line("wait, p99", micros(percentile(&mut seen.waits, 99)));
    line("wait, longest of all", micros(longest));
    line("least to most served task, worst round", format!("{:.3}", least(&seen.fairness)));
    line("EVALSHA a section", format!("{:.4}", seen.evalsha as f64 / seen.sections as f64));
    line("violations of exclusion", seen.violations.to_string());
    line("keys left on the server", raw.keys().await?.to_string());
    Ok(())
}

/// One round of ours; gives its sections a second.
async fn sections(bench: &Bench, span: Duration, seen: &mut Seen) -> Result<f64> {
    let cell = Arc::new(Cell::default());
    let mut tasks: JoinSet<Result<Vec<Duration>>> = JoinSet::new();
    let started = Instant::now();
    for _ in 0..bench.tasks {
        let (lock, cell) = (bench.client.lock("hot"), Arc::clone(&cell));
        tasks.spawn(async move {
            let mut waits = Vec::new();
            while started.elapsed() < span {
                let asked = Instant::now();
                let guard = lock.lock().await?;
                waits.push(asked.elapsed());
                cell.add_one().await;
                guard.unlock().await?;
            }
            Ok(waits)
        });
    }
    let mut served = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let mut waits = done??;
        served.push(waits.len() as f64);
        seen.waits.append(&mut waits);
    }
    let sections = served.iter().sum::<f64>();
    let most = served.iter().copied().fold(0.0, f64::max);
    seen.fairness.push(least(&served) / most);
    seen.sections += sections as u64;
    seen.violations += sections as u64 - cell.0.load(Ordering::Relaxed);
    Ok(sections / started.elapsed().as_secs_f64())
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}
