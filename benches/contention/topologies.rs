//! The same pairs on every kind of deployment, each beside the scripts sent raw to the same servers: what it costs to follow
//! several of them, compared with what a lock costs on one.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use relatch::{Client, ReentrantLock, ShardedPubSub, redis};
use tokio::task::JoinSet;

use crate::{
    bench::Bench,
    deployment::Deployment,
    load::Result,
    raw::Raw,
    report::{Bound, Findings, Unit, median, quantile},
};

/// Of each side of each deployment, all rounds together.
const SPAN: Duration = Duration::from_secs(2);
/// So short that all have the same weather.
const ROUNDS: u32 = 25;

/// So many callers at a time. Of one the time of a pair is compared, of many how many pairs there are.
const CALLERS: [usize; 2] = [1, 64];

/// What is left of raw, compared with what is left on one server.
const LEAST: f64 = 0.97;

/// Servers, a client of them, and the driver's plain connection to each that has names.
struct Topology {
    name: &'static str,
    client: Client,
    raws: Vec<Raw>,
    _servers: Arc<Deployment>,
}

/// Whoever locks and unlocks one name.
#[derive(Clone)]
pub(crate) enum Hand {
    Ours(ReentrantLock),
    Raw(Raw, String),
}

/// What a deployment did for us, and raw, round by round.
type Sides = [Vec<f64>; 2];

pub(crate) async fn run(bench: &Bench) -> Result<Vec<Findings>> {
    let all = start().await?;
    let mut found = Vec::new();
    for callers in CALLERS {
        found.push(compared(bench, &all, callers).await?);
    }
    for topology in all {
        topology.client.close().await;
    }
    Ok(found)
}

/// The first of them is what the others are compared with.
async fn start() -> Result<Vec<Topology>> {
    let mut all = Vec::new();
    for (kind, name) in [("standalone", "one server"), ("replicas", "with two replicas"), ("sentinel", "by sentinels")]
    {
        let servers = Arc::new(Deployment::start(kind)?);
        let (master, sentinels) = (if kind == "standalone" { "one" } else { "master" }, servers.all("SENTINELS"));
        let url = servers.url(master);
        let raws = vec![Raw::connect(&url).await?];
        let url = if kind == "sentinel" { format!("redis-sentinel://{sentinels}#m") } else { url };
        all.push(Topology { name, client: Client::connect(url).await?, raws, _servers: servers });
    }
    let servers = Arc::new(Deployment::start("cluster")?);
    let url = format!("redis-cluster://{}", servers.all("NODES"));
    for (sharded, name) in [(ShardedPubSub::On, "on a cluster"), (ShardedPubSub::Off, "on one that tells all nodes")] {
        let client = Client::builder().url(&url).sharded_pubsub(sharded).connect().await?;
        let mut raws = Vec::new();
        for node in ["node0", "node1", "node2"] {
            let mut raw = Raw::connect(&servers.url(node)).await?;
            if sharded == ShardedPubSub::On {
                raw.publish = "SPUBLISH";
            }
            raws.push(raw);
        }
        all.push(Topology { name, client, raws, _servers: Arc::clone(&servers) });
    }
    Ok(all)
}

async fn compared(bench: &Bench, all: &[Topology], callers: usize) -> Result<Findings> {
    let rounds = bench.wishes.rounds(ROUNDS);
    let span = bench.wishes.span(SPAN) / rounds;
    let mut hands = Vec::new();
    for topology in all {
        hands.push([topology.ours(callers), topology.raw(callers).await?]);
    }
    let mut sides = vec![Sides::default(); all.len()];
    for round in 0..=rounds as usize {
        // Nobody comes first each time.
        for at in (0..all.len()).map(|turn| (round + turn) % all.len()) {
            for side in [round % 2, 1 - round % 2] {
                let figure = figure(&hands[at][side], span).await?;
                // After the first round all are warm.
                if round > 0 {
                    sides[at][side].push(figure);
                }
            }
        }
    }
    Ok(told(all, &sides, callers))
}

fn told(all: &[Topology], sides: &[Sides], callers: usize) -> Findings {
    let title = match callers {
        1 => "one task locks and unlocks a free name, on each kind of deployment",
        _ => "as many tasks, a name each, on each kind of deployment",
    };
    let mut findings = Findings::new("topologies", callers, title);
    for (topology, here) in all.iter().zip(sides) {
        let of = |what: &str| format!("{}, {what}", topology.name);
        for (side, rates) in ["lock + unlock", "two raw EVALSHA"].into_iter().zip(here) {
            findings.note(of(side), Unit::PerSecond, median(rates.clone()));
        }
        findings.note(of("lock + unlock to raw"), Unit::Ratio, median(ratios(here).collect()));
    }
    for (topology, here) in all.iter().zip(sides).skip(1) {
        let to_one = ratios(here).zip(ratios(&sides[0])).map(|(here, one)| here / one).collect();
        let what = format!("{}, to raw, to that of one server", topology.name);
        findings.bounded(what, Unit::Ratio, median(to_one), Bound::AtLeast(LEAST));
    }
    findings
}

/// What is left of raw, in each round.
fn ratios([ours, raw]: &Sides) -> impl Iterator<Item = f64> {
    ours.iter().zip(raw).map(|(ours, raw)| ours / raw)
}

impl Topology {
    fn ours(&self, callers: usize) -> Vec<Hand> {
        (0..callers).map(|caller| Hand::Ours(self.client.lock(name(caller)))).collect()
    }

    /// Each over the connection to the server that has its name: the others say so.
    async fn raw(&self, callers: usize) -> Result<Vec<Hand>> {
        let mut hands = Vec::new();
        for caller in 0..callers {
            let name = name(caller);
            for raw in &self.raws {
                match raw.acquire(&name, 1).await {
                    Ok(()) => {
                        raw.release(&name, 0).await?;
                        hands.push(Hand::Raw(raw.clone(), name));
                        break;
                    }
                    Err(error) if is_elsewhere(&*error) => {}
                    Err(error) => return Err(error),
                }
            }
            if hands.len() <= caller {
                return Err(format!("{}: nobody has a name", self.name).into());
            }
        }
        Ok(hands)
    }
}

fn is_elsewhere(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<redis::RedisError>().is_some_and(|error| error.code() == Some("MOVED"))
}

fn name(caller: usize) -> String {
    format!("topologies:{caller}")
}

impl Hand {
    async fn once(&self) -> Result<()> {
        match self {
            Self::Ours(lock) => drop(lock.lock().await?.unlock().await?),
            Self::Raw(raw, name) => {
                raw.acquire(name, 1).await?;
                raw.release(name, 0).await?;
            }
        }
        Ok(())
    }
}

/// Pairs a second: of one caller by the time that one of them takes, the median, and of many by how many there are.
pub(crate) async fn figure(hands: &[Hand], span: Duration) -> Result<f64> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for hand in hands {
        let hand = hand.clone();
        tasks.spawn(async move {
            let mut took = Vec::new();
            let mut sent = Instant::now();
            while sent - started < span {
                hand.once().await?;
                let done = Instant::now();
                took.push(done - sent);
                sent = done;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(took)
        });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done??);
    }
    Ok(match hands {
        [_] => 1.0 / quantile(&mut took, 0.5).as_secs_f64(),
        _ => took.len() as f64 / started.elapsed().as_secs_f64(),
    })
}
