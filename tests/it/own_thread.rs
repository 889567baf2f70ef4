//! A client with a thread of its own: in a `static` that tests with a runtime each share, in a program without tokio, and
//! what is left when it goes.

use std::{
    process,
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use relatch::{Client, ClientBuilder, Error, Owner, Released};
use tokio::runtime::Builder;

use crate::{
    harness::{
        Server, eventually,
        process::{Parent, Process},
        unique_name, usage,
    },
    runtimes::{elsewhere, without_a_runtime},
};

const SOON: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_secs(1);

static CLIENT: LazyLock<Client> =
    LazyLock::new(|| builder(&Server::shared().url()).connect_blocking().expect("connects"));
static NAME: LazyLock<String> = LazyLock::new(unique_name);
static INSIDE: AtomicBool = AtomicBool::new(false);

fn builder(url: &str) -> ClientBuilder {
    Client::builder().url(url).watchdog_timeout(WATCHDOG).own_thread()
}

/// Takes turns with all others of this process.
async fn section() {
    let guard = CLIENT.lock(&*NAME).lock().await.expect("its turn comes");
    assert!(!INSIDE.swap(true, Ordering::SeqCst), "two are inside");
    assert_eq!(guard.owner(), &Owner::current());
    tokio::task::yield_now().await;
    INSIDE.store(false, Ordering::SeqCst);
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

#[tokio::test]
async fn a_test_shares_a_static_client_with_others() {
    for _ in 0..50 {
        section().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_test_with_more_threads_shares_it() {
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(section())).collect();
    for task in tasks {
        task.await.expect("no panic");
    }
}

#[test]
fn a_test_without_tokio_shares_it_and_its_hold_is_renewed() {
    for _ in 0..50 {
        without_a_runtime(section());
    }
    let lock = CLIENT.lock(unique_name());
    let guard = without_a_runtime(async { lock.lock().await }).expect("a free lock");
    thread::sleep(WATCHDOG * 2);
    assert!(guard.is_held() && !Server::shared().hash(lock.name()).is_empty());
    // Nobody is there to send it, but for the client's own thread.
    drop(guard);
    eventually(SOON, || Server::shared().hash(lock.name()).is_empty());
}

#[test]
fn outside_of_tokio_a_lock_takes_the_thread_for_its_owner_and_a_mutex_or_a_scope_keeps_tasks_apart() {
    let (lock, mutex) = (CLIENT.lock(unique_name()), CLIENT.mutex(unique_name()));
    let tries = async || lock.try_lock().await.expect("answers");
    // What an executor does on one thread: it polls one task, and then the other.
    let first = without_a_runtime(tries()).expect("a free lock");
    let second = without_a_runtime(tries()).expect("the thread has it already");
    assert_eq!((first.owner(), second.owner()), (&Owner::current(), &Owner::current()));
    assert_eq!((first.hold_count(), without_a_runtime(Owner::new().scope(tries())).is_some()), (2, false));
    let there = lock.clone();
    assert!(elsewhere(move || without_a_runtime(async { there.try_lock().await })).expect("answers").is_none());
    for guard in [second, first] {
        without_a_runtime(guard.unlock()).expect("it is held");
    }
    let scoped = without_a_runtime(Owner::new().scope(tries())).expect("a free lock");
    assert!(without_a_runtime(Owner::new().scope(tries())).is_none() && without_a_runtime(tries()).is_none());
    drop(scoped);
    let tries = async || mutex.try_lock().await.expect("answers");
    let held = without_a_runtime(tries()).expect("a free lock");
    assert!(without_a_runtime(tries()).is_none());
    drop(held);
}

#[test]
fn it_is_connected_from_anywhere_and_a_runtime_that_ends_takes_nothing_with_it() {
    let url = Server::shared().url();
    let bare = {
        let url = url.clone();
        elsewhere(move || without_a_runtime(builder(&url).connect())).expect("connects")
    };
    let connecting = Builder::new_current_thread().build().expect("starts");
    let poor = connecting.block_on(builder(&url).connect()).expect("timers and sockets are its own");
    drop(connecting);
    for client in [bare, poor] {
        let guard = without_a_runtime(async { client.lock(unique_name()).lock().await }).expect("a free lock");
        let elsewhere = Builder::new_current_thread().build().expect("starts");
        assert_eq!(elsewhere.block_on(guard.unlock()).expect("it is held"), Released::Freed);
    }
    let refused = Client::builder().url(url).connect_blocking();
    match refused.map(drop) {
        Err(Error::Invalid { what: "connect_blocking", why, .. }) => assert!(why.contains("own_thread()"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// Says how many threads there are in each part of a client's life.
pub(crate) fn live_on_a_thread_of_its_own(parent: &mut Parent, args: &[String]) {
    let [url, nobody] = args else { panic!("two arguments") };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let before = usage::threads();
    let mut ended = |what: &str| {
        eventually(SOON, || usage::threads() == before);
        parent.say(what);
    };
    // The last of it goes in the middle of async code.
    runtime.block_on(async {
        let client = builder(url).connect().await.expect("connects");
        let guard = client.lock("a").lock().await.expect("a free lock");
        let during = usage::threads();
        assert!(during > before, "{during} threads, as before");
        drop(client);
        tokio::time::sleep(WATCHDOG * 2).await;
        assert!(guard.is_held(), "the thread ended with the client, and a guard lives");
        drop(guard);
    });
    ended("dropped");
    let client = builder(url).connect_blocking().expect("connects");
    let guard = without_a_runtime(client.lock("b").lock()).expect("a free lock");
    runtime.block_on(client.close());
    assert!(!guard.is_held() && matches!(without_a_runtime(client.lock("c").lock()), Err(Error::Closed)));
    ended("closed");
    drop((client, guard));
    assert!(builder(nobody).connect_blocking().is_err(), "there is nobody");
    ended("refused");
    runtime.block_on(async {
        let connecting = tokio::time::timeout(Duration::ZERO, builder(url).connect()).await;
        drop(connecting);
    });
    ended("given up");
}

#[test]
fn its_thread_ends_with_it_however_it_ends() {
    let server = Server::own();
    let nobody = format!("redis+unix:///nowhere/{}", process::id());
    let mut life = Process::spawn("live_on_a_thread_of_its_own", &[&server.url(), &nobody]);
    for part in ["dropped", "closed", "refused", "given up"] {
        assert_eq!(life.hear(), part);
    }
    assert!(life.ended_well());
    // What was dropped was released, not left to its lease.
    assert!(!server.keys().contains(&"a".to_owned()));
}
