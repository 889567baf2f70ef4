//! A job that one of many replicas does, once a period.
//!
//! Each replica has a timer, and when it fires, whoever comes first does the job. A lock around the job is **not** enough: the timers
//! do not fire at the same moment. If the job takes 10 ms and a timer fires 80 ms after the first one, the lock is free again, and the
//! job is done a second time. What is missing is a record of what was done.
//!
//! # The job and its record
//!
//! [`Client::periodic_job`](crate::Client::periodic_job) keeps one beside the lock, in one step with it.
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
//! use relatch::{Client, EmbeddedStore, Outcome, Result};
//! use tokio::time::sleep;
//!
//! static RUNS: AtomicU32 = AtomicU32::new(0);
//!
//! /// The job itself. The first time, it fails.
//! async fn write_report() -> std::result::Result<(), &'static str> {
//!     sleep(Duration::from_millis(10)).await;
//!     if RUNS.fetch_add(1, Ordering::SeqCst) == 0 { Err("the disk is full") } else { Ok(()) }
//! }
//!
//! /// Does the job unless another replica has, or is at it.
//! async fn hourly(client: &Client) -> Result<bool> {
//!     let job = client.periodic_job("report", Duration::from_secs(3600));
//!     match job.run(|_| write_report()).await? {
//!         Outcome::Ran(()) => return Ok(true),
//!         Outcome::Failed { attempt, error, .. } => println!("attempt {attempt}: {error}"),
//!         _ => {} // somebody else sees to it
//!     }
//!     Ok(false)
//! }
//!
//! let store = EmbeddedStore::new();
//! let mut replicas = tokio::task::JoinSet::new();
//! for late in [0, 80, 160, 240, 1_000] {
//!     let client = Client::builder().embedded(&store).connect().await?;
//!     replicas.spawn(async move {
//!         sleep(Duration::from_millis(late)).await; // timers are never exact
//!         hourly(&client).await
//!     });
//! }
//! let ran: Vec<bool> = replicas.join_all().await.into_iter().collect::<Result<_>>()?;
//! assert_eq!(ran.iter().filter(|ran| **ran).count(), 1);
//! assert_eq!(RUNS.load(Ordering::SeqCst), 2); // it failed once, and the next replica did it
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! - **The period is the server's.** An hour begins at its full hour, a day at midnight UTC, by the clock of the server, and later by an
//!   [`offset`](crate::PeriodicJob::offset). A replica whose clock is five seconds ahead asks five seconds early, and hears that the old
//!   hour's work is done: it has to ask again in the new one, or nobody may. `schedule` sleeps by the server's clock, so that it asks in each.
//! - **A failure frees it at once**, for whoever asks next, up to [`max_attempts`](crate::PeriodicJob::max_attempts) times a period. After
//!   that it is [`Outcome::Exhausted`](crate::Outcome::Exhausted).
//! - **A process that dies** with it keeps it for one lease, 30 s, and has had its attempt: a job that kills its process does not kill
//!   all of them.
//! - **However long it takes**, it is renewed, also into the next period. That one begins when this one is over.
//! - **An attempt whose work never began is given back**: where the answer was lost, or the future was dropped.
//!
//! # Period after period
//!
//! [`PeriodicJob::schedule`](crate::PeriodicJob::schedule) is the timer, too. Every replica calls it; all but one stand by, and go on where that one
//! fails, within a round trip, or dies, within a lease. Between periods they sleep.
//!
//! ```no_run
//! # async fn write_report() -> std::io::Result<()> { Ok(()) }
//! # async fn example(client: relatch::Client) -> relatch::Result<()> {
//! use std::time::Duration;
//!
//! use relatch::CancellationToken;
//!
//! let stop = CancellationToken::new();
//! let job = client.periodic_job("report", Duration::from_secs(3600)).start_within(Duration::from_secs(600));
//! let reports = tokio::spawn({
//!     let stop = stop.clone();
//!     async move { job.schedule(stop, |_| write_report()).await }
//! });
//! // … on SIGTERM …
//! stop.cancel(); // nothing is begun any more, and what is under way is told so by ctx.cancellation()
//! reports.await.expect("no panic")?;
//! client.shutdown(Duration::from_secs(20)).await;
//! # Ok(())
//! # }
//! ```
//!
//! With a scheduler of your own, `tokio-cron-scheduler` say, call [`run`](crate::PeriodicJob::run) from its job, in every replica, and not at the
//! full hour but some time after it, by more than clocks may be ahead of the server's. Where it is to be the full hour, and
//! [`until_next_period`](crate::PeriodicJob::until_next_period) says that this one is about to end, sleep for that, and call it again.
//!
//! # What a period's work is told
//!
//! | [`JobContext`](crate::JobContext) | |
//! | --- | --- |
//! | `period()` | when the period began: a key for what the work writes |
//! | `attempt()` | which one it is, from 1 on |
//! | `fence()` | a [fencing token](super::fencing) that grows over attempts and periods |
//! | `last_success()`, `missed()` | the last period whose work was done, and how many have gone by since without |
//! | `lost()`, `cancellation()` | the attempt is over, or is to stop: for what the work spawned |
//!
//! # What it does not give
//!
//! It is done **at least once** rather than never.
//!
//! - A process that dies between the work and its record makes it be done again, as does a record that had no answer:
//!   [`Outcome::Unrecorded`](crate::Outcome::Unrecorded).
//! - If the server forgets the record (a restart without persistence, a failover that loses a write, eviction), the work is done once
//!   more. Where that would do harm, write a row "done for 14:00", by `ctx.period()`, in the same transaction as the work's result.
//! - A process that was paused in its work may wake when another one has begun. `ctx.fence()` is for that.
//! - A period in which nobody asked, or nobody had success, is over: it is not made up for. `ctx.missed()` says how many there were.
//! - If the clock of the server is set back across a boundary, what was done stays done. If it is set forward, the next period begins
//!   early.
//! - Periods are lengths of time: there is no "every day at nine in Berlin".
//! - The record is ours: no other library knows of it. Where a fleet shares the job with one, by a key of its own making, the
//!   [token lock](super::token_lock) writes such a key; the example `hourly` does.
