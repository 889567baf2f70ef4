//! Many names that somebody else holds, one task waiting for each: how much a waiting client asks, and over how many links.
//! The holder renews its leases like any other, so that nobody waits in vain for their end.

use std::{
    convert::Infallible,
    error::Error,
    time::{Duration, Instant},
};

use relatch::redis;
use tokio::{
    task::JoinSet,
    time::{interval, sleep},
};

use crate::{
    bench::Bench,
    load::Result,
    report::{Bound, Findings, Unit},
};

const SPAN: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let names = bench.wishes.tasks(10_000, 100);
    // What a waiter is told is between two thirds of the lease and the whole of it.
    let lease = Duration::from_millis(if bench.wishes.measured { 6_000 } else { 120 });
    let least = lease * 2 / 3;
    let span = bench.wishes.span(SPAN).max(2 * lease);
    hold(bench, names, lease).await?;
    let waiting = async {
        let mut tasks: JoinSet<relatch::Result<()>> = JoinSet::new();
        for number in 0..names {
            let lock = bench.client.lock(format!("waited-{number}"));
            tasks.spawn(async move { lock.lock().await?.unlock().await.map(drop) });
        }
        until_listened(bench, names).await?;
        let before = bench.info().await?;
        sleep(span).await;
        let spent = bench.info().await?.since(before);
        let links: String =
            redis::cmd("CLIENT").arg("LIST").arg("TYPE").arg("PUBSUB").query_async(&mut bench.connection()).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>((tasks, spent, links.lines().count()))
    };
    let (mut tasks, spent, links) = tokio::select! {
        waited = waiting => waited?,
        Err(failed) = keep(bench, names, lease) => return Err(failed),
    };
    let started = Instant::now();
    free(bench, names).await?;
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let served = started.elapsed();
    bench.until_all_is_free().await?;
    let title =
        format!("{names} names held elsewhere for {} s at a time, one task waits for each", lease.as_secs_f64());
    let mut findings = Findings::new("waiters", 1, title);
    findings.bounded("subscription connections", Unit::Count, links as f64, Bound::AtMost(1.0));
    let tries = spent.scripts as f64 / names as f64;
    findings.note(format!("tries a name in {:.1} s", span.as_secs_f64()), Unit::Count, tries);
    let a_ttl = tries / (span.as_secs_f64() / least.as_secs_f64());
    findings.bounded("tries a name in the shortest TTL that it was told", Unit::Count, a_ttl, Bound::AtMost(1.0));
    findings.time("from all free to all served", served);
    Ok(findings)
}

/// Renews them until something fails.
async fn keep(bench: &Bench, names: usize, lease: Duration) -> Result<Infallible> {
    let mut tick = interval(lease / 3);
    loop {
        tick.tick().await;
        hold(bench, names, lease).await?;
    }
}

/// Holds all names as somebody else, for a lease from now.
async fn hold(bench: &Bench, names: usize, lease: Duration) -> Result<()> {
    for first in (0..names).step_by(1_000) {
        let mut batch = redis::pipe();
        for number in first..names.min(first + 1_000) {
            let name = format!("waited-{number}");
            batch.cmd("HSET").arg(&name).arg("somebody:1").arg(1).ignore();
            batch.cmd("PEXPIRE").arg(&name).arg(lease.as_millis() as u64).ignore();
        }
        batch.query_async::<()>(&mut bench.connection()).await?;
    }
    Ok(())
}

/// Releases them, and says so.
async fn free(bench: &Bench, names: usize) -> Result<()> {
    for first in (0..names).step_by(1_000) {
        let mut batch = redis::pipe();
        for number in first..names.min(first + 1_000) {
            let name = format!("waited-{number}");
            batch.cmd("DEL").arg(&name).ignore();
            batch.cmd("PUBLISH").arg(format!("redisson_lock__channel:{{{name}}}")).arg("0").ignore();
        }
        batch.query_async::<()>(&mut bench.connection()).await?;
    }
    Ok(())
}

/// Until all waiters listen, and have looked once more since.
async fn until_listened(bench: &Bench, names: usize) -> Result<()> {
    let started = Instant::now();
    let mut tries = 0;
    loop {
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .arg("redisson_lock__channel:{waited-*")
            .query_async(&mut bench.connection())
            .await?;
        let now = bench.info().await?.scripts;
        if channels.len() == names && now == tries {
            return Ok(());
        }
        if started.elapsed() > LONGEST {
            return Err(format!("{} of {names} names are listened to after a minute", channels.len()).into());
        }
        tries = now;
        sleep(Duration::from_millis(20)).await;
    }
}
