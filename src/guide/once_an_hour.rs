//! A job that one of many replicas runs, once a period.
//!
//! Each replica has a timer, and when it fires, whoever gets the lock runs the job. A plain `try_lock` around the job is
//! **not** enough: the timers do not fire at the same moment. If the job takes 10 ms and a timer fires 80 ms after the
//! first one, the lock is free again, and the job runs a second time.
//!
//! # Keep the lock for the period
//!
//! Take the lock with a fixed lease, under a name that contains the period, and let go of the *guard* only. Nobody can
//! take this hour's lock again until its lease is over, and by then the hour has another name.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> relatch::Result<()> {
//! use std::{
//!     sync::atomic::{AtomicU32, Ordering},
//!     time::Duration,
//! };
//!
//! use relatch::{Client, EmbeddedStore, Result};
//! use tokio::time::sleep;
//!
//! /// Longer than the job, and longer than the replicas' timers are apart.
//! const LEASE: Duration = Duration::from_secs(55 * 60);
//!
//! static RUNS: AtomicU32 = AtomicU32::new(0);
//!
//! /// The job itself.
//! async fn write_report() {
//!     RUNS.fetch_add(1, Ordering::SeqCst);
//!     sleep(Duration::from_millis(10)).await;
//! }
//!
//! /// Runs the job unless another replica has. `hour` is the same everywhere: "2026-11-28T14", from UTC.
//! async fn hourly(client: &Client, hour: &str) -> Result<bool> {
//!     let lock = client.mutex(format!("report:{hour}"));
//!     let Some(guard) = lock.try_lock().lease(LEASE).await? else { return Ok(false) };
//!     guard.protect(write_report()).await?; // an error drops the guard: another replica may try
//!     guard.detach(); // done: the lock stays until its lease is over
//!     Ok(true)
//! }
//!
//! let store = EmbeddedStore::new();
//! let mut replicas = tokio::task::JoinSet::new();
//! for late in [0, 80, 160, 240, 60_000] {
//!     let client = Client::builder().embedded(&store).connect().await?;
//!     replicas.spawn(async move {
//!         sleep(Duration::from_millis(late)).await; // timers are never exact
//!         let ran = hourly(&client, "2026-11-28T14").await;
//!         sleep(Duration::from_secs(3600)).await; // the replica lives on, to the next hour
//!         ran
//!     });
//! }
//! let ran: Vec<bool> = replicas.join_all().await.into_iter().collect::<Result<_>>()?;
//! assert_eq!(ran.iter().filter(|ran| **ran).count(), 1);
//! assert_eq!(RUNS.load(Ordering::SeqCst), 1);
//! assert!(store.is_empty()); // and nothing of it is left an hour later
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! Why it is written this way:
//!
//! - **A fixed lease.** It is not renewed, so the detached hold ends by itself. With the watchdog it would be renewed for
//!   as long as the process lives.
//! - **`mutex`, not `lock`.** A scheduler is often one task. With `lock` that task would still be the owner of the
//!   detached hold, and a second try of it would nest and run the job again.
//! - **The period in the name.** A lease that is a little too long then does no harm. Without it the lease must end before
//!   the next period begins, on every clock.
//! - **`protect`.** The hold ends with its lease even if the job has not: the job is stopped then.
//! - **`detach` on success only.** When the job fails, the guard is dropped, and the next replica whose timer fires can try
//!   again.
//!
//! [`Client::shutdown`](crate::Client::shutdown) waits for detached holds, too, for its whole grace. So give such jobs a client
//! of their own, and [`close`](crate::Client::close) that one: it leaves the lock to its lease, which is what you want here.
//!
//! # What it does not give
//!
//! - If the process dies in the middle of the job, the lock stays for the rest of the lease, and the job is not repeated in
//!   this period.
//! - If the server forgets the key (a restart without persistence, a failover that loses a write, eviction), the job can run
//!   twice. Where that would do harm, write a row "done for 14:00" in the same transaction as the job's result, and look at
//!   it first.
//! - Replicas whose clocks are in different hours use different names.
//!
//! A *periodic job*, which knows when it ran last and repeats what was interrupted, is planned.
