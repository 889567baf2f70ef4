//! A server that comes back without anything while many locks are held: how soon every holder is told, and what locks and
//! unlocks cost meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use relatch::{Client, LockGuard, redis};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    bench::Bench,
    load::{Result, connect},
    renew::take,
    report::{Bound, Findings, Unit, quantile},
    server::Server,
};

/// How long locks and unlocks are looked at before.
const SPAN: Duration = Duration::from_secs(4);

pub(crate) async fn run(bench: &Bench) -> Result<Vec<Findings>> {
    let most = bench.wishes.tasks(100_000, 300);
    let mut all = Vec::new();
    for holds in [1, 1_000.min(most), most] {
        all.push(relinked(bench, holds).await?);
    }
    Ok(all)
}

async fn relinked(bench: &Bench, holds: usize) -> Result<Findings> {
    let server = Server::start()?;
    let client = Client::connect(server.url()).await?;
    let guards = take(&client, holds).await?;
    let before = Loop::start(&client);
    sleep(bench.wishes.span(SPAN)).await;
    let mut before = before.end().await?;
    // It forgets, and cuts every link but the one that this comes over.
    let mut forget = redis::pipe();
    forget.cmd("FLUSHALL").cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]);
    forget.exec_async(&mut connect(server.url()).await?).await?;
    while client.lock("look").is_locked().await.is_err() {}
    let linked = Instant::now();
    let during = Loop::start(&client);
    let told = told(&guards, linked).await;
    let mut during = during.end().await?;
    drop(guards);
    client.close().await;
    let mut findings = Findings::new("relinked", holds, format!("{holds} holds, and a server that forgot them"));
    let most = if bench.wishes.measured { 1.5 } else { 30.0 };
    findings.bounded("until every holder is told", Unit::Seconds, told.as_secs_f64(), Bound::AtMost(most));
    for (name, fraction) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        findings.time(format!("lock + unlock before, {name}"), quantile(&mut before, fraction));
        findings.time(format!("lock + unlock meanwhile, {name}"), quantile(&mut during, fraction));
    }
    let ratio = quantile(&mut during, 0.99).as_secs_f64() / quantile(&mut before, 0.99).as_secs_f64();
    // Of one hold there is no meanwhile to speak of.
    if bench.wishes.measured && holds > 1_000 {
        findings.bounded("lock + unlock meanwhile, p99 to that before", Unit::Ratio, ratio, Bound::AtMost(2.0));
    } else {
        findings.note("lock + unlock meanwhile, p99 to that before", Unit::Ratio, ratio);
    }
    Ok(findings)
}

/// How long after the new link the last of them knew.
async fn told(guards: &[LockGuard], linked: Instant) -> Duration {
    for guard in guards {
        guard.lost().await;
    }
    linked.elapsed()
}

/// One task that locks and unlocks a free name again and again, beside all that is held.
struct Loop {
    over: Arc<AtomicBool>,
    task: JoinHandle<relatch::Result<Vec<Duration>>>,
}

impl Loop {
    fn start(client: &Client) -> Self {
        let (over, lock) = (Arc::new(AtomicBool::new(false)), client.mutex("one-more"));
        let ends = Arc::clone(&over);
        let task = tokio::spawn(async move {
            let mut took = Vec::new();
            while !ends.load(Ordering::Relaxed) || took.is_empty() {
                let started = Instant::now();
                lock.lock().await?.unlock().await?;
                took.push(started.elapsed());
            }
            Ok(took)
        });
        Self { over, task }
    }

    async fn end(self) -> Result<Vec<Duration>> {
        self.over.store(true, Ordering::Relaxed);
        Ok(self.task.await??)
    }
}
