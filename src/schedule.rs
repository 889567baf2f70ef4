//! When a periodic job is asked for: at the start of each period, and again while its work is not done. It knows no record and no
//! attempt.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Error, Result},
    locks::{Begun, JobContext, JobTurn, Outcome, PeriodicJob},
    name::Field,
};

/// The first pause after a fault is up to this long, and each later one up to twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
/// But no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl PeriodicJob {
    /// Does the work whenever it is this process's turn, period after period, until `token` is cancelled. Call it in every process.
    ///
    /// At the start of a period all of them ask; one begins, and the others stand by: if it fails, one of them goes on within a round
    /// trip, if it dies, within a lease. Then they sleep until the next period, by the server's clock, and ask within the first
    /// twentieth of it, at most a second. A period without a success ends with its attempts, or when the next one begins.
    ///
    /// Where the server does not answer, nobody begins anything: it is asked again and again, with pauses of up to 10 s. What befalls
    /// the job is told in events, see [`tracing`](crate::guide::tracing); what the work itself says of its error is for the work to
    /// log.
    ///
    /// Once `token` is cancelled nothing is begun any more. Work that is being done goes on, with its
    /// [`cancellation`](JobContext::cancellation) fired, and the future ends after it.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] as for [`PeriodicJob::run`], where it is so from the start: later on a task of this client with other options is
    /// waited for. [`Error::Closed`] as soon as the client is closed or shuts down.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is what dropping [`PeriodicJob::run`] is, and nothing more is begun.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// use std::{convert::Infallible, time::Duration};
    ///
    /// use relatch::CancellationToken;
    ///
    /// let stop = CancellationToken::new();
    /// let job = client.periodic_job("report", Duration::from_secs(3600));
    /// let reports = tokio::spawn({
    ///     let stop = stop.clone();
    ///     async move { job.schedule(stop, |ctx| async move { Ok::<_, Infallible>(ctx.period()) }).await }
    /// });
    /// // … on SIGTERM …
    /// stop.cancel();
    /// reports.await.expect("no panic")?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn schedule<F, W, T, E>(&self, token: CancellationToken, mut work: F) -> Result<()>
    where
        F: FnMut(JobContext) -> W,
        W: Future<Output = std::result::Result<T, E>>,
    {
        let mut faults = 0;
        let mut answered = false;
        loop {
            let Some(begun) = token.run_until_cancelled(self.begin(Duration::MAX)).await else { return Ok(()) };
            // Both may be true at once, where nobody looked for a while; what was begun is given back.
            if token.is_cancelled() {
                return Ok(());
            }
            let pause = match begun {
                Err(Error::Closed) => return Err(Error::Closed),
                // Once it has gone well, it is somebody else of this client who is in the way, and not for ever.
                Err(error @ Error::Invalid { .. }) if !answered => return Err(error),
                Err(error) => {
                    tracing::warn!(job = %Field(self.name()), %error, "a periodic job could not be asked for");
                    let longest = (SHORTEST_PAUSE * 2_u32.pow(faults)).min(LONGEST_PAUSE);
                    faults = (faults + 1).min(10);
                    Some(self.handle().part_of(longest))
                }
                Ok(begun) => {
                    (faults, answered) = (0, true);
                    let is_over = match begun {
                        Begun::Here(turn) => self.take(*turn, &token, &mut work).await,
                        Begun::Not(told) => {
                            if told.is_given_up() {
                                tracing::warn!(job = %Field(self.name()), "a periodic job was given up for this period");
                            }
                            told.is_settled()
                        }
                    };
                    if is_over { None } else { Some(Duration::ZERO) }
                }
            };
            let rest = async {
                match pause {
                    Some(pause) => self.handle().sleep(pause).await,
                    None => {
                        let late = self.handle().part_of(self.apart()?);
                        self.handle().sleep_until(self.next_period()? + late).await
                    }
                }
            };
            match token.run_until_cancelled(rest).await {
                Some(slept) => slept?,
                None => return Ok(()),
            }
        }
    }

    /// Does the work of a period. Whether there is nothing left to do in it.
    async fn take<F, W, T, E>(&self, turn: JobTurn, token: &CancellationToken, work: &mut F) -> bool
    where
        F: FnMut(JobContext) -> W,
        W: Future<Output = std::result::Result<T, E>>,
    {
        let stop = turn.stop();
        let work = pin!(turn.run(work));
        let outcome = match select(work, pin!(token.cancelled())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), work)) => {
                stop.cancel();
                work.await
            }
        };
        let job = Field(self.name());
        match outcome {
            Outcome::Ran(_) => return true,
            Outcome::Failed { attempt, .. } => tracing::warn!(%job, attempt, "an attempt at a periodic job failed"),
            Outcome::Lost { attempt, error } => {
                tracing::warn!(%job, attempt, %error, "an attempt at a periodic job was lost");
            }
            Outcome::Unrecorded(_, error) => {
                tracing::warn!(%job, %error, "a periodic job was done, and may be done again");
            }
            _ => {}
        }
        false
    }
}
