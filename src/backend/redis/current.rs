//! Which link is the current one, and who sends first where there is none. Opens and closes no connection.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::{faults, link::Link};
use crate::backend::{Befell, Fault};

/// Draws the numbers of links, for all nodes of one backend together: they grow.
pub(super) struct Numbers {
    last: Mutex<u64>,
    /// The last one that was drawn because another server answers, or one that may have forgotten what it had.
    eras: watch::Sender<u64>,
}

impl Numbers {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { last: Mutex::new(0), eras: watch::Sender::new(0) })
    }

    /// One that begins no era. It is in force when the next one is drawn.
    pub(super) fn draw<T>(&self, put: impl FnOnce(u64) -> T) -> T {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        put(*last)
    }

    /// One that begins an era, if `put` says so. Whoever hears of it finds all earlier ones in force.
    pub(super) fn begin(&self, put: impl FnOnce(u64) -> bool) -> bool {
        let (number, begun) = self.draw(|number| (number, put(number)));
        if begun {
            self.eras.send_if_modified(|latest| std::mem::replace(latest, number.max(*latest)) < number);
        }
        begun
    }

    pub(super) fn eras(&self) -> watch::Receiver<u64> {
        self.eras.subscribe()
    }
}

/// The current link, and those that wait for one.
pub(super) struct Current {
    state: Mutex<State>,
    /// Which link is the current one, or was the last. Changed under the mutex, before anybody finds that link.
    number: AtomicU64,
    /// Lets the commands that found no link go in the order in which they came.
    turnstile: Arc<Semaphore>,
    /// The phase changed. Only the first in the turnstile listens.
    changed: Notify,
    numbers: Arc<Numbers>,
}

struct State {
    phase: Phase,
    /// There was none yet: the first has the number that those who wait for it have seen.
    first: bool,
    /// Another node answers for what this one had.
    retired: bool,
    /// Commands before or in the turnstile. While there are any, nobody passes them, link or not.
    waiting: usize,
    /// Why the last attempt to connect failed.
    fault: Option<Fault>,
}

enum Phase {
    Up(Arc<Link>),
    Down,
    Closed,
}

/// What a command finds when it is first polled.
pub(super) enum Found {
    Link(Arc<Link>),
    Nothing(LinkWaiter),
    Closed,
}

impl Current {
    /// With a link, or still without one.
    pub(super) fn new(link: Option<Arc<Link>>, numbers: &Arc<Numbers>) -> Self {
        let first = link.is_none();
        let state = |number| {
            link.iter().for_each(|link| link.set_number(number));
            let phase = link.map_or(Phase::Down, Phase::Up);
            (State { phase, first, retired: false, waiting: 0, fault: None }, number)
        };
        let (state, number) = numbers.draw(state);
        Self {
            state: Mutex::new(state),
            number: AtomicU64::new(number),
            turnstile: Arc::new(Semaphore::new(1)),
            changed: Notify::new(),
            numbers: Arc::clone(numbers),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The greatest number that began an era, as it changes.
    pub(super) fn eras(&self) -> watch::Receiver<u64> {
        self.numbers.eras()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state().phase, Phase::Closed)
    }

    /// The link there is.
    pub(super) fn link(&self) -> Option<Arc<Link>> {
        match &self.state().phase {
            Phase::Up(link) if !link.is_gone() => Some(link.clone()),
            _ => None,
        }
    }

    pub(super) fn is_retired(&self) -> bool {
        self.state().retired
    }

    /// Why nothing is sent here any more.
    pub(super) fn over(&self, may_have_run: bool) -> Fault {
        if self.state().retired { faults::retired(may_have_run) } else { faults::closed(may_have_run) }
    }

    /// Why there is no link. Whatever it was, there may be one later.
    pub(super) fn fault(&self) -> Fault {
        let why = self.state().fault.clone();
        Fault { befell: Befell::Opening, ..why.unwrap_or_else(faults::no_link) }
    }

    /// What there is right now. Once somebody found nothing, all that come later find nothing until they have sent.
    pub(super) fn find(self: &Arc<Self>) -> Found {
        let mut state = self.state();
        match &state.phase {
            Phase::Closed => Found::Closed,
            Phase::Up(link) if state.waiting == 0 && !link.is_gone() => Found::Link(link.clone()),
            _ => {
                state.waiting += 1;
                Found::Nothing(LinkWaiter(self.clone()))
            }
        }
    }

    /// A new link is there.
    pub(super) fn up(&self, link: Arc<Link>) {
        let mut link = Some(link);
        let mut put = |number: Option<u64>| {
            let mut state = self.state();
            let open = !matches!(state.phase, Phase::Closed);
            if let Some(link) = link.take_if(|_| open) {
                let number = number.unwrap_or_else(|| self.number());
                link.set_number(number);
                self.number.store(number, Ordering::Release);
                state.phase = Phase::Up(link);
                state.fault = None;
            }
            open
        };
        if std::mem::take(&mut self.state().first) {
            put(None);
        } else {
            self.numbers.begin(|number| put(Some(number)));
        }
        self.changed.notify_waiters();
    }

    /// The link is over.
    pub(super) fn down(&self) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Closed) {
            state.phase = Phase::Down;
        }
    }

    /// Another node answers for what this one had: whoever waits here asks anew.
    pub(super) fn retire(&self) {
        self.state().retired = true;
        self.close();
    }

    pub(super) fn close(&self) {
        self.state().phase = Phase::Closed;
        self.turnstile.close();
        self.changed.notify_waiters();
    }

    /// An attempt to connect failed.
    pub(super) fn failed(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// Whether there is a link, and how many wait for one.
    #[cfg(test)]
    pub(super) fn seen(&self) -> (bool, usize) {
        let state = self.state();
        (matches!(state.phase, Phase::Up(_)), state.waiting)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that found no link.
pub(super) struct LinkWaiter(Arc<Current>);

impl LinkWaiter {
    /// Waits until there is a link and all that came before have sent. The first poll takes the place in the order; the
    /// first in it holds everybody up, so what follows must not hang on a caller that may stop polling.
    pub(super) async fn turn(self) -> Result<(Arc<Link>, SendTurn), Fault> {
        let current = self.0.clone();
        let permit = current.turnstile.clone().acquire_owned().await.map_err(|_| current.over(false))?;
        loop {
            let mut changed = pin!(current.changed.notified());
            changed.as_mut().enable();
            match &current.state().phase {
                Phase::Closed => break,
                Phase::Up(link) if !link.is_gone() => {
                    return Ok((link.clone(), SendTurn { _waiting: self, _permit: permit }));
                }
                _ => {}
            }
            changed.await;
        }
        Err(current.over(false))
    }
}

impl Drop for LinkWaiter {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// The right to send first; given back once the command is with the driver.
pub(super) struct SendTurn {
    _waiting: LinkWaiter,
    _permit: OwnedSemaphorePermit,
}
