//! Whoever waits for work that goes on elsewhere, whether he looks after it or not: he is woken now and then, and has to poll.

use std::{
    future::poll_fn,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{sync::Notify, time::sleep};

/// So often within his patience he is woken. Not polled from one time to the next but one, he is not there.
const WAKES: u32 = 3;

/// Whoever waits.
#[derive(Default)]
pub(super) struct Caller {
    polls: AtomicU64,
    /// Of those, when he was looked for last.
    seen: AtomicU64,
    waker: AtomicWaker,
    polled: Notify,
}

impl Caller {
    /// He does now.
    pub(super) fn polls(&self, cx: &Context<'_>) {
        self.waker.register(cx.waker());
        self.polls.fetch_add(1, Ordering::SeqCst);
        self.polled.notify_waiters();
    }

    /// The work, or nothing and no more of it once he has not polled for that long.
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

    /// He is back: the wake that he was given last may have brought him already.
    pub(super) async fn next_poll(&self) {
        let mut polled = pin!(self.polled.notified());
        polled.as_mut().enable();
        if self.polls.load(Ordering::SeqCst) == self.seen.load(Ordering::SeqCst) {
            polled.await;
        }
    }
}
