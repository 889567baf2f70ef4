//! Many holds under the watchdog while nothing else happens: memory, CPU, commands, and whether all of them live.

use std::{
    fs, mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use relatch::{Client, LockGuard, redis};
use tokio::{runtime::Handle, task::JoinSet, time::sleep};

use crate::{
    bench::{self, Bench},
    load::Result,
    report::{Bound, Findings, Unit},
};

/// Four leases.
const SPAN: Duration = Duration::from_secs(120);

/// How many tasks acquire at a time.
const HANDS: usize = 64;

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let holds = bench.wishes.tasks(100_000, 300);
    let lease = Duration::from_millis(if bench.wishes.measured { 30_000 } else { 150 });
    let span = bench.wishes.span(SPAN).max(2 * lease);
    bench.until_all_is_free().await?;
    let client = Client::builder().url(bench.server.url()).watchdog_timeout(lease).connect().await?;
    learn(&client, lease).await?;
    let (tasks, memory) = (Handle::current().metrics().num_alive_tasks(), resident());
    let started = Instant::now();
    let guards = take(&client, holds).await?;
    let took = started.elapsed();
    let bytes = (resident() - memory) / holds as f64;
    let (before, cpu, started) = (bench.info().await?, bench::own_cpu(), Instant::now());
    sleep(span).await;
    let spent = bench.info().await?.since(before);
    let share = (bench::own_cpu() - cpu) / started.elapsed().as_secs_f64();
    let more_tasks = Handle::current().metrics().num_alive_tasks() as f64 - tasks as f64;
    let there = there(bench, holds).await?;
    let lost: Vec<_> = guards.iter().filter(|guard| !guard.is_held()).collect();
    // Of many the first say enough.
    for guard in lost.iter().take(3) {
        eprintln!("lost: {}", guard.lost().await);
    }
    let lost = lost.len();
    drop(guards);
    bench.until_all_is_free().await?;
    client.close().await;
    let title = format!("{holds} holds, a lease of {} s, {:.1} s", lease.as_secs_f64(), span.as_secs_f64());
    let mut findings = Findings::new("renew", 1, title);
    findings.time("to take all of them", took);
    findings.bounded("holds lost, by their guards", Unit::Count, lost as f64, Bound::AtMost(0.0));
    let missing = holds - there;
    findings.bounded("holds lost, by the server", Unit::Count, missing as f64, Bound::AtMost(0.0));
    findings.bounded("memory a hold", Unit::Bytes, bytes, Bound::AtMost(700.0));
    findings.bounded("tasks beyond those of an idle client", Unit::Count, more_tasks, Bound::AtMost(1.0));
    findings.bounded("CPU of the process", Unit::Percent, share * 100.0, Bound::AtMost(2.0));
    findings.note("CPU of the server", Unit::Percent, spent.cpu / span.as_secs_f64() * 100.0);
    findings.note("renewed holds", Unit::PerSecond, spent.looks as f64 / span.as_secs_f64());
    let renewed = spent.looks as f64 / spent.scripts as f64;
    findings.bounded("holds that one EVALSHA renews", Unit::Count, renewed, Bound::AtLeast(100.0));
    Ok(findings)
}

/// The server has the script of renewals from here on: it is asked for once a server, which is no renewal's cost.
async fn learn(client: &Client, lease: Duration) -> Result<()> {
    let guard = client.lock("learn").lock().await?;
    guard.extend(lease).await?;
    guard.unlock().await?;
    Ok(())
}

/// As many holds, each on a name of its own.
pub(crate) async fn take(client: &Client, holds: usize) -> Result<Vec<LockGuard>> {
    // One list of the right size: what many lists leave behind would count as memory of the holds.
    let guards = Arc::new(Mutex::new(Vec::with_capacity(holds)));
    let mut hands: JoinSet<relatch::Result<()>> = JoinSet::new();
    let client = Arc::new(client.clone());
    for hand in 0..HANDS {
        let (client, guards) = (Arc::clone(&client), Arc::clone(&guards));
        hands.spawn(async move {
            for number in (hand..holds).step_by(HANDS) {
                let guard = client.lock(name(number)).lock().await?;
                guards.lock().unwrap_or_else(PoisonError::into_inner).push(guard);
            }
            Ok(())
        });
    }
    while let Some(done) = hands.join_next().await {
        done??;
    }
    let mut guards = guards.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(mem::take(&mut *guards))
}

/// How many of their keys there are. A key whose time is over counts among all keys for a while, but not if it is asked for.
async fn there(bench: &Bench, holds: usize) -> Result<usize> {
    let mut there = 0;
    for first in (0..holds).step_by(1_000) {
        let mut exists = redis::cmd("EXISTS");
        for number in first..holds.min(first + 1_000) {
            exists.arg(name(number));
        }
        there += exists.query_async::<usize>(&mut bench.connection()).await?;
    }
    Ok(there)
}

fn name(number: usize) -> String {
    format!("held-{number}")
}

/// The memory of this process, in bytes.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1024.0
}
