//! Many tasks, each with a name of its own: how much of the driver's throughput is left.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{
    Bench, Result,
    raw::round,
    report::{line, median, title},
};

const ROUNDS: u32 = 10;

/// Both sides have as many tasks, and one multiplexed connection.
pub(crate) async fn run(bench: &Bench) -> Result<()> {
    let span = round(bench.span, ROUNDS);
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for warm in [true, false] {
        for _ in 0..if warm { 1 } else { ROUNDS } {
            let raw = raw_round(bench, span).await?;
            let our = our_round(bench, span).await?;
            if !warm {
                ratios.push(our / raw);
                theirs.push(raw);
                ours.push(our);
            }
        }
    }
    title(format!("distinct: {} tasks, a name each, one client", bench.tasks));
    line("pairs a second", format!("{:.0}", median(ours)));
    line("pairs a second of two raw EVALSHA", format!("{:.0}", median(theirs)));
    line("ratio, median of rounds", format!("{:.3}", median(ratios)));
    Ok(())
}

async fn raw_round(bench: &Bench, span: Duration) -> Result<f64> {
    let mut tasks: JoinSet<Result<u64>> = JoinSet::new();
    let started = Instant::now();
    for task in 0..bench.tasks {
        let (mut raw, name) = (bench.raw.clone(), format!("distinct-raw-{task}"));
        tasks.spawn(async move {
            let mut pairs = 0;
            while started.elapsed() < span {
                raw.pair(&name).await?;
                pairs += 1;
            }
            Ok(pairs)
        });
    }
    rate(tasks, started).await
}

async fn our_round(bench: &Bench, span: Duration) -> Result<f64> {
    let mut tasks: JoinSet<Result<u64>> = JoinSet::new();
    let started = Instant::now();
    for task in 0..bench.tasks {
        let lock = bench.client.lock(format!("distinct-{task}"));
        tasks.spawn(async move {
            let mut pairs = 0;
            while started.elapsed() < span {
                lock.lock().await?.unlock().await?;
                pairs += 1;
            }
            Ok(pairs)
        });
    }
    rate(tasks, started).await
}

async fn rate(mut tasks: JoinSet<Result<u64>>, started: Instant) -> Result<f64> {
    let mut pairs = 0;
    while let Some(done) = tasks.join_next().await {
        pairs += done??;
    }
    Ok(pairs as f64 / started.elapsed().as_secs_f64())
}
