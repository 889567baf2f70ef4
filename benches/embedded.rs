//! What a lock costs on the store in this process: the time of one lock and unlock, nobody else being there.
//!
//! ```text
//! cargo bench --features embedded --bench embedded
//! ```

use std::{error::Error, time::Instant};

use relatch::Client;

const ROUNDS: u32 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::embedded();
    let lock = client.lock("bench");
    for rounds in [ROUNDS / 10, ROUNDS] {
        let started = Instant::now();
        for _ in 0..rounds {
            lock.lock().await?.unlock().await?;
        }
        let micros = started.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
        println!("{rounds} rounds of lock and unlock: {micros:.1} µs each");
    }
    Ok(())
}
