//! `relatch run`: a command under a lock.

use std::{ffi::OsString, time::Duration};

use relatch::{Acquire, Client, Error, FencedLock, LockGuard, Mutex, Result, TryAcquire};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Failure,
    args::{OnLoss, Run, Server},
    child::{Ending, Group, Held, Plan, Signals, supervise},
    connect, duration,
    misuse::{self, Words},
    releasing::{self, Released},
    say, status,
};

/// The part of a lease that a look at the server may take before the command begins.
const PART_FOR_A_LOOK: u32 = 4;

/// Whoever waits asks a server again that does not answer, so often.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// The lock, with tokens or without.
enum Lock {
    Plain(Mutex),
    Fenced(FencedLock),
}

impl Lock {
    fn of(client: &Client, name: &str, fenced: bool) -> Self {
        if fenced { Self::Fenced(client.fenced_lock(name)) } else { Self::Plain(client.mutex(name)) }
    }

    fn lock(&self) -> Acquire {
        match self {
            Self::Plain(lock) => lock.lock(),
            Self::Fenced(lock) => lock.lock(),
        }
    }

    fn try_lock(&self) -> TryAcquire {
        match self {
            Self::Plain(lock) => lock.try_lock(),
            Self::Fenced(lock) => lock.try_lock(),
        }
    }

    /// What a hold of this client is called at the server.
    async fn holder(&self, client: &Client) -> Option<String> {
        let seen = match self {
            Self::Plain(lock) => lock.inspect().await,
            Self::Fenced(lock) => lock.inspect().await,
        };
        let seen = seen.ok()??;
        (seen.client_id == client.id().to_string()).then(|| format!("{}:{}", seen.client_id, seen.hold_id))
    }
}

/// Runs the command, and says with which status to end.
pub(crate) async fn run(server: &Server, run: Run) -> std::result::Result<u8, Failure> {
    if let Some(why) = misuse::refused(&run.flock) {
        return Err(Failure::misuse(why));
    }
    if run.max_hold.is_some() && run.keep.on_loss == OnLoss::Ignore {
        return Err(Failure::misuse(
            "--max-hold with --on-loss ignore: a command that goes on is not over by then; leave out one of them",
        ));
    }
    let Words { name, command } = misuse::words(run.words.clone()).map_err(Failure::misuse)?;
    let builder = connect::builder(server)?.watchdog_timeout(run.keep.lease);
    let mut signals = Signals::listen().map_err(Failure::system)?;
    let client = tokio::select! {
        biased;
        signal = signals.asked_to_end() => return Ok(status::of_signal(signal.as_raw())),
        client = builder.connect() => client?,
    };
    let lock = Lock::of(&client, &name, run.fenced);
    let taken = tokio::select! {
        biased;
        signal = signals.asked_to_end() => {
            client.close().await;
            return Ok(status::of_signal(signal.as_raw()));
        }
        taken = take(&lock, &run, &name) => taken,
    };
    let status = match taken {
        Ok(Some(guard)) => under(&client, &lock, guard, &name, &command, &run, &mut signals).await,
        Ok(None) => {
            if !run.quiet {
                say::line(&format!("lock {} is held by somebody else", say::name(&name)));
            }
            Ok(run.busy_status)
        }
        Err(error) => Err(error.into()),
    };
    releasing::until_done(&mut signals, client.close()).await;
    status
}

/// Waits for the lock, through an outage as well: whoever waits for it wants the command to run, and not a server.
async fn take(lock: &Lock, run: &Run, name: &str) -> Result<Option<LockGuard>> {
    let until = run.wait.and_then(|wait| Instant::now().checked_add(wait));
    let mut is_told = false;
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let error = match ask(lock, run, left.or(run.wait)).await {
            Err(error) if error.is_transient() && !run.no_wait => error,
            taken => return taken,
        };
        if until.is_some_and(|until| until <= Instant::now() + BETWEEN_TRIES) {
            return Err(error);
        }
        if !is_told {
            say::line(&format!("lock {}: {}; waiting on", say::name(name), say::chain(&error)));
            is_told = true;
        }
        sleep(BETWEEN_TRIES).await;
    }
}

async fn ask(lock: &Lock, run: &Run, wait: Option<Duration>) -> Result<Option<LockGuard>> {
    if !run.no_wait && wait.is_none() {
        let asked = lock.lock();
        return match run.max_hold {
            Some(bound) => asked.max_hold(bound).await.map(Some),
            None => asked.await.map(Some),
        };
    }
    let asked = lock.try_lock().wait(wait.unwrap_or_default());
    match run.max_hold {
        Some(bound) => asked.max_hold(bound).await,
        None => asked.await,
    }
}

/// What is done while the lock is held.
async fn under(
    client: &Client,
    lock: &Lock,
    guard: LockGuard,
    name: &str,
    command: &[OsString],
    run: &Run,
    signals: &mut Signals,
) -> std::result::Result<u8, Failure> {
    let what = format!("lock {}", say::name(name));
    let lease = run.max_hold.map_or(run.keep.lease, |bound| bound.min(run.keep.lease));
    let mut variables = vec![("RELATCH_LOCK", name.to_owned())];
    let holder = tokio::select! {
        biased;
        signal = signals.asked_to_end() => {
            releasing::until_done(signals, guard.unlock()).await;
            return Ok(status::of_signal(signal.as_raw()));
        }
        holder = timeout(lease / PART_FOR_A_LOOK, lock.holder(client)) => holder.ok().flatten(),
    };
    // Looking took its time, and the lock may have ended meanwhile.
    if guard.expires_in().is_none() {
        say::line(&format!("{what} ended before the command began: nothing was run"));
        releasing::until_done(signals, guard.unlock()).await;
        return Ok(status::LOST);
    }
    match holder {
        Some(holder) => variables.push(("RELATCH_HOLDER", holder)),
        None => say::line(&format!("{what}: the server does not say in time who holds it, RELATCH_HOLDER is not set")),
    }
    variables.extend(guard.fence().map(|fence| ("RELATCH_FENCE", fence.to_string())));
    let plan = Plan::new(run.keep.on_loss, run.keep.grace, lease);
    let mut group = Group::start(command, &variables).map_err(Failure::system)?;
    let held = Held::Lock(&guard);
    let ending = supervise(&mut group, &held, &plan, signals, &what).await.map_err(Failure::system)?;
    Ok(match releasing::until_done(signals, guard.unlock()).await {
        Released::Done(released) => end(ending, released.map(drop), run.keep.on_loss, &what, lease),
        Released::GivenUp => {
            say::line(&format!("{what} was not released, {}", by_itself(lease)));
            ending.status()
        }
    })
}

fn by_itself(lease: Duration) -> String {
    format!("it ends by itself, within {}", duration::shown(lease))
}

/// The status at the end, and a line where something is to be known of the lock.
fn end(ending: Ending, released: Result<()>, on_loss: OnLoss, what: &str, lease: Duration) -> u8 {
    match released {
        Err(error @ Error::Lost { .. }) if on_loss != OnLoss::Ignore => {
            // Of a command that was ended for it there was a line already.
            if !ending.for_loss {
                say::line(&error.to_string());
            }
            status::LOST
        }
        // Whoever could not renew cannot release, and has said so.
        Err(_) if ending.for_loss => ending.status(),
        Ok(()) | Err(Error::Lost { .. }) => ending.status(),
        Err(error) => {
            say::line(&format!("{}; {what}: {}", say::chain_of(what, &error), by_itself(lease)));
            ending.status()
        }
    }
}
