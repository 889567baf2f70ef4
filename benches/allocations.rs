//! How often the allocator is asked during a lock and an unlock on one thread that nobody else wants, beside the driver's
//! share of it: the same two commands, each built in memory of the right size and sent. The same inside of a hold. Fails where
//! it is more than it was.
//!
//! ```text
//! cargo bench --bench allocations
//! ```

#[path = "contention/raw.rs"]
mod raw;
#[path = "contention/server.rs"]
mod server;

use std::process::exit;

use relatch::{
    Client, ReentrantLock,
    redis::{Arg, Cmd},
};
use tokio::runtime::{self, Runtime};

use crate::{raw::Raw, server::Server};

/// So many more than the driver's own are fine: one was reached.
const BEYOND: f64 = 2.0;

/// The same inside of a hold, where each command runs by itself from its turn to its answer: three were reached.
const BEYOND_INSIDE: f64 = 3.5;

/// Enough that what happens now and then does not count.
const PAIRS: u32 = 2000;

/// Whatever goes wrong ends the run.
type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    server::leave_a_cpu();
    let server = Server::start()?;
    // On one thread, so that all is counted: what a task of the driver's or of ours asks for, too.
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let raw = runtime.block_on(Raw::connect(server.url()))?;
    let scripts = [raw.acquisition("allocations-raw", 1), raw.releasing("allocations-raw", 0)];
    let inside = [raw.acquisition("allocations-raw", 2), raw.releasing("allocations-raw", 1)];
    let client = runtime.block_on(Client::connect(server.url()))?;
    let lock = client.lock("allocations");

    let driver = counted(&runtime, async || sent(&raw, &scripts).await)?;
    runtime.block_on(raw.acquire("allocations-raw", 1))?;
    let driver_inside = counted(&runtime, async || sent(&raw, &inside).await)?;
    runtime.block_on(raw.release("allocations-raw", 0))?;
    let raw = counted(&runtime, async || section(&raw).await)?;
    let ours = counted(&runtime, async || pair(&lock).await)?;
    // The owner is this thread: what it does while it holds the lock is inside of that.
    let outer = runtime.block_on(lock.lock().into_future())?;
    let nested = counted(&runtime, async || pair(&lock).await)?;
    runtime.block_on(outer.unlock())?;
    runtime.block_on(client.close());

    println!("allocations in a section; {}", server::cpus());
    println!("  the driver's own: two commands built and sent  {driver:6.2}");
    println!("  two raw EVALSHA, as one would write them       {raw:6.2}");
    println!("  lock + unlock                                  {ours:6.2}");
    let beyond = ours - driver;
    let reached = beyond <= BEYOND;
    println!("  beyond the driver's own                        {beyond:6.2}  ≤ {BEYOND}: {}", yes(reached));
    println!("  the driver's own inside of a hold              {driver_inside:6.2}");
    println!("  lock + unlock inside of a hold                 {nested:6.2}");
    let beyond = nested - driver_inside;
    let nests = beyond <= BEYOND_INSIDE;
    println!("  beyond the driver's own                        {beyond:6.2}  ≤ {BEYOND_INSIDE}: {}", yes(nests));
    if !(reached && nests) {
        exit(1);
    }
    Ok(())
}

fn yes(reached: bool) -> &'static str {
    if reached { "yes" } else { "no" }
}

/// Allocations of one step, once it has all that stays.
fn counted(runtime: &Runtime, step: impl AsyncFn() -> Result<()>) -> Result<f64> {
    let steps = async || {
        for _ in 0..PAIRS {
            step().await?;
        }
        Ok(())
    };
    runtime.block_on(steps())?;
    let mut result = Ok(());
    let counted = allocation_counter::measure(|| result = runtime.block_on(steps()));
    result.map(|()| counted.count_total as f64 / f64::from(PAIRS))
}

async fn sent(raw: &Raw, scripts: &[Cmd; 2]) -> Result<()> {
    for script in scripts {
        raw.connection.clone().send_packed_command(&anew(script)).await?;
    }
    Ok(())
}

/// The same command, as if it were built with all that is known of it.
fn anew(cmd: &Cmd) -> Cmd {
    let words = || cmd.args_iter().filter_map(|arg| if let Arg::Simple(word) = arg { Some(word) } else { None });
    let mut anew = Cmd::with_capacity(words().count(), words().map(<[u8]>::len).sum());
    words().for_each(|word| {
        anew.arg(word);
    });
    anew
}

async fn section(raw: &Raw) -> Result<()> {
    raw.acquire("allocations-raw", 1).await?;
    raw.release("allocations-raw", 0).await
}

async fn pair(lock: &ReentrantLock) -> Result<()> {
    lock.lock().await?.unlock().await?;
    Ok(())
}
