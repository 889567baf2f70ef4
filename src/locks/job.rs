//! The periodic job as a user sees it: work that one of many processes does, once a period. When to ask for it is in
//! `crate::schedule`, what it is on the server in `job_hash.rs`.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    JobContext, JobRecord, Outcome, Scope,
    job_hash::{JobHash, Terms},
    job_told::{Standing, Told},
};
use crate::{
    engine::{Engine, Handle, Nesting, NotedGuard, Protocol},
    error::{Error, Op, Result},
    lease::{self, Lease},
};

/// So many attempts has a period, unless it is said.
const ATTEMPTS: u16 = 3;

/// Another task of this client may have had its turn a moment ago, and others are let go first: for so long it is asked again.
const MOMENT: Duration = Duration::from_millis(100);

/// Work that one of many processes does once a period, whoever comes first. Made by
/// [`Client::periodic_job`](crate::Client::periodic_job).
///
/// Every process asks for it, by a timer of its own or by [`schedule`](Self::schedule). The first one begins, and keeps the job while it
/// works, as a lock under the watchdog. When its work is done, that is on record, and nobody begins it again in this period. If
/// it fails, another one may try at once; if it dies, within a lease. After [`max_attempts`](Self::max_attempts) the period is given up.
///
/// Periods are those of the *server's* clock: every hour at its full hour, a day at midnight UTC, unless there is an
/// [`offset`](Self::offset). No clock of a process is asked.
///
/// The work is done at least once rather than never: a process that dies after its work and before the record, or a server that
/// forgets the record, makes it be done again. [`JobContext::period`] and [`JobContext::fence`] are for work that must not be.
/// The guide has a [page](crate::guide::once_an_hour) on it.
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
/// let first = job.run(|ctx| async move { Ok::<_, Infallible>(ctx.attempt()) }).await?;
/// assert!(matches!(first, Outcome::Ran(1)));
/// let again = job.run(|_| async { Ok::<_, Infallible>(0) }).await?;
/// assert!(matches!(again, Outcome::AlreadyDone { .. }));
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct PeriodicJob {
    handle: Handle,
    job: Result<Arc<JobHash>>,
    lease: Lease,
}

/// What came of asking for the work.
pub(crate) enum Begun {
    /// It is ours to do.
    Here(Box<JobTurn>),
    /// It is not, by what was told.
    Not(Told),
}

/// The work of a period, while it is ours to do.
pub(crate) struct JobTurn {
    guard: NotedGuard,
    context: JobContext,
}

impl PeriodicJob {
    pub(crate) fn new(engine: &Arc<Engine>, scope: &Arc<Scope>, name: &str, period: Duration) -> Self {
        let terms = lease::period(period).map(|every| Terms {
            every,
            offset: Duration::ZERO,
            max_attempts: ATTEMPTS,
            within: None,
            keep: None,
        });
        let job = terms.and_then(|terms| scope.job(name, terms)).map(Arc::new);
        Self { handle: Handle::new(engine, protocol(&job)), job, lease: Lease::Watchdog }
    }

    /// The same job, done otherwise.
    fn with(self, change: impl FnOnce(Terms) -> Result<Terms>) -> Self {
        let job = self.job.and_then(|job| Ok(Arc::new(job.on(change(job.terms())?))));
        Self { handle: self.handle.with(protocol(&job)), job, lease: self.lease }
    }

    /// How often the work of a period is begun at most, by all processes together: 3 by default, from 1 to 65535; another number is
    /// [`Error::Invalid`] at the first use.
    ///
    /// One that is begun counts, whatever becomes of it: a process that dies of the work has had its attempt.
    #[must_use]
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with(|terms| Ok(Terms { max_attempts: lease::attempts(attempts)?, ..terms }))
    }

    /// How long an attempt lasts on the server; the default is [`Lease::Watchdog`], which is renewed for as long as the work takes. A
    /// fixed one has 10 ms to 365 days: work that takes longer is dropped, and may be begun elsewhere.
    #[must_use]
    pub fn attempt_lease(self, lease: impl Into<Lease>) -> Self {
        Self { lease: lease.into(), ..self }
    }

    /// Periods begin this much later than they would: with an hour and five minutes, at five past. Whole seconds, and less than the
    /// period; another one is [`Error::Invalid`] at the first use. All processes are to have the same one.
    #[must_use]
    pub fn offset(self, offset: Duration) -> Self {
        self.with(|terms| Ok(Terms { offset: lease::offset(offset, terms.every)?, ..terms }))
    }

    /// The work is begun so long after its period's start at most, or not at all: [`Outcome::Late`]. The default is the whole period,
    /// and no more than that; another one is [`Error::Invalid`] at the first use.
    #[must_use]
    pub fn start_within(self, within: Duration) -> Self {
        self.with(|terms| Ok(Terms { within: Some(lease::start_within(within, terms.every)?), ..terms }))
    }

    /// How long the server keeps the record of what was done, from the last change on: two periods by default, one at least, and two
    /// years at most; another one is [`Error::Invalid`] at the first use. A job that may miss some periods knows by a longer one of its
    /// [`last_success`](JobContext::last_success).
    #[must_use]
    pub fn keep_record(self, keep: Duration) -> Self {
        self.with(|terms| Ok(Terms { keep: Some(lease::keep_record(keep, terms.every)?), ..terms }))
    }

    /// Does the work of the present period, if nobody has done it, nobody is at it, and attempts are left. One round trip to ask, and
    /// one to record what became of it.
    ///
    /// The work is dropped if the attempt is lost, as with [`LockGuard::protect`](crate::LockGuard::protect). If it panics, the
    /// attempt failed, and the panic goes on. Tasks of one client that ask at the same time exclude each other like processes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a bad name or option, before anything is sent, and where this client is at the same job with other options;
    /// [`Error::Unreachable`] and [`Error::Refused`] if the server does not answer or will not: the work was not begun;
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Dropped while it asks, the attempt that may exist is given back in the background. Dropped while the work is done, the work is
    /// dropped, and the attempt has failed: another process may begin at once. Dropped after that, while success is recorded, it is
    /// recorded in the background.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// use std::time::Duration;
    ///
    /// use relatch::Outcome;
    ///
    /// let job = client.periodic_job("report", Duration::from_secs(3600)).max_attempts(2);
    /// match job.run(|ctx| async move { tokio::fs::write("report", format!("{:?}", ctx.period())).await }).await? {
    ///     Outcome::Ran(()) => println!("written"),
    ///     Outcome::Failed { error, .. } => println!("not written: {error}"),
    ///     _ => {} // somebody else sees to it
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F, W, T, E>(&self, work: F) -> Result<Outcome<T, E>>
    where
        F: FnOnce(JobContext) -> W,
        W: Future<Output = std::result::Result<T, E>>,
    {
        match self.begin(Duration::ZERO).await? {
            Begun::Here(turn) => Ok(turn.run(work).await),
            Begun::Not(told) => Ok(told.outcome(self.job()?.client_id())),
        }
    }

    /// Asks for the present period's work, and waits so long while another attempt is at it.
    pub(crate) async fn begin(&self, wait: Duration) -> Result<Begun> {
        if let Some(begun) = self.try_begin(wait).await? {
            return Ok(begun);
        }
        // Another task of this client has it, or had it a moment ago. What is to be done about that only the server knows.
        let told = self.look().await?;
        if told.standing != Standing::Open {
            return Ok(Begun::Not(told));
        }
        match self.try_begin(wait.max(MOMENT)).await? {
            Some(begun) => Ok(begun),
            None => Ok(Begun::Not(self.look().await?)),
        }
    }

    /// `None` where nobody was asked.
    async fn try_begin(&self, wait: Duration) -> Result<Option<Begun>> {
        let job = self.job()?;
        let before = job.board().number();
        let guard = self.handle.try_lock(Nesting::Never).lease(self.lease).wait(wait).await?;
        let told = job.board().since(before);
        let every = job.terms().every;
        Ok(match guard.map(NotedGuard::new) {
            // Somebody else may have been told something since, if it was lost before it was taken.
            Some(guard) => guard.share().fence().map(|fence| {
                let context = JobContext::new(guard.share(), fence, told.as_ref().and_then(Told::last), every);
                Begun::Here(Box::new(JobTurn { guard, context }))
            }),
            None => told.map(Begun::Not),
        })
    }

    /// How it stands, by the record.
    async fn look(&self) -> Result<Told> {
        let job = self.job()?;
        let (kept, now_ms) = self.handle.answer(Op::Inspect, || job.kept()).await?;
        Ok(job.standing(kept.as_ref(), now_ms))
    }

    /// What the server knows of the job; `None` where that is nothing, or nothing any more.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] without an answer within the command timeout, [`Error::Refused`] if the server will not,
    /// [`Error::Protocol`] if the record is none, [`Error::Invalid`] for a bad name or option, [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let job = client.periodic_job("report", std::time::Duration::from_secs(3600));
    /// if let Some(record) = job.inspect().await? {
    ///     println!("{} attempts, the last success in the period of {:?}", record.attempts, record.last_success);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self) -> Result<Option<JobRecord>> {
        let job = self.job()?;
        let (kept, _) = self.handle.answer(Op::Inspect, || job.kept()).await?;
        Ok(kept.map(JobRecord::of))
    }

    /// Ends the attempt that is at work, wherever that is, as a failure: looks who that is, and ends exactly that one. `true` if there
    /// was one, even if it ended before it could be ended.
    ///
    /// It stays counted, and the period's record stays. An attempt of this client is told
    /// ([`LostCause::Forced`](crate::LostCause::Forced)) before the command is sent; one elsewhere finds out with its next renewal.
    ///
    /// # Errors
    ///
    /// As for [`PeriodicJob::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropped after the look, it may end that attempt or not; it never ends a later one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let job = client.periodic_job("report", std::time::Duration::from_secs(3600));
    /// if job.reset().await? {
    ///     println!("somebody was at it, and hung");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reset(&self) -> Result<bool> {
        self.job()?;
        self.handle.force_unlock().await
    }

    /// The name, as it was given; empty if it was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// How long it is until the next period begins after the one in which the server answered last, by its clock; zero once that has
    /// begun, `None` before the first answer and for a bad name or option. No I/O.
    ///
    /// It is for a timer of your own that fires at a period's start: on a machine whose clock is ahead it fires in the period before,
    /// whose work is done. Whoever hears that, and sees the next period come in a moment, asks again then.
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
    /// assert_eq!(job.until_next_period(), None);
    /// let work = || job.run(|ctx| async move { Ok::<_, Infallible>(ctx.period()) });
    /// let Outcome::Ran(first) = work().await? else { panic!("nobody else is there") };
    /// tokio::time::sleep(job.until_next_period().expect("it has answered")).await;
    /// let Outcome::Ran(second) = work().await? else { panic!("nobody else is there") };
    /// assert_eq!(second.duration_since(first).ok(), Some(Duration::from_secs(3600)));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    #[must_use]
    pub fn until_next_period(&self) -> Option<Duration> {
        let job = self.job.as_ref().ok()?;
        let told = job.board().since(0)?;
        Some(job.left_when_told(&told).saturating_sub(told.age()))
    }

    fn job(&self) -> Result<&Arc<JobHash>> {
        self.job.as_ref().map_err(Error::clone)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The longest that its processes wait apart from each other when a period begins, so that not all of them ask at once.
    pub(crate) fn apart(&self) -> Result<Duration> {
        let terms = self.job()?.terms();
        Ok((terms.every / 20).min(Duration::from_secs(1)).min(terms.within() / 2))
    }

    /// When the next period begins, by what was told last.
    pub(crate) fn next_period(&self) -> Result<Instant> {
        let job = self.job()?;
        Ok(job.board().since(0).map_or_else(Instant::now, |told| told.next_period(job.terms().every)))
    }
}

impl Told {
    /// Whether there is nothing left to do in the period.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.standing, Standing::Done { .. } | Standing::Exhausted | Standing::Late)
    }

    /// Whether it is over without a success.
    pub(crate) fn is_given_up(&self) -> bool {
        matches!(self.standing, Standing::Exhausted | Standing::Late)
    }
}

impl JobTurn {
    /// Cancelled, the work is to stop.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.context.stop().clone()
    }

    /// Does the work, and records what became of it.
    pub(crate) async fn run<F, W, T, E>(self, work: F) -> Outcome<T, E>
    where
        F: FnOnce(JobContext) -> W,
        W: Future<Output = std::result::Result<T, E>>,
    {
        let Self { guard, context } = self;
        let attempt = context.attempt();
        match guard.work(async { work(context).await }).await {
            Ok(Ok(done)) => match guard.unlock_succeeded().await {
                Ok(_) => Outcome::Ran(done),
                Err(error) if error.is_lost() => Outcome::Lost { attempt, error },
                Err(error) => Outcome::Unrecorded(done, error),
            },
            Ok(Err(error)) => {
                // Without an answer it goes on in the background.
                drop(guard.unlock_failed().await);
                Outcome::Failed { attempt, error }
            }
            Err(error) => Outcome::Lost { attempt, error },
        }
    }
}

fn protocol(job: &Result<Arc<JobHash>>) -> Result<Arc<dyn Protocol>> {
    job.clone().map(|job| job as Arc<dyn Protocol>)
}
