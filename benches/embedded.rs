//! What a lock costs on the store in this process: the time of one lock and unlock, nobody else being there. The best batch
//! is what it costs; the others tell how busy the machine was.
//!
//! ```text
//! cargo bench --features embedded --bench embedded
//! ```

use std::{error::Error, time::Instant};

use relatch::Client;

const BATCHES: usize = 40;
const ROUNDS: u32 = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::embedded();
    let lock = client.lock("bench");
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let started = Instant::now();
        for _ in 0..ROUNDS {
            lock.lock().await?.unlock().await?;
        }
        batches.push(started.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
    }
    batches.sort_by(f64::total_cmp);
    let (best, median) = (batches[0], batches[BATCHES / 2]);
    println!("lock and unlock, {BATCHES} batches of {ROUNDS}: best {best:.1} µs, median {median:.1} µs");
    Ok(())
}
