//! The commands of one link that wait for their answers: each is woken when its time is over, and all are when the link
//! is. One timer for all of them: most are answered long before, and need none. It sends nothing.

use std::{
    mem,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::link::Answers;

/// Everybody who waits on a link.
#[derive(Default)]
pub(super) struct Waiting {
    list: Mutex<WaitList>,
    /// Somebody's time is over before that of all who were known.
    sooner: Notify,
    /// The same for whoever looks for stalls.
    busy: Notify,
}

#[derive(Default)]
struct WaitList {
    places: Vec<Option<WaitSlot>>,
    free: Vec<usize>,
    /// Nobody's time is over before. Somebody may have gone since, so it may be too early.
    earliest: Option<Instant>,
    /// Nobody looks after the list any more.
    over: bool,
}

struct WaitSlot {
    deadline: Instant,
    waker: Waker,
    /// It was there at the last look for stalls.
    seen: bool,
}

/// One command's place among those who wait. It is given up when this is dropped.
pub(super) struct Wait<'a> {
    waiting: &'a Waiting,
    deadline: Instant,
    at: Option<usize>,
}

/// Who waits, as somebody finds them who looks now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitAge {
    Nobody,
    /// Some, and all of them since the last look.
    New,
    /// One of them for longer.
    Old,
}

/// Why there is nothing more to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The deadline has passed.
    Late,
    /// The link is over.
    Gone,
}

impl Waiting {
    /// A wait until then, for which nothing is done before it is first looked at.
    pub(super) fn until(&self, deadline: Instant) -> Wait<'_> {
        Wait { waiting: self, deadline, at: None }
    }

    /// Wakes everybody whose time is over.
    pub(super) async fn watch(&self) -> ! {
        loop {
            let mut sooner = pin!(self.sooner.notified());
            sooner.as_mut().enable();
            let earliest = self.list().earliest;
            match earliest {
                None => sooner.await,
                Some(at) => tokio::select! {
                    biased;
                    () = sooner => {}
                    () = sleep_until(at) => self.wake_late(Instant::now()),
                },
            }
        }
    }

    /// Comes back when somebody has been waiting for so long, and nothing at all was answered meanwhile.
    pub(super) async fn stall(&self, answers: &Answers, longest: Duration) {
        loop {
            let looked = Instant::now();
            match self.look() {
                // Whoever comes next is the first one, whose coming is told.
                WaitAge::Nobody => self.busy.notified().await,
                WaitAge::Old if answers.last() + longest <= looked => return,
                WaitAge::Old | WaitAge::New => sleep_until(looked + longest).await,
            }
        }
    }

    /// Who waits, and waited at the look before this one.
    fn look(&self) -> WaitAge {
        let mut list = self.list();
        let mut seen = WaitAge::Nobody;
        for place in list.places.iter_mut().flatten() {
            let old = mem::replace(&mut place.seen, true);
            seen = if old || seen == WaitAge::Old { WaitAge::Old } else { WaitAge::New };
        }
        if seen == WaitAge::Nobody {
            list.earliest = None;
        }
        seen
    }

    /// Wakes all: nobody watches any more.
    pub(super) fn end(&self) {
        let mut list = self.list();
        list.over = true;
        list.free.clear();
        let places = mem::take(&mut list.places);
        drop(list);
        places.into_iter().flatten().for_each(|place| place.waker.wake());
    }

    fn wake_late(&self, now: Instant) {
        let mut list = self.list();
        let places = || list.places.iter().flatten();
        let late: Vec<_> = places().filter(|place| place.deadline <= now).map(|place| place.waker.clone()).collect();
        list.earliest = places().map(|place| place.deadline).filter(|deadline| *deadline > now).min();
        drop(list);
        late.into_iter().for_each(Waker::wake);
    }

    fn list(&self) -> MutexGuard<'_, WaitList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitList {
    /// Whether its deadline is the earliest.
    fn enter(&mut self, place: WaitSlot) -> (usize, bool) {
        let sooner = self.earliest.is_none_or(|earliest| place.deadline < earliest);
        if sooner {
            self.earliest = Some(place.deadline);
        }
        let at = self.free.pop().unwrap_or(self.places.len());
        match self.places.get_mut(at) {
            Some(free) => *free = Some(place),
            None => self.places.push(Some(place)),
        }
        (at, sooner)
    }
}

impl Wait<'_> {
    /// Ready when there is nothing more to wait for.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        let Some(at) = self.at else { return self.enter(cx.waker()) };
        let mut list = self.waiting.list();
        if list.over {
            return Poll::Ready(Over::Gone);
        }
        // Under the mutex: whoever was woken a moment ago in place of this waker is not woken again.
        if self.deadline <= Instant::now() {
            return Poll::Ready(Over::Late);
        }
        if let Some(Some(place)) = list.places.get_mut(at)
            && !place.waker.will_wake(cx.waker())
        {
            let old = mem::replace(&mut place.waker, cx.waker().clone());
            drop(list);
            drop(old);
        }
        Poll::Pending
    }

    fn enter(&mut self, waker: &Waker) -> Poll<Over> {
        let place = WaitSlot { deadline: self.deadline, waker: waker.clone(), seen: false };
        let mut list = self.waiting.list();
        if list.over {
            drop(list);
            return Poll::Ready(Over::Gone);
        }
        let (at, sooner) = list.enter(place);
        drop(list);
        self.at = Some(at);
        if sooner {
            self.waiting.sooner.notify_one();
            self.waiting.busy.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(at) = self.at else { return };
        let mut list = self.waiting.list();
        let place = list.places.get_mut(at).and_then(Option::take);
        if place.is_some() {
            list.free.push(at);
        }
        drop(list);
        // A waker may do anything, so not under the mutex.
        drop(place);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::Wake,
    };

    use futures_util::FutureExt;
    use tokio::time::timeout;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn times(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn poll(wait: &mut Wait<'_>, woken: &Arc<Woken>) -> Poll<Over> {
        wait.poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken))))
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_woken_when_its_own_time_is_over_in_whichever_order_they_came() {
        let waiting = Waiting::default();
        let now = Instant::now();
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut waits = [30, 10, 20].map(|ms| waiting.until(now + ms * MS));
        let mut watch = Box::pin(waiting.watch());
        assert!((&mut watch).now_or_never().is_none());
        for (wait, woken) in waits.iter_mut().zip(&woken) {
            assert_eq!(poll(wait, woken), Poll::Pending);
        }
        for (passed, late) in [(9, [0, 0, 0]), (12, [0, 1, 0]), (22, [0, 1, 1]), (32, [1, 1, 1])] {
            let until = sleep_until(now + passed * MS);
            tokio::select! { _ = &mut watch => {}, () = until => {} }
            for ((wait, woken), late) in waits.iter_mut().zip(&woken).zip(late) {
                // Woken once or more, and only for a reason.
                assert_eq!(woken.times() > 0, late == 1, "after {passed} ms");
                let over = if late == 1 { Poll::Ready(Over::Late) } else { Poll::Pending };
                assert_eq!(poll(wait, woken), over, "after {passed} ms");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_is_somebody_who_waits_for_long_while_nothing_is_answered() {
        let (waiting, answers, woken) = (Waiting::default(), Answers::new(), Arc::default());
        let mut stall = Box::pin(waiting.stall(&answers, 200 * MS));
        assert!(timeout(1000 * MS, &mut stall).await.is_err(), "nobody waits");
        for _ in 0..5 {
            let mut short = waiting.until(Instant::now() + 3_600_000 * MS);
            assert_eq!(poll(&mut short, &woken), Poll::Pending);
            assert!(timeout(150 * MS, &mut stall).await.is_err(), "nobody waits for long");
        }
        let mut long = waiting.until(Instant::now() + 3_600_000 * MS);
        assert_eq!(poll(&mut long, &woken), Poll::Pending);
        for _ in 0..5 {
            answers.note();
            assert!(timeout(150 * MS, &mut stall).await.is_err(), "others are answered");
        }
        let since = answers.last();
        stall.await;
        assert!((200..=400).contains(&since.elapsed().as_millis()), "{:?}", since.elapsed());
    }

    #[test]
    fn all_are_woken_when_nobody_watches_any_more_and_who_comes_later_need_not_wait() {
        let waiting = Waiting::default();
        let woken: [Arc<Woken>; 2] = Default::default();
        let hour = Instant::now() + 3_600_000 * MS;
        let mut first = waiting.until(hour);
        assert_eq!(poll(&mut first, &woken[0]), Poll::Pending);
        waiting.end();
        assert_eq!(woken[0].times(), 1);
        assert_eq!(poll(&mut first, &woken[0]), Poll::Ready(Over::Gone));
        assert_eq!(poll(&mut waiting.until(hour), &woken[1]), Poll::Ready(Over::Gone));
    }

    #[test]
    fn the_last_waker_is_woken_and_a_place_that_was_given_up_is_used_again() {
        let waiting = Waiting::default();
        let hour = Instant::now() + 3_600_000 * MS;
        let (old, new): (Arc<Woken>, Arc<Woken>) = Default::default();
        let mut wait = waiting.until(hour);
        assert_eq!(poll(&mut wait, &old), Poll::Pending);
        assert_eq!(poll(&mut wait, &new), Poll::Pending);
        for _ in 0..1000 {
            let mut other = waiting.until(hour);
            assert_eq!(poll(&mut other, &old), Poll::Pending);
        }
        assert_eq!(waiting.list().places.len(), 2);
        waiting.end();
        assert_eq!((old.times(), new.times()), (0, 1));
        drop(wait);
        assert_eq!((Arc::strong_count(&old), Arc::strong_count(&new)), (1, 1));
    }
}
