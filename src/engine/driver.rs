//! The one task that looks after every entry of a client: what is due is told to its name, and what names decide on is renewed
//! together. When each entry is due stands in `schedule.rs`, how renewals leave in `renew.rs`.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{self, sleep_until};
use uuid::Uuid;

use super::{
    Clock, Settings,
    batches::BATCH,
    circles::Circles,
    ending::HomeEnds,
    entry::{Entry, Event},
    entry_ref::each,
    era::Eras,
    home::Home,
    renew::Lines,
    renewals::Renewals,
    schedule::Schedule,
    shared::Engine,
};
use crate::{backend::Line, chance::Chance, state::Instant};

/// A renewal may leave by this part of the lease before it is due: to fill a batch that leaves anyway, or as one of a
/// whole batch, so that not all leave in one moment.
const EARLY: u32 = 12;

/// How often the driver looks whether the machine has slept, while there is anything to look after.
const SLEEP_CHECK: Duration = Duration::from_secs(1);

impl Engine {
    /// Must be called on the runtime that the client lives on: what looks after its names starts here.
    pub(crate) fn start(id: Uuid, line: Arc<dyn Line>, settings: Settings, clock: Clock, chance: Chance) -> Arc<Self> {
        Self::new(id, line, settings, clock, chance, Home::here()).driven()
    }

    /// Where another engine lives, and by its clock.
    pub(crate) fn start_beside(
        other: &Self,
        id: Uuid,
        line: Arc<dyn Line>,
        settings: Settings,
        chance: Chance,
    ) -> Arc<Self> {
        Self::new(id, line, settings, other.clock().clone(), chance, Home::beside(other.home())).driven()
    }

    fn driven(self: Arc<Self>) -> Arc<Self> {
        let engine = self;
        if engine.home().runtime().is_ok() {
            let (ends, driver) = (HomeEnds::of(&engine), drive(&engine));
            engine.spawn(Box::pin(async move {
                let _ends = ends;
                driver.await;
            }));
        }
        engine
    }
}

/// The driver's life. It ends with the engine, which it does not keep alive.
fn drive(engine: &Arc<Engine>) -> impl Future<Output = ()> + Send + use<> {
    let now = time::Instant::now();
    let driver = Driver {
        engine: Arc::downgrade(engine),
        schedule: Arc::clone(engine.schedule()),
        renewals: Arc::clone(engine.renewals()),
        lines: Lines::default(),
        eras: Eras::told_by(engine.line().eras()),
        circles: Circles::new(now),
        check: now + SLEEP_CHECK,
        spread: now,
    };
    driver.run()
}

struct Driver {
    engine: Weak<Engine>,
    schedule: Arc<Schedule>,
    renewals: Arc<Renewals>,
    lines: Lines,
    eras: Eras,
    circles: Circles,
    check: time::Instant,
    /// When a whole batch may leave early again.
    spread: time::Instant,
}

impl Driver {
    async fn run(mut self) {
        let mut wake = None;
        loop {
            // Whichever comes first, what is due is looked at: none of them can hold up another.
            let called = tokio::select! {
                biased;
                Some(called) = self.lines.next() => Some(called),
                () = self.schedule.sooner.notified() => None,
                () = self.renewals.more.notified() => None,
                () = self.eras.changed() => None,
                () = sleep_until(wake.unwrap_or(self.check)), if wake.is_some() => None,
            };
            if self.schedule.has_ended() {
                return;
            }
            let Some(engine) = self.engine.upgrade() else { return };
            if let Some(called) = called {
                self.lines.settle(&engine, called);
            }
            self.look(&engine);
            wake = self.next(&engine);
            drop(engine);
            self.eras.pause().await;
        }
    }

    /// Does what is due.
    fn look(&mut self, engine: &Arc<Engine>) {
        let awake = time::Instant::now();
        if self.check <= awake {
            self.check = awake + SLEEP_CHECK;
            self.circles.look(engine, awake);
            if self.schedule.next().is_some() {
                // A hold with a lease of its own sends nothing, and is to hear of a server that lost it all the same.
                engine.line().in_use();
            }
        }
        // It counts what the machine slept: whatever that made due is among them.
        let now = engine.now();
        each(engine, self.schedule.take_due(now), |place| {
            let done = place.change(|name, env, effects| {
                name.on(Event::Tick, env, effects);
                name.is_done()
            });
            if done {
                engine.forget(&place.entry);
            }
        });
        self.eras.tell(engine, awake);
        self.lines.line_up(engine);
        self.fill(engine, now);
        self.spread(engine, now, awake);
        self.lines.send(engine);
    }

    /// When there is something to do again, if nothing happens before: within a second while there is anything at all, since
    /// timers stand still while the machine sleeps.
    fn next(&self, engine: &Engine) -> Option<time::Instant> {
        let due = self.schedule.next().map(|at| engine.tokio(at));
        let next = due.into_iter().chain(self.eras.next()).min()?;
        let next = next.min(self.check);
        Some(self.next_early(engine, next).into_iter().fold(next, time::Instant::min))
    }

    /// When a whole batch could leave early, while nothing that is due waits, if that is before then.
    fn next_early(&self, engine: &Engine, before: time::Instant) -> Option<time::Instant> {
        if before <= self.spread || !self.lines.is_empty() {
            return None;
        }
        let last = self.schedule.by(BATCH)?;
        let early = engine.tokio(last).checked_sub(ahead(engine));
        Some(early.map_or(self.spread, |early| early.max(self.spread)))
    }

    /// Makes the last of the batches that go out anyway a whole one, of holds that are due a little later, and together from then
    /// on. Where there are too few nobody leaves before the time.
    fn fill(&mut self, engine: &Arc<Engine>, now: Instant) {
        self.early(engine, self.lines.missing(), now);
    }

    /// A whole batch leaves early, again and again within a third of the lease until it was everybody's turn: holds that were
    /// taken in one moment are not due in one moment for ever.
    fn spread(&mut self, engine: &Arc<Engine>, now: Instant, awake: time::Instant) {
        let until = now + ahead(engine);
        if awake < self.spread || !self.lines.is_empty() || self.schedule.by(BATCH).is_none_or(|last| until < last) {
            return;
        }
        let share = BATCH as f64 / self.schedule.len().max(BATCH) as f64;
        self.spread = awake + (engine.settings().watchdog_timeout / 3).mul_f64(share);
        self.early(engine, BATCH, now);
    }

    /// The next so many renewals, a little before they are due: all of them, or none.
    fn early(&mut self, engine: &Arc<Engine>, count: usize, now: Instant) {
        let (until, watchdog) = (now + ahead(engine), engine.settings().watchdog_timeout);
        let entries = self.schedule.first(count, until);
        let renews = |entry: &Arc<Entry>| entry.lock().name.renews_by(until, watchdog);
        if count == 0 || entries.len() < count || !entries.iter().all(renews) {
            return;
        }
        each(engine, self.schedule.take_first(count, until), |place| place.on(Event::RenewAlong { by: until }));
        self.lines.line_up(engine);
    }
}

/// How long before it is due a renewal may leave.
fn ahead(engine: &Engine) -> Duration {
    engine.settings().watchdog_timeout / EARLY
}
