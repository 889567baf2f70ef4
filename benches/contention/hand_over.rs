//! A lock that goes from one process to another while nothing else happens: from the release to the next section.

use std::time::Duration;

use crate::{
    bench::Bench,
    contest::{Load, spawn},
    load::Result,
    report::{Bound, Findings, Unit, quantile},
    turns::SECTION,
};

const SPAN: Duration = Duration::from_secs(5);

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let before = bench.round_trip(SECTION).await?;
    let load = Load { case: "serial", tasks: 1, processes: 2, span: bench.wishes.span(SPAN), slice: None };
    let said = spawn(bench, "turns", load, "bench:barrier:turns").await?;
    let round_trip = (before + bench.round_trip(SECTION).await?) / 2;
    let mut sections = Vec::new();
    for (process, said) in said.iter().enumerate() {
        for line in said.lines() {
            let (entered, left) = line.split_once(' ').ok_or("a section has two times")?;
            sections.push((entered.parse::<i64>()?, left.parse::<i64>()?, process));
        }
    }
    sections.sort_unstable();
    let mut gaps = Vec::new();
    let mut violations = 0;
    for two in sections.windows(2) {
        let ((_, left, one), (entered, _, other)) = (two[0], two[1]);
        match u64::try_from(entered - left) {
            // Back to the same process is no hand-over.
            Ok(gap) if one != other => gaps.push(Duration::from_nanos(gap)),
            Ok(_) => {}
            Err(_) => violations += 1,
        }
    }
    let title =
        format!("two processes take turns, {} of {} sections after the other one's", gaps.len(), sections.len());
    let mut findings = Findings::new("hand-over", 1, title);
    findings.time("one round trip (a raw EVALSHA after such a pause), p50", round_trip);
    findings.time("one round trip without a pause, p50", bench.round_trip(Duration::ZERO).await?);
    findings.time("from the release to the section, p50", quantile(&mut gaps, 0.5));
    findings.time("from the release to the section, p99", quantile(&mut gaps, 0.99));
    let trips = quantile(&mut gaps, 0.5).as_secs_f64() / round_trip.as_secs_f64();
    findings.maybe(
        "from the release to the section, in idle round trips, p50",
        Unit::Ratio,
        (!gaps.is_empty()).then_some(trips),
        Bound::AtMost(3.0),
    );
    findings.sound(f64::from(violations), 0.0);
    Ok(findings)
}
