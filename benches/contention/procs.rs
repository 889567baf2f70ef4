//! Several processes, each with many tasks, one name: throughput, and whether each process gets its share.

use std::time::Duration;

use crate::{
    bench::Bench,
    contest::{Contest, Load, Run, Who},
    hot::{rates, soundness},
    load::Result,
    report::{Bound, Findings, Unit},
};

/// One round, since a share shows only after many slices.
const SPAN: Duration = Duration::from_secs(10);
const PROCESSES: usize = 4;

/// Twelve of the slices that are usual.
const LONGEST_WAIT: Bound = Bound::AtMost(0.120);

/// The slices among which the default was chosen, in milliseconds.
const SLICES_MS: &[u64] = &[1, 2, 5, 10, 20, 50];

/// What a slice gives and takes: throughput, and how long the other processes wait.
pub(crate) async fn slices(bench: &Bench) -> Result<Vec<Findings>> {
    let tasks = bench.wishes.tasks(16, 4);
    let processes = if bench.wishes.measured { PROCESSES } else { 2 };
    let mut all = Vec::new();
    for slice_ms in if bench.wishes.measured { SLICES_MS } else { &SLICES_MS[..1] } {
        let slice = Some(Duration::from_millis(*slice_ms));
        let load = Load { case: "procs", tasks, processes, span: bench.wishes.span(SPAN), slice };
        let contest = Contest::hold(bench, &[(Who::Ours, load)], 1).await?;
        let mut findings = Findings::new("slices", tasks, format!("a slice of {slice_ms} ms, {processes} processes"));
        rates(&mut findings, &contest, Who::Ours);
        let fair = contest.least(Who::Ours, Run::process_fairness);
        findings.note("least to most served process", Unit::Ratio, fair);
        findings.note("EVALSHA a section", Unit::Count, contest.most(Who::Ours, Run::evalsha));
        soundness(&mut findings, &contest, Who::Ours);
        all.push(findings);
    }
    Ok(all)
}

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let tasks = bench.wishes.tasks(16, 4);
    let processes = if bench.wishes.measured { PROCESSES } else { 2 };
    let load = Load { case: "procs", tasks, processes, span: bench.wishes.span(SPAN), slice: None };
    let raw = Load { case: "serial", tasks: 1, processes: 1, span: load.span / 5, slice: None };
    let entries = [(Who::Ours, load), (Who::Rslock, load), (Who::Rlock, load), (Who::Raw, raw)];
    let contest = Contest::hold(bench, &entries, 1).await?;
    let title = format!("{processes} processes of as many tasks, one name, {:.1} s", load.span.as_secs_f64());
    let mut findings = Findings::new("procs", tasks, title);
    rates(&mut findings, &contest, Who::Ours);
    let ratio = contest.ratio_to_peers(Who::Ours);
    findings.maybe("sections a second to the best of rslock and rlock", Unit::Ratio, ratio, Bound::AtLeast(10.0));
    let fair = contest.least(Who::Ours, Run::process_fairness);
    findings.bounded("least to most served process", Unit::Ratio, fair, Bound::AtLeast(0.8));
    let longest = contest.most(Who::Ours, |run| run.most("max_wait_us") / 1e6);
    findings.bounded("longest wait, of 12 slices", Unit::Seconds, longest, LONGEST_WAIT);
    findings.note("EVALSHA a section", Unit::Count, contest.most(Who::Ours, Run::evalsha));
    soundness(&mut findings, &contest, Who::Ours);
    Ok(findings)
}
