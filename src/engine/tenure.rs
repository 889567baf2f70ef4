//! One acquisition from the ask to the end of its hold: where it is told what came of it, and what the guards of its owner
//! share. It knows no deadline and no count.

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering, fence},
    },
    task::{Context, Poll, Waker},
};

use once_cell::race::OnceBox;
use tokio::{sync::Notify, task, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::date::Date;
use crate::{
    backend::Fault,
    error::{Error, LostCause},
    name::Field,
    owner::Owner,
    state,
};

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
struct More {
    fence: OnceLock<u64>,
    /// Told at the end, and where that comes nearer.
    over: Notify,
    /// Cancelled at the end, or before, when its owner is to stop.
    stop: OnceLock<CancellationToken>,
    /// The same, each for several tenures.
    joint: OnceBox<Mutex<Vec<Joint>>>,
    /// Where what is said of the acquisition is heard, until it was said that somebody else has the lock.
    span: Mutex<Option<Span>>,
}

/// Cancelled with the first of several tenures that ends.
#[derive(Debug)]
struct Joint {
    /// Where they are, which tells them apart for as long as all of them last. Each of them has it: they may be very many.
    of: Arc<[usize]>,
    stop: CancellationToken,
}

/// How a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Released, passed on or handed over.
    Over,
    Lost(Loss),
}

/// How and when a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LostCause,
    pub(crate) since: std::time::Instant,
}

/// An [`End`] that is set once, in eight bytes: how it ended in the lowest bits, above them the nanoseconds since the
/// process's first [`Date`]. Zero is none.
#[derive(Debug, Default)]
struct OnceEnd(AtomicU64);

impl OnceEnd {
    const KIND_BITS: u32 = 3;
    const OVER: u64 = 1;
    /// Each stands for its place, from 2 on.
    const CAUSES: [LostCause; 5] =
        [LostCause::Expired, LostCause::Gone, LostCause::Forced, LostCause::MaxHold, LostCause::Closed];

    /// The first one counts.
    fn set(&self, end: End) {
        let word = match end {
            End::Over => Self::OVER,
            End::Lost(loss) => {
                let place = Self::CAUSES.iter().position(|cause| *cause == loss.cause).unwrap_or(0);
                let since = Date::from(Instant::from_std(loss.since)).since_first();
                (since << Self::KIND_BITS) | (place as u64 + Self::OVER + 1)
            }
        };
        let _ = self.0.compare_exchange(0, word, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn get(&self) -> Option<End> {
        let word = self.0.load(Ordering::SeqCst);
        let since = || Instant::from(Date::after_first(word >> Self::KIND_BITS)).into_std();
        match word & ((1 << Self::KIND_BITS) - 1) {
            0 => None,
            Self::OVER => Some(End::Over),
            kind => {
                let place = usize::try_from(kind - Self::OVER - 1).unwrap_or(0);
                Some(End::Lost(Loss { cause: Self::CAUSES[place], since: since() }))
            }
        }
    }
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

    fn more(&self) -> &More {
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

    /// Cancelled when the first of these tenures ends, or their owner is to stop: one for all who ask while they last. `stops`:
    /// whether the owner is to stop by now.
    pub(super) fn token_of_all(tenures: &[&Arc<Self>], stops: impl FnOnce() -> bool) -> CancellationToken {
        let of: Arc<[_]> = tenures.iter().map(|tenure| Arc::as_ptr(tenure).addr()).collect();
        let known = |joint: &mut Vec<Joint>| joint.iter().find(|it| it.of == of).map(|it| it.stop.clone());
        let stop = tenures.first().and_then(|first| first.with_joint(known)).unwrap_or_else(|| {
            let stop = CancellationToken::new();
            for tenure in tenures {
                tenure.with_joint(|joint| joint.push(Joint { of: Arc::clone(&of), stop: stop.clone() }));
            }
            stop
        });
        fence(Ordering::SeqCst);
        if tenures.iter().any(|tenure| tenure.end.get().is_some()) || stops() {
            stop.cancel();
        }
        stop
    }

    /// Those that count, under their mutex.
    fn with_joint<R>(&self, change: impl FnOnce(&mut Vec<Joint>) -> R) -> R {
        let joint = self.more().joint.get_or_init(Box::default);
        let mut joint = joint.lock().unwrap_or_else(PoisonError::into_inner);
        // A tenure of the others may have ended, and its place be another's.
        joint.retain(|joint| !joint.stop.is_cancelled());
        change(&mut joint)
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

impl Loss {
    pub(crate) fn error(self, name: &Arc<str>) -> Error {
        Error::Lost { name: Arc::clone(name), cause: self.cause, since: self.since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_stands_for_the_same_tenures_and_none_stays_that_was_cancelled() {
        let tenures = [(); 3].map(|()| Tenure::new(Owner::new(), None));
        let [a, b, c] = &tenures;
        let known = |tenure: &Tenure| tenure.with_joint(|joint| joint.len());
        let both = Tenure::token_of_all(&[a, b], || false);
        for _ in 0..100 {
            Tenure::token_of_all(&[a, b], || false);
        }
        assert_eq!([a, b, c].map(|tenure| known(tenure)), [1, 1, 0]);
        let shared = a.with_joint(|joint| Arc::clone(&joint[0].of));
        assert_eq!(Arc::strong_count(&shared), 3, "one list for both of them, and ours");
        let others = Tenure::token_of_all(&[b, c], || false);
        assert_eq!([a, b, c].map(|tenure| known(tenure)), [1, 2, 1]);
        // An outer tenure that lasts keeps nothing of inner ones that are over.
        for _ in 0..100 {
            let inner = Tenure::new(Owner::new(), None);
            let stop = Tenure::token_of_all(&[c, &inner], || false);
            assert!(!stop.is_cancelled());
            inner.finish(End::Over);
            inner.wake();
            assert!(stop.is_cancelled());
        }
        assert_eq!(known(c), 1);
        a.finish(End::Over);
        a.wake();
        assert!(both.is_cancelled() && !others.is_cancelled());
        assert_eq!([a, b, c].map(|tenure| known(tenure)), [0, 1, 1]);
        c.stop();
        assert!(others.is_cancelled());
        assert!(Tenure::token_of_all(&[a, b], || false).is_cancelled(), "one is over");
        assert!(Tenure::token_of_all(&[b], || true).is_cancelled(), "its owner is to stop");
        assert!(!Tenure::token_of_all(&[b], || false).is_cancelled());
    }

    #[test]
    fn every_end_is_read_as_it_was_set_and_the_first_one_counts() {
        // Not before the process's first date, which is set where one is asked for.
        Date::from(Instant::now()).since_first();
        let since = Instant::from(Date::from(Instant::now())).into_std();
        let lost = OnceEnd::CAUSES.map(|cause| End::Lost(Loss { cause, since }));
        for end in lost.into_iter().chain([End::Over]) {
            let once = OnceEnd::default();
            assert_eq!(once.get(), None);
            once.set(end);
            once.set(End::Over);
            once.set(lost[0]);
            assert_eq!(once.get(), Some(end));
        }
    }
}
