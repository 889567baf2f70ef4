//! `relatch once`: a command once a period, on one of many machines.

use std::{
    ffi::OsString,
    io,
    pin::pin,
    time::{Duration, SystemTime},
};

use relatch::{Error, JobContext, Outcome, PeriodicJob};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    Failure,
    aim::{Aim, Answered},
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
    NotHere(Outcome<(), ()>, Answered),
    /// It was.
    Here(Outcome<(), ()>, Ending, Answered),
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
    let work = Work { name, what, command, keep: once.keep.clone() };
    let mut asking = Asking { job, every: once.every, aim: None, work, signals };
    let status = asking.serve(once.stand_by, once.quiet, retries).await;
    releasing::until_done(&mut asking.signals, client.close()).await;
    status
}

/// For how long a server that does not answer is asked again: with `--stand-by` until the period ends, by this machine's clock where
/// no server has said yet.
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

    /// Once a server has said when the period ends.
    fn end_with(&mut self, aim: Aim) {
        self.until = self.until.map(|_| aim.ends());
    }

    /// After a try that failed: says once that the server is asked again, or gives up.
    fn after(&mut self, what: &str, error: Error) -> Result<(), Failure> {
        if self.until.is_none_or(|until| until <= Instant::now()) {
            return Err(Failure::of(what, &error));
        }
        if !self.is_told {
            say::line(&format!("{what}: {}; asked again until the period ends", say::chain_of(what, &error)));
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
    every: Duration,
    /// Once the server has answered.
    aim: Option<Aim>,
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
    /// Asks for the period that this call is for. Answers of the one before, a moment before its end, are no answers: the clock of this
    /// machine is ahead, and nobody might ask in the next one.
    ///
    /// Whoever stands by asks until the work is done, here or elsewhere, or given up, or the period is over: the next one is for other
    /// calls. A server that does not answer is asked again until then: whoever was at it may be gone.
    async fn serve(&mut self, stands_by: bool, quiet: bool, mut retries: Retries) -> Result<u8, Failure> {
        // What failed here, and nobody has done better, is ours to tell.
        let mut failed = None;
        loop {
            let asked = self.ask().await?;
            if let Some(aim) = self.aim {
                retries.end_with(aim);
            }
            let (next, running) = match asked {
                Asked::Ended(status) => return Ok(status),
                Asked::Untold(ending) => return Ok(self.untold(ending)),
                Asked::NotNow(error) => {
                    retries.after(&self.work.what, error)?;
                    (BETWEEN_LOOKS, None)
                }
                Asked::NotHere(_, Answered::Before(next)) => (next.saturating_duration_since(Instant::now()), None),
                Asked::NotHere(outcome @ Outcome::Running { remaining_lease, .. }, Answered::Within) if stands_by => {
                    (BETWEEN_LOOKS.min(remaining_lease), Some(outcome))
                }
                Asked::NotHere(outcome @ Outcome::Exhausted { .. }, _) | Asked::NotHere(outcome, Answered::After) => {
                    let skipped = self.skipped(&outcome, quiet);
                    return Ok(failed.unwrap_or(skipped));
                }
                Asked::NotHere(outcome, _) => return Ok(self.skipped(&outcome, quiet)),
                Asked::Here(outcome, ending, answered) => {
                    let status = self.ran(&outcome, ending);
                    let goes_on = match (&outcome, answered) {
                        _ if self.signals.were_to_end() || ending.ended.is_on_request() => false,
                        (Outcome::Ran(()) | Outcome::Failed { .. }, Answered::Before(_)) => true,
                        (Outcome::Failed { .. }, Answered::Within) => stands_by,
                        _ => false,
                    };
                    if !goes_on || self.is_over() {
                        return Ok(status);
                    }
                    failed = (status != 0).then_some(status);
                    match answered {
                        Answered::Before(next) => (next.saturating_duration_since(Instant::now()), None),
                        _ => (Duration::ZERO, None),
                    }
                }
            };
            let left = self.aim.map_or(next, |aim| aim.ends().saturating_duration_since(Instant::now()));
            if let Some(status) = pause(&mut self.signals, next.min(left)).await {
                return Ok(status);
            }
            if let Some(outcome) = running.filter(|_| self.is_over()) {
                if !quiet {
                    say::line(&format!("{}: {}, and the period is over", self.work.what, why_not(&outcome)));
                }
                return Ok(failed.unwrap_or(0));
            }
        }
    }

    /// Whether the period is over that this call is for.
    fn is_over(&self) -> bool {
        self.aim.is_some_and(|aim| aim.ends() <= Instant::now())
    }

    /// How an answer that came just now stands to the period that this call is for: the first one says which that is.
    fn answered(&mut self) -> Answered {
        let (left, now) = (self.job.until_next_period().unwrap_or(self.every), Instant::now());
        self.aim.get_or_insert_with(|| Aim::of(self.every, left, now)).answered(left, now)
    }

    /// Asks, and runs the command if it is this machine's turn.
    async fn ask(&mut self) -> Result<Asked, Failure> {
        let (give, given) = oneshot::channel();
        let (tell, told) = oneshot::channel::<bool>();
        let body = |context: JobContext| async move {
            drop(give.send(context));
            if told.await == Ok(true) { Ok(()) } else { Err(()) }
        };
        let job = self.job.clone();
        let mut asked = pin!(job.run(body));
        let context = tokio::select! {
            biased;
            Ok(context) = given => context,
            signal = self.signals.asked_to_end() => return Ok(Asked::Ended(status::of_signal(signal.as_raw()))),
            outcome = &mut asked => return match outcome {
                Ok(outcome) => {
                    let answered = self.answered();
                    Ok(Asked::NotHere(outcome, answered))
                }
                Err(error) if error.is_transient() => Ok(Asked::NotNow(error)),
                Err(error) => Err(Failure::of(&self.work.what, &error)),
            },
        };
        let answered = self.answered();
        // Not in the work itself, which is dropped when the attempt is lost: the command has its grace even then.
        let mut early = None;
        let ending = {
            let mut beside = pin!(self.work.run(&context, &mut self.signals));
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
            Released::Done(outcome) => Asked::Here(outcome?, ending, answered),
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
                say::line(&format!("{what} was done, and may be done again: {}", say::chain_of(what, error)));
            }
            Outcome::Lost { error, .. } if self.work.keep.on_loss != OnLoss::Ignore => {
                if !ending.for_loss {
                    say::line(&format!("{what} was done, and may be done again: {}", say::chain_of(what, error)));
                }
                return status::LOST;
            }
            // The command went on, and nobody may have heard of it.
            Outcome::Lost { error, .. } if ending.is_success() => {
                say::line(&format!("{what} was done, and may be done again: {}", say::chain_of(what, error)));
            }
            Outcome::Failed { attempt, .. } | Outcome::Lost { attempt, .. } if !ending.for_loss => {
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
    async fn run(&self, context: &JobContext, signals: &mut Signals) -> io::Result<Ending> {
        if context.expires_in().is_none() {
            say::line(&format!("{} was lost before the command began: nothing was run", self.what));
            context.give_back();
            return Ok(Ending { ended: Ended::Exited(status::LOST.into()), for_loss: true });
        }
        let plan = Plan::new(self.keep.on_loss, self.keep.grace, self.keep.lease);
        let mut group = Group::start(&self.command, &variables(&self.name, context))
            // Others may have what this machine lacks.
            .inspect_err(|_| context.give_back())?;
        supervise(&mut group, &Held::Attempt(context), &plan, signals, &self.what).await
    }
}

fn variables(name: &str, context: &JobContext) -> Vec<(&'static str, String)> {
    let since_1970 = context.period().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    vec![
        ("RELATCH_JOB", name.to_owned()),
        ("RELATCH_PERIOD", say::time(context.period())),
        ("RELATCH_PERIOD_MS", since_1970.as_millis().to_string()),
        ("RELATCH_ATTEMPT", context.attempt().to_string()),
        ("RELATCH_FENCE", context.fence().to_string()),
    ]
}

/// Why a command was not run.
fn why_not(outcome: &Outcome<(), ()>) -> String {
    let at = |time: &SystemTime| say::time(*time);
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
