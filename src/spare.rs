//! Memory that somebody is done with, kept for the next one of the same thread who needs as much: what every section needs
//! is asked for once. It knows neither locks nor commands.

use std::{
    cell::RefCell,
    pin::Pin,
    task::{Context, Poll},
    thread::LocalKey,
};

use tokio_util::sync::ReusableBoxFuture;

/// So many stay with a thread: about as many as it has under way at a time. More are freed.
const KEPT: usize = 64;

/// What a thread keeps of one kind.
pub(crate) struct Spare<T>(RefCell<Vec<T>>);

/// Boxes of futures with the same answer.
pub(crate) type Boxes<T> = Spare<ReusableBoxFuture<'static, T>>;

/// A kind, by the variable that keeps it.
pub(crate) type Kind<T> = &'static LocalKey<Spare<T>>;

impl<T: 'static> Spare<T> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// The one that was kept last. A thread that ends has none.
    pub(crate) fn take(kind: Kind<T>) -> Option<T> {
        kind.try_with(|spare| spare.0.borrow_mut().pop()).ok().flatten()
    }

    pub(crate) fn keep(kind: Kind<T>, it: T) {
        let mut it = Some(it);
        // What is too much is dropped outside: that may be anything.
        let _ = kind.try_with(|spare| {
            let mut spare = spare.0.borrow_mut();
            if spare.len() < KEPT {
                spare.extend(it.take());
            }
        });
    }
}

/// A boxed future whose box is kept once it has answered. Dropped before, it is dropped at once, and its box with it.
pub(crate) struct Reused<T: 'static> {
    future: Option<ReusableBoxFuture<'static, T>>,
    answered: bool,
    kind: Kind<ReusableBoxFuture<'static, T>>,
}

impl<T: 'static> Reused<T> {
    /// All futures of one kind should be as large: another size takes a new box.
    pub(crate) fn new(
        kind: Kind<ReusableBoxFuture<'static, T>>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let future = match Spare::take(kind) {
            Some(mut kept) => {
                kept.set(future);
                kept
            }
            None => ReusableBoxFuture::new(future),
        };
        Self { future: Some(future), answered: false, kind }
    }
}

impl<T> Future for Reused<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // It is there until the drop.
        let Some(future) = &mut self.future else { return Poll::Pending };
        let polled = future.poll(cx);
        self.answered |= polled.is_ready();
        polled
    }
}

impl<T: 'static> Drop for Reused<T> {
    fn drop(&mut self) {
        if self.answered
            && let Some(future) = self.future.take()
        {
            Spare::keep(self.kind, future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        sync::Arc,
        thread,
    };

    use futures_util::FutureExt;

    use super::*;

    thread_local! {
        static NUMBERS: Spare<Vec<u8>> = const { Spare::new() };
        static FUTURES: Boxes<u32> = const { Spare::new() };
    }

    /// In a thread of its own, which nothing was left in.
    fn alone(test: impl FnOnce() + Send) {
        thread::scope(|scope| scope.spawn(test).join().expect("the test holds"));
    }

    fn kept() -> usize {
        FUTURES.with(|spare| spare.0.borrow().len())
    }

    #[test]
    fn the_next_one_gets_what_the_last_one_had_and_a_thread_keeps_no_more_than_some() {
        alone(|| {
            assert!(Spare::take(&NUMBERS).is_none());
            let had = Vec::with_capacity(10);
            let at = had.as_ptr();
            Spare::keep(&NUMBERS, had);
            assert_eq!(Spare::take(&NUMBERS).map(|next| next.as_ptr()), Some(at));
            (0..2 * KEPT).for_each(|_| Spare::keep(&NUMBERS, Vec::new()));
            assert_eq!(NUMBERS.with(|spare| spare.0.borrow().len()), KEPT);
        });
    }

    #[test]
    fn a_box_is_used_again_once_its_future_has_answered_whatever_comes_next() {
        alone(|| {
            assert_eq!(Reused::new(&FUTURES, ready(1)).now_or_never(), Some(1));
            assert_eq!(kept(), 1);
            let second = Reused::new(&FUTURES, ready(2));
            assert_eq!(kept(), 0);
            assert_eq!(second.now_or_never(), Some(2));
            let large = [3_u32; 100];
            let larger = async move {
                ready(()).await;
                large[99]
            };
            assert_eq!(Reused::new(&FUTURES, larger).now_or_never(), Some(3));
            assert_eq!(kept(), 1);
        });
    }

    #[test]
    fn what_a_future_holds_goes_with_its_answer_and_with_its_drop() {
        alone(|| {
            let held = Arc::new(());
            let answers = Arc::clone(&held);
            assert_eq!(
                Reused::new(&FUTURES, async move { Arc::strong_count(&answers) as u32 }).now_or_never(),
                Some(2)
            );
            assert_eq!((kept(), Arc::strong_count(&held)), (1, 1));
            let waits = Arc::clone(&held);
            let never = Reused::new(&FUTURES, async move {
                pending::<()>().await;
                Arc::strong_count(&waits) as u32
            });
            drop(never);
            assert_eq!((kept(), Arc::strong_count(&held)), (0, 1), "it was never polled");
        });
    }
}
