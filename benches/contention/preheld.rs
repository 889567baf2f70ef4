//! A client that holds very many locks beside one that holds none, each on a server of its own: whether an acquire is still
//! what it was.

use relatch::Client;

use crate::{
    bench::Bench,
    load::Result,
    renew::take,
    report::{Bound, Findings, Unit, quantile},
    serial::{Pair, take_turns},
    server::Server,
};

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let holds = bench.wishes.tasks(100_000, 300);
    let server = Server::start()?;
    let holder = Client::connect(server.url()).await?;
    let guards = take(&holder, holds).await?;
    let (full, empty) = (Pair(holder.lock("one-more")), Pair(bench.client.lock("one-more")));
    let (mut with, mut without) = take_turns(bench, full, empty).await?;
    // Their server goes with all of them.
    drop(guards);
    drop(server);
    holder.close().await;
    let mut findings =
        Findings::new("preheld", 1, format!("one task locks and unlocks while its client holds {holds}"));
    for (name, fraction) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        findings.time(format!("lock + unlock, {name}"), quantile(&mut with.took, fraction));
        findings.time(format!("lock + unlock with none held, {name}"), quantile(&mut without.took, fraction));
    }
    let ratio = quantile(&mut with.took, 0.5).as_secs_f64() / quantile(&mut without.took, 0.5).as_secs_f64();
    findings.bounded("lock + unlock, p50 to that with none held", Unit::Ratio, ratio, Bound::AtMost(1.1));
    Ok(findings)
}
