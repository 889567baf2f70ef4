//! What one step of a lock takes, with criterion: the pair, the nested pair, a pass and a drop, beside the same scripts
//! sent raw. How much goes through a lock that many want is in `contention`.
//!
//! ```text
//! cargo bench -p foreign --bench latency
//! ```

#[path = "../../../benches/contention/raw.rs"]
mod raw;
#[path = "../../../benches/contention/server.rs"]
mod server;

use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use relatch::{Client, LockGuard};
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{raw::Raw, server::Server};

/// The name of the raw sections.
const RAW: &str = "latency-raw";

/// Whatever goes wrong ends the run.
type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    server::leave_a_cpu();
    let server = Server::start()?;
    let runtime = Runtime::new()?;
    let raw = runtime.block_on(Raw::connect(server.url()))?;
    let client = runtime.block_on(Client::connect(server.url()))?;
    println!("{}", server::cpus());
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("latency");
    raw_pair(&mut group, &runtime, &raw);
    pair(&mut group, &runtime, &client);
    raw_nested(&mut group, &runtime, &raw);
    nested(&mut group, &runtime, &client);
    pass(&mut group, &runtime, &client);
    dropped(&mut group, &runtime, &client);
    group.finish();
    criterion.final_summary();
    runtime.block_on(client.close());
    Ok(())
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn raw_pair(group: &mut Group<'_>, runtime: &Runtime, raw: &Raw) {
    group.bench_function("two raw EVALSHA", |bencher| {
        bencher.to_async(runtime).iter(async || raw_section(raw, 0).await.expect("the lock is free"));
    });
}

fn pair(group: &mut Group<'_>, runtime: &Runtime, client: &Client) {
    let lock = client.lock("latency");
    group.bench_function("lock and unlock", |bencher| {
        bencher.to_async(runtime).iter(async || unlock(&lock.lock().await.expect("the lock is free")).await);
    });
}

fn raw_nested(group: &mut Group<'_>, runtime: &Runtime, raw: &Raw) {
    runtime.block_on(raw.acquire(RAW, 1)).expect("the lock is free");
    group.bench_function("two raw EVALSHA, nested", |bencher| {
        bencher.to_async(runtime).iter(async || raw_section(raw, 1).await.expect("it is held"));
    });
    runtime.block_on(raw.release(RAW, 0)).expect("it is held");
}

fn nested(group: &mut Group<'_>, runtime: &Runtime, client: &Client) {
    let lock = client.lock("latency");
    group.bench_function("nested lock and unlock", |bencher| {
        bencher.to_async(runtime).iter_custom(async |rounds| {
            let outer = lock.lock().await.expect("the lock is free");
            let started = Instant::now();
            for _ in 0..rounds {
                unlock(&lock.lock().await.expect("it nests")).await;
            }
            let took = started.elapsed();
            unlock(&outer).await;
            took
        });
    });
}

/// Two tasks that hand one lock to each other: a round is one section.
fn pass(group: &mut Group<'_>, runtime: &Runtime, client: &Client) {
    let lock = client.lock("latency");
    group.bench_function("a section between two tasks", |bencher| {
        bencher.to_async(runtime).iter_custom(async |rounds| {
            let mut tasks = JoinSet::new();
            let started = Instant::now();
            for share in [rounds / 2, rounds - rounds / 2] {
                let lock = lock.clone();
                tasks.spawn(async move {
                    for _ in 0..share {
                        unlock(&lock.lock().await.expect("the server answers")).await;
                    }
                });
            }
            tasks.join_all().await;
            started.elapsed()
        });
    });
}

/// What it costs the task that drops; the release goes on without it.
fn dropped(group: &mut Group<'_>, runtime: &Runtime, client: &Client) {
    let lock = client.lock("latency");
    group.bench_function("drop of a guard", |bencher| {
        bencher.to_async(runtime).iter_custom(async |rounds| {
            let mut took = Duration::ZERO;
            for _ in 0..rounds {
                let guard = lock.lock().await.expect("the lock is free");
                let started = Instant::now();
                drop(guard);
                took += started.elapsed();
            }
            took
        });
    });
}

/// One more hold than `outer`, and back.
async fn raw_section(raw: &Raw, outer: u32) -> Result<()> {
    raw.acquire(RAW, outer + 1).await?;
    raw.release(RAW, outer).await
}

async fn unlock(guard: &LockGuard) {
    guard.unlock().await.expect("it is held");
}
