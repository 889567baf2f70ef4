//! One task, one name that nobody else wants: what the engine adds to two round trips.

use std::time::{Duration, Instant};

use crate::{
    Bench, Result,
    raw::round,
    report::{line, median, micros, percentile, title},
};

const ROUNDS: u32 = 20;

/// Alternates with so many pairs at a time, so that both sides see the same weather.
pub(crate) async fn run(bench: &Bench) -> Result<()> {
    let span = round(bench.span, ROUNDS);
    let mut raw = bench.raw.clone();
    let lock = bench.client.lock("serial");
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for warm in [true, false] {
        for _ in 0..if warm { 1 } else { ROUNDS } {
            let mut raw_round = Vec::new();
            let started = Instant::now();
            while started.elapsed() < span {
                let sent = Instant::now();
                raw.pair("serial-raw").await?;
                raw_round.push(sent.elapsed());
            }
            let mut our_round = Vec::new();
            let started = Instant::now();
            while started.elapsed() < span {
                let sent = Instant::now();
                lock.lock().await?.unlock().await?;
                our_round.push(sent.elapsed());
            }
            if !warm {
                ratios.push(mean(&our_round) / mean(&raw_round));
                theirs.append(&mut raw_round);
                ours.append(&mut our_round);
            }
        }
    }
    title(format!("serial: one task, lock and unlock, {} pairs beside {} raw ones", ours.len(), theirs.len()));
    for percent in [50, 99] {
        let (ours, theirs) = (percentile(&mut ours, percent), percentile(&mut theirs, percent));
        line(&format!("p{percent}"), micros(ours));
        line(&format!("p{percent} of two raw EVALSHA"), micros(theirs));
        line(&format!("p{percent}, ratio"), format!("{:.3}", ours.as_secs_f64() / theirs.as_secs_f64()));
    }
    line("pair to two raw EVALSHA, median of rounds", format!("{:.3}", median(ratios)));
    Ok(())
}

fn mean(samples: &[Duration]) -> f64 {
    samples.iter().map(Duration::as_secs_f64).sum::<f64>() / samples.len() as f64
}
