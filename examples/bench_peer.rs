//! Puts a load on the locks of a server that somebody else started, and prints one line of JSON: for those who compare
//! libraries side by side. What the options are and what the line says is in `benches/load/peer.rs`.
//!
//! ```text
//! cargo run --release --example bench_peer -- --redis 127.0.0.1:6379 --case hot --tasks 16 --secs 3
//! ```

#[path = "../benches/load/mod.rs"]
mod load;
#[path = "../benches/load/ours.rs"]
mod ours;

use std::{env, time::Duration};

use relatch::{Client, Lease};

use crate::{
    load::{Asked, Result, answer},
    ours::Ours,
};

/// The lease of every hold, renewed by the watchdog: as with the libraries that it stands beside.
const LEASE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read(env::args().skip(1), &["relatch"])?;
    let client = Client::builder().url(&asked.url).watchdog_timeout(LEASE).connect().await?;
    let library = Ours { client: client.clone(), lease: Lease::Watchdog };
    println!("{}", answer(&asked, &library, env!("CARGO_PKG_VERSION")).await?);
    client.close().await;
    Ok(())
}
