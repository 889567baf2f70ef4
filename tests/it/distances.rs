//! Links of every length, on the store in this process and its paused clock: what a wait is answered, and whom the lock goes
//! to.

use std::time::Duration;

use relatch::{Client, EmbeddedStore, Error, LockGuard, Owner, embedded::Weather};
use tokio::time::{Instant, sleep};

use crate::embedded::client;

const MS: Duration = Duration::from_millis(1);

/// The round trips of the links.
const TRIPS: [u32; 7] = [0, 2, 20, 50, 100, 200, 400];

/// The waits that are tried on each.
const WAITS: [u32; 6] = [0, 1, 50, 100, 300, 1000];

/// A link of this round trip.
fn link(trip: Duration) -> Weather {
    Weather::fair().request_delay(trip / 2..=trip / 2).reply_delay(trip / 2..=trip / 2)
}

/// Whether the round trip was measured before anything that counts, or nothing was.
async fn far_client(store: &EmbeddedStore, trip: Duration, known: bool) -> Client {
    let far = client(store).await;
    store.set_weather_of(&far, link(trip)).expect("a client of this store");
    if known {
        far.lock("another").lock().await.expect("the server answers").unlock().await.expect("it is held");
    }
    far
}

type Answer = Result<Option<LockGuard>, Error>;

#[track_caller]
fn assert_free(answer: Answer, what: &str) -> LockGuard {
    answer.expect(what).unwrap_or_else(|| panic!("{what}: busy"))
}

#[track_caller]
fn assert_busy(answer: Answer, what: &str) {
    assert!(answer.expect(what).is_none(), "{what}: granted");
}

/// Every combination of a link, a wait, and what is known of the link.
fn cases() -> impl Iterator<Item = (Duration, Duration, bool, String)> {
    let waits = |trip: u32| WAITS.into_iter().map(move |wait| (trip, wait));
    TRIPS.into_iter().flat_map(waits).flat_map(|(trip, wait)| {
        [true, false].map(|known| {
            let what = format!("a round trip of {trip} ms, a wait of {wait} ms, known: {known}");
            (MS * trip, MS * wait, known, what)
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_by_any_wait_over_any_link_and_one_release_ends_it() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let far = far_client(&store, trip, known).await;
        let (lock, owner, before) = (far.lock("report"), Owner::new(), store.calls(&far).expect("a client of it"));
        let asked = Instant::now();
        let outer = assert_free(lock.try_lock().owner(&owner).wait(wait).await, &what);
        let inner = assert_free(lock.try_lock().owner(&owner).wait(wait).await, &what);
        assert_eq!(asked.elapsed(), 2 * trip, "{what}");
        inner.unlock().await.expect(&what);
        outer.unlock().await.expect(&what);
        // Nothing was given up, so nothing is released again and again.
        sleep(Duration::from_secs(120)).await;
        assert_eq!(store.calls(&far).expect("a client of it") - before, 4, "{what}");
        assert!(store.is_empty(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_none_for_any_wait_over_any_link_within_a_round_trip_of_its_end() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let near = client(&store).await;
        let far = far_client(&store, trip, known).await;
        let held = near.mutex("report").lock().await.expect("it is free");
        let asked = Instant::now();
        assert_busy(far.mutex("report").try_lock().wait(wait).await, &what);
        let took = asked.elapsed();
        assert!(wait <= took && took <= wait + trip + MS, "{what}: {took:?}");
        held.unlock().await.expect(&what);
        let before = store.calls(&far).expect("a client of it");
        sleep(Duration::from_secs(120)).await;
        assert_eq!(store.calls(&far).expect("a client of it"), before, "{what}: nothing was left behind");
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_in_turn_over_any_link_hear_busy_and_nothing_else() {
    for (trip, wait, known, what) in cases() {
        let store = EmbeddedStore::new();
        let near = client(&store).await;
        let far = far_client(&store, trip, known).await;
        let held = near.mutex("report").lock().await.expect("it is free");
        let waiting: Vec<_> = (0..40)
            .map(|n| {
                let mutex = far.mutex("report");
                tokio::spawn(async move {
                    sleep(n * 7 * MS).await;
                    mutex.try_lock().wait(wait).await
                })
            })
            .collect();
        for waiter in waiting {
            assert_busy(waiter.await.expect("no panic"), &what);
        }
        held.unlock().await.expect(&what);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_ever_over_any_link_enters_within_its_distance_of_the_release() {
    for trip in TRIPS.map(|trip| MS * trip) {
        let store = EmbeddedStore::new();
        let near = client(&store).await;
        let far = far_client(&store, trip, false).await;
        let held = near.mutex("report").lock().await.expect("it is free");
        let waiter = tokio::spawn(far.mutex("report").lock().into_future());
        sleep(Duration::from_secs(5)).await;
        let let_go = Instant::now();
        held.unlock().await.expect("it is held");
        let guard = waiter.await.expect("no panic").expect("the server answers");
        // The message, the try, and its answer.
        assert_eq!(let_go.elapsed(), trip * 3 / 2);
        guard.unlock().await.expect("it is held");
    }
}

/// Others of a process that has the lock, over and over, and who want it for once.
#[tokio::test(start_paused = true)]
async fn whoever_waits_a_while_beside_a_busy_task_of_its_own_process_hears_no_error_over_any_link() {
    for trip in TRIPS.map(|trip| MS * trip) {
        let store = EmbeddedStore::new();
        let far = far_client(&store, trip, false).await;
        let busy: Vec<_> = (0..2)
            .map(|_| {
                let mutex = far.mutex("report");
                tokio::spawn(async move {
                    loop {
                        let guard = mutex.lock().await.expect("the server answers");
                        sleep(MS).await;
                        guard.unlock().await.expect("it is held");
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            let mutex = far.mutex("report");
            let waited = mutex.try_lock().wait(100 * MS).await;
            drop(waited.unwrap_or_else(|error| panic!("a round trip of {trip:?}: {error}")));
            sleep(97 * MS).await;
        }
        busy.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
