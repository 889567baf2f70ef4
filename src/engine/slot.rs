//! Work that one task goes on with and another one may end: at once, so that nothing of it is left when the end returns.

use std::{
    cell::Cell,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

thread_local! {
    /// This thread is in the middle of such work: it does not wait for another one that is.
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

struct Slot<T> {
    work: Mutex<Option<Work<T>>>,
    ended: AtomicBool,
}

/// Whoever keeps it wants the work done. Dropped, the work is dropped where that is, and not when its task is looked at.
pub(super) struct Wanted<T>(Arc<Slot<T>>);

/// What is to be polled, wherever: `None` once it was ended.
pub(super) struct Worker<T>(Arc<Slot<T>>);

pub(super) fn endable<T>(work: impl Future<Output = T> + Send + 'static) -> (Wanted<T>, Worker<T>) {
    let slot = Arc::new(Slot { work: Mutex::new(Some(Box::pin(work))), ended: AtomicBool::new(false) });
    (Wanted(Arc::clone(&slot)), Worker(slot))
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Work<T>>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Future for Worker<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock();
        let Some(work) = slot.as_mut() else { return Poll::Ready(None) };
        let outer = WORKING.replace(true);
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() || self.0.ended.load(Ordering::SeqCst) {
            // Before anybody else may look: whoever ends it finds nothing of it.
            *slot = None;
        }
        WORKING.set(outer);
        polled.map(Some)
    }
}

impl<T> Drop for Wanted<T> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        let work = if WORKING.get() {
            self.0.work.try_lock().ok().and_then(|mut slot| slot.take())
        } else {
            // Polled elsewhere just now, it is so no longer than one poll takes.
            self.0.lock().take()
        };
        drop(work);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn},
        sync::Barrier,
        task::Waker,
        thread,
        time::Duration,
    };

    use super::*;

    struct Tells(Arc<AtomicBool>);

    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn work_is_gone_when_its_end_returns_though_nobody_polls_it() {
        let gone = Arc::new(AtomicBool::new(false));
        let tells = Tells(Arc::clone(&gone));
        let (wanted, mut worker) = endable(async move {
            pending::<()>().await;
            drop(tells);
        });
        assert!(once(&mut worker).is_pending() && !gone.load(Ordering::SeqCst));
        drop(wanted);
        assert!(gone.load(Ordering::SeqCst));
        assert_eq!(once(&mut worker), Poll::Ready(None));
        let (_wanted, mut worker) = endable(async { 7 });
        assert_eq!(once(&mut worker), Poll::Ready(Some(7)));
    }

    #[test]
    fn an_end_in_the_middle_of_a_poll_elsewhere_waits_for_that() {
        let (gone, polled) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let (tells, begins) = (Tells(Arc::clone(&gone)), Arc::clone(&polled));
        let mut tells = Some(tells);
        let (wanted, mut worker) = endable(poll_fn(move |_| {
            begins.wait();
            thread::sleep(Duration::from_millis(50));
            assert!(tells.as_mut().is_some_and(|tells| !tells.0.load(Ordering::SeqCst)));
            Poll::<()>::Pending
        }));
        let polls = thread::spawn(move || once(&mut worker).is_pending());
        polled.wait();
        drop(wanted);
        assert!(gone.load(Ordering::SeqCst));
        assert!(polls.join().unwrap());
    }

    #[test]
    fn work_that_ends_itself_is_gone_after_that_poll() {
        let gone = Arc::new(AtomicBool::new(false));
        let (own, tells) = (Arc::new(Mutex::new(None)), Tells(Arc::clone(&gone)));
        let ends = Arc::clone(&own);
        let (wanted, mut worker) = endable(poll_fn(move |_| {
            let _keeps = &tells;
            drop(ends.lock().unwrap().take());
            Poll::<()>::Pending
        }));
        *own.lock().unwrap() = Some(wanted);
        assert!(once(&mut worker).is_pending() && gone.load(Ordering::SeqCst));
    }
}
