//! Somebody else's code panics while others wait: whatever hears of a log line, a waker, the way to the server.

use std::{
    sync::atomic::AtomicBool,
    task::{Context, Wake, Waker},
};

use tracing::{
    Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
};

use super::*;

/// Panics at the first line that is a warning.
#[derive(Default)]
struct Panics(AtomicBool);

impl Subscriber for Panics {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let first = *event.metadata().level() == tracing::Level::WARN && !self.0.swap(true, Ordering::Relaxed);
        assert!(!first, "as the test wants it");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_behind_a_hold_is_let_in_though_who_hears_of_its_loss_panics() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    let lost = lock.lock().lease(2 * SECOND).await.unwrap();
    let waiting = start(lock.lock()).await;
    let panics = Arc::new(Panics::default());
    let hears = tracing::subscriber::set_default(Arc::clone(&panics));
    let guard = timeout(3 * SECOND, waiting).await.expect("it is let in").unwrap().unwrap();
    assert!(panics.0.load(Ordering::Relaxed), "it was told");
    drop(hears);
    assert_eq!(cause(&lost.lost().await), Some(LostCause::Expired));
    sleep(LEASE * 3).await;
    assert!(guard.is_held(), "whoever renews it goes on");
    drop((lost, guard));
    bench.nothing_is_left("a").await;
}

struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("as the test wants it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nobody_from_being_woken() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    bench.world.other_takes("a", LEASE);
    let mut waiters = Vec::new();
    for n in 0..3 {
        if n == 1 {
            let mut polled = lock.lock();
            let waker = Waker::from(Arc::new(PanickingWaker));
            assert!(Pin::new(&mut polled).poll(&mut Context::from_waker(&waker)).is_pending());
            std::mem::forget(polled);
        } else {
            waiters.push(start(lock.lock()).await);
        }
    }
    ends(bench.engine.close()).await;
    for waiter in waiters {
        let answer = timeout(SECOND, waiter).await.expect("it is told").unwrap();
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    }
}

/// It is asked for again, as after a link that broke.
#[tokio::test(start_paused = true)]
async fn a_command_on_whose_way_something_panics_is_one_that_was_not_answered() {
    for verb in [Verb::Acquire, Verb::Renew, Verb::HandOver, Verb::Release] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.unpassable("a"));
        let mut panics = true;
        world.policy(move |sent| {
            let panics = sent.verb == verb && std::mem::take(&mut panics);
            assert!(!panics, "as the test wants it");
            Fate::Prompt
        });
        let guard = timeout(SECOND, lock.lock()).await.expect("it goes on").unwrap();
        let next = start(lock.lock()).await;
        sleep(LEASE * 2).await;
        assert!(guard.is_held(), "{verb:?}");
        drop(guard);
        let guard = timeout(SECOND, next).await.expect("it goes on").unwrap().unwrap();
        sleep(LEASE * 2).await;
        assert!(guard.is_held(), "{verb:?}");
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}
