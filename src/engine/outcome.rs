//! What a release left, how it went for whoever asks, and what it left to do. It sends nothing.

use std::{
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    HoldNumber, Note,
    reap::OldCopies,
    why::{Missing, Why},
};
use crate::{
    backend::Fault,
    error::{Error, Op, Result},
    owner::Owner,
};

/// What a release left.
///
/// # Examples
///
/// ```
/// use relatch::Released;
///
/// fn times_held(left: Released) -> u32 {
///     match left {
///         Released::StillHeld(times) => times,
///         _ => 0,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The hold is over: the lock is free, or somebody else of this client has it now.
    Freed,
    /// The owner still holds it so many times.
    StillHeld(u32),
    /// The hold had run out before the release came, nobody has the lock now, and nothing was left to free. Only a
    /// [`TokenLock`](crate::TokenLock) answers so: elsewhere a hold that ran out is [`Error::Lost`](crate::Error::Lost).
    AlreadyExpired,
}

/// How a release went, for whoever asks, as often as they ask.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Whose detached ticket it was, so that a second `unlock` can ask how it went.
    detached: OnceLock<Owner>,
    result: OnceLock<Result<Released>>,
    /// What came of the first sending.
    first: OnceLock<Result<Released>>,
    /// What was given up and is still to be released.
    rest: Mutex<Option<Rest>>,
    done: Notify,
}

/// Nobody knows yet how a release went.
pub(super) fn not_yet(name: &Arc<str>) -> Error {
    let fault = Fault::timeout(true, "the release is not answered yet; it is repeated in the background");
    Error::from_fault(fault, name, Op::Release)
}

/// What a release that was given up leaves to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) number: HoldNumber,
    pub(super) then: Option<HoldNumber>,
    pub(super) until: Instant,
    pub(super) note: Note,
    pub(super) missing: Missing,
}

impl Outcome {
    pub(crate) fn set(&self, result: Result<Released>) {
        let _ = self.result.set(result);
        self.done.notify_waiters();
    }

    /// The answer came, with the first sending or a later one.
    pub(super) fn settle(&self, result: Result<Released>) {
        let _ = self.first.set(result.clone());
        self.set(result);
    }

    pub(super) fn set_first(&self, result: Result<Released>) {
        if self.first.set(result).is_ok() {
            self.done.notify_waiters();
        }
    }

    pub(super) fn of_detached(&self, owner: &Owner) {
        let _ = self.detached.set(owner.clone());
    }

    pub(super) fn is_detached_of(&self, owner: &Owner) -> bool {
        self.detached.get() == Some(owner)
    }

    /// It was given up.
    pub(super) fn leave(&self, rest: Rest) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    /// A release of what is left, for whoever asks first.
    pub(super) fn take_rest(&self, now: Instant) -> Option<Why> {
        let rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let Rest { number, then, until, note, missing } = rest;
        Some(Why { then, note, missing, ..Why::ended(number, until.saturating_duration_since(now), OldCopies::None) })
    }

    /// `None` if there is none within the time.
    pub(crate) async fn wait(&self, within: Duration) -> Option<Result<Released>> {
        timeout(within, self.known(&self.result)).await.ok()
    }

    /// What comes of the first sending.
    pub(super) fn first(&self) -> impl Future<Output = Result<Released>> {
        self.known(&self.first)
    }

    async fn known(&self, what: &OnceLock<Result<Released>>) -> Result<Released> {
        loop {
            if let Some(result) = what.get() {
                return result.clone();
            }
            let mut told = pin!(self.done.notified());
            told.as_mut().enable();
            // Perhaps just before this listened.
            if what.get().is_none() {
                told.await;
            }
        }
    }
}
