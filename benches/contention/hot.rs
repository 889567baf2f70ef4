//! Many tasks of one process, one name: how fast it goes round, how fairly, how long anybody waits, and whether it excludes.
//! More than one process is in `procs`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use relatch::Client;
use tokio::{runtime, task::JoinSet};

use crate::{
    bench::Bench,
    contest::{Contest, Load, Run, Who},
    load::Result,
    report::{Bound, Findings, Unit},
};

const SPAN: Duration = Duration::from_secs(6);
const ROUNDS: u32 = 3;

/// Once with few tasks and once with many.
pub(crate) async fn run(bench: &Bench) -> Result<Vec<Findings>> {
    let mut all = Vec::new();
    for usual in [16, 64] {
        let tasks = bench.wishes.tasks(usual, usual);
        let contest = contest(bench, "hot", tasks, Who::Ours).await?;
        let mut findings = Findings::new("hot", tasks, "as many tasks of one process, one name, empty sections");
        rates(&mut findings, &contest, Who::Ours);
        let ratio = contest.ratio_to_peers(Who::Ours);
        findings.maybe("sections a second to the best of rslock and rlock", Unit::Ratio, ratio, Bound::AtLeast(30.0));
        let longest = contest.most(Who::Ours, |run| run.secs("max_wait_us"));
        findings.bounded("longest wait of all rounds", Unit::Seconds, longest, Bound::AtMost(10e-3));
        let fair = contest.least(Who::Ours, |run| run.least("fair_ratio"));
        findings.bounded("least to most served task, worst round", Unit::Ratio, fair, Bound::AtLeast(0.9));
        let evalsha = contest.most(Who::Ours, Run::evalsha);
        findings.bounded("EVALSHA a section, worst round", Unit::Count, evalsha, Bound::AtMost(0.1));
        soundness(&mut findings, &contest, Who::Ours);
        all.push(findings);
        if tasks != usual || !bench.wishes.measured {
            break; // it was said how many
        }
    }
    Ok(all)
}

/// The same with leases that the watchdog leaves alone: every hold is one of its own on the server.
pub(crate) async fn leased(bench: &Bench) -> Result<Findings> {
    let tasks = bench.wishes.tasks(64, 16);
    let load = load(bench, "hot", tasks);
    let contest = Contest::hold(bench, &[(Who::Leased, load)], bench.wishes.rounds(ROUNDS)).await?;
    let mut findings = Findings::new("leased", tasks, "as many tasks of one process, one name, fixed leases");
    rates(&mut findings, &contest, Who::Leased);
    let trips = contest.most(Who::Leased, Run::evalsha);
    findings.bounded("round trips (EVALSHA) a section, worst round", Unit::Count, trips, Bound::AtMost(1.15));
    let fair = contest.least(Who::Leased, |run| run.least("fair_ratio"));
    findings.note("least to most served task, worst round", Unit::Ratio, fair);
    let (turns, overtaken) = order(bench.server.url().to_owned(), tasks, load.span)?;
    findings.note("sections whose order was checked", Unit::Count, turns as f64);
    findings.bounded("sections that came out of turn", Unit::Count, overtaken as f64, Bound::AtMost(0.0));
    soundness(&mut findings, &contest, Who::Leased);
    Ok(findings)
}

/// With sections that take a while: what passes between two of them.
pub(crate) async fn hold(bench: &Bench) -> Result<Findings> {
    let tasks = bench.wishes.tasks(16, 16);
    let contest = contest(bench, "hold", tasks, Who::Ours).await?;
    let mut findings = Findings::new("hold", tasks, "as many tasks of one process, one name, sections of 2 ms");
    rates(&mut findings, &contest, Who::Ours);
    let gap = |field| contest.median(Who::Ours, |run| run.secs(field));
    findings.maybe("gap between two sections, p50", Unit::Seconds, gap("gap_p50_us"), Bound::AtMost(50e-6));
    findings.maybe("gap between two sections, mean", Unit::Seconds, gap("gap_mean_us"), Bound::AtMost(80e-6));
    let fair = contest.least(Who::Ours, |run| run.least("fair_ratio"));
    findings.note("least to most served task, worst round", Unit::Ratio, fair);
    soundness(&mut findings, &contest, Who::Ours);
    Ok(findings)
}

/// Sections a second against tasks, for a plot.
pub(crate) async fn curve(bench: &Bench) -> Result<Vec<Findings>> {
    let steps: &[usize] = if bench.wishes.measured { &[1, 2, 4, 8, 16, 32, 64, 128, 256] } else { &[2] };
    let mut all = Vec::new();
    for tasks in steps {
        let contest = contest(bench, "hot", *tasks, Who::Ours).await?;
        let mut findings = Findings::new("curve", *tasks, "as many tasks of one process, one name, empty sections");
        for who in [Who::Ours, Who::Rslock, Who::Rlock] {
            let Some(rate) = contest.median(who, Run::rate) else { continue };
            findings.note(who.name(), Unit::PerSecond, rate);
        }
        all.push(findings);
    }
    Ok(all)
}

fn load(bench: &Bench, case: &'static str, tasks: usize) -> Load {
    Load { case, tasks, processes: 1, span: bench.wishes.span(SPAN) / bench.wishes.rounds(ROUNDS), slice: None }
}

/// Us, others, and one task that sends the raw scripts.
async fn contest(bench: &Bench, case: &'static str, tasks: usize, who: Who) -> Result<Contest> {
    let load = load(bench, case, tasks);
    let raw = Load { case: "serial", tasks: 1, ..load };
    let entries = [(who, load), (Who::Rslock, load), (Who::Rlock, load), (Who::Raw, raw)];
    Contest::hold(bench, &entries, bench.wishes.rounds(ROUNDS)).await
}

/// Ours in full, others beside them.
pub(crate) fn rates(findings: &mut Findings, contest: &Contest, who: Who) {
    if let Some(rate) = contest.median(who, Run::rate) {
        findings.note("sections", Unit::PerSecond, rate);
    }
    for peer in Who::PEERS {
        let Some(rate) = contest.median(peer, Run::rate) else { continue };
        let fair = contest.least(peer, |run| run.least("fair_ratio"));
        findings.note(format!("{}, sections", peer.name()), Unit::PerSecond, rate);
        findings.note(format!("{}, least to most served task", peer.name()), Unit::Ratio, fair);
        let longest = contest.most(peer, |run| run.most("max_wait_us") / 1e6);
        findings.note(format!("{}, longest wait", peer.name()), Unit::Seconds, longest);
        let stuck = contest.most(peer, |run| run.sum("stuck"));
        findings.note(format!("{}, tasks that never came in again", peer.name()), Unit::Count, stuck);
    }
    if let Some(ratio) = contest.ratio(who, Who::Raw) {
        findings.note("sections to raw pairs of one task", Unit::Ratio, ratio);
    }
    for (name, field) in [("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("longest", "max_wait_us")] {
        findings.note(format!("wait, {name}"), Unit::Seconds, contest.most(who, |run| run.secs(field)));
    }
    findings.note("own CPU a section", Unit::Seconds, contest.most(who, Run::own_cpu));
    if let Some(raw) = contest.median(Who::Raw, Run::own_cpu) {
        findings.note("own CPU of a raw pair of one task", Unit::Seconds, raw);
    }
    if let Some(ratio) = contest.ratio_of(Run::own_cpu, who, Who::Raw) {
        findings.note("own CPU a section to a raw pair's of one task", Unit::Ratio, ratio);
    }
    findings.note("server CPU a section", Unit::Seconds, contest.most(who, Run::server_cpu));
    for (name, field) in [("p50", "gap_p50_us"), ("mean", "gap_mean_us")] {
        if let Some(gap) = contest.median(who, |run| run.secs(field)) {
            findings.note(format!("gap, {name}"), Unit::Seconds, gap);
        }
    }
}

pub(crate) fn soundness(findings: &mut Findings, contest: &Contest, who: Who) {
    let sum = |field| contest.of(who).map(|run| run.sum(field)).sum::<f64>();
    findings.sound(sum("violations"), sum("errors") + sum("stuck"));
}

/// How many sections there were, and how many of them came before one that had asked earlier. On one thread asking and
/// queueing are one step, so there is no doubt who came first.
fn order(url: String, tasks: usize, span: Duration) -> Result<(u64, u64)> {
    let counted = thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = Client::connect(&url).await?;
            let order = Arc::new(Order::default());
            let ends = Instant::now() + span;
            let mut hands = JoinSet::new();
            for _ in 0..tasks {
                let (lock, order) = (client.lock("order"), Arc::clone(&order));
                hands.spawn(async move {
                    while Instant::now() < ends {
                        let ticket = order.asked.fetch_add(1, Relaxed) + 1;
                        let guard = lock.lock().lease(Duration::from_secs(10)).await?;
                        order.came(ticket);
                        guard.unlock().await?;
                    }
                    Ok::<_, relatch::Error>(())
                });
            }
            while let Some(done) = hands.join_next().await {
                done??;
            }
            client.close().await;
            Ok((order.turns.load(Relaxed), order.overtaken.load(Relaxed)))
        })
    });
    counted.join().map_err(|_| "the check of the order panicked")?
}

/// Who asked and who came in, counted from one.
#[derive(Default)]
struct Order {
    asked: AtomicU64,
    last: AtomicU64,
    turns: AtomicU64,
    overtaken: AtomicU64,
}

impl Order {
    fn came(&self, ticket: u64) {
        self.turns.fetch_add(1, Relaxed);
        if self.last.swap(ticket, Relaxed) >= ticket {
            self.overtaken.fetch_add(1, Relaxed);
        }
    }
}
