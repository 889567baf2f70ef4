//! Whose time a store lives on, and how far its clock was set. Nothing happens by it.

use std::{cell::Cell, time::Duration};

use tokio::{runtime::Handle, time::Instant};

/// What the store's clock shows at its beginning: far enough from zero to be set back.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);

/// As good as never, for whatever is to happen later than a clock can tell.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600 * 30);

/// So much later.
pub(super) fn after(now: Instant, by: Duration) -> Instant {
    now + by.min(NEVER)
}

/// Whose runtime's time it is, and how far the store's clock was set.
#[derive(Debug)]
pub(super) struct Clock {
    made: Instant,
    runtime: Option<Handle>,
    start: Option<Instant>,
    /// The time of the step that is being made: asked for once.
    moment: Cell<Option<Instant>>,
    ahead: Duration,
    behind: Duration,
}

impl Clock {
    pub(super) fn new() -> Self {
        let (made, moment) = (Instant::now(), Cell::default());
        Self { made, runtime: None, start: None, moment, ahead: Duration::ZERO, behind: Duration::ZERO }
    }

    /// When it was made, on the time of whose runtime it came to be: that may have stood still before.
    pub(super) fn made(&self) -> Instant {
        self.start.map_or(self.made, |start| self.made.min(start))
    }

    /// The first one to come says whose time it is.
    pub(super) fn bind(&mut self) {
        if self.runtime.is_none() {
            self.runtime = Handle::try_current().ok();
            self.start = self.runtime.is_some().then(Instant::now);
        }
    }

    pub(super) fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref()
    }

    /// A step begins: no time goes by until the next one.
    pub(super) fn step(&self) {
        self.moment.set(None);
    }

    /// The time of the store's runtime, wherever it is asked.
    pub(super) fn now(&self) -> Instant {
        let moment = self.moment.get().unwrap_or_else(|| self.time());
        self.moment.set(Some(moment));
        moment
    }

    fn time(&self) -> Instant {
        let here = Handle::try_current().ok().map(|here| here.id());
        match &self.runtime {
            Some(own) if here != Some(own.id()) => {
                let _entered = own.enter();
                Instant::now()
            }
            _ => Instant::now(),
        }
    }

    pub(super) fn since_start(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| self.now().saturating_duration_since(start))
    }

    /// What the servers' clocks show.
    pub(super) fn server_time(&self) -> Duration {
        (BEGINNING + self.since_start()).saturating_add(self.ahead).saturating_sub(self.behind)
    }

    pub(super) fn set_ahead(&mut self, by: Duration) {
        self.ahead = self.ahead.saturating_add(by);
    }

    pub(super) fn set_back(&mut self, by: Duration) {
        self.behind = self.behind.saturating_add(by);
    }
}
