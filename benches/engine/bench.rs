//! What the engine costs by itself, over a server that answers at once: time, allocations and commands of a section that nobody
//! else wants, of one inside of a hold, and of one that is passed between two tasks; and the memory of a hold. All on one thread,
//! in turns with a pass of tokio's own mutex, which tells a slow machine from a slow engine.
//!
//! ```text
//! cargo bench -p engine
//! cargo bench -p engine -- passed    # the rows alone whose names have this in them
//! ```
//!
//! Fails where a round sent other commands than what it is said to measure. Without cargo's own `--bench`, as in `cargo test
//! --benches`, it runs for a moment only, to see that it works.

use std::{
    env, fs,
    sync::Arc,
    time::{Duration, Instant},
};

use allocation_counter::measure;
use sources::{
    LockGuard,
    at_once::{Client, Lock},
};
use tokio::{
    runtime::{self, Runtime},
    sync::Mutex,
    task::{JoinHandle, JoinSet, yield_now},
};

/// Whatever goes wrong ends the run.
type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// How much is measured.
#[derive(Clone, Copy)]
struct Extent {
    rounds: usize,
    /// In each round.
    sections: u32,
    holds: u32,
}

const MEASURED: Extent = Extent { rounds: 25, sections: 20_000, holds: 10_000 };
const TRIED: Extent = Extent { rounds: 1, sections: 100, holds: 100 };

/// What is done again and again.
#[derive(Clone, Copy)]
enum Step {
    Pair,
    Nested,
    Pass,
    /// Without us.
    MutexPass,
}

/// What was seen of a step.
struct Series {
    step: Step,
    /// Nanoseconds of a section, in each round.
    took: Vec<f64>,
    allocations: f64,
    commands: f64,
}

fn main() -> Result<()> {
    let extent = if env::args().any(|arg| arg == "--bench") { MEASURED } else { TRIED };
    // On one thread, so that all is counted.
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Arc::new(runtime.block_on(async { Client::start() }));
    let mut all: Vec<_> = Step::ALL.into_iter().filter(|step| step.is_asked_for()).map(Series::of).collect();
    // The first round finds out what stays from then on, and does not count.
    for round in 0..=extent.rounds {
        for series in &mut all {
            let took = series.round(&runtime, &client, extent.sections)?;
            series.took.extend((round > 0).then_some(took));
        }
    }
    for series in &mut all {
        series.count(&runtime, &client, extent.sections)?;
    }
    let (bytes, pieces) = held(&runtime, &client, extent.holds)?;
    runtime.block_on(client.close());

    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    println!("{} rounds of {} sections, load {load}", extent.rounds, extent.sections);
    println!("{:<44} {:>9}  {:>17}  {:>11}  {:>8}", "", "median", "quartiles", "allocations", "commands");
    all.iter().for_each(Series::print);
    println!(
        "memory of a hold, of {}: {bytes:.1} bytes in {pieces:.2} pieces, and its guard of {}",
        extent.holds,
        size_of::<LockGuard>()
    );
    Ok(())
}

impl Step {
    const ALL: [Self; 4] = [Self::Pair, Self::Nested, Self::Pass, Self::MutexPass];

    fn name(self) -> &'static str {
        match self {
            Self::Pair => "lock + unlock",
            Self::Nested => "lock + unlock inside of a hold",
            Self::Pass => "a section passed between two tasks",
            Self::MutexPass => "the same of tokio's mutex",
        }
    }

    fn is_asked_for(self) -> bool {
        let mut words = env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
        words.peek().is_none() || words.any(|word| self.name().contains(&word))
    }

    /// What the server is asked for so many sections.
    fn commands(self, sections: u32) -> u64 {
        match self {
            Self::Pair => 2 * u64::from(sections),
            // Those of the outer hold, too.
            Self::Nested => 2 * u64::from(sections) + 2,
            Self::Pass => 2,
            Self::MutexPass => 0,
        }
    }

    /// Does it so often, in a task, as a service locks.
    async fn run(self, client: Arc<Client>, sections: u32) -> Result<Duration> {
        let lock = client.lock("engine");
        let (first, second) = (sections / 2, sections - sections / 2);
        match self {
            Self::Pair => pairs(&lock, sections).await,
            Self::Nested => {
                let outer = lock.lock().await?;
                let took = pairs(&lock, sections).await?;
                outer.unlock().await?;
                Ok(took)
            }
            Self::Pass => {
                let outer = lock.lock().await?;
                let tasks = [first, second].map(|share| passes(lock.clone(), share));
                let tasks = waiting(tasks).await;
                let started = Instant::now();
                outer.unlock().await?;
                done(tasks, started).await
            }
            Self::MutexPass => {
                let mutex = Arc::new(Mutex::new(()));
                let outer = mutex.lock().await;
                let tasks = [first, second].map(|share| mutex_passes(Arc::clone(&mutex), share));
                let tasks = waiting(tasks).await;
                let started = Instant::now();
                drop(outer);
                done(tasks, started).await
            }
        }
    }
}

async fn pairs(lock: &Lock, sections: u32) -> Result<Duration> {
    let started = Instant::now();
    for _ in 0..sections {
        lock.lock().await?.unlock().await?;
    }
    Ok(started.elapsed())
}

/// Whoever lets go asks again at once, and stands behind the other by then: no section is entered without having waited for it.
async fn passes(lock: Lock, sections: u32) -> Result<()> {
    for _ in 0..sections {
        lock.lock().await?.unlock().await?;
    }
    Ok(())
}

async fn mutex_passes(mutex: Arc<Mutex<()>>, sections: u32) -> Result<()> {
    for _ in 0..sections {
        drop(mutex.lock().await);
    }
    Ok(())
}

/// Two tasks that have asked for what is held.
async fn waiting(tasks: [impl Future<Output = Result<()>> + Send + 'static; 2]) -> JoinSet<Result<()>> {
    let mut set = JoinSet::new();
    for task in tasks {
        set.spawn(task);
    }
    // One thread: each of them runs until it waits before this goes on.
    yield_now().await;
    set
}

async fn done(mut tasks: JoinSet<Result<()>>, started: Instant) -> Result<Duration> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(started.elapsed())
}

impl Series {
    fn of(step: Step) -> Self {
        Self { step, took: Vec::new(), allocations: 0.0, commands: 0.0 }
    }

    /// Nanoseconds of a section.
    fn round(&self, runtime: &Runtime, client: &Arc<Client>, sections: u32) -> Result<f64> {
        let before = client.commands();
        let task: JoinHandle<_> = runtime.spawn(self.step.run(Arc::clone(client), sections));
        let took = runtime.block_on(task)??;
        let (sent, expected) = (client.commands() - before, self.step.commands(sections));
        if sent != expected {
            let name = self.step.name();
            return Err(format!("{sections} times {name}: {sent} commands, and not {expected}").into());
        }
        Ok(took.as_secs_f64() * 1e9 / f64::from(sections))
    }

    /// Allocations and commands of a section.
    fn count(&mut self, runtime: &Runtime, client: &Arc<Client>, sections: u32) -> Result<()> {
        let before = client.commands();
        let mut ran = Ok(0.0);
        let counted = measure(|| ran = self.round(runtime, client, sections));
        ran?;
        self.allocations = counted.count_total as f64 / f64::from(sections);
        self.commands = (client.commands() - before) as f64 / f64::from(sections);
        Ok(())
    }

    fn print(&self) {
        let mut took = self.took.clone();
        took.sort_by(f64::total_cmp);
        let at = |fraction: f64| took[((took.len() - 1) as f64 * fraction).round() as usize];
        println!(
            "{:<44} {:>6.0} ns  {:>6.0} – {:>6.0} ns  {:>11.2}  {:>8.2}",
            self.step.name(),
            at(0.5),
            at(0.25),
            at(0.75),
            self.allocations,
            self.commands,
        );
    }
}

/// Bytes and pieces of memory that one of so many holds of distinct names takes, without the guard itself and the lock object of
/// whoever asks. The room that tables keep for more is counted, so other numbers of holds have other figures.
fn held(runtime: &Runtime, client: &Client, holds: u32) -> Result<(f64, f64)> {
    let locks: Vec<Lock> = (0..holds).map(|number| client.lock(&format!("held-{number}"))).collect();
    let mut guards = Vec::with_capacity(locks.len());
    let mut taken = Ok(());
    let counted = measure(|| taken = runtime.block_on(take(&locks, &mut guards)));
    taken?;
    runtime.block_on(release(guards))?;
    let of_one = |all: i64| all as f64 / f64::from(holds);
    Ok((of_one(counted.bytes_current), of_one(counted.count_current)))
}

async fn take(locks: &[Lock], guards: &mut Vec<LockGuard>) -> Result<()> {
    for lock in locks {
        guards.push(lock.lock().await?);
    }
    Ok(())
}

async fn release(guards: Vec<LockGuard>) -> Result<()> {
    for guard in guards {
        guard.unlock().await?;
    }
    Ok(())
}
