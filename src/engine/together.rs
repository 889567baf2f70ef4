//! Several futures that begin in one poll, in their order, and end together.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// All outputs in their order, once all are there. Each poll polls all that have none yet: they are few.
pub(super) struct Together<F: Future>(Vec<Progress<F>>);

enum Progress<F: Future> {
    UnderWay(F),
    Done(Option<F::Output>),
}

impl<F: Future + Unpin> Together<F> {
    pub(super) fn new(futures: impl IntoIterator<Item = F>) -> Self {
        Self(futures.into_iter().map(Progress::UnderWay).collect())
    }
}

impl<F: Future<Output: Unpin> + Unpin> Future for Together<F> {
    type Output = Vec<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let all = &mut self.get_mut().0;
        let mut pending = false;
        for one in all.iter_mut() {
            if let Progress::UnderWay(future) = one {
                match Pin::new(future).poll(cx) {
                    Poll::Ready(output) => *one = Progress::Done(Some(output)),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            return Poll::Pending;
        }
        let output = |one: &mut Progress<F>| if let Progress::Done(output) = one { output.take() } else { None };
        Poll::Ready(all.iter_mut().filter_map(output).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::Mutex,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn all_begin_in_the_first_poll_in_their_order_though_each_wakes_itself() {
        let polled = Mutex::new(Vec::new());
        let polled = &polled;
        let each = (0..100).map(|number| {
            let mut begun = false;
            poll_fn(move |cx| {
                if std::mem::replace(&mut begun, true) {
                    return Poll::Ready(number);
                }
                polled.lock().unwrap().push(number);
                cx.waker().wake_by_ref();
                Poll::Pending
            })
        });
        let mut together = Together::new(each);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut together).poll(&mut cx).is_pending());
        let all: Vec<_> = (0..100).collect();
        assert_eq!(*polled.lock().unwrap(), all);
        assert_eq!(Pin::new(&mut together).poll(&mut cx), Poll::Ready(all));
    }
}
