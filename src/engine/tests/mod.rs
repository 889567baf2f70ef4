//! The engine over a scripted server, on tokio's paused clock: no socket, no real time. What a user can reach is driven
//! through the futures and the guard; what was sent is read from the record, what is left from the server's model.

mod acknowledged;
mod acquire;
mod cancel;
mod close;
mod copies;
mod distances;
mod elsewhere;
mod ends;
mod era;
mod eras;
mod fake;
mod fate;
mod forced;
mod hand_over;
mod line;
mod links;
mod listeners;
mod loss;
mod many;
mod model;

mod nest;
mod nest_line;
mod numbers;
mod orders;
mod panics;
mod parked;
mod protocol;
mod reap;
mod release;
mod repeated;
mod server;
mod shutdown;
mod slice;
mod split;
mod told;
mod watchdog;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use self::{
    fake::World,
    fate::{Fate, Gate, Sent, Verb},
    protocol::FakeLock,
    server::Hearing,
};
use super::{
    Acquire, Clock, Engine, Handle, LockGuard, Margin, Nesting, Released, Settings, TryAcquire, Unlock,
    batches::{BATCH, UNDER_WAY},
    clock::SleepSource,
    distance::TRIES,
    reap::{WATCHED, WATCHED_IN_ALL},
    tries::ACKNOWLEDGED_TRIES,
};
use crate::{
    backend::FaultKind,
    chance::Chance,
    error::{Error, LostCause, Result},
    lease::Lease,
    owner::Owner,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The watchdog's lease in every test that does not say another.
const LEASE: Duration = Duration::from_secs(30);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);
const SLICE: Duration = Duration::from_millis(10);

/// In real time, of which nothing here takes more than moments: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(20);

/// How often something that must never happen is given the chance to.
const MANY: u64 = 100_000;

/// A client on a server of its own.
struct Bench {
    world: Arc<World>,
    engine: Arc<Engine>,
    sleeps: Arc<Sleeps>,
}

/// How long the machine has slept, as a test says.
#[derive(Default)]
struct Sleeps(AtomicU64);

impl Sleeps {
    fn sleep(&self, span: Duration) {
        self.0.fetch_add(u64::try_from(span.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl SleepSource for Sleeps {
    fn slept(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            watchdog_timeout: LEASE,
            command_timeout: COMMAND_TIMEOUT,
            unreachable_after: Duration::from_secs(9),
            handover_slice: SLICE,
            margin: Margin::default(),
            replicas: None,
            voted: None,
        };
        change(&mut settings);
        let world = World::new(settings.command_timeout);
        let sleeps = Arc::new(Sleeps::default());
        let clock = Clock::with_source(Arc::clone(&sleeps) as Arc<dyn SleepSource>);
        let backend = Arc::clone(&world);
        Self { engine: Engine::start(Uuid::from_u128(1), backend, settings, clock, Chance::default()), world, sleeps }
    }

    fn lock(&self, name: &str) -> Lock {
        Lock(Handle::new(&self.engine, Ok(FakeLock::on(&self.world, name, true, 0))))
    }

    /// A lock whose holds never change their owner without a word to the server.
    fn unpassable(&self, name: &str) -> Lock {
        Lock(Handle::new(&self.engine, Ok(FakeLock::on(&self.world, name, false, 0))))
    }

    /// A lock that another node of the server has.
    fn on_shard(&self, name: &str, shard: u64) -> Lock {
        Lock(Handle::new(&self.engine, Ok(FakeLock::on(&self.world, name, true, shard))))
    }

    /// Nobody holds or waits any more: waits until releases and old copies are over, then nothing may be left.
    async fn nothing_is_left(&self, name: &str) {
        // An unanswered try, its release, and the reaping after it.
        let over = Instant::now() + LEASE * 3;
        let known = || self.engine.find(name).is_some() || self.world.server(|server| server.tasks()) > 0;
        let waiting = async {
            while Instant::now() < over && known() {
                sleep(500 * MS).await;
            }
        };
        ends(waiting).await;
        turn().await;
        assert_eq!(self.left(name), [""; 0]);
    }

    /// What is still there of a name that nobody needs: on the server, in the registry, in the background.
    fn left(&self, name: &str) -> Vec<String> {
        let mut left = Vec::new();
        let mut note = |there: bool, what: String| left.extend(there.then_some(what));
        let holder = self.world.holder(name);
        note(holder.is_some(), format!("a hold without a guard on the server: {holder:?}"));
        let subscriptions = self.world.subscriptions();
        note(subscriptions > 0, format!("{subscriptions} subscriptions without a waiter"));
        let entries = self.engine.places();
        note(!entries.is_empty(), format!("entries that nobody needs: {entries:?}"));
        let scheduled = self.engine.schedule().next();
        note(scheduled.is_some(), format!("a look at nothing at {scheduled:?}"));
        let calls = self.world.under_way();
        note(calls > 0, format!("{calls} calls under way"));
        let free = self.engine.tries.at(0).free().map(|places| places.available_permits());
        note(free != [TRIES, TRIES, ACKNOWLEDGED_TRIES], format!("places for tries: {free:?}"));
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let own = self.world.server(|server| server.tasks()) + usize::from(!self.world.is_closed());
        note(tasks > own, format!("{tasks} tasks instead of {own}, the driver among them"));
        left
    }

    /// A hold on the server that nobody of this client answers for: no ticket, and no release that was decided.
    fn unaccounted(&self, name: &str) -> Option<u64> {
        let number = self.world.holder(name)?.0?;
        let accounted = self.engine.find(name).is_some_and(|place| place.accounts_for(number));
        (!accounted).then_some(number)
    }
}

/// One name, and ways to ask for it.
#[derive(Clone)]
struct Lock(Handle);

impl Lock {
    /// As an owner that nobody else is.
    fn lock(&self) -> Acquire {
        self.0.lock(Nesting::Never)
    }

    fn lock_as(&self, owner: &Owner) -> Acquire {
        self.0.lock(Nesting::Current).owner(owner)
    }

    fn try_lock(&self) -> TryAcquire {
        self.0.try_lock(Nesting::Never)
    }

    fn try_lock_as(&self, owner: &Owner) -> TryAcquire {
        self.0.try_lock(Nesting::Current).owner(owner)
    }

    fn unlock_as(&self, owner: &Owner) -> Unlock {
        self.0.unlock().owner(owner)
    }
}

/// Runs elsewhere until it waits for something.
async fn start<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let task = tokio::spawn(future);
    turn().await;
    task
}

/// Lets everybody run who can, without any time going by.
async fn turn() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Fails if it is not over in real time. The clock of these tests stands while anybody runs: a task that never rests
/// would keep every timer waiting, that of a `timeout` too.
async fn ends<F: Future>(future: F) -> F::Output {
    let (_over, rest) = mpsc::channel::<()>();
    let (tell, hangs) = oneshot::channel();
    thread::spawn(move || {
        if rest.recv_timeout(HANGS) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = tell.send(());
        }
    });
    tokio::select! {
        biased;
        output = future => output,
        Ok(()) = hangs => panic!("somebody never rests, so the clock stands still"),
    }
}

/// Polls a future whenever it is woken, so many times at most.
async fn polled<F: Future + Unpin>(future: &mut F, polls: usize) -> Option<F::Output> {
    let mut polls = polls;
    std::future::poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match Pin::new(&mut *future).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

fn numbers(sent: &[Sent]) -> Vec<u64> {
    sent.iter().map(|sent| sent.numbers[0]).collect()
}

fn cause(error: &Error) -> Option<LostCause> {
    match error {
        Error::Lost { cause, .. } => Some(*cause),
        _ => None,
    }
}

/// The hold of a guard, by what the server has: only for a name that this client holds.
fn number_of(world: &World, name: &str) -> u64 {
    world.holder(name).and_then(|(number, _)| number).expect("held by us")
}
