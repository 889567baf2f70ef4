//! What becomes of a periodic job, what its work is told, and what is known of it: plain answers, which ask nothing.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{
    job_hash::Kept,
    job_told::{Millis, Standing, Told, of_fence, time},
};
use crate::{engine::LockGuard, error::Error};

/// What became of a [`PeriodicJob::run`](crate::PeriodicJob::run): the work was done here, or somewhere else, or not at all.
///
/// # Examples
///
/// ```
/// use relatch::Outcome;
///
/// /// A line for the log; nothing where somebody else sees to it.
/// fn line<T, E: std::fmt::Display>(outcome: &Outcome<T, E>) -> Option<String> {
///     match outcome {
///         Outcome::Ran(_) => Some("done".to_owned()),
///         Outcome::Failed { attempt, error, .. } => Some(format!("attempt {attempt} failed: {error}")),
///         Outcome::Exhausted { attempts, .. } => Some(format!("{attempts} attempts failed: somebody should look")),
///         Outcome::Unrecorded(_, error) => Some(format!("done, and may be done again: {error}")),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it says whether the work was done"]
#[non_exhaustive]
pub enum Outcome<T, E> {
    /// The work was done here, and that is on record.
    Ran(T),
    /// The period's work was done before.
    #[non_exhaustive]
    AlreadyDone {
        /// The client whose work it was: [`Client::id`](crate::Client::id), as text.
        client_id: String,
        /// When it was recorded, by the server's clock.
        at: SystemTime,
    },
    /// An attempt is at work, of this period or of an earlier one.
    #[non_exhaustive]
    Running {
        /// The client that is at it: [`Client::id`](crate::Client::id), as text.
        client_id: String,
        /// When it began, by the server's clock.
        since: SystemTime,
        /// How long it may take until it is heard of again. One under the watchdog goes on renewing.
        remaining_lease: Duration,
    },
    /// All attempts of the period were begun, and none had success.
    #[non_exhaustive]
    Exhausted {
        /// So many.
        attempts: u32,
    },
    /// The work failed here. Whoever asks next may try again, if attempts are left.
    #[non_exhaustive]
    Failed {
        /// The attempt's number in its period, from 1 on.
        attempt: u32,
        /// What the work said.
        error: E,
    },
    /// The attempt was lost: the work was dropped, or it was done and somebody else had begun by then. It may be done again.
    #[non_exhaustive]
    Lost {
        /// The attempt's number in its period, from 1 on.
        attempt: u32,
        /// How it was lost.
        error: Error,
    },
    /// The period began too long ago to begin its work: see [`PeriodicJob::start_within`](crate::PeriodicJob::start_within).
    #[non_exhaustive]
    Late {
        /// When the period began.
        period: SystemTime,
    },
    /// The work was done here, and whether that is on record is not known. That goes on being asked for in the background until the
    /// attempt's lease is over; the work may be done again.
    Unrecorded(T, Error),
}

/// What the work of an attempt is told: [`PeriodicJob::run`](crate::PeriodicJob::run) hands it over.
///
/// It does not keep the attempt alive: it may be stored, and says then that the attempt is over.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// use std::{convert::Infallible, time::Duration};
///
/// let job = client.periodic_job("report", Duration::from_secs(3600));
/// let work = |ctx: relatch::JobContext| async move {
///     println!("the period of {:?}, attempt {}", ctx.period(), ctx.attempt());
///     Ok::<_, Infallible>(ctx.missed())
/// };
/// println!("{:?}", job.run(work).await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct JobContext {
    guard: Arc<LockGuard>,
    start_ms: Millis,
    attempt: u32,
    fence: u64,
    last_ms: Option<Millis>,
    every: Duration,
    stop: CancellationToken,
}

impl JobContext {
    pub(super) fn new(guard: Arc<LockGuard>, fence: u64, last_ms: Option<Millis>, every: Duration) -> Self {
        let ((start_ms, attempt), stop) = (of_fence(fence), guard.cancellation());
        Self { guard, start_ms, attempt, fence, last_ms, every, stop }
    }

    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// When the period began whose work this is, by the server's clock: the same for all attempts at it, and for no other period.
    /// A key of it makes the work's own writes happen once.
    #[must_use]
    pub fn period(&self) -> SystemTime {
        time(self.start_ms)
    }

    /// The attempt's number in its period, from 1 on.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A fencing token: greater than those of all attempts before, of this period and of all earlier ones, and less than 2⁵³. It is
    /// the period's start in seconds and, in the lowest 16 bits, the attempt. [`fence`](crate::fence) says what to do with it.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// When the last period began whose work was done; `None` where nothing is known of any.
    #[must_use]
    pub fn last_success(&self) -> Option<SystemTime> {
        self.last_ms.map(time)
    }

    /// How many periods have gone by between the last success and this one, in which the work was not done; 0 where nothing is known
    /// of any success.
    #[must_use]
    pub fn missed(&self) -> u32 {
        let since = self.last_ms.map_or(0, |last_ms| self.start_ms.saturating_sub(last_ms));
        let every = u64::try_from(self.every.as_millis()).unwrap_or(u64::MAX);
        u32::try_from((since / every).saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Says that the work could not be begun here, for want of something that has nothing to do with it, such as a process to do it in.
    /// If it ends as a failure then, the attempt is given back: it does not count. [`Outcome::Failed`] is told all the same.
    ///
    /// Nothing may have been written under its [`fence`](Self::fence): the next attempt has the same. A
    /// [`schedule`](crate::PeriodicJob::schedule) asks again at once: wait, before you give back, for what may be missing for a while.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// use std::{io, time::Duration};
    ///
    /// let job = relatch::Client::embedded().periodic_job("report", Duration::from_secs(3600));
    /// let began = |ctx: relatch::JobContext| async move {
    ///     ctx.give_back();
    ///     Err::<(), _>(io::Error::from(io::ErrorKind::OutOfMemory))
    /// };
    /// let _ = job.run(began).await?;
    /// assert_eq!(job.inspect().await?.map(|record| record.attempts), Some(0));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub fn give_back(&self) {
        self.guard.note_unbegun();
    }

    /// How long the attempt lasts unless it is renewed, by what is known here; `None` once it is over. No I/O.
    ///
    /// It is for work that something else does, such as another process, and that must be over by then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// use std::{convert::Infallible, time::Duration};
    ///
    /// use relatch::{Client, Outcome};
    ///
    /// let job = Client::embedded().periodic_job("report", Duration::from_secs(3600));
    /// let outcome = job.run(|ctx| async move { Ok::<_, Infallible>((ctx.expires_in(), ctx)) }).await?;
    /// let Outcome::Ran((during, ctx)) = outcome else { panic!("nobody else is there") };
    /// assert!(during.is_some_and(|left| left > Duration::from_secs(29)));
    /// assert_eq!(ctx.expires_in(), None);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[must_use]
    pub fn expires_in(&self) -> Option<Duration> {
        self.guard.expires_in()
    }

    /// Resolves when the attempt is lost, with the reason; never if it ends otherwise. The work itself is dropped then: this is for
    /// what it spawned.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(ctx: relatch::JobContext) {
    /// tokio::spawn(async move {
    ///     tokio::select! {
    ///         biased;
    ///         reason = ctx.lost() => println!("stop: {reason}"),
    ///         () = tokio::time::sleep(std::time::Duration::from_secs(5)) => println!("done"),
    ///     }
    /// });
    /// # }
    /// ```
    pub async fn lost(&self) -> Error {
        self.guard.lost().await
    }

    /// A token that is cancelled when the attempt ends, however it does; and before that, when the client
    /// [shuts down](crate::Client::shutdown), or when the token is cancelled that
    /// [`PeriodicJob::schedule`](crate::PeriodicJob::schedule) was given: then the attempt goes on while its work stops.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(ctx: relatch::JobContext) {
    /// let stop = ctx.cancellation();
    /// tokio::task::spawn_blocking(move || {
    ///     while !stop.is_cancelled() {
    ///         // … one more step …
    ///     }
    /// });
    /// # }
    /// ```
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.stop.child_token()
    }
}

/// What the server knows of a periodic job: [`PeriodicJob::inspect`](crate::PeriodicJob::inspect). All times are by its clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobRecord {
    /// When the newest period began that somebody was at.
    pub period: SystemTime,
    /// So many attempts at it were begun.
    pub attempts: u32,
    /// The attempt that is at work, unless there is none.
    pub running: Option<JobAttempt>,
    /// The period's success, unless there is none yet.
    pub success: Option<JobSuccess>,
    /// When the last period began whose work was done.
    pub last_success: Option<SystemTime>,
    /// How long this is kept, if nothing is added; `None` where somebody else took its TTL away.
    pub kept_for: Option<Duration>,
}

/// An attempt that is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobAttempt {
    /// The client that is at it: [`Client::id`](crate::Client::id), as text.
    pub client_id: String,
    /// The number of its hold.
    pub hold_id: String,
    /// When it began.
    pub since: SystemTime,
    /// How long it has until it counts as dead. One under the watchdog goes on renewing.
    pub remaining_lease: Duration,
}

/// A success.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobSuccess {
    /// The client whose work it was: [`Client::id`](crate::Client::id), as text.
    pub client_id: String,
    /// The number of its hold.
    pub hold_id: String,
    /// When it was recorded.
    pub at: SystemTime,
}

impl JobRecord {
    pub(super) fn of(kept: Kept) -> Self {
        let Kept { now_ms, ttl_ms, start_ms, attempts, run, done, last_ms } = kept;
        let running = run.filter(|(_, until_ms, _)| now_ms < *until_ms).map(|(by, until_ms, since_ms)| {
            let ((client_id, hold_id), remaining_lease) = (holder(&by), Duration::from_millis(until_ms - now_ms));
            JobAttempt { client_id, hold_id, since: time(since_ms), remaining_lease }
        });
        let success = done.map(|(by, at_ms)| {
            let (client_id, hold_id) = holder(&by);
            JobSuccess { client_id, hold_id, at: time(at_ms) }
        });
        let kept_for = ttl_ms.map(Duration::from_millis);
        Self { period: time(start_ms), attempts, running, success, last_success: last_ms.map(time), kept_for }
    }
}

impl Told {
    /// For whoever did not begin. `client_id`: ours, whose other tasks may be about to.
    pub(super) fn outcome<T, E>(self, client_id: &str) -> Outcome<T, E> {
        let running = |client_id, since_ms, left_ms| Outcome::Running {
            client_id,
            since: time(since_ms),
            remaining_lease: Duration::from_millis(left_ms),
        };
        match self.standing {
            Standing::Running { left_ms, since_ms, by } => running(holder(&by).0, since_ms, left_ms),
            Standing::Begun { .. } | Standing::Open => running(client_id.to_owned(), self.now_ms, 0),
            Standing::Done { at_ms, by } => Outcome::AlreadyDone { client_id: holder(&by).0, at: time(at_ms) },
            Standing::Exhausted => Outcome::Exhausted { attempts: self.attempt },
            Standing::Late => Outcome::Late { period: time(self.start_ms) },
        }
    }
}

/// The client and the number of a hold.
fn holder(field: &str) -> (String, String) {
    let (client, number) = field.rsplit_once(':').unwrap_or((field, ""));
    (client.to_owned(), number.to_owned())
}
