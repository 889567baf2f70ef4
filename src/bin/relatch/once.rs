//! `relatch once`: a command once a period, on one of many machines.

use std::{
    ffi::OsString,
    io,
    pin::pin,
    time::{Duration, Instant, SystemTime},
};

use relatch::{Error, JobContext, Outcome, PeriodicJob};
use tokio::{sync::oneshot, time::sleep};

use crate::{
    Failure,
    args::{Keep, OnLoss, Once, Server},
    child::{Ending, Group, Held, Plan, Signals, supervise},
    connect,
    misuse::{self, Words},
    releasing::{self, Released},
    say,
    status::{self, Ended},
};

/// How often is asked whether another machine is still at it.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What became of asking once.
enum Asked {
    /// A signal came first: the status.
    Ended(u8),
    /// The command was not run.
    NotHere(Outcome<(), ()>),
    /// It was.
    Here(Outcome<(), ()>, Ending),
    /// It was, and it is not known whether the server has heard what came of it.
    Untold(Ending),
    /// Nobody could be asked, for now.
    NotNow(Error),
}

/// Asks for the period's work, and says with which status to end.
pub(crate) async fn run(server: &Server, once: Once) -> Result<u8, Failure> {
    let Words { name, command } = misuse::words(once.words.clone()).map_err(Failure::misuse)?;
    let builder = connect::builder(server)?.watchdog_timeout(once.keep.lease);
    let mut signals = Signals::listen().map_err(Failure::system)?;
    let what = format!("job {}", say::name(&name));
    let mut retries = Retries::new(&once);
    let client = loop {
        let failed = tokio::select! {
            biased;
            signal = signals.asked_to_end() => return Ok(status::of_signal(signal.as_raw())),
            client = builder.clone().connect() => match client {
                Ok(client) => break client,
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error.into()),
            },
        };
        retries.after(&what, failed)?;
        if let Some(status) = pause(&mut signals, BETWEEN_LOOKS).await {
            return Ok(status);
        }
    };
    let mut job = client.periodic_job(&name, once.every).offset(once.offset).max_attempts(once.attempts);
    if let Some(within) = once.start_within {
        job = job.start_within(within);
    }
    let mut asking = Asking { job, work: Work { name, what, command, keep: once.keep.clone() }, signals };
    let status = if once.stand_by { asking.stand_by(once.quiet, retries).await } else { asking.once(once.quiet).await };
    releasing::until_done(&mut asking.signals, client.close()).await;
    status
}

/// For how long a server that does not answer is asked again: with `--stand-by` until the period ends, by this machine's clock, since
/// no server is there to say.
struct Retries {
    until: Option<Instant>,
    is_told: bool,
}

impl Retries {
    fn new(once: &Once) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let passed = since_1970.saturating_sub(once.offset).as_nanos() % once.every.as_nanos().max(1);
        let left = once.every.saturating_sub(Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX)));
        Self { until: Instant::now().checked_add(left).filter(|_| once.stand_by), is_told: false }
    }

    /// After a try that failed: says once that the server is asked again, or gives up.
    fn after(&mut self, what: &str, error: Error) -> Result<(), Failure> {
        if self.until.is_none_or(|until| until <= Instant::now()) {
            return Err(error.into());
        }
        if !self.is_told {
            say::line(&format!("{what}: {}; asked again until the period ends", say::chain(&error)));
            self.is_told = true;
        }
        Ok(())
    }
}

/// Waits before the next try. The status, if a signal ends it.
async fn pause(signals: &mut Signals, pause: Duration) -> Option<u8> {
    tokio::select! {
        biased;
        signal = signals.asked_to_end() => Some(status::of_signal(signal.as_raw())),
        () = sleep(pause) => None,
    }
}

/// What is asked for, and what is heard meanwhile.
struct Asking {
    job: PeriodicJob,
    work: Work,
    signals: Signals,
}

/// What is done in a period.
struct Work {
    name: String,
    /// As lines call it.
    what: String,
    command: Vec<OsString>,
    keep: Keep,
}

impl Asking {
    async fn once(&mut self, quiet: bool) -> Result<u8, Failure> {
        Ok(match self.ask().await? {
            Asked::Ended(status) => status,
            Asked::NotHere(outcome) => self.skipped(&outcome, quiet),
            Asked::Here(outcome, ending) => self.ran(&outcome, ending),
            Asked::Untold(ending) => self.untold(ending),
            Asked::NotNow(error) => return Err(error.into()),
        })
    }

    /// Asks until the period's work is done, here or elsewhere, or given up. A server that does not answer is asked again until the
    /// period ends: whoever was at it may be gone by then.
    async fn stand_by(&mut self, quiet: bool, mut retries: Retries) -> Result<u8, Failure> {
        let mut failed = None;
        loop {
            let next = match self.ask().await? {
                Asked::Ended(status) => return Ok(status),
                Asked::NotHere(Outcome::Running { remaining_lease, .. }) => BETWEEN_LOOKS.min(remaining_lease),
                Asked::NotNow(error) => {
                    retries.after(&self.work.what, error)?;
                    BETWEEN_LOOKS
                }
                // What failed here, and nobody has done better, is ours to tell.
                Asked::NotHere(outcome @ Outcome::Exhausted { .. }) => {
                    let skipped = self.skipped(&outcome, quiet);
                    return Ok(failed.unwrap_or(skipped));
                }
                Asked::NotHere(outcome) => return Ok(self.skipped(&outcome, quiet)),
                Asked::Here(outcome @ Outcome::Failed { .. }, ending) => {
                    failed = Some(self.ran(&outcome, ending));
                    continue;
                }
                Asked::Here(outcome, ending) => return Ok(self.ran(&outcome, ending)),
                Asked::Untold(ending) => return Ok(self.untold(ending)),
            };
            if let Some(status) = pause(&mut self.signals, next).await {
                return Ok(status);
            }
        }
    }

    /// Asks, and runs the command if it is this machine's turn.
    async fn ask(&mut self) -> Result<Asked, Failure> {
        let (give, given) = oneshot::channel();
        let (tell, told) = oneshot::channel::<bool>();
        let body = |context: JobContext| async move {
            drop(give.send(context));
            if told.await == Ok(true) { Ok(()) } else { Err(()) }
        };
        let mut asked = pin!(self.job.run(body));
        let context = tokio::select! {
            biased;
            Ok(context) = given => context,
            signal = self.signals.asked_to_end() => return Ok(Asked::Ended(status::of_signal(signal.as_raw()))),
            outcome = &mut asked => return match outcome {
                Ok(outcome) => Ok(Asked::NotHere(outcome)),
                Err(error) if error.is_transient() => Ok(Asked::NotNow(error)),
                Err(error) => Err(error.into()),
            },
        };
        // Not in the work itself, which is dropped when the attempt is lost: the command has its grace even then.
        let mut early = None;
        let ending = {
            let mut beside = pin!(self.work.run(context, &mut self.signals));
            loop {
                tokio::select! {
                    biased;
                    ending = &mut beside => break ending,
                    outcome = &mut asked, if early.is_none() => early = Some(outcome),
                }
            }
        };
        let succeeded = ending.as_ref().is_ok_and(Ending::is_success);
        let _ = tell.send(succeeded);
        let outcome = match early {
            Some(outcome) => Released::Done(outcome),
            None => releasing::until_done(&mut self.signals, asked).await,
        };
        let ending = ending.map_err(Failure::system)?;
        Ok(match outcome {
            Released::Done(outcome) => Asked::Here(outcome?, ending),
            Released::GivenUp => Asked::Untold(ending),
        })
    }

    fn untold(&self, ending: Ending) -> u8 {
        say::line(&format!("{} may be done again: the server did not answer what came of it", self.work.what));
        ending.status()
    }

    /// The status after the command.
    fn ran(&self, outcome: &Outcome<(), ()>, ending: Ending) -> u8 {
        let what = &self.work.what;
        match outcome {
            Outcome::Unrecorded((), error) => {
                say::line(&format!("{what} was done, and may be done again: {}", say::chain(error)));
            }
            Outcome::Lost { error, .. } if self.work.keep.on_loss != OnLoss::Ignore => {
                if !ending.for_loss {
                    say::line(&format!("{what} was done, and may be done again: {}", say::chain(error)));
                }
                return status::LOST;
            }
            Outcome::Failed { attempt, .. } if !ending.for_loss => {
                say::line(&format!("{what}: attempt {attempt} failed, with status {}", ending.ended.status()));
            }
            _ => {}
        }
        ending.status()
    }

    /// The status where the command was not run, and a line that says why.
    fn skipped(&self, outcome: &Outcome<(), ()>, quiet: bool) -> u8 {
        if !quiet {
            say::line(&format!("{}: {}", self.work.what, why_not(outcome)));
        }
        0
    }
}

impl Work {
    async fn run(&self, context: JobContext, signals: &mut Signals) -> io::Result<Ending> {
        if context.expires_in().is_none() {
            say::line(&format!("{} was lost before the command began: nothing was run", self.what));
            return Ok(Ending { ended: Ended::Exited(status::LOST.into()), for_loss: true });
        }
        let plan = Plan::new(self.keep.on_loss, self.keep.grace, self.keep.lease);
        let mut group = Group::start(&self.command, &variables(&self.name, &context))?;
        supervise(&mut group, &Held::Attempt(&context), &plan, signals, &self.what).await
    }
}

fn variables(name: &str, context: &JobContext) -> Vec<(&'static str, String)> {
    let since_1970 = context.period().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    vec![
        ("RELATCH_JOB", name.to_owned()),
        ("RELATCH_PERIOD", humantime::format_rfc3339_seconds(context.period()).to_string()),
        ("RELATCH_PERIOD_MS", since_1970.as_millis().to_string()),
        ("RELATCH_ATTEMPT", context.attempt().to_string()),
        ("RELATCH_FENCE", context.fence().to_string()),
    ]
}

/// Why a command was not run.
fn why_not(outcome: &Outcome<(), ()>) -> String {
    let at = |time: &SystemTime| humantime::format_rfc3339_seconds(*time);
    match outcome {
        Outcome::AlreadyDone { client_id, at: when, .. } => {
            format!("not run, it was done at {} by client {client_id}", at(when))
        }
        Outcome::Running { client_id, since, .. } => {
            format!("not run, client {client_id} is at it since {}", at(since))
        }
        Outcome::Exhausted { attempts, .. } => format!("not run, all {attempts} attempts of this period were begun"),
        Outcome::Late { period, .. } => format!("not run, it is too late in the period of {}", at(period)),
        _ => "not run".to_owned(),
    }
}
