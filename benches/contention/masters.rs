//! The same pairs by a vote of three masters, beside a client of one of them: what it costs to ask three.

use std::{sync::Arc, time::Duration};

use relatch::{Client, RedLock};

use crate::{
    bench::Bench,
    deployment::Deployment,
    load::Result,
    report::{Bound, Findings, Unit, median},
    topologies::{Hand, figure},
};

/// Of each side, all rounds together.
const SPAN: Duration = Duration::from_secs(4);
/// So short that both have the same weather.
const ROUNDS: u32 = 25;

const MASTERS: usize = 3;

/// So many callers at a time, and what is left of one master's rate.
const CALLERS: [(usize, f64); 2] = [(1, 1.0 / 1.6), (64, 0.5)];

pub(crate) async fn run(bench: &Bench) -> Result<Vec<Findings>> {
    let mut servers = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..MASTERS {
        let server = Arc::new(Deployment::start("standalone")?);
        clients.push(Client::connect(server.url("one")).await?);
        servers.push(server);
    }
    // They were started a moment ago, and are not restarted.
    let red = RedLock::builder(clients.clone()).restart_quarantine(Duration::ZERO).build()?;
    let mut found = Vec::new();
    for (callers, least) in CALLERS {
        let name = |caller| format!("masters:{caller}");
        let voted: Vec<_> = (0..callers).map(|caller| Hand::Ours(red.lock(name(caller)))).collect();
        let plain: Vec<_> = (0..callers).map(|caller| Hand::Ours(clients[0].lock(name(caller)))).collect();
        found.push(compared(bench, [&plain, &voted], callers, least).await?);
    }
    red.close().await;
    Ok(found)
}

async fn compared(bench: &Bench, sides: [&[Hand]; 2], callers: usize, least: f64) -> Result<Findings> {
    let rounds = bench.wishes.rounds(ROUNDS);
    let span = bench.wishes.span(SPAN) / rounds;
    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..=rounds as usize {
        // Nobody comes first each time.
        for side in [round % 2, 1 - round % 2] {
            let rate = figure(sides[side], span).await?;
            // After the first round both are warm.
            if round > 0 {
                rates[side].push(rate);
            }
        }
    }
    let title = match callers {
        1 => "one task locks and unlocks a free name, by one master and by three",
        _ => "as many tasks, a name each, by one master and by three",
    };
    let mut findings = Findings::new("masters", callers, title);
    let left = rates[1].iter().zip(&rates[0]).map(|(voted, plain)| voted / plain).collect();
    for (what, rates) in ["one master", "a vote of three"].into_iter().zip(rates) {
        findings.note(format!("{what}, lock + unlock"), Unit::PerSecond, median(rates));
    }
    findings.bounded("the vote's to one master's", Unit::Ratio, median(left), Bound::AtLeast(least));
    Ok(findings)
}
