//! Several locks as one on the store in this process, where time is exact and whoever holds what can be looked at.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use relatch::{
    Client, EmbeddedStore, Error, LockGuard, LostCause, MultiLock, Owner, Part, Released, Result,
    embedded::{Happening, Weather},
};
use tokio::{
    task::yield_now,
    time::{Instant, sleep, timeout},
};

use tracing::Level;

use crate::{embedded::client, harness::traces::Traces, kept::poll_once};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Of a client with the default options.
const WATCHDOG: Duration = Duration::from_secs(30);
/// The way there, and the way back.
const WAY: Duration = Duration::from_millis(10);

/// A store so far away.
fn far() -> EmbeddedStore {
    let store = EmbeddedStore::new();
    store.set_weather(Weather::fair().request_delay(WAY..=WAY).reply_delay(WAY..=WAY));
    store
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:03}")).collect()
}

/// Whether somebody else could take it now.
async fn is_free(client: &Client, name: &str) -> bool {
    let tried = client.mutex(name).try_lock().await.expect("the store answers");
    match tried {
        Some(guard) => guard.unlock().await.is_ok(),
        None => false,
    }
}

async fn timed<T>(call: impl IntoFuture<Output = T>) -> (T, Duration) {
    let asked = Instant::now();
    let answer = call.await;
    (answer, asked.elapsed())
}

fn lost_of(error: &Error, name: &str) -> bool {
    error.is_lost() && error.lock_name() == Some(name)
}

async fn freed(guard: LockGuard) {
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

#[tokio::test(start_paused = true)]
async fn any_number_of_free_locks_are_taken_in_one_round_trip_and_released_in_one() {
    for count in [1, 2, 50, 100] {
        let store = far();
        let (client, names) = (client(&store).await, names(count));
        // The first of a script takes one more.
        freed(client.lock("before").lock().await.expect("it is free")).await;
        for wait in [None, Some(Duration::ZERO), Some(MS), Some(SECOND)] {
            let lock = client.multi_lock(&names);
            let (guard, took) = match wait {
                None => timed(lock.lock()).await,
                Some(wait) => {
                    let (guard, took) = timed(lock.try_lock().wait(wait)).await;
                    (guard.map(|guard| guard.expect("all are free")), took)
                }
            };
            let guard = guard.expect("the store answers");
            assert_eq!(took, 2 * WAY, "{count} names, wait {wait:?}");
            assert_eq!(store.keys(), names);
            assert!(guard.is_held() && lock.is_held() && lock.is_locked().await.expect("the store answers"));
            assert!(guard.expires_in().is_some_and(|left| left > WATCHDOG / 2));
            let (released, took) = timed(guard.unlock()).await;
            assert_eq!((released.expect("it is held"), took), (Released::Freed, 2 * WAY));
            assert!(store.is_empty() && !guard.is_held() && !lock.is_held());
            assert_eq!(guard.unlock().await.expect("it was released"), Released::Freed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_of_free_locks_is_exactly_that_and_costs_no_more() {
    let store = far();
    let client = client(&store).await;
    let lease = 5 * SECOND;
    freed(client.lock("before").lock().await.expect("it is free")).await;
    let (guard, took) = timed(client.multi_lock(["a", "b"]).lock().lease(lease)).await;
    let guard = guard.expect("all are free");
    assert_eq!(took, 2 * WAY);
    assert!(guard.expires_in().is_some_and(|left| left < lease));
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
    sleep(SECOND).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_named_twice_is_taken_once_and_in_one_order_however_they_are_named() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let lock = client.multi_lock(["c", "a", "c", "b", "a"]);
    assert_eq!(lock.names().collect::<Vec<_>>(), ["a", "b", "c"]);
    let guard = lock.lock().await.expect("all are free");
    assert_eq!((guard.hold_count(), store.calls(&client).expect("it is of this store")), (1, 3));
    assert_eq!(guard.name(), "a, b, c");
    assert_eq!(guard.fence(), None);
    for name in ["a", "b", "c"] {
        assert!(!is_free(&client, name).await);
        assert_eq!(client.lock(name).hold_count(), 1);
    }
    freed(guard).await;
    // By reference and by value, and of a lock and a list.
    let (one, two) = (client.lock("a"), client.fenced_lock("d"));
    let same = MultiLock::new([Part::from(&two), Part::from(one.clone()), (&one).into()]);
    assert_eq!(same.names().collect::<Vec<_>>(), ["a", "d"]);
    let guard = same.lock().await.expect("all are free");
    // The token of one of them is had by taking it again.
    let inner = two.lock().await.expect("it nests");
    assert_eq!((guard.fence(), inner.fence()), (None, Some(1)));
    assert_eq!(inner.unlock().await.expect("it is held"), Released::StillHeld(1));
    freed(guard).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_has_what_comes_before_the_first_that_is_missing_and_nothing_behind_it() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    for for_ever in [true, false] {
        let (b, d) = (theirs.mutex("b").lock().await, theirs.mutex("d").lock().await);
        let waiting = tokio::spawn(any_wait(ours.multi_lock(["e", "d", "c", "b", "a"]), for_ever));
        sleep(SECOND).await;
        // What is renewed is not forgotten while others are missing.
        for _ in 0..5 {
            sleep(WATCHDOG).await;
            let free = [is_free(&theirs, "a").await, is_free(&theirs, "c").await, is_free(&theirs, "e").await];
            assert_eq!((free, waiting.is_finished()), ([false, true, true], false));
        }
        freed(b.expect("it was free")).await;
        sleep(SECOND).await;
        let free = [is_free(&theirs, "b").await, is_free(&theirs, "c").await, is_free(&theirs, "e").await];
        assert_eq!((free, waiting.is_finished()), ([false, false, true], false));
        let calls = store.calls(&ours).expect("it is of this store");
        freed(d.expect("it was free")).await;
        let guard = waiting.await.expect("no panic");
        assert_eq!(store.keys(), ["a", "b", "c", "d", "e"]);
        assert_eq!(store.calls(&ours).expect("it is of this store") - calls, 2, "those two that were missing");
        freed(guard).await;
        assert!(store.is_empty());
    }
}

/// Takes all, for ever or with a bound that is never reached.
async fn any_wait(lock: MultiLock, for_ever: bool) -> LockGuard {
    if for_ever {
        lock.lock().await.expect("the store answers")
    } else {
        let tried = lock.try_lock().wait(10_000 * WATCHDOG).await;
        tried.expect("the store answers").expect("its turn comes")
    }
}

/// What ran since the trace was taken last: which script, and for which lock.
fn ran(store: &EmbeddedStore) -> Vec<(&'static str, String)> {
    let ran = store.take_trace().into_iter().filter_map(|traced| match traced.what {
        Happening::Ran(ran) => Some((ran.script(), ran.keys()[0].clone())),
        _ => None,
    });
    ran.collect()
}

#[tokio::test(start_paused = true)]
async fn what_comes_behind_one_that_is_missing_is_held_for_a_moment_only_though_a_server_is_silent() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let (ours, theirs, other) = (client(&here).await, client(&there).await, client(&here).await);
    let _a = other.mutex("a").lock().await.expect("it is free");
    there.freeze(&theirs).expect("it is of this store");
    let parts = [ours.lock("a"), ours.lock("b"), theirs.lock("c")];
    let _waiting = tokio::spawn(MultiLock::new(parts).lock());
    sleep(SECOND).await;
    assert!(is_free(&other, "b").await);
}

#[tokio::test(start_paused = true)]
async fn all_are_asked_for_in_their_order_and_let_go_of_in_the_opposite_one() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    store.start_trace();
    for ends_by_drop in [false, true] {
        let guard = client.multi_lock(["b", "c", "a"]).lock().await.expect("all are free");
        let asked = ran(&store);
        assert!(asked.iter().all(|(script, _)| script.ends_with("acquire.lua")), "{asked:?}");
        assert_eq!(asked.iter().map(|(_, key)| &**key).collect::<Vec<_>>(), ["a", "b", "c"]);
        if ends_by_drop {
            drop(guard);
        } else {
            freed(guard).await;
        }
        sleep(MS).await;
        let let_go = ran(&store);
        assert!(let_go.iter().all(|(script, _)| script.ends_with("release.lua")), "{let_go:?}");
        assert_eq!(let_go.iter().map(|(_, key)| &**key).collect::<Vec<_>>(), ["c", "b", "a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_a_while_is_waited_for() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let (ours, theirs) = (client(&here).await, client(&there).await);
    let lock = MultiLock::new([ours.lock("a"), theirs.lock("b"), ours.lock("c")]);
    freed(lock.lock().await.expect("all are free")).await;
    for for_ever in [true, false] {
        there.partition(&theirs).expect("it is of this store");
        let waiting = tokio::spawn(any_wait(lock.clone(), for_ever));
        sleep(5 * SECOND).await;
        assert!(!waiting.is_finished());
        there.heal(&theirs).expect("it is of this store");
        let guard = waiting.await.expect("no panic");
        assert!(guard.is_held());
        freed(guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_of_which_one_is_busy_takes_none_and_leaves_none() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    for busy in ["a", "b", "c"] {
        let guard = theirs.mutex(busy).lock().await.expect("it is free");
        let tried = ours.multi_lock(["a", "b", "c"]).try_lock().await.expect("the store answers");
        assert!(tried.is_none());
        sleep(SECOND).await;
        assert_eq!(store.keys(), [busy]);
        // Nor where somebody of the same client has it.
        let tried = theirs.multi_lock(["c", "b", "a"]).try_lock().owner(&Owner::new()).await;
        assert!(tried.expect("the store answers").is_none());
        sleep(SECOND).await;
        assert_eq!(store.keys(), [busy]);
        freed(guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_of_which_one_is_busy_is_no_guard_that_is_dropped_at_once() {
    let traces = Traces::here();
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    for busy in ["a", "b"] {
        let guard = theirs.mutex(busy).lock().await.expect("it is free");
        for _ in 0..10 {
            assert!(ours.multi_lock(["a", "b"]).try_lock().await.expect("the store answers").is_none());
        }
        freed(guard).await;
    }
    let warned: Vec<_> = traces.all().into_iter().filter(|said| said.level == Level::WARN).collect();
    assert!(warned.is_empty(), "{warned:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_one_bound_for_all_of_them() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let a = theirs.mutex("a").lock().await.expect("it is free");
    let _b = theirs.mutex("b").lock().await.expect("it is free");
    let waiting = tokio::spawn(async move { timed(ours.multi_lock(["a", "b"]).try_lock().wait(SECOND)).await });
    sleep(700 * MS).await;
    freed(a).await;
    let (tried, took) = waiting.await.expect("no panic");
    assert!(tried.expect("the store answers").is_none());
    assert!((SECOND..SECOND + 20 * MS).contains(&took), "{took:?}");
    sleep(SECOND).await;
    assert_eq!(store.keys(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_one_is_told_of_all_and_names_it() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    for gone in ["a", "b", "c"] {
        let lock = client.multi_lock(["a", "b", "c"]);
        let guard = Arc::new(lock.lock().await.expect("all are free"));
        let (token, inner) = (guard.cancellation(), lock.lock().await.expect("it nests"));
        let (nested, again) = (inner.cancellation(), guard.cancellation());
        let (told, works) = (Arc::clone(&guard), Arc::clone(&guard));
        let told = tokio::spawn(async move { told.lost().await });
        let works = tokio::spawn(async move { works.protect(pending::<()>()).await });
        yield_now().await;
        assert!(store.expire(gone));
        let (error, took) = timed(told).await;
        assert!(lost_of(&error.expect("no panic"), gone));
        assert!(took <= WATCHDOG / 3, "{took:?}");
        assert!(lost_of(&works.await.expect("no panic").expect_err("it is lost"), gone));
        assert!(token.is_cancelled() && nested.is_cancelled() && again.is_cancelled());
        assert!(guard.cancellation().is_cancelled());
        assert!(!guard.is_held() && !inner.is_held() && guard.expires_in().is_none() && guard.hold_count() == 0);
        assert!(guard.protect(async {}).await.is_err_and(|error| lost_of(&error, gone)));
        assert!(guard.extend(SECOND).await.is_err_and(|error| lost_of(&error, gone)));
        // Each of the others is released all the same.
        for guard in [&inner, &*guard] {
            assert!(guard.unlock().await.is_err_and(|error| lost_of(&error, gone)));
        }
        assert!(store.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_cancelled_by_a_release_of_all_and_by_none_of_an_inner_guard() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let (lock, one) = (client.multi_lock(["a", "b"]), client.lock("a"));
    let guard = lock.lock().await.expect("all are free");
    let inner = lock.lock().await.expect("it nests");
    let token = inner.cancellation();
    let alone = one.lock().await.expect("it nests");
    assert_eq!((guard.hold_count(), alone.hold_count()), (2, 3));
    assert_eq!(inner.unlock().await.expect("it is held"), Released::StillHeld(2), "as often as one of them");
    assert!(!token.is_cancelled());
    // One is free, the other not.
    assert_eq!(guard.unlock().await.expect("it is held"), Released::StillHeld(1));
    assert!(token.is_cancelled(), "they are not held together any more");
    assert!(alone.is_held() && !lock.is_held() && is_free(&client, "b").await);
    freed(alone).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_while_others_are_missing_is_taken_anew() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let b = theirs.mutex("b").lock().await.expect("it is free");
    let waiting = tokio::spawn(ours.multi_lock(["a", "b"]).lock());
    sleep(SECOND).await;
    // It is noticed by the next renewal, and taken again though others are missing.
    assert!(store.expire("a"));
    assert!(is_free(&theirs, "a").await);
    sleep(WATCHDOG / 2).await;
    assert!(!is_free(&theirs, "a").await);
    // Somebody else may be there first.
    assert!(store.expire("a"));
    let a = theirs.mutex("a").lock().await.expect("it is free");
    sleep(WATCHDOG).await;
    freed(b).await;
    sleep(SECOND).await;
    assert!(!waiting.is_finished(), "somebody else has one of them");
    assert!(is_free(&theirs, "b").await, "whoever waits for the first has nothing behind it");
    freed(a).await;
    let guard = waiting.await.expect("no panic").expect("all are free");
    assert_eq!(store.keys(), ["a", "b"]);
    sleep(10 * WATCHDOG).await;
    assert!(guard.is_held());
    freed(guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_shorter_than_the_way_is_waited_for_while_there_is_time() {
    let (near, far) = (EmbeddedStore::new(), EmbeddedStore::new());
    far.set_weather(Weather::fair().request_delay(100 * MS..=100 * MS).reply_delay(100 * MS..=100 * MS));
    let (here, there) = (client(&near).await, client(&far).await);
    freed(there.lock("before").lock().await.expect("it is free")).await;
    let lock = MultiLock::new([here.lock("a"), there.lock("b")]);
    let lease = 150 * MS;
    let error = lock.try_lock().lease(lease).await.expect_err("the answer comes when the lease is over");
    assert!(matches!(error, Error::Unreachable { .. }) && error.lock_name() == Some("b"), "{error:?}");
    sleep(SECOND).await;
    assert!(near.is_empty() && far.is_empty());
    for wait in [SECOND, Duration::MAX] {
        let guard = lock.try_lock().wait(wait).lease(lease).await.expect("the stores answer").expect("both are free");
        assert!(guard.is_held() && guard.expires_in().is_some_and(|left| left >= lease));
        freed(guard).await;
        assert!(near.is_empty() && far.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_before_the_last_is_there_is_the_answer_of_a_single_try_and_taken_anew_by_whoever_waits() {
    let (near, far) = (EmbeddedStore::new(), EmbeddedStore::new());
    far.set_weather(Weather::fair().request_delay(100 * MS..=100 * MS).reply_delay(100 * MS..=100 * MS));
    let (here, there) = (client(&near).await, client(&far).await);
    let lock = MultiLock::new([here.lock("a"), there.lock("b")]);
    freed(lock.lock().await.expect("both are free")).await;
    for waits in [false, true] {
        let acquiring = lock.try_lock().wait(if waits { SECOND } else { Duration::ZERO });
        let acquiring = tokio::spawn(acquiring.into_future());
        sleep(50 * MS).await;
        assert!(here.lock("a").force_unlock().await.expect("the store answers"));
        let tried = acquiring.await.expect("no panic");
        if waits {
            let guard = tried.expect("it began anew").expect("both are free");
            assert!(guard.is_held());
            freed(guard).await;
        } else {
            let error = tried.expect_err("one of them was forced away");
            assert!(matches!(error, Error::Lost { cause: LostCause::Forced, .. }) && lost_of(&error, "a"), "{error:?}");
        }
        sleep(SECOND).await;
        assert!(near.is_empty() && far.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_had_to_wait_begins_when_all_are_held_and_ends() {
    let store = far();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    // Shorter than the watchdog's, and longer: 5 s and 100 s.
    for lease in [5 * SECOND, 100 * SECOND] {
        let b = theirs.mutex("b").lock().await.expect("it is free");
        let waiting = tokio::spawn(ours.multi_lock(["a", "b", "c"]).lock().lease(lease));
        sleep(SECOND).await;
        let taken = store.hash("a");
        sleep(3 * WATCHDOG).await;
        assert_eq!(store.hash("a"), taken, "it was renewed, and never taken anew");
        freed(b).await;
        let guard = waiting.await.expect("no panic").expect("all are free");
        assert_eq!(store.hash("a"), taken, "nor when all were there");
        let left = guard.expires_in().expect("it is held");
        let whole = lease - lease / 256 - MS - 2 * WAY;
        assert!(left >= whole && left <= lease.max(WATCHDOG), "{left:?} of {lease:?}");
        let (error, took) = timed(guard.lost()).await;
        assert!(matches!(error, Error::Lost { cause: LostCause::Expired, .. }), "{error:?}");
        assert!(took >= whole && took <= lease.max(WATCHDOG), "{took:?} of {lease:?}");
        assert!(guard.unlock().await.is_err_and(|error| error.is_lost()));
        sleep(SECOND).await;
        assert!(store.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_under_the_watchdog_is_renewed_for_all_and_extended_for_all() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let b = client.mutex("b").lock().await.expect("it is free");
    let waiting = tokio::spawn(client.multi_lock(["a", "b"]).lock());
    sleep(3 * WATCHDOG).await;
    freed(b).await;
    let guard = waiting.await.expect("no panic").expect("all are free");
    sleep(10 * WATCHDOG).await;
    assert!(guard.is_held());
    guard.extend(4 * WATCHDOG).await.expect("it is held");
    assert!(guard.expires_in().is_some_and(|left| left > 3 * WATCHDOG));
    for name in ["a", "b"] {
        let left = client.lock(name).remaining_lease().await.expect("the store answers");
        assert!(left.is_some_and(|left| left > 3 * WATCHDOG), "{left:?}");
    }
    freed(guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_bound_is_counted_from_when_all_are_held() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    for waits in [false, true] {
        let b = theirs.mutex("b").lock().await.expect("it is free");
        let waiting = tokio::spawn(ours.multi_lock(["a", "b"]).lock().max_hold(20 * SECOND));
        if waits {
            sleep(2 * WATCHDOG).await;
        }
        freed(b).await;
        let guard = waiting.await.expect("no panic").expect("all are free");
        let (error, took) = timed(guard.lost()).await;
        assert!(matches!(error, Error::Lost { cause: LostCause::MaxHold, .. }), "{error:?}");
        assert!((19 * SECOND..=20 * SECOND).contains(&took), "{took:?}");
        sleep(SECOND).await;
        assert!(store.is_empty(), "it is released at its bound");
    }
    // Inside of a hold that has a bound the lease is cut there, as that of one lock.
    let outer = ours.lock("a").lock().max_hold(40 * SECOND).await.expect("it is free");
    let b = theirs.mutex("b").lock().await.expect("it is free");
    let owner = outer.owner().clone();
    let waiting = tokio::spawn(ours.multi_lock(["a", "b"]).lock().lease(100 * SECOND).owner(&owner));
    sleep(SECOND).await;
    freed(b).await;
    let guard = waiting.await.expect("no panic").expect("all are free");
    let (error, took) = timed(guard.lost()).await;
    assert!(
        matches!(error, Error::Lost { cause: LostCause::MaxHold, .. }) && took <= 39 * SECOND,
        "{error:?} {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn it_nests_in_its_parts_and_they_in_it() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let alone = client.lock("b").lock().await.expect("it is free");
    let guard = client.multi_lock(["a", "b", "c"]).lock().await.expect("it nests in one of them");
    let inner = client.multi_lock(["c", "d"]).lock().await.expect("and another one");
    assert_eq!([("a", 1), ("b", 2), ("c", 2), ("d", 1)].map(|(name, _)| client.lock(name).hold_count()), [1, 2, 2, 1]);
    let others = tokio::spawn(client.multi_lock(["a", "b"]).try_lock()).await.expect("no panic");
    assert!(others.expect("the store answers").is_none(), "another task is another owner");
    assert_eq!(guard.unlock().await.expect("it is held"), Released::StillHeld(1));
    assert_eq!(store.keys(), ["b", "c", "d"]);
    freed(inner).await;
    freed(alone).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn it_is_left_without_a_guard_and_taken_back_or_released() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let lock = client.multi_lock(["a", "b"]);
    let owner = lock.lock().await.expect("all are free").detach();
    sleep(3 * WATCHDOG).await;
    assert!(lock.is_held_by(&owner) && !is_free(&client, "a").await);
    assert!(client.multi_lock(["a", "b", "c"]).attach(&owner).is_none(), "one of them is not held");
    let guard = lock.attach(&owner).expect("it was left there");
    assert!(lock.attach(&owner).is_none());
    let again = guard.detach();
    assert_eq!(lock.unlock().owner(&again).await.expect("it was left there"), Released::Freed);
    assert!(store.is_empty());
    assert!(matches!(lock.unlock().owner(&again).await, Err(Error::NotHeld { .. })));
    // One of them is missing: the others are released.
    let owner = lock.lock().await.expect("all are free").detach();
    let error = client.multi_lock(["a", "b", "c"]).unlock().owner(&owner).await.expect_err("it has not all of them");
    assert!(matches!(&error, Error::NotHeld { name, .. } if &**name == "c"), "{error:?}");
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_a_mutex_among_them_nobody_enters_again() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let lock = MultiLock::new([Part::from(client.lock("a")), Part::from(client.mutex("b"))]);
    let guard = lock.lock().await.expect("all are free");
    assert!(lock.try_lock().await.expect("the store answers").is_none());
    assert!(client.lock("a").try_lock().await.expect("the store answers").is_none());
    let owned = lock.try_lock().owner(&Owner::new()).await;
    assert!(matches!(owned, Err(Error::Invalid { what: "owner", .. })), "{owned:?}");
    let owner = guard.detach();
    let guard = lock.attach(&owner).expect("by its owner");
    // Two branches of one task, one after the other.
    let turn = async || lock.lock().await?.unlock().await;
    let (first, second, released) = tokio::join!(turn(), turn(), guard.unlock());
    for answer in [first, second, released] {
        assert_eq!(answer.expect("its turn"), Released::Freed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_itself_is_told_so() {
    let traces = Traces::here();
    let store = EmbeddedStore::new();
    let ours = client(&store).await;
    let lock = MultiLock::new([Part::from(ours.lock("a")), Part::from(ours.mutex("b"))]);
    let task = tokio::spawn(async move {
        let _guard = lock.lock().await.expect("all are free");
        assert!(lock.try_lock().wait(5 * SECOND).await.expect("the store answers").is_none());
    });
    task.await.expect("no panic");
    assert!(traces.all().iter().any(|said| said.what.starts_with("the task that waits for this mutex took it")));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_when_one_of_them_is_released_is_no_success() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    let guard = client.multi_lock(["a", "b"]).lock().await.expect("all are free");
    let mut release = Box::pin(guard.unlock());
    let work = std::future::poll_fn(|cx| {
        assert!(release.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    });
    let error = guard.protect(work).await.expect_err("it was let go of in the same poll");
    assert!(matches!(error, Error::NotHeld { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn the_first_that_ends_is_the_end_of_all() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    for longer in ["a", "b"] {
        let guard = client.multi_lock(["a", "b"]).lock().lease(5 * SECOND).await.expect("all are free");
        let inner = client.lock(longer).lock().lease(100 * SECOND).await.expect("it nests");
        assert!(inner.expires_in().is_some_and(|left| left > 90 * SECOND));
        assert!(guard.expires_in().is_some_and(|left| left <= 5 * SECOND));
        drop((guard, inner));
        sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn they_are_locked_where_one_of_them_is() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let lock = ours.multi_lock(["a", "b", "c"]);
    assert!(!lock.is_locked().await.expect("the store answers"));
    for name in ["a", "b", "c"] {
        let guard = theirs.mutex(name).lock().await.expect("it is free");
        assert!(lock.is_locked().await.expect("the store answers"), "{name}");
        freed(guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_polled_first_is_the_owner_though_it_was_begun_anew_for_somebody_else() {
    let store = EmbeddedStore::new();
    let ours = client(&store).await;
    let first = tokio::spawn(async move {
        let mut parked = ours.multi_lock(["a", "b"]).lock();
        assert!(poll_once(&mut parked).await.is_pending());
        (parked, Owner::current())
    });
    let (parked, owner) = first.await.expect("no panic");
    sleep(3 * WATCHDOG).await;
    let guard = parked.await.expect("all are free");
    assert!(guard.is_held() && *guard.owner() == owner);
    freed(guard).await;
}

#[tokio::test(start_paused = true)]
async fn work_under_locks_of_several_clients_is_told_to_stop_from_the_start_where_one_of_them_ends() {
    for first_ends in [true, false] {
        let store = EmbeddedStore::new();
        let (one, two) = (client(&store).await, client(&store).await);
        let guard = MultiLock::new([one.lock("a"), two.lock("b")]).lock().await.expect("all are free");
        let ends = if first_ends { one } else { two };
        let ends = tokio::spawn(async move { ends.shutdown(SECOND).await });
        sleep(MS).await;
        assert!(guard.is_held() && guard.cancellation().is_cancelled());
        freed(guard).await;
        assert!(ends.await.expect("no panic").is_clean());
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_before_anything_is_asked_for() {
    let store = EmbeddedStore::new();
    let (client, other) = (client(&store).await, Client::embedded());
    let none: [&str; 0] = [];
    let two = || MultiLock::new([Part::from(client.lock("a")), Part::from(client.fenced_lock("a"))]);
    // Of two clients one name is two locks.
    assert_eq!(MultiLock::new([client.lock("a"), other.lock("a")]).names().count(), 2);
    let good = || client.multi_lock(["a", "b"]);
    for (call, named) in [
        (client.multi_lock(none).lock(), "multi_lock"),
        (client.multi_lock(["a", "", "b"]).lock(), "name"),
        (client.multi_lock(["a", &"x".repeat(70_000)]).lock(), "name"),
        (two().lock(), "multi_lock"),
        (good().lock().lease(Duration::ZERO), "lease"),
        (good().lock().lease(Duration::MAX), "lease"),
        (good().lock().max_hold(MS), "max_hold"),
    ] {
        let refused = call.await;
        assert!(matches!(&refused, Err(Error::Invalid { what, .. }) if *what == named), "{named}: {refused:?}");
    }
    for refused in
        [client.multi_lock(none).try_lock().await.map(drop), client.multi_lock([""]).unlock().await.map(drop)]
    {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    assert!(client.multi_lock(none).attach(&Owner::new()).is_none() && !client.multi_lock(none).is_held());
    assert!(client.multi_lock(none).is_locked().await.is_err());
    assert_eq!(store.calls(&client).expect("it is of this store"), 0);
    // A lock that this client has in use as another kind.
    let guard = client.fenced_lock("b").lock().await.expect("it is free");
    let refused = client.multi_lock(["a", "b"]).lock().await;
    assert!(matches!(refused, Err(Error::Invalid { what: "name", .. })), "{refused:?}");
    freed(guard).await;
    sleep(SECOND).await;
    assert!(store.keys().iter().all(|key| key.starts_with("redisson_lock_token")), "{:?}", store.keys());
}

#[tokio::test(start_paused = true)]
async fn locks_of_several_clients_are_taken_together_and_one_that_is_silent_stops_no_release_of_the_others() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let (ours, theirs) = (client(&here).await, client(&there).await);
    let lock = MultiLock::new([ours.lock("a"), theirs.lock("a"), theirs.lock("b")]);
    let same = MultiLock::new([theirs.lock("b"), theirs.lock("a"), ours.lock("a")]);
    assert_eq!(lock.names().collect::<Vec<_>>(), same.names().collect::<Vec<_>>());
    let guard = lock.lock().await.expect("all are free");
    assert_eq!((here.keys().len(), there.keys().len()), (1, 2));
    there.partition(&theirs).expect("it is of this store");
    let error = guard.unlock().await.expect_err("nobody answers");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(here.is_empty());
    there.heal(&theirs).expect("it is of this store");
    assert_eq!(guard.unlock().await.expect("asked again it says how it went"), Released::Freed);
    assert!(there.is_empty());
    // Nothing of one where the other says nothing.
    there.partition(&theirs).expect("it is of this store");
    let error = lock.try_lock().wait(SECOND).await.expect_err("nobody answers");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    sleep(SECOND).await;
    assert!(here.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_server_that_says_nothing_is_over_soon() {
    let store = EmbeddedStore::new();
    let client = client(&store).await;
    freed(client.multi_lock(["a", "b"]).lock().await.expect("all are free")).await;
    store.freeze(&client).expect("it is of this store");
    for wait in [MS, 50 * MS, SECOND] {
        let (tried, took) = timed(client.multi_lock(["a", "b"]).try_lock().wait(wait)).await;
        assert!(matches!(tried, Err(Error::Unreachable { .. })), "{tried:?}");
        assert!(took <= wait + 400 * MS, "{wait:?}: {took:?}");
    }
    let (waited, took) = timed(client.multi_lock(["a", "b"]).lock()).await;
    assert!(matches!(waited, Err(Error::Unreachable { .. })), "{waited:?}");
    assert!(took <= 15 * SECOND, "{took:?}");
}

/// Takes two locks in the order in which they are named, again and again.
async fn rounds(client: Client, names: [&str; 2], count: u32, inside: Arc<AtomicU32>) -> u32 {
    let lock = client.multi_lock(names);
    for round in 0..count {
        let guard = any_wait(lock.clone(), round % 2 == 0).await;
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
        sleep(MS).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        guard.unlock().await.expect("it is held");
    }
    count
}

#[tokio::test(start_paused = true)]
async fn those_that_name_two_locks_in_two_orders_never_wait_for_each_other() {
    let store = EmbeddedStore::seeded(17);
    store.set_weather(Weather::fair().request_delay(Duration::ZERO..=5 * MS).reply_delay(Duration::ZERO..=5 * MS));
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for number in 0..4 {
        let client = client(&store).await;
        for task in 0..2 {
            let names = if (number + task) % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            tasks.push(tokio::spawn(rounds(client.clone(), names, 125, Arc::clone(&inside))));
        }
    }
    for task in tasks {
        assert_eq!(timeout(3600 * SECOND, task).await.expect("it ends").expect("nobody met anybody"), 125);
    }
    sleep(SECOND).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_at_any_moment_leaves_nothing() {
    let store = far();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    for lease in [None, Some(3 * WATCHDOG)] {
        let mut ended = [0, 0];
        for step in 0..170 {
            let b = theirs.mutex("b").lock().await.expect("it is free");
            let mut acquiring = ours.multi_lock(["a", "b", "c"]).lock();
            if let Some(lease) = lease {
                acquiring = acquiring.lease(lease);
            }
            let frees = async {
                sleep(60 * MS).await;
                freed(b).await;
            };
            let dropped = timeout(step * MS, acquiring);
            let ((), got) = tokio::join!(frees, dropped);
            ended[usize::from(got.is_ok())] += 1;
            // The guard too is dropped.
            drop(got);
            sleep(SECOND).await;
            assert!(store.is_empty(), "after {step} ms: {:?}", store.keys());
            assert!(store.listeners().iter().all(|(_, count)| *count == 0), "after {step} ms: {:?}", store.listeners());
        }
        assert!(ended.iter().all(|ended| *ended > 20), "of both kinds: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_gives_up_may_ask_again_at_once() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let lock = ours.multi_lock(["a", "b", "c"]);
    let asks = async |owner: &Owner| {
        for round in 0..3_000 {
            let _ = timeout(Duration::from_micros(round % 300), lock.lock().owner(owner)).await;
            let tried = lock.try_lock().owner(owner).await;
            assert!(tried.is_ok(), "what was dropped is in nobody's way: {tried:?}");
        }
    };
    let turns = async {
        loop {
            let guard = theirs.mutex("b").lock().await.expect("its turn");
            sleep(MS).await;
            guard.unlock().await.expect("it is held");
        }
    };
    let ann = Owner::new();
    tokio::select! {
        () = asks(&ann) => {}
        () = turns => {}
    }
}

#[tokio::test(start_paused = true)]
async fn the_owner_of_a_future_that_was_dropped_may_ask_for_each_of_them_at_once() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let b = theirs.mutex("b").lock().await.expect("it is free");
    timeout(SECOND, ours.multi_lock(["a", "b"]).lock()).await.expect_err("one of them is busy");
    assert!(!ours.lock("a").is_held());
    assert!(ours.lock("b").try_lock().await.expect("nobody else asks for it as this owner").is_none());
    freed(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_does_it_matter_where_it_ran_when_it_was_dropped() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let b = theirs.mutex("b").lock().await.expect("it is free");
    let asks = tokio::spawn(async move {
        for _ in 0..200 {
            timeout(2 * MS, ours.multi_lock(["a", "b"]).lock()).await.expect_err("it is busy, and nothing else");
        }
    });
    asks.await.expect("no panic");
    freed(b).await;
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_polled_once_and_never_again_keeps_nobody_out_for_longer_than_a_lease() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let b = theirs.mutex("b").lock().await.expect("it is free");
    let mut parked = ours.multi_lock(["a", "b", "c"]).lock();
    assert!(poll_once(&mut parked).await.is_pending());
    sleep(SECOND).await;
    freed(b).await;
    let (guard, took) = timed(theirs.multi_lock(["a", "b", "c"]).lock()).await;
    assert!(took <= WATCHDOG, "{took:?}");
    freed(guard.expect("its turn")).await;
    // Polled again it goes on.
    let guard = timeout(WATCHDOG, parked).await.expect("its turn").expect("all are free");
    assert!(guard.is_held());
    freed(guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_never_polled_again_keeps_nothing_though_another_stays_busy() {
    let store = EmbeddedStore::new();
    let (ours, theirs) = (client(&store).await, client(&store).await);
    let b = theirs.mutex("b").lock().await.expect("it is free");
    let mut parked = ours.multi_lock(["a", "b"]).lock();
    assert!(poll_once(&mut parked).await.is_pending());
    sleep(SECOND).await;
    assert!(!is_free(&theirs, "a").await);
    sleep(WATCHDOG).await;
    assert!(is_free(&theirs, "a").await);
    sleep(3 * WATCHDOG).await;
    assert!(is_free(&theirs, "a").await);
    // Polled again it begins anew, and keeps what it has while it is polled.
    let waiting = tokio::spawn(parked);
    sleep(3 * WATCHDOG).await;
    assert!(!is_free(&theirs, "a").await);
    freed(b).await;
    freed(waiting.await.expect("no panic").expect("all are free")).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_ends_lets_go_of_what_waited_for_others() {
    for shuts_down in [true, false] {
        let store = EmbeddedStore::new();
        let (ours, theirs) = (client(&store).await, client(&store).await);
        let _b = theirs.mutex("b").lock().await.expect("it is free");
        let held = ours.multi_lock(["x", "y"]).lock().await.expect("all are free");
        let waiting = tokio::spawn(ours.multi_lock(["a", "b"]).lock());
        sleep(SECOND).await;
        assert_eq!(store.keys(), ["a", "b", "x", "y"]);
        let token = held.cancellation();
        if shuts_down {
            let ends = tokio::spawn({
                let ours = ours.clone();
                async move { ours.shutdown(SECOND).await }
            });
            assert!(matches!(waiting.await.expect("no panic"), Err(Error::Closed)));
            sleep(100 * MS).await;
            assert_eq!(store.keys(), ["b", "x", "y"]);
            assert!(token.is_cancelled() && held.is_held(), "it is told to stop, and goes on until it does");
            freed(held).await;
            assert!(ends.await.expect("no panic").is_clean());
        } else {
            ours.close().await;
            assert!(matches!(waiting.await.expect("no panic"), Err(Error::Closed)));
            assert!(matches!(held.lost().await, Error::Lost { cause: LostCause::Closed, .. }));
            assert!(token.is_cancelled());
            // Its work may still run; under what was not taken nobody works.
            assert_eq!(store.keys(), ["b", "x", "y"]);
        }
        let refused: Result<LockGuard> = ours.multi_lock(["a", "b"]).lock().await;
        assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_still_waits_is_told_that_the_client_has_ended_whenever_it_ends() {
    let mut ended = 0;
    for after in (0..100).step_by(2).map(Duration::from_millis) {
        let store = far();
        let (ours, theirs) = (client(&store).await, client(&store).await);
        let b = theirs.mutex("b").lock().await.expect("it is free");
        // Longer than the watchdog's, so that one more command is sent once both are there.
        let waiting = tokio::spawn(ours.multi_lock(["a", "b"]).lock().lease(2 * WATCHDOG).into_future());
        sleep(SECOND).await;
        freed(b).await;
        sleep(after).await;
        ours.close().await;
        match waiting.await.expect("no panic") {
            Err(Error::Closed) => ended += 1,
            answer => assert!(answer.is_ok(), "{after:?} after the release: {answer:?}"),
        }
    }
    assert!(ended > 0, "it always had both before");
}

/// In real time, as a caller's wait is where it may be without a runtime's clock.
#[tokio::test]
async fn what_was_waited_for_counts_where_it_is_begun_anew_for_an_answer_that_nobody_took_in_time() {
    let store = EmbeddedStore::new();
    let builder = Client::builder().embedded(&store).watchdog_timeout(300 * MS).command_timeout(200 * MS);
    let (ours, theirs) = (builder.connect().await.expect("it is in this process"), client(&store).await);
    let (began, wait, parked) = (Instant::now(), 2 * SECOND, 1_500 * MS);
    let mut tried = ours.multi_lock(["a", "b"]).try_lock().wait(wait).into_future();
    assert!(poll_once(&mut tried).await.is_pending());
    sleep(parked).await;
    // What was granted is over by now, and somebody else has it.
    let a = theirs.mutex("a").lock().await.expect("it is free");
    assert!(tried.await.expect("the store answers").is_none());
    let took = began.elapsed();
    assert!(took >= wait - 10 * MS && took < wait + parked / 2, "{took:?}");
    freed(a).await;
}
