//! Acquisitions that were polled once, and are neither polled again nor dropped when their turn comes: others go first. On
//! the embedded store, whose time a test need not wait for.

use std::time::Duration;

use futures_util::FutureExt;
use relatch::{Acquire, Client, EmbeddedStore, LockGuard, embedded::Weather};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use crate::{
    embedded::client,
    harness::traces::{Said, Traces},
    kept::poll_once,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Of a client with the default options.
const WATCHDOG: Duration = Duration::from_secs(30);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);

/// Asked for, and then left.
async fn parked<F: Future + Unpin>(acquisition: F) -> F {
    let mut acquisition = acquisition;
    assert!(poll_once(&mut acquisition).await.is_pending());
    acquisition
}

async fn entered(client: &Client, within: Duration) -> LockGuard {
    let entered = timeout(within, client.mutex("x").lock()).await;
    entered.expect("others are not held up").expect("the store answers")
}

/// A millisecond each way.
fn far() -> Weather {
    Weather::fair().request_delay(MS..=MS).reply_delay(MS..=MS)
}

/// The warnings of acquisitions that nobody polls.
fn warnings(traces: &Traces) -> Vec<Said> {
    let about = |said: &Said| said.is_ours() && said.what.starts_with("an acquisition is neither polled nor dropped");
    traces.all().into_iter().filter(about).collect()
}

#[derive(Clone, Copy, Debug)]
enum Lease {
    Watchdog,
    Fixed(Duration),
}

fn asks(client: &Client, lease: Lease) -> Acquire {
    match lease {
        Lease::Watchdog => client.mutex("x").lock(),
        Lease::Fixed(lease) => client.mutex("x").lock().lease(lease),
    }
}

const LEASES: [Lease; 3] = [Lease::Watchdog, Lease::Fixed(Duration::from_secs(5)), Lease::Fixed(HOUR)];

#[tokio::test(start_paused = true)]
async fn what_is_passed_to_a_parked_acquisition_is_let_in_to_other_processes_within_a_watchdog_timeout() {
    for lease in LEASES {
        let traces = Traces::here();
        let store = EmbeddedStore::new();
        let (ann, ben) = (client(&store).await, client(&store).await);
        let held = ann.mutex("x").lock().await.expect("a free lock");
        let waits = parked(asks(&ann, lease)).await;
        held.unlock().await.expect("it is held");
        assert!(ben.mutex("x").try_lock().await.expect("the store answers").is_none(), "it was passed on");
        let inside = entered(&ben, WATCHDOG).await;
        let said = warnings(&traces);
        assert_eq!(said.len(), 1, "{lease:?}: {said:?}");
        assert_eq!((said[0].level, said[0].field("lock")), (tracing::Level::WARN, "x"));
        // Polled again it starts over: behind others, and not for ever.
        let again = tokio::spawn(waits);
        sleep(SECOND).await;
        assert!(!again.is_finished());
        inside.unlock().await.expect("it is held");
        let guard = again.await.expect("no panic").expect("its turn");
        assert!(guard.is_held());
        guard.unlock().await.expect("it is held");
        assert!(store.keys().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_parked_acquisition_enter_within_a_watchdog_timeout_however_many_are_parked() {
    for (lease, count) in LEASES.into_iter().flat_map(|lease| [(lease, 1), (lease, 9), (lease, 1_000)]) {
        let store = EmbeddedStore::new();
        let ann = client(&store).await;
        let held = ann.mutex("x").lock().await.expect("a free lock");
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(parked(asks(&ann, lease)).await);
        }
        let behind = tokio::spawn(ann.mutex("x").lock());
        sleep(MS).await;
        held.unlock().await.expect("it is held");
        let started = Instant::now();
        let guard = timeout(WATCHDOG, behind).await.expect("it is not held up").expect("no panic").expect("its turn");
        assert!(guard.is_held(), "{lease:?} {count} after {:?}", started.elapsed());
        drop((guard, all));
        sleep(SECOND).await;
        assert!(store.keys().is_empty(), "{lease:?} {count}: {:?}", store.keys());
    }
}

#[tokio::test(start_paused = true)]
async fn everybody_who_is_polled_enters_in_order_within_a_watchdog_timeout_whoever_is_parked_in_between() {
    for lease in LEASES {
        let traces = Traces::here();
        let store = EmbeddedStore::new();
        let (ann, ben) = (client(&store).await, client(&store).await);
        let held = ann.mutex("x").lock().await.expect("a free lock");
        let theirs = ben.mutex("x").lock();
        let elsewhere = tokio::spawn(async move { theirs.await.expect("its turn").unlock().await });
        let (entries, mut entered) = mpsc::unbounded_channel();
        let mut all = Vec::new();
        for n in 0..50 {
            all.push(parked(asks(&ann, lease)).await);
            let (acquisition, entries) = (asks(&ann, lease), entries.clone());
            tokio::spawn(async move {
                let guard = acquisition.await.expect("its turn");
                entries.send(n).expect("it is counted");
                guard.unlock().await.expect("it is held");
            });
            // So that it stands in the queue before the next one.
            sleep(MS).await;
        }
        drop(entries);
        let released = Instant::now();
        held.unlock().await.expect("it is held");
        let mut order = Vec::new();
        while let Some(n) = entered.recv().await {
            order.push(n);
        }
        assert!(order.iter().copied().eq(0..50), "{lease:?}: {order:?}");
        elsewhere.await.expect("no panic").expect("it was held");
        assert!(released.elapsed() < WATCHDOG, "{lease:?}: {:?}", released.elapsed());
        assert_eq!(warnings(&traces).len(), 1, "once a name");
        drop(all);
        sleep(SECOND).await;
        assert!(store.keys().is_empty(), "{lease:?}: {:?}", store.keys());
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_polled_again_after_a_missed_turn_stands_where_it_stood() {
    let store = EmbeddedStore::new();
    let ann = client(&store).await;
    let held = ann.mutex("x").lock().await.expect("a free lock");
    let (first, second) = (parked(ann.mutex("x").lock()).await, parked(ann.mutex("x").lock()).await);
    let third = tokio::spawn(ann.mutex("x").lock());
    sleep(MS).await;
    let fourth = tokio::spawn(ann.mutex("x").lock());
    sleep(MS).await;
    held.unlock().await.expect("it is held");
    let third = third.await.expect("no panic").expect("the first one who is there");
    let second = tokio::spawn(second);
    sleep(MS).await;
    third.unlock().await.expect("it is held");
    let second = timeout(WATCHDOG, second).await.expect("the fourth came later").expect("no panic").expect("its turn");
    sleep(SECOND).await;
    assert!(!fourth.is_finished(), "it came later");
    second.unlock().await.expect("it is held");
    drop((fourth.await.expect("no panic").expect("its turn"), first));
}

#[tokio::test(start_paused = true)]
async fn what_a_parked_contender_was_granted_for_long_is_let_in_to_other_processes_within_a_watchdog_timeout() {
    let store = EmbeddedStore::new();
    let (ann, ben, contender) = with_a_parked_contender(&store, Lease::Fixed(HOUR)).await;
    let inside = entered(&ben, WATCHDOG).await;
    let again = tokio::spawn(contender);
    sleep(SECOND).await;
    assert!(!again.is_finished() && inside.is_held());
    inside.unlock().await.expect("it is held");
    again.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
    drop(ann);
    assert!(store.keys().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_parked_nested_acquisition_alone_keeps_the_lock_no_longer_than_a_watchdog_timeout() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    store.set_weather(far());
    let lock = ann.lock("x");
    let outer = lock.lock().lease(HOUR).await.expect("a free lock");
    let nested = parked(lock.lock().lease(HOUR)).await;
    outer.unlock().await.expect("it is held");
    let inside = entered(&ben, WATCHDOG).await;
    let again = tokio::spawn(nested);
    sleep(SECOND).await;
    assert!(!again.is_finished(), "the outer hold is gone: it waits like any other");
    inside.unlock().await.expect("it is held");
    again.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
    assert!(store.keys().is_empty());
}

/// A client whose contender is parked with its try on the way, and the other one.
async fn with_a_parked_contender(store: &EmbeddedStore, lease: Lease) -> (Client, Client, Acquire) {
    let (ann, ben) = (client(store).await, client(store).await);
    store.set_weather(far());
    let contender = parked(asks(&ann, lease)).await;
    sleep(5 * MS).await;
    assert!(!store.hash("x").is_empty(), "it was granted, and nobody has read so");
    (ann, ben, contender)
}

#[tokio::test(start_paused = true)]
async fn behind_a_parked_contender_a_timed_wait_is_busy_and_others_enter_within_a_watchdog_timeout() {
    for lease in LEASES {
        let traces = Traces::here();
        let store = EmbeddedStore::new();
        let (ann, ben, contender) = with_a_parked_contender(&store, lease).await;
        for wait in [1, 20, 100, 1_000] {
            let waited = ann.mutex("x").try_lock().wait(wait * MS).await;
            assert!(waited.expect("the server answers").is_none(), "{lease:?} {wait} ms");
        }
        assert!(ann.mutex("x").try_lock().await.expect("the server answers").is_none());
        assert!(warnings(&traces).is_empty(), "it may come yet");
        let started = Instant::now();
        let behind = entered(&ann, WATCHDOG).await;
        assert!(behind.is_held(), "{lease:?} after {:?}", started.elapsed());
        assert_eq!(warnings(&traces).len(), 1);
        // Polled again it starts over, and takes nothing from anybody.
        let again = tokio::spawn(contender);
        sleep(SECOND).await;
        assert!(!again.is_finished() && behind.is_held());
        behind.unlock().await.expect("it is held");
        again.await.expect("no panic").expect("its turn").unlock().await.expect("it is held");
        sleep(HOUR).await;
        assert!(store.keys().is_empty());
        entered(&ben, SECOND).await.unlock().await.expect("it is held");
        assert_eq!(warnings(&traces).len(), 1, "once a name");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_try_behind_a_parked_contender_gets_the_lock_after_a_while() {
    let store = EmbeddedStore::new();
    let (ann, _ben, contender) = with_a_parked_contender(&store, Lease::Fixed(HOUR)).await;
    assert!(ann.mutex("x").try_lock().await.expect("the server answers").is_none());
    sleep(WATCHDOG).await;
    let guard = ann.mutex("x").try_lock().await.expect("the server answers").expect("nobody is there");
    // An answer that is read late is worth nothing, however long its lease was to be.
    let again = tokio::spawn(contender);
    sleep(SECOND).await;
    assert!(!again.is_finished() && guard.is_held());
    drop(guard);
    assert!(again.await.expect("no panic").expect("its turn").is_held());
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_is_parked_while_it_sleeps_is_passed_over_once_the_lock_is_free() {
    let traces = Traces::here();
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    let held = ben.mutex("x").lock().await.expect("a free lock");
    let mut contender = ann.mutex("x").lock();
    assert!(timeout(SECOND, &mut contender).await.is_err());
    let behind = tokio::spawn(ann.mutex("x").lock());
    sleep(10 * WATCHDOG).await;
    assert!(!behind.is_finished() && held.is_held());
    let said = warnings(&traces).len();
    held.unlock().await.expect("it is held");
    let guard = timeout(SECOND, behind).await.expect("it is not held up").expect("no panic").expect("its turn");
    assert!(said <= 1 && warnings(&traces).len() == 1);
    drop((guard, contender));
    sleep(SECOND).await;
    assert!(store.keys().is_empty() && store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_tries_after_one_that_was_parked_while_it_slept_is_woken_by_the_release() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    let held = ben.mutex("x").lock().await.expect("a free lock");
    let mut all = Vec::new();
    for _ in 0..3 {
        let mut contender = ann.mutex("x").lock();
        assert!(timeout(SECOND, &mut contender).await.is_err());
        all.push(contender);
        // Nobody stands behind it: it is passed over by the next one, who goes on listening as it did.
        sleep(10 * WATCHDOG).await;
    }
    let next = tokio::spawn(ann.mutex("x").lock());
    sleep(SECOND).await;
    let freed = Instant::now();
    held.unlock().await.expect("it is held");
    let guard = next.await.expect("no panic").expect("its turn");
    assert_eq!(freed.elapsed(), Duration::ZERO);
    drop((guard, all));
}

/// A client that waits for an answer for far longer than for a turn.
async fn patient(store: &EmbeddedStore, watchdog: Duration) -> Client {
    let builder = Client::builder().embedded(store).watchdog_timeout(watchdog).unreachable_after(HOUR);
    builder.connect().await.expect("connects")
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_is_parked_before_a_release_is_answered_is_passed_over_within_a_watchdog_timeout() {
    for (seconds, timed, forced) in [2, 6, 30].into_iter().flat_map(|seconds| {
        [(seconds, false, false), (seconds, true, false), (seconds, false, true), (seconds, true, true)]
    }) {
        let store = EmbeddedStore::new();
        let watchdog = Duration::from_secs(seconds);
        let ann = patient(&store, watchdog).await;
        store.set_weather(far());
        let mutex = ann.mutex("x");
        let held = mutex.lock().await.expect("a free lock");
        // Longer than a slice: until it is known who listens nobody of this process tries.
        sleep(50 * MS).await;
        if forced {
            let forcing = ann.lock("x");
            tokio::spawn(async move { forcing.force_unlock().await.expect("the store answers") });
            // It has seen the hold, and was not answered yet.
            sleep(3 * MS).await;
        } else {
            drop(held);
        }
        let contender = match timed {
            false => parked(mutex.lock()).await.map(drop).boxed(),
            true => parked(mutex.try_lock().wait(HOUR)).await.map(drop).boxed(),
        };
        sleep(10 * MS).await;
        assert!(store.keys().is_empty(), "it was freed, and nobody asked for it");
        assert!(mutex.try_lock().await.expect("the store answers").is_none());
        let guard = entered(&ann, watchdog).await;
        assert!(guard.is_held(), "{watchdog:?}, timed: {timed}, forced: {forced}");
        drop((guard, contender));
    }
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_is_parked_with_its_try_on_the_way_is_passed_over_within_a_watchdog_or_a_command_timeout() {
    for ms in [100, 2_000, 3_100, 3_500, 6_000, 30_000] {
        let (store, watchdog) = (EmbeddedStore::new(), ms * MS);
        let ann = patient(&store, watchdog).await;
        store.set_weather(far());
        let contender = parked(ann.mutex("x").lock()).await;
        let guard = entered(&ann, watchdog.max(COMMAND_TIMEOUT + 100 * MS)).await;
        assert!(guard.is_held(), "{watchdog:?}");
        drop((guard, contender));
    }
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_is_polled_is_never_passed_over_however_long_it_waits() {
    let traces = Traces::here();
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    let held = ben.mutex("x").lock().await.expect("a free lock");
    let first = tokio::spawn(ann.mutex("x").lock());
    sleep(SECOND).await;
    let second = tokio::spawn(ann.mutex("x").lock());
    for _ in 0..100 {
        sleep(WATCHDOG).await;
        assert!(ann.mutex("x").try_lock().await.expect("the server answers").is_none());
    }
    held.unlock().await.expect("it is held");
    let guard = first.await.expect("no panic").expect("first come, first served");
    assert!(!second.is_finished() && warnings(&traces).is_empty());
    drop(guard);
    drop(second.await.expect("no panic").expect("its turn"));
}
