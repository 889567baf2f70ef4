//! What goes before a release that does not take the same link, or not in its order: commands of the same hold, and a try
//! that goes another way. It sends nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A try that goes another way than its release.
#[derive(Debug)]
pub(super) struct ApartTry {
    turn: Arc<Semaphore>,
    /// Its one copy has run, or never will.
    over: AtomicBool,
}

impl ApartTry {
    /// With the turn of whoever asks.
    pub(super) fn new() -> (Arc<Self>, Option<OwnedSemaphorePermit>) {
        let this = Arc::new(Self { turn: Arc::new(Semaphore::new(1)), over: AtomicBool::new(false) });
        let turn = Arc::clone(&this.turn).try_acquire_owned().ok();
        (this, turn)
    }

    /// Whoever asked knows. Before it gives up its turn.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn ends(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// What a release waits for before it leaves.
#[derive(Debug, Default)]
pub(super) enum GoesBehind {
    #[default]
    Nothing,
    /// The hold's commands that change its count, one at a time.
    Commands(Arc<Semaphore>),
    /// The one try for it, which goes another way.
    Try(Arc<ApartTry>),
}

impl GoesBehind {
    pub(super) fn commands(commands: Option<Arc<Semaphore>>) -> Self {
        commands.map_or(Self::Nothing, Self::Commands)
    }

    pub(super) fn a_try(apart: Option<Arc<ApartTry>>) -> Self {
        apart.map_or(Self::Nothing, Self::Try)
    }

    pub(super) fn turn(&self) -> Option<Arc<Semaphore>> {
        match self {
            Self::Nothing => None,
            Self::Commands(commands) => Some(Arc::clone(commands)),
            Self::Try(apart) => Some(Arc::clone(&apart.turn)),
        }
    }

    /// Whether nothing of it can run any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Try(apart) if apart.is_over())
    }
}
