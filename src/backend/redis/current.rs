//! Which link is the current one, and who sends first where there is none. Opens and closes no connection.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::{faults, link::Link};
use crate::backend::Fault;

/// The number of the first link.
const FIRST: u64 = 1;

/// The current link, and those that wait for one.
pub(super) struct Current {
    state: Mutex<State>,
    /// Lets the commands that found no link go in the order in which they came.
    turnstile: Arc<Semaphore>,
    /// The phase changed. Only the first in the turnstile listens.
    changed: Notify,
    /// The number of the latest link: a server that takes a new one may have forgotten what it had.
    eras: watch::Sender<u64>,
}

struct State {
    phase: Phase,
    /// Which link this is.
    number: u64,
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
    Nothing(Waiting),
    Closed,
}

impl Current {
    pub(super) fn new(link: Arc<Link>) -> Self {
        link.set_number(FIRST);
        Self {
            state: Mutex::new(State { phase: Phase::Up(link), number: FIRST, waiting: 0, fault: None }),
            turnstile: Arc::new(Semaphore::new(1)),
            changed: Notify::new(),
            eras: watch::Sender::new(FIRST),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.state().number
    }

    /// The same as it changes.
    pub(super) fn eras(&self) -> watch::Receiver<u64> {
        self.eras.subscribe()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state().phase, Phase::Closed)
    }

    /// Why there is no link. Whatever it was, there may be one later.
    pub(super) fn fault(&self) -> Fault {
        let why = self.state().fault.clone();
        Fault { unopened: true, ..why.unwrap_or_else(faults::no_link) }
    }

    /// What there is right now. Once somebody found nothing, all that come later find nothing until they have sent.
    pub(super) fn find(self: &Arc<Self>) -> Found {
        let mut state = self.state();
        match &state.phase {
            Phase::Closed => Found::Closed,
            Phase::Up(link) if state.waiting == 0 && !link.is_gone() => Found::Link(link.clone()),
            _ => {
                state.waiting += 1;
                Found::Nothing(Waiting(self.clone()))
            }
        }
    }

    /// A new link is there.
    pub(super) fn up(&self, link: Arc<Link>) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Closed) {
            state.number += 1;
            link.set_number(state.number);
            state.phase = Phase::Up(link);
            state.fault = None;
        }
        let number = state.number;
        drop(state);
        self.changed.notify_waiters();
        self.eras.send_replace(number);
    }

    /// The link is over.
    pub(super) fn down(&self) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Closed) {
            state.phase = Phase::Down;
        }
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
pub(super) struct Waiting(Arc<Current>);

impl Waiting {
    /// Waits until there is a link and all that came before have sent. The first poll takes the place in the order; the
    /// first in it holds everybody up, so what follows must not hang on a caller that may stop polling.
    pub(super) async fn turn(self) -> Result<(Arc<Link>, Turn), Fault> {
        let current = self.0.clone();
        let permit = current.turnstile.clone().acquire_owned().await.map_err(|_| faults::closed(false))?;
        loop {
            let mut changed = pin!(current.changed.notified());
            changed.as_mut().enable();
            match &current.state().phase {
                Phase::Closed => return Err(faults::closed(false)),
                Phase::Up(link) if !link.is_gone() => {
                    return Ok((link.clone(), Turn { _waiting: self, _permit: permit }));
                }
                _ => {}
            }
            changed.await;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// The right to send first; given back once the command is with the driver.
pub(super) struct Turn {
    _waiting: Waiting,
    _permit: OwnedSemaphorePermit,
}
