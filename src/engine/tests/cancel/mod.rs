//! The cancellation matrix. Whatever a server, a network or a subscription makes of a command, and at whichever await a
//! future is dropped: nothing is on the server that nobody lets go of, the next one gets in long before a lease could have
//! cleaned up, and then nothing is left. Each file is one operation.
//!
//! Of the calls that an operation makes, each has every fate in turn, together with a few fates of the call that cleans
//! up after it. A case that fails is told as it is written here.

mod acquire;
mod close;
mod extend;
mod force;
mod hand_over;
mod nest;
mod unlock;

use std::fmt;

use super::*;

/// The longest that a forgotten copy of an acquire may keep others out (a third of a lease), and time to wait for it.
const SOON: Duration = Duration::from_secs(2);

/// The leases of the matrix: everything is short, so that the driver has little to look at.
const WATCHDOG: Duration = Duration::from_secs(3);
const FIXED: Duration = Duration::from_secs(6);
const BRIEF: Duration = Duration::from_millis(100);

/// How long another process keeps what it took.
const A_WHILE: Duration = Duration::from_millis(50);

/// More polls than any of these futures needs.
const POLLS: usize = 60;

fn bench() -> Bench {
    Bench::with(|settings| {
        settings.watchdog_timeout = WATCHDOG;
        settings.command_timeout = 300 * MS;
    })
}

/// What may become of a call.
fn fates() -> Vec<Fate> {
    vec![
        Fate::Prompt,
        // Another process has it; nobody has it.
        Fate::Taken(A_WHILE),
        Fate::Gone,
        Fate::Refused(FaultKind::Unready),
        Fate::Refused(FaultKind::Permission),
        // Within the command timeout and beyond it; the former is beyond a brief lease too.
        Fate::Slow(150 * MS),
        Fate::Slow(400 * MS),
        Fate::Never,
        Fate::Late(500 * MS),
        Fate::Lost,
        Fate::Broken,
    ]
}

/// What may become of a call that only cleans up: answered, not answered, and each way not to know.
fn few_fates() -> [Fate; 4] {
    [Fate::Prompt, Fate::Slow(150 * MS), Fate::Lost, Fate::Refused(FaultKind::Unready)]
}

/// How a subscription fares.
#[derive(Clone, Copy, Debug)]
enum Subscribing {
    Prompt,
    Late,
    Refused,
    Never,
    Interrupted,
}

const SUBSCRIBING: [Subscribing; 5] =
    [Subscribing::Prompt, Subscribing::Late, Subscribing::Refused, Subscribing::Never, Subscribing::Interrupted];

impl Subscribing {
    fn begin(self, world: &Arc<World>) {
        world.hearing(match self {
            Self::Prompt | Self::Interrupted => Hearing::Prompt,
            Self::Late | Self::Never => Hearing::ByHand,
            Self::Refused => Hearing::Refused,
        });
        let then = Arc::clone(world);
        let news = async move {
            sleep(20 * MS).await;
            match self {
                Self::Late => then.confirm(),
                Self::Interrupted => then.interrupt(),
                Self::Prompt | Self::Refused | Self::Never => {}
            }
        };
        world.server(|server| server.by_itself(news));
    }
}

/// Where a future is dropped: after so many polls, and so long after the last of them.
#[derive(Clone, Copy, Debug)]
struct Drop {
    polls: usize,
    idle: Duration,
}

impl Drop {
    /// Polls until it is to be dropped; what the future answered, if that was not after all.
    async fn before<F: Future + Unpin>(self, mut future: F) -> Option<F::Output> {
        // One that is woken no more has had all the polls that it gets.
        let answer = timeout(SOON, polled(&mut future, self.polls)).await.expect("it hangs");
        if answer.is_none() && !self.idle.is_zero() {
            sleep(self.idle).await;
        }
        answer
    }
}

/// Says which combination it was, when one fails.
struct Tell<'a, C: fmt::Debug>(&'a C, Drop);

impl<C: fmt::Debug> std::ops::Drop for Tell<'_, C> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the combination is {:?} with {:?}", self.0, self.1);
        }
    }
}

/// Runs a case for every await of its future: `run` says whether the future was over before it was to be dropped.
async fn at_every_await<C: fmt::Debug>(case: &C, mut run: impl AsyncFnMut(Drop) -> bool) {
    // At once, and when an answer has come that nobody looks at.
    for idle in [Duration::ZERO, 200 * MS] {
        for polls in 1.. {
            assert!(polls < POLLS, "it never ends: {case:?}");
            let drop = Drop { polls, idle };
            let _tell = Tell(case, drop);
            if ends(run(drop)).await {
                break;
            }
        }
    }
}

/// Others of this process that wait for the same name, one to pass to, one to hand over to; none keeps it.
type Waiters = Vec<JoinHandle<Result<()>>>;

async fn waiters(lock: &Lock, count: usize) -> Waiters {
    let mut waiters = Vec::new();
    for n in 0..count {
        let waiter = if n % 2 == 0 { lock.lock() } else { lock.lock().lease(FIXED) };
        waiters.push(start(async { waiter.await.map(drop) }).await);
    }
    waiters
}

/// How soon the next one gets in.
fn soon(release: &Fate) -> Duration {
    match release {
        // One that the server will not do is not repeated: the lease ends the hold.
        Fate::Refused(kind) if !kind.heals() => SOON + FIXED,
        _ => SOON,
    }
}

/// Everybody who waits, and one more, gets in; then nothing is left.
async fn everybody_gets_in(bench: &Bench, lock: &Lock, waiters: Waiters, soon: Duration) {
    turn().await;
    if soon == SOON {
        assert_eq!(bench.unaccounted("a"), None, "a hold on the server that nobody will let go of");
    }
    for waiter in waiters {
        let had_it = timeout(soon, waiter).await.unwrap_or_else(|_| panic!("a waiter hangs"));
        match had_it.unwrap() {
            // Or the fate that was meant for the one that gave up.
            Ok(()) | Err(Error::Refused { .. }) => {}
            Err(error) => panic!("a waiter failed: {error}"),
        }
    }
    let guard = match timeout(soon, lock.lock()).await {
        Ok(Err(Error::Refused { .. })) => timeout(soon, lock.lock()).await,
        guard => guard,
    };
    let guard = guard.unwrap_or_else(|_| panic!("the lock stays taken"));
    let guard = guard.unwrap_or_else(|error| panic!("the next one failed: {error}"));
    assert_eq!(bench.world.holder("a"), Some((Some(number_of(&bench.world, "a")), 1)));
    assert_eq!(bench.world.subscriptions(), 0, "nobody waits any more");
    drop(guard);
    // Long enough for a release that has to be repeated, too short for a lease to run out.
    sleep(soon).await;
    assert_eq!(bench.world.holder("a"), None);
    bench.nothing_is_left("a").await;
}
