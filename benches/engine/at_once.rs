//! A server that answers at once, as the engine sees it: no link, no codec, no script, no allocation of its own. What a lock costs
//! over it is the engine's. Part of the library where the bench `engine` compiles that, and nowhere else.

use std::{
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use uuid::Uuid;

use crate::{
    backend::{
        Acknowledged, Answer, Dispatch, Fault, FaultKind, Line, Listener, Pending, Replicas, Reply, RoundTrip,
        Subscription, Value, Way,
    },
    chance::Chance,
    engine::{
        Acquire, Attempt, Clock, Engine, Forced, Handle, HoldNumber, Letting, Moved, Nesting, Note, Protocol,
        Published, Renewal, RenewalGroup, Settings, Sight,
    },
    script::reentrant as scripts,
    spare::{Boxes, Reused, Spare},
};

/// So long that none is over while anything is measured: a section that ends one costs two commands more.
const SLICE: Duration = Duration::from_secs(60);

/// The server looks at the clock with one answer of so many. A real one does so more often, which is no cost of the engine's.
const LOOKS: u64 = 1024;

/// The only one of each.
const LINK: u64 = 1;
const ERA: u64 = 1;

thread_local! {
    static ANSWERS: Boxes<Result<Value, Fault>> = const { Spare::new() };
}

/// A client of such a server.
#[derive(Debug)]
pub struct Client {
    engine: Arc<Engine>,
    server: Arc<Server>,
}

/// One name of it.
#[derive(Clone, Debug)]
pub struct Lock(Handle);

impl Client {
    /// Lives on the runtime on which it is made.
    #[must_use]
    pub fn start() -> Self {
        let settings = Settings {
            watchdog_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(3),
            unreachable_after: Duration::from_secs(9),
            handover_slice: SLICE,
            ..Settings::default()
        };
        let server = Arc::new(Server {
            commands: AtomicU64::new(0),
            started: Instant::now(),
            answered_ms: AtomicU64::new(0),
            eras: watch::Sender::new(ERA),
        });
        let line: Arc<dyn Line> = Arc::clone(&server) as Arc<dyn Line>;
        let engine = Engine::start(Uuid::from_u128(1), line, settings, Clock::new(), Chance::default());
        Self { engine, server }
    }

    /// A lock that its owner may take again.
    #[must_use]
    pub fn lock(&self, name: &str) -> Lock {
        let protocol = AtOnce { server: Arc::clone(&self.server), name: Arc::from(name) };
        Lock(Handle::new(&self.engine, Ok(Arc::new(protocol))))
    }

    /// How many commands there were so far.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.server.commands.load(Ordering::Relaxed)
    }

    /// Ends it.
    pub async fn close(&self) {
        Engine::close(&self.engine).await;
    }
}

impl Lock {
    /// Acquires for the current owner.
    pub fn lock(&self) -> Acquire {
        self.0.lock(Nesting::Current)
    }
}

/// Grants everything: whoever asks is alone, or knows of whom it waits for.
#[derive(Debug)]
struct Server {
    commands: AtomicU64,
    started: Instant,
    /// When it last looked at the clock.
    answered_ms: AtomicU64,
    eras: watch::Sender<u64>,
}

impl Server {
    fn answers(&self) {
        if self.commands.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOKS) {
            let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.answered_ms.store(ms, Ordering::Relaxed);
        }
    }
}

impl Line for Server {
    fn subscribe(&self, _: &str, _: Arc<str>, _: Arc<dyn Listener>) -> Subscription {
        Subscription::new(|| ())
    }

    fn link(&self, _: &str) -> u64 {
        LINK
    }

    fn last_answer(&self, _: &str) -> Instant {
        self.started + Duration::from_millis(self.answered_ms.load(Ordering::Relaxed))
    }

    fn round_trip(&self, _: &str) -> Option<RoundTrip> {
        Some(RoundTrip::default())
    }

    fn place(&self, _: &str) -> u32 {
        0
    }

    fn era(&self, _: &str) -> u64 {
        ERA
    }

    fn eras(&self) -> watch::Receiver<u64> {
        self.eras.subscribe()
    }

    fn close(&self) {}
}

/// A lock on it. What its answers mean is read as from those of a real one.
struct AtOnce {
    server: Arc<Server>,
    name: Arc<str>,
}

impl AtOnce {
    /// One kind of future for all commands, so that each finds the box of an earlier one.
    fn answer(&self, number: i64, dispatch: Option<&Arc<Dispatch>>) -> Answer {
        let (server, dispatch) = (Arc::clone(&self.server), dispatch.map(Arc::clone));
        Reused::new(&ANSWERS, async move {
            if dispatch.is_some_and(|dispatch| !dispatch.leaves(Way::over(ERA))) {
                return Err(Fault::of(FaultKind::Withdrawn, false, "it was withdrawn before it was sent"));
            }
            server.answers();
            Ok(Value::Int(number))
        })
    }

    fn told<T: Send + 'static>(&self, answer: T) -> Pending<T> {
        self.server.answers();
        Box::pin(ready(answer))
    }
}

impl Protocol for AtOnce {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn key(&self) -> &Arc<str> {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "lock at once"
    }

    fn channel(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn passes(&self) -> bool {
        true
    }

    fn acquire(&self, _: HoldNumber, _: Duration, holds: u32, dispatch: &Arc<Dispatch>) -> Reply<Attempt> {
        let read = |answer: &Value| Some(Attempt::Granted { holds: number(answer)?, fence: None });
        Reply::Read { answer: self.answer(holds.into(), Some(dispatch)), script: &scripts::ACQUIRE, read }
    }

    fn acquire_acknowledged(
        &self,
        _: HoldNumber,
        _: Duration,
        replicas: Replicas,
        _: &Arc<Dispatch>,
    ) -> Pending<Result<(Attempt, Acknowledged), Fault>> {
        let acknowledged: Acknowledged = Box::pin(ready(Ok(replicas.wanted)));
        Box::pin(ready(Ok((Attempt::Granted { holds: 1, fence: None }, acknowledged))))
    }

    fn release(&self, _: HoldNumber, holds: u32, _: Note) -> Reply<Letting> {
        let read = |answer: &Value| {
            let holds = number(answer)?;
            let published = if holds == 0 { Published::To(0) } else { Published::No };
            Some(Letting::Done { holds, published })
        };
        Reply::Read { answer: self.answer(holds.into(), None), script: &scripts::RELEASE, read }
    }

    fn hand_over(&self, _: HoldNumber, _: HoldNumber, _: Duration) -> Pending<Result<Moved, Fault>> {
        self.told(Ok(Moved::Done { published: Published::No, fence: None }))
    }

    fn renewal_group(&self) -> RenewalGroup {
        RenewalGroup("at once", 0)
    }

    fn renew(
        &self,
        holds: &[(&str, HoldNumber)],
        _: Duration,
        _: Duration,
        _: &Arc<Dispatch>,
    ) -> Pending<Vec<Result<Renewal, Fault>>> {
        self.told(holds.iter().map(|_| Ok(Renewal::Renewed)).collect())
    }

    fn inspect(&self) -> Pending<Result<Option<Sight>, Fault>> {
        self.told(Ok(None))
    }

    fn force_release(&self, _: &Sight) -> Pending<Result<Forced, Fault>> {
        self.told(Ok(Forced::Gone))
    }
}

fn number(answer: &Value) -> Option<u32> {
    if let Value::Int(number) = *answer { u32::try_from(number).ok() } else { None }
}
