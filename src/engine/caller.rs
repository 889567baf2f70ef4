//! A caller that waits for work that goes on elsewhere, and may have stopped polling: it is woken now and then, and has to poll.

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{sync::Notify, time::sleep};

/// A caller is woken so often within the time that it is waited for. If it does not poll from one of these times to the next but
/// one, it is gone.
const WAKES: u32 = 3;

/// A caller that waits.
#[derive(Default)]
pub(super) struct Caller {
    polls: AtomicU64,
    /// How many there were when this was looked at last.
    seen: AtomicU64,
    waker: AtomicWaker,
    polled: Notify,
}

impl Caller {
    /// The caller polls now.
    pub(super) fn polls(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
        self.polls.fetch_add(1, Ordering::SeqCst);
        self.polled.notify_waiters();
    }

    /// The result of the work. `None` once the caller has not polled for that long: the work is dropped.
    pub(super) async fn while_polled<T>(&self, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut is_gone) = (pin!(work), pin!(self.is_gone(patience)));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => is_gone.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    async fn is_gone(&self, patience: Duration) {
        let mut missed = 0;
        self.seen.store(self.polls.load(Ordering::SeqCst), Ordering::SeqCst);
        while missed < WAKES - 1 {
            sleep(patience / WAKES).await;
            let polls = self.polls.load(Ordering::SeqCst);
            missed = if self.seen.swap(polls, Ordering::SeqCst) == polls { missed + 1 } else { 0 };
            self.waker.wake();
        }
    }

    /// Waits until the caller polls again. It may have done so already, after the last wake.
    pub(super) async fn next_poll(&self) {
        let mut polled = pin!(self.polled.notified());
        polled.as_mut().enable();
        if self.polls.load(Ordering::SeqCst) == self.seen.load(Ordering::SeqCst) {
            polled.await;
        }
    }
}
