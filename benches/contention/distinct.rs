//! Many tasks, each with a name of its own: how much of the driver's throughput is left, and what a pair costs the server.

use std::time::Duration;

use crate::{
    bench::Bench,
    contest::{Contest, Load, Run, Who},
    load::Result,
    report::{Bound, Findings, Unit},
};

const SPAN: Duration = Duration::from_secs(6);
const ROUNDS: u32 = 5;

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let tasks = bench.wishes.tasks(64, 64);
    let rounds = bench.wishes.rounds(ROUNDS);
    let load = Load { case: "distinct", tasks, processes: 1, span: bench.wishes.span(SPAN) / rounds };
    let all = [Who::Raw, Who::Ours, Who::Rslock, Who::Rlock];
    let contest = Contest::hold(bench, &all.map(|who| (who, load)), rounds).await?;
    let mut findings = Findings::new("distinct", tasks, "as many tasks, a name each, one client");
    for who in all {
        let Some(rate) = contest.median(who, Run::rate) else { continue };
        findings.note(format!("{}, pairs", who.name()), Unit::PerSecond, rate);
        findings.note(
            format!("{}, server CPU a pair", who.name()),
            Unit::Seconds,
            contest.median(who, Run::server_cpu).unwrap_or(f64::NAN),
        );
        findings.note(
            format!("{}, commands a pair", who.name()),
            Unit::Count,
            contest.median(who, Run::commands).unwrap_or(f64::NAN),
        );
        findings.note(format!("{}, p50", who.name()), Unit::Seconds, contest.most(who, |run| run.secs("p50_us")));
        findings.note(format!("{}, p99", who.name()), Unit::Seconds, contest.most(who, |run| run.secs("p99_us")));
    }
    let ratio = contest.ratio(Who::Ours, Who::Raw);
    findings.maybe("pairs a second to two raw EVALSHA's", Unit::Ratio, ratio, Bound::AtLeast(0.95));
    let ratio = contest.ratio(Who::Ours, Who::Rslock);
    findings.maybe("stretch: pairs a second to rslock's", Unit::Ratio, ratio, Bound::AtLeast(1.0));
    findings.sound(0.0, all.map(|who| contest.most(who, |run| run.sum("errors"))).into_iter().sum());
    Ok(findings)
}
