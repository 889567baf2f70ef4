//! One task, one name that nobody else wants: how near a silent token lock comes to the two commands that every library sends for one,
//! beside how near the plain lock comes to its own two scripts.

use std::time::Duration;

use relatch::{
    TokenLock,
    redis::{self, Value, aio::MultiplexedConnection},
};

use crate::{
    bench::Bench,
    load::Result,
    raw::load,
    report::{Bound, Findings, Unit, quantile},
    serial::{Pair, RawPair, Side, Step, round},
};

/// Of all four together.
const SPAN: Duration = Duration::from_secs(8);

/// So short that all have the same weather.
const ROUNDS: u32 = 40;

/// What deletes the key of a token everywhere.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

struct TokenPair(TokenLock);

impl Step for TokenPair {
    async fn once(&mut self) -> Result<()> {
        self.0.lock().await?.unlock().await?;
        Ok(())
    }
}

/// The same raw. Another token each time, as with every library.
struct RawTokens {
    connection: MultiplexedConnection,
    delete: String,
    drawn: u64,
}

impl Step for RawTokens {
    async fn once(&mut self) -> Result<()> {
        self.drawn += 1;
        let (name, token) = ("token-raw", format!("{:048x}", self.drawn));
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&token).arg("NX").arg("PX").arg(30_000);
        let set: Value = set.query_async(&mut self.connection).await?;
        let mut delete = redis::cmd("EVALSHA");
        delete.arg(&self.delete).arg(1).arg(name).arg(&token);
        let deleted: Value = delete.query_async(&mut self.connection).await?;
        let is_done = set == Value::Okay && deleted == Value::Int(1);
        if is_done { Ok(()) } else { Err("somebody else uses the raw token lock".into()) }
    }
}

pub(crate) async fn run(bench: &Bench) -> Result<Findings> {
    let mut connection = bench.raw.connection.clone();
    let delete = load(&mut connection, COMPARE_AND_DELETE).await?;
    let mut token = TokenPair(bench.client.token_lock("token").silent());
    let mut raw_token = RawTokens { connection, delete, drawn: 0 };
    let mut plain = Pair(bench.client.lock("token-plain"));
    let mut raw_plain = RawPair { raw: bench.raw.clone(), name: "token-plain-raw", outer: 0 };

    let rounds = bench.wishes.rounds(ROUNDS);
    let span = bench.wishes.span(SPAN) / rounds / 4;
    let mut sides: [Side; 4] = Default::default();
    for warm in [true, false] {
        if !warm {
            sides = Default::default();
        }
        for _ in 0..if warm { 1 } else { rounds } {
            round(bench, span, &mut raw_token, &mut sides[0]).await?;
            round(bench, span, &mut token, &mut sides[1]).await?;
            round(bench, span, &mut raw_plain, &mut sides[2]).await?;
            round(bench, span, &mut plain, &mut sides[3]).await?;
        }
    }

    let mut findings =
        Findings::new("token", 1, "one task locks and unlocks a free name by a silent token, and a plain one");
    let medians = sides.each_mut().map(|side| quantile(&mut side.took, 0.5));
    let names = [
        "SET NX PX and compare-and-delete, raw",
        "silent token lock + unlock",
        "two raw EVALSHA",
        "plain lock + unlock",
    ];
    for (name, median) in names.into_iter().zip(medians) {
        findings.time(format!("{name}, p50"), median);
    }
    let [raw_token, token, raw_plain, plain] = medians.map(|median| median.as_secs_f64());
    let (of_token, of_plain) = (raw_token / token, raw_plain / plain);
    findings.note("raw to token lock, p50", Unit::Ratio, of_token);
    findings.note("raw to plain lock, p50", Unit::Ratio, of_plain);
    findings.bounded("the token lock's to the plain lock's", Unit::Ratio, of_token / of_plain, Bound::AtLeast(0.97));
    for (name, side) in names.into_iter().zip(&sides) {
        findings.note(format!("{name}, server CPU"), Unit::Seconds, side.cpu / side.took.len() as f64);
    }
    Ok(findings)
}
