//! One load on one lock library: tasks that lock and unlock for a while, and what they saw. Which library it is, a
//! [`Library`] says; whether the figures are good, this does not know.
//!
//! Every program that measures a library has this module, so that all are measured by the same code: the bench, the
//! example `bench_peer`, and the peers, which are a crate of their own.

mod check;
mod info;
mod outcome;
mod peer;
mod renew;

use std::{
    error::Error,
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    task::JoinSet,
    time::{sleep, timeout_at},
};

use self::{check::Check, outcome::Seen};
pub(crate) use self::{
    info::{Info, connect},
    peer::{Asked, answer},
};

/// Whatever goes wrong ends the run.
pub(crate) type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// How long a task that still waits is given after the end, when all the others have stopped.
const DRAIN: Duration = Duration::from_secs(5);

/// The one name of a contended load.
const SHARED: &str = "bench:hot";

/// A library of locks, connected.
pub(crate) trait Library: Send + Sync + 'static {
    /// What is made once a task and name.
    type Lock: Send + Sync + 'static;
    /// What says that a lock is held.
    type Guard: Send + 'static;

    /// A lock that no task shares with another.
    fn lock(&self, name: &str) -> Self::Lock;

    /// Waits until the lock is held.
    fn acquire(lock: &Self::Lock) -> impl Future<Output = Result<Self::Guard>> + Send;

    /// Releases it, and waits until that is done.
    fn release(lock: &Self::Lock, guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;

    /// Whether the library itself believes that it is held.
    fn is_held(guard: &Self::Guard) -> bool;
}

/// What the tasks do.
#[derive(Clone, Copy, Debug)]
struct Load {
    tasks: usize,
    /// Whether all tasks want one name, or each one its own.
    contended: bool,
    /// How long a section sleeps.
    section: Duration,
    /// What goes by before anything counts.
    warm: Duration,
    span: Duration,
}

/// From when to when a section counts.
#[derive(Clone, Copy)]
struct Window {
    start: Instant,
    end: Instant,
}

/// Runs it. `shared` is where other processes with the same load check exclusion too.
async fn run<L: Library>(library: &L, load: Load, shared: Option<File>) -> outcome::Outcome {
    let check = Arc::new(Check::new(shared));
    let start = Instant::now() + load.warm;
    let window = Window { start, end: start + load.span };
    let mut tasks = JoinSet::new();
    for number in 0..load.tasks {
        let (check, name) = (Arc::clone(&check), name(load, number));
        let lock = library.lock(&name);
        tasks.spawn(async move {
            let mut seen = Seen::default();
            let work = async {
                if load.contended {
                    take_turns::<L>(&lock, number, load.section, window, &check, &mut seen).await;
                } else {
                    alone::<L>(&lock, number, window, &mut seen).await;
                }
            };
            // The task itself gives up, and so keeps what it saw.
            if timeout_at((window.end + DRAIN).into(), work).await.is_err() {
                seen.gave_up();
            }
            seen
        });
    }
    let all = tasks.join_all().await;
    outcome::Outcome::of(all, &check, load.span)
}

fn name(load: Load, task: usize) -> String {
    if load.contended { SHARED.to_owned() } else { format!("bench:own:{task}") }
}

/// One task of many that want one name: what counts is how long it waits.
async fn take_turns<L: Library>(
    lock: &L::Lock,
    number: usize,
    section: Duration,
    window: Window,
    check: &Check,
    seen: &mut Seen,
) {
    let mut asked = Instant::now();
    while asked < window.end {
        seen.waits_since(asked);
        let guard = match L::acquire(lock).await {
            Ok(guard) => guard,
            Err(error) => {
                failed(number, "acquire", &*error, seen).await;
                asked = Instant::now();
                continue;
            }
        };
        let entered = Instant::now();
        let gap = check.enter(number, entered);
        if !section.is_zero() {
            sleep(section).await;
        }
        let left = Instant::now();
        check.leave(number, left);
        if entered >= window.start {
            seen.section(entered - asked, left - entered, gap, entered <= window.end);
        } else {
            seen.warmed_up();
        }
        if let Err(error) = L::release(lock, guard).await {
            failed(number, "release", &*error, seen).await;
        }
        asked = Instant::now();
    }
}

/// One task with a name of its own: what counts is how long it takes to lock and to unlock.
async fn alone<L: Library>(lock: &L::Lock, number: usize, window: Window, seen: &mut Seen) {
    let mut asked = Instant::now();
    while asked < window.end {
        seen.waits_since(asked);
        match L::acquire(lock).await {
            Ok(guard) => {
                if let Err(error) = L::release(lock, guard).await {
                    failed(number, "release", &*error, seen).await;
                }
            }
            Err(error) => failed(number, "acquire", &*error, seen).await,
        }
        let released = Instant::now();
        if asked >= window.start && released <= window.end {
            seen.section(released - asked, Duration::ZERO, None, true);
        } else {
            seen.warmed_up();
        }
        asked = released;
    }
}

/// The first of a task's errors is told, and all are counted.
async fn failed(number: usize, what: &str, error: &(dyn Error + Send + Sync), seen: &mut Seen) {
    if seen.failed() == 1 {
        eprintln!("task {number}: {what}: {error}");
    }
    sleep(Duration::from_millis(1)).await;
}
