//! Puts a load on the locks of another library, and prints one line of JSON. The bench builds and starts this; what the
//! options are and what the line says is in `../../load/peer.rs`.
//!
//! Both libraries poll. They look every 5 ms, or as often as `BENCH_POLL_MS` says: with what is usual for them they would
//! be slower.

#[path = "../../load/mod.rs"]
mod load;

use std::{env, time::Duration};

use rlock::{
    AcquireOptions, LeaseState,
    async_lock::{RLock, RLockGuard},
};
use rslock::{LockGuard, LockManager};

use crate::load::{Asked, Library, Result, answer};

const LEASE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<()> {
    let asked = Asked::read(env::args().skip(1), &["rslock", "rlock"])?;
    let pause = Duration::from_millis(env::var("BENCH_POLL_MS").map_or(Ok(5), |pause| pause.parse())?);
    let line = if asked.library == "rslock" {
        let mut manager = LockManager::new(vec![asked.url.clone()]);
        // It gives up after so many tries.
        manager.set_retry(1 << 30, pause);
        answer(&asked, &Rslock(manager), "0.10.0").await?
    } else {
        let options = AcquireOptions::builder().ttl(LEASE).retry_interval(pause).build()?;
        answer(&asked, &Rlock(RLock::new(asked.url.clone()).await?, options), "0.2.0").await?
    };
    println!("{line}");
    Ok(())
}

/// Its guards last for the lease, and are not renewed.
struct Rslock(LockManager);

impl Library for Rslock {
    type Lock = (LockManager, String);
    type Guard = LockGuard;

    fn lock(&self, name: &str) -> Self::Lock {
        (self.0.clone(), name.to_owned())
    }

    async fn acquire((manager, name): &Self::Lock) -> Result<LockGuard> {
        Ok(manager.acquire(name.as_str(), LEASE).await.map_err(|error| error.to_string())?)
    }

    async fn release(_: &Self::Lock, guard: LockGuard) -> Result<()> {
        guard.release().await;
        Ok(())
    }

    fn is_held(_: &LockGuard) -> bool {
        true
    }
}

/// It renews by itself.
struct Rlock(RLock, AcquireOptions);

impl Library for Rlock {
    type Lock = (RLock, AcquireOptions, String);
    type Guard = RLockGuard;

    fn lock(&self, name: &str) -> Self::Lock {
        (self.0.clone(), self.1.clone(), name.to_owned())
    }

    async fn acquire((rlock, options, name): &Self::Lock) -> Result<RLockGuard> {
        Ok(rlock.acquire_mutex_with_options(name.as_str(), options.clone()).await.map_err(|error| error.to_string())?)
    }

    async fn release(_: &Self::Lock, mut guard: RLockGuard) -> Result<()> {
        Ok(guard.release().await.map_err(|error| error.to_string())?)
    }

    fn is_held(guard: &RLockGuard) -> bool {
        guard.lease_state() == LeaseState::Active
    }
}
