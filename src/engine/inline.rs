//! Work that has no task of its own: it is polled once where it is made, and from then on by whatever wakes it. Its maker
//! need not poll, so it may stop, and nobody has to be scheduled. It knows no lock.
//!
//! Such work is short, and takes no mutex across an await: it runs in the middle of what woke it, and so do the wakers of
//! those whom it tells. Where that is no place for it (outside of every task, or of the client's runtime, whose timers it
//! may need), and where it would be polled again at once (it may wake itself until something else runs), it gets a task
//! after all.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Wake, Waker},
};

use super::shared::Engine;
use crate::spare::Reused;

/// Nobody polls it, and it was not woken.
const ASLEEP: u8 = 0;
/// Somebody polls it, or is about to.
const POLLED: u8 = 1;
/// The same, and it was woken meanwhile: to be polled again.
const WOKEN: u8 = 2;

/// Kept by its own waker, and by nothing else: it ends with its work, or with whatever was to wake it.
pub(super) struct Inline {
    engine: Arc<Engine>,
    stage: AtomicU8,
    work: Mutex<Option<Reused<()>>>,
}

impl Inline {
    /// Polls it here and now.
    pub(super) fn start(engine: &Arc<Engine>, work: Reused<()>) {
        if engine.is_home() {
            let work = Mutex::new(Some(work));
            Arc::new(Self { engine: Arc::clone(engine), stage: AtomicU8::new(POLLED), work }).poll();
        } else {
            engine.spawn(Box::pin(work));
        }
    }

    /// For whoever made it `POLLED`.
    fn poll(self: Arc<Self>) {
        let Some(mut work) = self.take() else { return };
        let waker = Waker::from(Arc::clone(&self));
        // At its end it stays `POLLED`: a late wake-up finds nothing to do.
        if Pin::new(&mut work).poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
            if self.stage.compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err() {
                self.stage.store(POLLED, Ordering::Release);
                self.poll_in_a_task();
            }
        }
    }

    fn poll_in_a_task(self: Arc<Self>) {
        let (engine, mut rest) = (Arc::clone(&self.engine), QueuedPoll(Some(self)));
        engine.spawn(Box::pin(async move {
            if let Some(inline) = rest.0.take() {
                inline.poll();
            }
        }));
    }

    fn take(&self) -> Option<Reused<()>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether this is the wake-up after which somebody has to poll.
    fn is_woken(&self) -> bool {
        let next = |stage| Some(if stage == ASLEEP { POLLED } else { WOKEN });
        self.stage.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(ASLEEP)
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        if !self.is_woken() {
            return;
        }
        if tokio::task::try_id().is_some() && self.engine.is_home() {
            self.poll();
        } else {
            self.poll_in_a_task();
        }
    }
}

/// One on its way to a task. A runtime that ended takes it away, and with it all that its work keeps.
struct QueuedPoll(Option<Arc<Inline>>);

impl Drop for QueuedPoll {
    fn drop(&mut self) {
        drop(self.0.take().and_then(|inline| inline.take()));
    }
}
