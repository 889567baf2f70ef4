//! One acquisition from the ask to the end of its hold: where it is told what came of it, and what the guards of its owner
//! share. It knows no deadline and no count.

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{Ordering, fence},
    },
    task::{Context, Poll, Waker},
};

use once_cell::race::OnceBox;
use tokio::{sync::Notify, task};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::ended::{End, OnceEnd};
use crate::{backend::Fault, error::Error, name::Field, owner::Owner, state};

/// One owner's time with a hold, from its ask on, shared with that owner's guards. A pass ends it and begins another.
pub(crate) struct Tenure {
    pub(crate) owner: Owner,
    /// The task that asked for it, if it was one.
    pub(super) task: Option<task::Id>,
    answer: Mutex<Slot>,
    end: OnceEnd,
    /// Most need none of it.
    more: OnceBox<More>,
}

/// What somebody waits for, and whether it is there.
#[derive(Default)]
enum Slot {
    /// Nothing was told, and nobody looked.
    #[default]
    Empty,
    Waits(Waker),
    Told(Answered),
    /// Nobody comes for it any more.
    Gone,
}

/// What somebody was told, and where that is a failure what befell the name last.
pub(super) struct Answered {
    pub(super) told: state::Told<Arc<Tenure>>,
    pub(super) fault: Option<Box<Fault>>,
}

impl state::Share<Arc<Tenure>> for Arc<Tenure> {
    fn of(waiter: &Arc<Tenure>) -> Self {
        Arc::clone(waiter)
    }
}

/// The fencing token of a tenure that has one, and how those hear of it who wait for its end.
#[derive(Debug, Default)]
pub(super) struct More {
    fence: OnceLock<u64>,
    /// Told at the end, and where that comes nearer.
    over: Notify,
    /// Cancelled at the end, or before, when its owner is to stop.
    stop: OnceLock<CancellationToken>,
    /// The same, each for several tenures.
    pub(super) joint: OnceBox<Mutex<Vec<Joint>>>,
    /// Where what is said of the acquisition is heard, until it was said that somebody else has the lock.
    span: Mutex<Option<Span>>,
}

/// Cancelled with the first of several tenures that ends.
#[derive(Debug)]
pub(super) struct Joint {
    /// Where they are, which tells them apart for as long as all of them last. Each of them has it: they may be very many.
    pub(super) of: Arc<[usize]>,
    pub(super) stop: CancellationToken,
}

impl Tenure {
    pub(crate) fn new(owner: Owner, task: Option<task::Id>) -> Arc<Self> {
        let answer = Mutex::default();
        Arc::new(Self { owner, task, answer, end: OnceEnd::default(), more: OnceBox::new() })
    }

    /// It was granted under this fencing token, if there is one.
    pub(super) fn set_fence(&self, fence: Option<u64>) {
        if let Some(fence) = fence {
            self.more().fence.get_or_init(|| fence);
        }
    }

    /// What is said of it is heard there.
    pub(super) fn is_heard_in(&self, span: Span) {
        *self.more().span.lock().unwrap_or_else(PoisonError::into_inner) = Some(span);
    }

    /// Nothing more is said of it: where it was heard, if it was not said that somebody else has the lock.
    pub(super) fn unheard(&self) -> Option<Span> {
        self.more.get()?.span.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Somebody else has the lock: said once.
    pub(super) fn contended(&self, name: &str) {
        if let Some(span) = self.unheard() {
            span.in_scope(|| tracing::debug!(lock = %Field(name), owner = %self.owner, "contended"));
        }
    }

    fn answer(&self) -> MutexGuard<'_, Slot> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever waits is told: it is the caller's to wake it. What nobody comes for is dropped: it was said that nobody wants it.
    pub(super) fn tell(&self, answered: Answered) -> Option<Waker> {
        let mut slot = self.answer();
        if let Slot::Gone = *slot {
            drop(slot);
            drop(answered);
            return None;
        }
        let before = mem::replace(&mut *slot, Slot::Told(answered));
        drop(slot);
        if let Slot::Waits(waker) = before { Some(waker) } else { None }
    }

    /// What was told, or whoever polls is woken when it is.
    pub(super) fn poll_answer(&self, cx: &Context<'_>) -> Poll<Answered> {
        let mut slot = self.answer();
        match mem::take(&mut *slot) {
            Slot::Told(answered) => Poll::Ready(answered),
            Slot::Waits(waker) if waker.will_wake(cx.waker()) => {
                *slot = Slot::Waits(waker);
                Poll::Pending
            }
            before => {
                *slot = Slot::Waits(cx.waker().clone());
                drop(slot);
                // A waker is somebody else's code.
                drop(before);
                Poll::Pending
            }
        }
    }

    /// Whether a hold of its own was granted, for which nobody came yet: none that another acquisition of its owner had before.
    pub(super) fn has_own_hold(self: &Arc<Self>) -> bool {
        let told = &*self.answer();
        matches!(told, Slot::Told(Answered { told: state::Told::Granted { share, .. }, .. }) if Arc::ptr_eq(share, self))
    }

    /// Whether it may be asked for something new that it is told of: nobody waits for anything else.
    pub(super) fn opens(&self) -> bool {
        let mut slot = self.answer();
        let free = matches!(*slot, Slot::Empty | Slot::Gone);
        if free {
            *slot = Slot::Empty;
        }
        free
    }

    /// Whether nobody polls for what it is to be told, or was.
    pub(super) fn attends(&self) -> bool {
        !matches!(*self.answer(), Slot::Waits(_))
    }

    /// Nobody polls for now.
    pub(super) fn unattended(&self) {
        let mut slot = self.answer();
        let before = if let Slot::Waits(_) = *slot { mem::take(&mut *slot) } else { Slot::Empty };
        drop(slot);
        drop(before);
    }

    /// Nobody comes for what it may yet be told.
    pub(super) fn gone(&self) {
        let before = mem::replace(&mut *self.answer(), Slot::Gone);
        drop(before);
    }

    pub(super) fn more(&self) -> &More {
        self.more.get_or_init(Box::default)
    }

    /// Its fencing token, where its primitive gives any.
    pub(crate) fn fence(&self) -> Option<u64> {
        self.more.get()?.fence.get().copied()
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end.get()
    }

    /// The first end counts. Whoever waits for it is woken by [`Tenure::wake`].
    pub(super) fn finish(&self, end: End) {
        self.end.set(end);
    }

    /// Whether somebody may wait for its end. Asked after that: whoever begins later sees it.
    pub(super) fn is_watched(&self) -> bool {
        // In one order for all, as in `wake`.
        fence(Ordering::SeqCst);
        self.more.get().is_some()
    }

    /// It ended: whoever waits for that is woken. Not to be called under an entry's mutex: wakers run here.
    pub(super) fn wake(&self) {
        // In one order for all: either who begins to wait sees the end, or the end sees who waits.
        fence(Ordering::SeqCst);
        if let Some(more) = self.more.get() {
            more.over.notify_waiters();
            more.stop();
        }
    }

    /// Its owner is to stop. Not to be called under an entry's mutex.
    pub(crate) fn stop(&self) {
        fence(Ordering::SeqCst);
        if let Some(more) = self.more.get() {
            more.stop();
        }
    }

    /// Whoever waits for the end looks again: it may come sooner. Not to be called under an entry's mutex.
    pub(super) fn may_end_sooner(&self) {
        if let Some(more) = self.more.get() {
            more.over.notify_waiters();
        }
    }

    /// Waits for the end, whatever it is.
    pub(crate) async fn over(&self) {
        loop {
            let told = self.more().over.notified();
            fence(Ordering::SeqCst);
            if self.end.get().is_some() {
                return;
            }
            told.await;
        }
    }

    /// Cancelled when the tenure ends, or its owner is to stop. `stops`: whether that is so by now.
    pub(crate) fn token(&self, stops: impl FnOnce() -> bool) -> &CancellationToken {
        let stop = self.more().stop.get_or_init(CancellationToken::new);
        fence(Ordering::SeqCst);
        if self.end.get().is_some() || stops() {
            stop.cancel();
        }
        stop
    }

    /// The error of a lost tenure.
    pub(crate) fn loss(&self, name: &Arc<str>) -> Option<Error> {
        match self.end()? {
            End::Over => None,
            End::Lost(loss) => Some(loss.error(name)),
        }
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure").field("owner", &self.owner).field("end", &self.end).finish_non_exhaustive()
    }
}

/// It is the same acquisition.
impl PartialEq for Tenure {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Tenure {}

impl More {
    fn stop(&self) {
        if let Some(stop) = self.stop.get() {
            stop.cancel();
        }
        if let Some(joint) = self.joint.get() {
            let joint = mem::take(&mut *joint.lock().unwrap_or_else(PoisonError::into_inner));
            joint.iter().for_each(|joint| joint.stop.cancel());
        }
    }
}
