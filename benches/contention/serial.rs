//! One task, one name that nobody else wants: what the engine adds to two round trips, in an outermost section and in a
//! nested one, and what a fencing token costs. Also how two that take turns are measured, for others that need it.

use std::time::{Duration, Instant};

use relatch::{FencedLock, ReentrantLock};

use crate::{
    bench::{Bench, own_cpu},
    load::Result,
    raw::Raw,
    report::{Bound, Findings, Unit, quantile},
};

const SPAN: Duration = Duration::from_secs(4);

/// So short that both sides have the same weather.
const ROUNDS: u32 = 20;

/// What one of two sides saw.
#[derive(Default)]
pub(crate) struct Side {
    pub(crate) took: Vec<Duration>,
    scripts: u64,
    /// The server's, in seconds.
    pub(crate) cpu: f64,
    /// Of this process, in seconds.
    own_cpu: f64,
}

/// What a side does again and again.
pub(crate) trait Step: Send {
    fn once(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Locks and unlocks.
pub(crate) struct Pair(pub(crate) ReentrantLock);

impl Step for Pair {
    async fn once(&mut self) -> Result<()> {
        self.0.lock().await?.unlock().await?;
        Ok(())
    }
}

/// The same under a fencing token.
struct FencedPair(FencedLock);

impl Step for FencedPair {
    async fn once(&mut self) -> Result<()> {
        self.0.lock().await?.unlock().await?;
        Ok(())
    }
}

/// The same raw, inside of so many holds.
pub(crate) struct RawPair {
    pub(crate) raw: Raw,
    pub(crate) name: &'static str,
    pub(crate) outer: u32,
}

impl Step for RawPair {
    async fn once(&mut self) -> Result<()> {
        self.raw.acquire(self.name, self.outer + 1).await?;
        self.raw.release(self.name, self.outer).await
    }
}

pub(crate) async fn alone(bench: &Bench) -> Result<Findings> {
    let ours = Pair(bench.client.lock("serial"));
    let theirs = RawPair { raw: bench.raw.clone(), name: "serial-raw", outer: 0 };
    let (mut ours, mut theirs) = take_turns(bench, ours, theirs).await?;
    let mut findings = Findings::new("serial", 1, "one task locks and unlocks a free name");
    compare(&mut findings, "lock + unlock", &mut ours, &mut theirs);
    Ok(findings)
}

pub(crate) async fn nested(bench: &Bench) -> Result<Findings> {
    let lock = bench.client.lock("nested");
    let outer = lock.lock().await?;
    bench.raw.acquire("nested-raw", 1).await?;
    let theirs = RawPair { raw: bench.raw.clone(), name: "nested-raw", outer: 1 };
    let (mut ours, mut theirs) = take_turns(bench, Pair(lock), theirs).await?;
    outer.unlock().await?;
    bench.raw.release("nested-raw", 0).await?;
    let mut findings = Findings::new("nested", 1, "one task enters once more what it holds, and leaves it again");
    compare(&mut findings, "nested lock + unlock", &mut ours, &mut theirs);
    Ok(findings)
}

pub(crate) async fn fenced(bench: &Bench) -> Result<Findings> {
    let ours = FencedPair(bench.client.fenced_lock("serial-fenced"));
    let (mut fenced, mut plain) = take_turns(bench, ours, Pair(bench.client.lock("serial-plain"))).await?;
    let mut findings = Findings::new("fenced", 1, "one task locks and unlocks a free fenced name, and a plain one");
    let median = |side: &mut Side| quantile(&mut side.took, 0.5);
    let (with, without) = (median(&mut fenced), median(&mut plain));
    findings.time("fenced lock + unlock, p50", with);
    findings.time("plain lock + unlock, p50", without);
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    findings.bounded("fenced lock + unlock, p50 to the plain lock's", Unit::Ratio, ratio, Bound::AtMost(1.05));
    findings.note("server CPU a fenced pair", Unit::Seconds, fenced.cpu / fenced.took.len() as f64);
    findings.note("server CPU a plain pair", Unit::Seconds, plain.cpu / plain.took.len() as f64);
    Ok(findings)
}

fn compare(findings: &mut Findings, what: &str, ours: &mut Side, theirs: &mut Side) {
    for (name, fraction) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("longest", 1.0)] {
        findings.time(format!("{what}, {name}"), quantile(&mut ours.took, fraction));
        findings.time(format!("two raw EVALSHA, {name}"), quantile(&mut theirs.took, fraction));
    }
    let median = |side: &mut Side| quantile(&mut side.took, 0.5).as_secs_f64();
    let ratio = median(ours) / median(theirs);
    findings.bounded(format!("{what}, p50 to two raw EVALSHA"), Unit::Ratio, ratio, Bound::AtMost(1.10));
    let scripts = ours.scripts as f64 / ours.took.len() as f64;
    findings.bounded(format!("EVALSHA for a {what}"), Unit::Count, scripts, Bound::AtMost(2.0));
    let own_cpu = |side: &Side| side.own_cpu / side.took.len() as f64;
    findings.note("own CPU a pair", Unit::Seconds, own_cpu(ours));
    findings.note("own CPU a raw pair", Unit::Seconds, own_cpu(theirs));
    findings.note("own CPU a pair to a raw pair's", Unit::Ratio, own_cpu(ours) / own_cpu(theirs));
    findings.note("server CPU a pair", Unit::Seconds, ours.cpu / ours.took.len() as f64);
    findings.note("server CPU a raw pair", Unit::Seconds, theirs.cpu / theirs.took.len() as f64);
}

/// Does one thing and the other in rounds, first unmeasured.
pub(crate) async fn take_turns(bench: &Bench, mut ours: impl Step, mut theirs: impl Step) -> Result<(Side, Side)> {
    let rounds = bench.wishes.rounds(ROUNDS);
    let span = bench.wishes.span(SPAN) / rounds;
    let (mut our_side, mut their_side) = (Side::default(), Side::default());
    for warm in [true, false] {
        if !warm {
            (our_side, their_side) = (Side::default(), Side::default());
        }
        for _ in 0..if warm { 1 } else { rounds } {
            round(bench, span, &mut theirs, &mut their_side).await?;
            round(bench, span, &mut ours, &mut our_side).await?;
        }
    }
    Ok((our_side, their_side))
}

pub(crate) async fn round(bench: &Bench, span: Duration, step: &mut impl Step, side: &mut Side) -> Result<()> {
    let before = bench.info().await?;
    let (own, started) = (own_cpu(), Instant::now());
    let mut sent = started;
    while sent - started < span {
        step.once().await?;
        let done = Instant::now();
        side.took.push(done - sent);
        sent = done;
    }
    side.own_cpu += own_cpu() - own;
    let info = bench.info().await?.since(before);
    side.scripts += info.scripts;
    side.cpu += info.cpu;
    Ok(())
}
