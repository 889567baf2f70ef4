//! The same calls from where the client lives, from another runtime, and to a client with a thread of its own: what the way
//! there and back costs.

use std::{
    thread,
    time::{Duration, Instant},
};

use relatch::Client;
use tokio::{runtime::Builder, task::JoinSet};

use crate::{
    bench::Bench,
    load::Result,
    report::{Findings, Unit, quantile},
};

const SPAN: Duration = Duration::from_secs(4);
const ROUNDS: u32 = 8;

/// Who calls whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Home,
    /// From a thread with a runtime of its own, as a web server's worker has one.
    OtherRuntime,
    OwnThread,
}

impl Way {
    const ALL: [Self; 3] = [Self::Home, Self::OtherRuntime, Self::OwnThread];

    fn name(self) -> &'static str {
        match self {
            Self::Home => "at home",
            Self::OtherRuntime => "from another runtime",
            Self::OwnThread => "with own_thread()",
        }
    }
}

/// How long each pair took, and how long all of them together.
#[derive(Default)]
struct Side {
    took: Vec<Duration>,
    span: Duration,
}

impl Side {
    fn rate(&self) -> f64 {
        self.took.len() as f64 / self.span.as_secs_f64()
    }
}

pub(crate) async fn run(bench: &Bench) -> Result<Vec<Findings>> {
    let own = Client::builder().url(bench.server.url()).own_thread().connect().await?;
    let mut all = Vec::new();
    for (usual, one_name, title) in [
        (1, false, "one task locks and unlocks a free name"),
        (64, false, "as many tasks, a name each, one client"),
        (16, true, "as many tasks of one process, one name, empty sections"),
    ] {
        let tasks = bench.wishes.tasks(usual, usual);
        let rounds = bench.wishes.rounds(ROUNDS);
        let span = bench.wishes.span(SPAN) / rounds;
        let mut sides = [Side::default(), Side::default(), Side::default()];
        for warm in [true, false] {
            for _ in 0..if warm { 1 } else { rounds } {
                for (way, side) in Way::ALL.into_iter().zip(&mut sides) {
                    let client = if way == Way::OwnThread { &own } else { &bench.client };
                    let work = pairs(client.clone(), tasks, one_name, span);
                    let round = if way == Way::OtherRuntime { on_a_worker(work).await? } else { work.await? };
                    if !warm {
                        side.took.extend(round.took);
                        side.span += round.span;
                    }
                }
            }
        }
        all.push(compared(tasks, title, sides));
    }
    own.close().await;
    Ok(all)
}

fn compared(tasks: usize, title: &str, mut sides: [Side; 3]) -> Findings {
    let mut findings = Findings::new("elsewhere", tasks, title);
    let rates = sides.each_ref().map(Side::rate);
    let medians = sides.each_mut().map(|side| quantile(&mut side.took, 0.5).as_secs_f64());
    for (at, (way, side)) in Way::ALL.into_iter().zip(&mut sides).enumerate() {
        findings.note(format!("pairs {}", way.name()), Unit::PerSecond, rates[at]);
        for (name, fraction) in [("p50", 0.5), ("p99", 0.99)] {
            findings.time(format!("lock + unlock {}, {name}", way.name()), quantile(&mut side.took, fraction));
        }
        if way != Way::Home {
            findings.note(format!("p50 {} to that at home", way.name()), Unit::Ratio, medians[at] / medians[0]);
            findings.note(format!("pairs a second {} to those at home", way.name()), Unit::Ratio, rates[at] / rates[0]);
        }
    }
    findings
}

/// On a runtime of one thread, which is another one than the client's.
async fn on_a_worker(work: impl Future<Output = Result<Side>> + Send + 'static) -> Result<Side> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let worker = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // In a task, as it is at home.
        runtime.block_on(async { tokio::spawn(work).await? })
    });
    // Nobody of the bench's own runtime waits in the way.
    thread::spawn(move || tell.send(worker.join()));
    told.await?.map_err(|_| "the worker panicked")?
}

async fn pairs(client: Client, tasks: usize, one_name: bool, span: Duration) -> Result<Side> {
    let started = Instant::now();
    let mut hands = JoinSet::new();
    for task in 0..tasks {
        let name = if one_name { "elsewhere".to_owned() } else { format!("elsewhere:{task}") };
        let lock = client.lock(name);
        hands.spawn(async move {
            let mut took = Vec::new();
            let mut sent = Instant::now();
            while sent - started < span {
                lock.lock().await?.unlock().await?;
                let done = Instant::now();
                took.push(done - sent);
                sent = done;
            }
            Ok::<_, relatch::Error>(took)
        });
    }
    let mut side = Side::default();
    while let Some(done) = hands.join_next().await {
        side.took.extend(done??);
    }
    side.span = started.elapsed();
    Ok(side)
}
