//! What has a bound keeps it: where many wait for a server that is silent, and where holds end at theirs.

use std::time::Duration;

use relatch::{Client, Error, LockGuard, LostCause, Released};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        lag::Lag,
        proxy::{Action, Proxy, matching::script},
        unique_name,
    },
    kept::connected,
};

const NAMES: usize = 2_000;
const TRIES: usize = 10;
const COMMAND: Duration = Duration::from_secs(1);
/// How late a busy machine, which may take seconds to tell so many, may see an answer that comes when its time is up. A bound
/// that grew with the names would be at `NAMES / 128 * COMMAND`, more than fifteen seconds.
const AWAKE: Duration = Duration::from_secs(5);
const UNREACHABLE: Duration = Duration::from_secs(3);
/// A slice and a hold so long that a busy machine cannot blur who was overtaken how often.
const SLICE: Duration = Duration::from_millis(50);
const BOUND: Duration = Duration::from_millis(75);
/// So many slices a waiter elsewhere may have to wait.
const SLICES: u32 = 5;
/// So often the waiter enters: once in a while it may do so by chance.
const ENTRIES: u32 = 5;
const KEPT_OUT: Duration = Duration::from_secs(3);
const LEASE: Duration = Duration::from_secs(30);

/// How long the slowest of these calls took until it was told that the server is unreachable.
async fn slowest<T: 'static>(mut calls: JoinSet<(Result<T, Error>, Duration)>) -> Duration {
    let mut slowest = Duration::ZERO;
    while let Some(call) = calls.join_next().await {
        let (answer, took) = call.expect("no panic");
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "{:?}", answer.err());
        slowest = slowest.max(took);
    }
    slowest
}

async fn timed<T>(call: impl IntoFuture<Output = T>) -> (T, Duration) {
    let asked = monotonic();
    let answer = call.await;
    (answer, monotonic() - asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_two_thousand_waiters_is_told_in_time_that_the_server_is_silent() {
    let server = Server::own();
    let options = Client::builder().url(server.url()).command_timeout(COMMAND).unreachable_after(UNREACHABLE);
    let client = connected(options).await;
    server.freeze();
    let locks = (0..NAMES).map(|number| client.mutex(format!("lock-{number}")));
    let waiting: JoinSet<_> = locks.map(|mutex| async move { timed(mutex.lock()).await }).collect();
    let tries = (0..TRIES).map(|number| client.mutex(format!("try-{number}")));
    let trying: JoinSet<_> = tries.map(|mutex| async move { timed(mutex.try_lock()).await }).collect();
    let (waited, tried) = tokio::join!(slowest(waiting), slowest(trying));
    assert!(waited <= UNREACHABLE + COMMAND + AWAKE, "a lock() was answered after {waited:?}");
    assert!(tried <= 2 * COMMAND + AWAKE, "a try_lock() was answered after {tried:?}");
}

/// How long each entry of a waiter takes beside a client whose two tasks take the lock in turn, each for as long as the
/// bound, and end their holds this way.
async fn entries_beside(end: impl AsyncFn(LockGuard)) -> Vec<Duration> {
    let (server, name) = (Server::shared(), unique_name());
    let slicing = async || connected(Client::builder().url(server.url()).handover_slice(SLICE)).await;
    let (greedy, waiting) = (slicing().await, slicing().await);
    let turns = async || -> () {
        loop {
            end(greedy.mutex(&name).lock().max_hold(BOUND).await.expect("the server answers")).await;
        }
    };
    let entries = async {
        let (mutex, mut entries) = (waiting.mutex(&name), Vec::new());
        for entry in 0..ENTRIES {
            // At other points of the others' turns every time, when their first slice is long over.
            sleep(4 * BOUND + entry * BOUND / ENTRIES).await;
            let (entered, took) = timed(timeout(KEPT_OUT, mutex.lock())).await;
            let guard = entered.expect("it is not kept out altogether").expect("the server answers");
            guard.unlock().await.expect("it is held");
            entries.push(took);
        }
        entries
    };
    tokio::select! {
        took = entries => took,
        ((), ()) = async { tokio::join!(turns(), turns()) } => unreachable!("turns never end"),
    }
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_holds_that_end_by_their_bound() {
    let lag = Lag::watch();
    let took = entries_beside(async |guard| {
        let lost = guard.lost().await;
        assert!(matches!(lost, Error::Lost { cause: LostCause::MaxHold, .. }), "{lost:?}");
    })
    .await;
    let bound = lag.added_to(SLICES * SLICE);
    assert!(took.iter().all(|took| *took <= bound), "{took:?}, and not {bound:?}");
}

#[tokio::test]
async fn a_waiter_enters_within_five_slices_beside_holds_that_end_before_their_bound() {
    let lag = Lag::watch();
    let took = entries_beside(async |guard| {
        sleep(BOUND - BOUND / 5).await;
        drop(guard);
    })
    .await;
    let bound = lag.added_to(SLICES * SLICE);
    assert!(took.iter().all(|took| *took <= bound), "{took:?}, and not {bound:?}");
}

#[tokio::test]
async fn the_bound_of_an_outer_acquisition_ends_with_it() {
    let client = connected(Client::builder().url(Server::shared().url())).await;
    let lock = client.lock(unique_name());
    let outer = lock.lock().lease(LEASE).max_hold(Duration::from_millis(1_500)).await.expect("it is free");
    let inner = lock.lock().lease(LEASE).await.expect("it nests");
    assert_eq!(outer.unlock().await.expect("it is held"), Released::StillHeld(1));
    sleep(Duration::from_secs(2)).await;
    assert!(inner.is_held());
    assert!(inner.expires_in().is_some_and(|left| left > LEASE / 2), "{:?}", inner.expires_in());
    assert_eq!(inner.unlock().await.expect("it is held"), Released::Freed);
}

/// Its links open, and are asked whether they live and say so; but no script is ever answered.
#[tokio::test]
async fn a_server_that_lets_everybody_in_and_answers_no_script_is_unreachable_in_time() {
    let proxy = Proxy::to(Server::shared());
    let options = Client::builder().url(proxy.url()).command_timeout(COMMAND).unreachable_after(UNREACHABLE);
    let client = connected(options).await;
    let swallowed = proxy.rule(script("acquire"), Action::SwallowRequest);
    let lock = client.lock(unique_name());
    let (answer, took) = timeout(LEASE, timed(lock.lock())).await.expect("it does not wait for ever");
    assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
    assert!(took < UNREACHABLE + AWAKE, "{took:?}");
    assert!(swallowed.seen() > 1, "it was asked for again, over another link");
}
