//! A guard that is dropped: what that costs its task, and how soon the key is free. The message of the release says when:
//! it is published in the same step that frees the key.

use std::time::{Duration, Instant};

use relatch::redis::Client;
use tokio::time::timeout;
use tokio_stream::StreamExt;

use crate::{
    bench::Bench,
    load::Result,
    report::{Bound, Findings, Unit, quantile},
};

const LONGEST: Duration = Duration::from_secs(10);

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let guards = bench.wishes.tasks(5_000, 100);
    let mut listener = Client::open(bench.server.url())?.get_async_pubsub().await?;
    listener.psubscribe("redisson_lock__channel:{drop-*").await?;
    let mut messages = listener.on_message();
    let round_trip = bench.round_trip(Duration::ZERO).await?;
    let (mut cost, mut free) = (Vec::new(), Vec::new());
    for number in 0..guards {
        // A name each: one that somebody listens to cools down now and then.
        let name = format!("drop-{number}");
        let guard = bench.client.lock(&name).lock().await?;
        let started = Instant::now();
        drop(guard);
        cost.push(started.elapsed());
        let message = timeout(LONGEST, messages.next()).await?.ok_or("the subscription ended")?;
        free.push(started.elapsed());
        if !message.get_channel_name().contains(&name) {
            return Err(format!("{} is not the message of {name}", message.get_channel_name()).into());
        }
    }
    let mut findings = Findings::new("drop", 1, format!("{guards} guards are dropped"));
    let drop_cost = quantile(&mut cost, 0.5).as_secs_f64();
    findings.bounded("drop of a guard, p50", Unit::Seconds, drop_cost, Bound::AtMost(5e-6));
    findings.time("drop of a guard, p99", quantile(&mut cost, 0.99));
    findings.time("one round trip (a raw EVALSHA), p50", round_trip);
    findings.time("from the drop to the message that it is free, p50", quantile(&mut free, 0.5));
    findings.time("from the drop to the message that it is free, p99", quantile(&mut free, 0.99));
    let trips = quantile(&mut free, 0.5).as_secs_f64() / round_trip.as_secs_f64();
    findings.bounded("from the drop until it is free, in round trips, p50", Unit::Ratio, trips, Bound::AtMost(2.0));
    Ok(findings)
}
