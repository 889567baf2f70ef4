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
    let load = Load { case: "distinct", tasks, processes: 1, span: bench.wishes.span(SPAN) / rounds, slice: None };
    let all = [Who::Raw, Who::Ours, Who::Rslock, Who::Rlock];
    let contest = Contest::hold(bench, &all.map(|who| (who, load)), rounds).await?;
    let mut findings = Findings::new("distinct", tasks, "as many tasks, a name each, one client");
    for who in all {
        let Some(rate) = contest.median(who, Run::rate) else { continue };
        findings.note(format!("{}, pairs", who.name()), Unit::PerSecond, rate);
        let mut each = |what, unit, figure: fn(&Run) -> f64| {
            findings.note(format!("{}, {what}", who.name()), unit, contest.median(who, figure).unwrap_or(f64::NAN));
        };
        each("own CPU a pair", Unit::Seconds, Run::own_cpu);
        each("server CPU a pair", Unit::Seconds, Run::server_cpu);
        each("commands a pair", Unit::Count, Run::commands);
        each("p50", Unit::Seconds, |run| run.secs("p50_us"));
        each("p99", Unit::Seconds, |run| run.secs("p99_us"));
        each("p99.9", Unit::Seconds, |run| run.secs("p999_us"));
    }
    let ratio = contest.ratio(Who::Ours, Who::Raw);
    findings.maybe("pairs a second to two raw EVALSHA's", Unit::Ratio, ratio, Bound::AtLeast(0.95));
    let ratio = contest.ratio(Who::Ours, Who::Rslock);
    findings.maybe("stretch: pairs a second to rslock's", Unit::Ratio, ratio, Bound::AtLeast(1.0));
    if let Some(ratio) = contest.ratio_of(Run::own_cpu, Who::Ours, Who::Raw) {
        findings.note("own CPU a pair to two raw EVALSHA's", Unit::Ratio, ratio);
    }
    findings.sound(0.0, all.map(|who| contest.most(who, |run| run.sum("errors"))).into_iter().sum());
    Ok(findings)
}
