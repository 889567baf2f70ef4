//! Keeps memory that somebody is done with for the next one of the same thread. It knows neither locks nor commands.

use std::{
    cell::{Cell, RefCell},
    future,
    marker::PhantomData,
    mem,
    pin::Pin,
    task::{Context, Poll},
    thread::LocalKey,
};

use futures_util::FutureExt;
use tokio_util::sync::ReusableBoxFuture;

/// So many of a kind stay with a thread, for as long as it lives; more are freed. Who is done mostly needs the same again at
/// once, so it takes a few where many are under way.
const KEPT: usize = 16;

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
    future: ReusableBoxFuture<'static, T>,
    answered: bool,
    kind: Kind<ReusableBoxFuture<'static, T>>,
    /// As a box of a future is: whoever holds one is promised no more.
    _not_sync: PhantomData<Cell<()>>,
}

impl<T: 'static> Reused<T> {
    /// All futures of one kind should be as large: another size takes a new box. Inlined, a future is moved into its box from
    /// where it is made, and not from hand to hand before.
    #[inline(always)]
    pub(crate) fn new(
        kind: Kind<ReusableBoxFuture<'static, T>>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let kept = Spare::take(kind);
        // What has answered goes with its answer, whatever it is: some would keep what they had, as one with a span does.
        let future = match kept {
            Some(mut kept) => {
                kept.set(future.fuse());
                kept
            }
            None => ReusableBoxFuture::new(future.fuse()),
        };
        Self { future, answered: false, kind, _not_sync: PhantomData }
    }
}

impl<T> Future for Reused<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let polled = self.future.poll(cx);
        self.answered |= polled.is_ready();
        polled
    }
}

impl<T: 'static> Drop for Reused<T> {
    fn drop(&mut self) {
        if self.answered {
            // In its place comes one that takes no memory.
            Spare::keep(self.kind, mem::replace(&mut self.future, ReusableBoxFuture::new(future::pending())));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        future::{pending, ready},
        sync::Arc,
        thread,
    };

    use super::*;

    thread_local! {
        static NUMBERS: Spare<Vec<u8>> = const { Spare::new() };
        static FUTURES: Boxes<u32> = const { Spare::new() };
        static FRIENDS: Spare<Friend> = const { Spare::new() };
    }

    /// In a thread of its own, which nothing was left in.
    pub(crate) fn alone(test: impl FnOnce() + Send) {
        thread::scope(|scope| scope.spawn(test).join().expect("the test holds"));
    }

    fn kept<T>(kind: Kind<T>) -> usize {
        kind.with(|spare| spare.0.borrow().len())
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
            assert_eq!(kept(&NUMBERS), KEPT);
        });
    }

    /// Brings another one of its kind when it goes.
    struct Friend {
        brings: u32,
    }

    impl Drop for Friend {
        fn drop(&mut self) {
            if let Some(brings) = self.brings.checked_sub(1) {
                Spare::keep(&FRIENDS, Self { brings });
            }
        }
    }

    #[test]
    fn what_goes_may_bring_another_of_its_kind_even_at_the_end_of_its_thread() {
        alone(|| {
            (0..KEPT + 1).for_each(|_| Spare::keep(&FRIENDS, Friend { brings: 3 }));
            assert_eq!(kept(&FRIENDS), KEPT);
        });
    }

    #[test]
    fn a_box_is_used_again_once_its_future_has_answered_whatever_comes_next() {
        alone(|| {
            assert_eq!(Reused::new(&FUTURES, ready(1)).now_or_never(), Some(1));
            assert_eq!(kept(&FUTURES), 1);
            let second = Reused::new(&FUTURES, ready(2));
            assert_eq!(kept(&FUTURES), 0);
            assert_eq!(second.now_or_never(), Some(2));
            let large = [3_u32; 100];
            let larger = async move {
                ready(()).await;
                large[99]
            };
            assert_eq!(Reused::new(&FUTURES, larger).now_or_never(), Some(3));
            assert_eq!(kept(&FUTURES), 1);
        });
    }

    /// Keeps what it has after its answer, as some futures do.
    struct Keeps(Arc<()>);

    impl Future for Keeps {
        type Output = u32;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            Poll::Ready(u32::try_from(Arc::strong_count(&self.0)).unwrap_or(0))
        }
    }

    #[test]
    fn what_a_future_holds_goes_with_its_answer_and_with_its_drop() {
        alone(|| {
            let held = Arc::new(());
            assert_eq!(Reused::new(&FUTURES, Keeps(Arc::clone(&held))).now_or_never(), Some(2));
            assert_eq!((kept(&FUTURES), Arc::strong_count(&held)), (1, 1));
            let waits = Arc::clone(&held);
            let mut never = Reused::new(&FUTURES, async move {
                pending::<()>().await;
                drop(waits);
                0
            });
            assert_eq!((&mut never).now_or_never(), None);
            drop(never);
            assert_eq!((kept(&FUTURES), Arc::strong_count(&held)), (0, 1), "it had not answered");
        });
    }
}
