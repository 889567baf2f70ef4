//! What a lock costs beside the same scripts sent raw, by the same driver, to the same server, in the same run.
//!
//! ```text
//! cargo bench
//! cargo bench -- --case hot --tasks 64 --secs 10
//! ```
//!
//! Every figure is a ratio, or stands beside the raw one that it was measured with: rounds of both take turns, and the
//! median of the rounds is what is printed. Without cargo's own `--bench`, as in `cargo test --benches`, each case runs
//! for a moment only, to see that it works.

mod distinct;
mod hot;
mod raw;
mod report;
mod serial;
mod server;

use std::{env, error::Error, time::Duration};

use relatch::Client;

use crate::{raw::Raw, server::Server};

/// Whatever goes wrong ends the run.
type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Serial,
    Distinct,
    Hot,
}

/// What the command line asks for.
struct Wishes {
    cases: Vec<Case>,
    /// Tasks of `distinct` and `hot`.
    tasks: usize,
    /// How long a case takes, about.
    span: Duration,
}

impl Wishes {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut measured = false;
        let (mut case, mut tasks, mut secs) = (None, 64, None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--bench" => measured = true,
                "--case" => {
                    case = Some(match value()?.as_str() {
                        "serial" => Case::Serial,
                        "distinct" => Case::Distinct,
                        "hot" => Case::Hot,
                        other => return Err(format!("no case is called {other}: serial, distinct, hot").into()),
                    });
                }
                "--tasks" => tasks = value()?.parse::<usize>()?.max(1),
                "--secs" => secs = Some(Duration::try_from_secs_f64(value()?.parse()?)?),
                other => return Err(format!("{other} is unknown: --case, --tasks and --secs are known").into()),
            }
        }
        let usual = Duration::from_millis(if measured { 6_000 } else { 300 });
        let cases = case.map_or_else(|| vec![Case::Serial, Case::Distinct, Case::Hot], |case| vec![case]);
        Ok(Self { cases, tasks, span: secs.unwrap_or(usual) })
    }
}

/// One raw connection and one client to one server, for all cases.
struct Bench {
    raw: Raw,
    client: Client,
    tasks: usize,
    span: Duration,
}

#[tokio::main]
async fn main() -> Result<()> {
    let wishes = Wishes::read(env::args().skip(1))?;
    let server = Server::start()?;
    let raw = Raw::connect(server.url()).await?;
    let client = Client::connect(server.url()).await?;
    let bench = Bench { raw, client, tasks: wishes.tasks, span: wishes.span };
    for case in wishes.cases {
        match case {
            Case::Serial => serial::run(&bench).await?,
            Case::Distinct => distinct::run(&bench).await?,
            Case::Hot => hot::run(&bench).await?,
        }
    }
    bench.client.close().await;
    Ok(())
}
