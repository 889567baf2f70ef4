//! The store in this process as a user meets it: clients, keys and time without a server. What befalls links is tested in
//! `embedded_faults.rs`.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use futures_util::FutureExt;
use relatch::{Client, EmbeddedStore, Error, LockGuard, LostCause, Owner, Result};
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::sleep,
};

use crate::harness::eventually_async;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// Of a client with the default options.
const LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn client(store: &EmbeddedStore) -> Client {
    Client::builder().embedded(store).connect().await.expect("a store refuses nobody of its runtime")
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts")
}

/// How long the processor has worked for this thread: however busy the machine is, the runtime's own.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    SECOND * u32::try_from(time.tv_sec).expect("a test is short") + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}

fn is_invalid<T>(result: Result<T>, named: &str) -> bool {
    matches!(result, Err(Error::Invalid { what, .. }) if what == named)
}

/// It answers in the poll that asks, and hides no mistake that a server would show.
#[tokio::test(start_paused = true)]
async fn two_branches_of_one_task_that_ask_in_one_turn_are_told_so_as_over_a_server() {
    let client = client(&EmbeddedStore::new()).await;
    let lock = client.lock("a");
    for _ in 0..3 {
        let (first, second) = tokio::join!(lock.lock(), lock.lock());
        assert!(is_invalid(second, "owner"));
        let first = first.expect("a free lock");
        assert_eq!(lock.lock().await.expect("nests").hold_count(), 2);
        first.unlock().await.expect("a hold of ours");
    }
    // Whoever gives up what it asked for asks for it no longer.
    for _ in 0..3 {
        assert!(lock.lock().now_or_never().is_none());
        lock.lock().await.expect("a free lock").unlock().await.expect("a hold of ours");
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_exclude_each_other_and_the_end_of_one_s_turn_wakes_the_other() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    assert_ne!(ann.id(), ben.id());
    let guard = ann.lock("a").lock().lease(LEASE * 100).await.expect("a free lock");
    assert!(ben.lock("a").try_lock().await.expect("the store answers").is_none());
    let waiting = tokio::spawn(ben.lock("a").lock());
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    assert_eq!(store.listeners(), [("redisson_lock__channel:{a}".to_owned(), 1)]);
    let released = tokio::time::Instant::now();
    guard.unlock().await.expect("a hold of ours");
    let theirs = waiting.await.expect("no panic").expect("its turn");
    // By the message: its lease would have lasted for most of an hour.
    assert!(released.elapsed() < SECOND, "woken after {:?}", released.elapsed());
    theirs.unlock().await.expect("a hold of theirs");
    assert!(store.is_empty() && store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_hour_under_the_watchdog_is_over_in_no_time() {
    let store = EmbeddedStore::new();
    let ann = client(&store).await;
    let started = worked();
    let guard = ann.lock("a").lock().await.expect("a free lock");
    sleep(SECOND * 3600).await;
    assert!(guard.is_held() && store.keys() == ["a"]);
    // A renewal each third of the lease, one acquire.
    assert!((359..=361).contains(&store.calls(&ann).expect("its client")));
    guard.unlock().await.expect("a hold of ours");
    let took = worked() - started;
    assert!(took < SECOND, "an hour took {took:?} of the processor's time");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_held_that_is_gone_is_free_within_a_lease() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    let guard = ann.lock("a").lock().await.expect("a free lock");
    let ended = tokio::time::Instant::now();
    ann.close().await;
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Closed, .. }));
    let theirs = ben.lock("a").lock().await.expect("its turn in the end");
    assert!((LEASE - SECOND..LEASE + SECOND).contains(&ended.elapsed()), "free after {:?}", ended.elapsed());
    theirs.unlock().await.expect("a hold of theirs");
}

#[tokio::test]
async fn a_client_that_is_dropped_leaves_no_key_no_listener_and_no_task() {
    let store = EmbeddedStore::new();
    let before = Handle::current().metrics().num_alive_tasks();
    for _ in 0..10 {
        let (ann, ben) = (client(&store).await, client(&store).await);
        let guard = ann.lock("a").lock().await.expect("a free lock");
        let waiting = tokio::spawn(ben.lock("a").lock());
        eventually_async(SECOND * 10, async || store.listeners().len() == 1).await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        drop(guard);
    }
    let gone = async || {
        let tasks = Handle::current().metrics().num_alive_tasks();
        tasks == before && store.is_empty() && store.listeners().is_empty()
    };
    eventually_async(SECOND * 10, gone).await;
}

#[tokio::test]
async fn a_task_that_does_nothing_but_try_lets_the_others_run() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    let guard = ann.lock("a").lock().await.expect("a free lock");
    // Enough for everybody to have a turn, and few enough to end where nobody has one.
    let trying = tokio::spawn(async move {
        for _ in 0..1_000_000 {
            if let Some(guard) = ben.lock("a").try_lock().await? {
                return guard.unlock().await.map(Some);
            }
        }
        Ok(None)
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    guard.unlock().await.expect("a hold of ours");
    let entered = trying.await.expect("no panic").expect("the store answers");
    assert!(entered.is_some(), "nobody else had a turn");
}

#[test]
fn tasks_on_several_threads_take_turns() {
    let several = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime starts");
    several.block_on(async {
        let store = EmbeddedStore::new();
        let inside = Arc::new(AtomicU32::new(0));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let one = client(&store).await;
            for _ in 0..4 {
                let (lock, inside) = (one.mutex("a"), Arc::clone(&inside));
                tasks.push(tokio::spawn(async move {
                    for _ in 0..50 {
                        let guard = lock.lock().await.expect("its turn");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.unlock().await.expect("a hold of ours");
                    }
                }));
            }
        }
        for task in tasks {
            task.await.expect("nobody met anybody inside");
        }
        assert!(store.is_empty());
    });
}

/// More than a runtime lets anybody do in one go: the body of `main` is no task that could be put off.
#[test]
fn hundreds_of_guards_end_at_once_in_the_body_of_main() {
    const GUARDS: usize = 400;
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
        runtime.block_on(async {
            let store = EmbeddedStore::new();
            let client = client(&store).await;
            let names: Vec<_> = (0..GUARDS).map(|number| format!("of many {number}")).collect();
            for is_dropped in [true, false] {
                let mut guards = Vec::new();
                for name in &names {
                    guards.push(client.lock(name).lock().await.expect("a free lock"));
                }
                if is_dropped {
                    drop(guards);
                } else {
                    for guard in guards {
                        guard.unlock().await.expect("a hold of ours");
                    }
                }
                eventually_async(SECOND * 5, async || names.iter().all(|name| store.hash(name).is_empty())).await;
            }
        });
        done.send(()).expect("it is waited for");
    });
    is_done.recv_timeout(SECOND * 20).expect("no drop goes on for ever");
}

#[test]
fn a_client_that_was_made_outside_of_any_runtime_says_so_and_does_not_panic() {
    let outside = Client::embedded();
    assert!(!outside.lock("a").is_held());
    runtime().block_on(async {
        let lock = outside.lock("a");
        assert!(is_invalid(lock.lock().await, "runtime"));
        assert!(is_invalid(lock.try_lock().wait(SECOND).await, "runtime"));
        assert!(is_invalid(outside.mutex("a").lock().await, "runtime"));
        assert!(is_invalid(lock.is_locked().await, "runtime"));
        assert!(is_invalid(lock.force_unlock().await, "runtime"));
        assert!(lock.unlock().await.is_err());
        outside.close().await;
        assert!(outside.is_closed() && is_invalid(lock.lock().await, "runtime"));
    });
}

#[test]
fn a_store_belongs_to_the_runtime_of_its_first_client() {
    let store = EmbeddedStore::new();
    let (first, second) = (runtime(), runtime());
    let ann = first.block_on(client(&store));
    let refused = second.block_on(Client::builder().embedded(&store).connect());
    assert!(is_invalid(refused.map(drop), "runtime"));
    // It goes on where it lives, and answers questions from everywhere.
    let guard = first.block_on(ann.lock("a").lock()).expect("a free lock");
    assert_eq!(store.keys(), ["a"]);
    first.block_on(guard.unlock()).expect("a hold of ours");
    drop(first);
    assert!(store.is_empty());
    store.steal("a", LEASE);
    assert!(store.expire("a") && !store.expire("a"));
}

#[test]
fn the_end_of_the_runtime_closes_the_clients_of_a_store() {
    let store = EmbeddedStore::new();
    let first = runtime();
    let ann = first.block_on(client(&store));
    store.freeze(&ann).expect("its client");
    let waiting = first.spawn(ann.lock("a").lock());
    first.block_on(async { sleep(MS * 10).await });
    assert!(!waiting.is_finished());
    drop(first);
    // Nobody would ever thaw it.
    assert!(is_invalid(store.thaw(&ann), "client"));
    drop(waiting);
    let second = runtime();
    let ended = second.block_on(async { ann.lock("a").is_locked().await });
    assert!(ann.is_closed() && matches!(ended, Err(Error::Closed)), "{ended:?}");
    let late = second.block_on(async { Client::builder().embedded(&store).connect().await });
    assert!(is_invalid(late.map(drop), "runtime"));
}

#[test]
fn a_client_that_was_made_on_a_runtime_without_timers_says_so_and_does_not_panic() {
    for sockets in [true, false] {
        let mut builder = Builder::new_current_thread();
        if sockets {
            builder.enable_io();
        }
        builder.build().expect("a runtime starts").block_on(async {
            let lock = Client::embedded().lock("a");
            match lock.lock().await.map(drop) {
                Err(Error::Invalid { what: "runtime", why, .. }) => assert!(why.contains("enable_all()"), "{why}"),
                other => panic!("{other:?}"),
            }
            let store = EmbeddedStore::new();
            assert!(is_invalid(Client::builder().embedded(&store).connect().await.map(drop), "runtime"));
        });
    }
    // Sockets are for servers.
    let timers = Builder::new_current_thread().enable_time().build().expect("a runtime starts");
    let guard = timers.block_on(async { Client::embedded().lock("a").lock().await }).expect("a free lock");
    assert!(guard.is_held());
}

#[tokio::test]
async fn options_are_checked_as_for_a_server_and_the_last_target_counts() {
    let store = EmbeddedStore::new();
    let builder = || Client::builder().embedded(&store);
    let short = builder().watchdog_timeout(MS).connect().await;
    assert!(is_invalid(short.map(drop), "watchdog_timeout"));
    let long = builder().handover_slice(SECOND * 61).connect().await;
    assert!(is_invalid(long.map(drop), "handover_slice"));
    let last = Client::builder().url("nonsense").embedded(&store).connect().await;
    assert!(last.is_ok_and(|client| store.calls(&client).is_ok()));
    let last = builder().url("nonsense").connect().await;
    assert!(is_invalid(last.map(drop), "url"));
    let prefixed = builder().name_prefix("p:").connect().await.expect("it is fine");
    let guard = prefixed.lock("a").lock().await.expect("a free lock");
    assert_eq!(store.keys(), ["p:a"]);
    guard.unlock().await.expect("a hold of ours");
}

#[tokio::test]
async fn nothing_can_be_done_to_a_client_that_is_not_the_store_s() {
    let (store, other) = (EmbeddedStore::new(), EmbeddedStore::new());
    let stranger = client(&other).await;
    let closed = client(&store).await;
    closed.close().await;
    type Deed = fn(&EmbeddedStore, &Client) -> Result<()>;
    let deeds: [Deed; 9] = [
        EmbeddedStore::partition,
        EmbeddedStore::heal,
        EmbeddedStore::freeze,
        EmbeddedStore::thaw,
        EmbeddedStore::cut,
        EmbeddedStore::drop_next_request,
        EmbeddedStore::drop_next_reply,
        |store, client| store.duplicate_next(client, SECOND),
        |store, client| store.calls(client).map(drop),
    ];
    for deed in deeds {
        assert!(is_invalid(deed(&store, &stranger), "client"));
        assert!(is_invalid(deed(&store, &closed), "client"));
        assert!(deed(&other, &stranger).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_stolen_is_lost_and_the_thief_can_be_seen() {
    let store = EmbeddedStore::new();
    let ann = client(&store).await;
    let guard = ann.lock("a").lock().await.expect("a free lock");
    store.steal("a", LEASE);
    assert!(guard.lost().await.is_lost());
    let seen = ann.lock("a").inspect().await.expect("the store answers").expect("the thief has it");
    assert_ne!(seen.client_id, ann.id().to_string());
    assert_eq!(seen.hold_count, 1);
}

#[tokio::test(start_paused = true)]
async fn the_hash_of_a_lock_is_seen_without_a_command_for_as_long_as_it_lives() {
    let store = EmbeddedStore::new();
    let ann = client(&store).await;
    let lock = ann.lock("a");
    assert!(store.hash("a").is_empty());
    let guard = lock.lock().await.expect("a free lock");
    let nested = lock.lock().await.expect("a lock of ours");
    let held = lock.inspect().await.expect("the store answers").expect("it is held");
    let field = format!("{}:{}", held.client_id, held.hold_id);
    let calls = store.calls(&ann).expect("its client");
    store.partition(&ann).expect("its client");
    assert_eq!(store.hash("a"), [(field, "2".to_owned())]);
    store.heal(&ann).expect("its client");
    assert_eq!(store.calls(&ann).expect("its client"), calls);
    nested.unlock().await.expect("a hold of ours");
    guard.unlock().await.expect("a hold of ours");
    assert!(store.hash("a").is_empty());
    // Nobody else asks for the time in between.
    for forward in [false, true] {
        store.steal("b", SECOND);
        tokio::time::advance(MS * 999).await;
        assert_eq!(store.hash("b").len(), 1);
        if forward {
            store.set_clock_forward(MS * 2);
        } else {
            tokio::time::advance(MS * 2).await;
        }
        assert!(store.hash("b").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_hold_outlives_its_task_and_a_lease_ends_it() {
    let store = EmbeddedStore::new();
    let (ann, ben) = (client(&store).await, client(&store).await);
    let held = |guard: Option<LockGuard>| guard.map(LockGuard::detach).is_some();
    let attempt = |client: &Client| client.lock("a").try_lock().lease(SECOND * 3600).owner(&Owner::new());
    assert!(held(attempt(&ann).await.expect("the store answers")));
    assert!(!held(attempt(&ben).await.expect("the store answers")));
    tokio::time::advance(SECOND * 3601).await;
    assert!(held(attempt(&ben).await.expect("the store answers")));
}

#[test]
fn the_readme_shows_the_test_that_is_run_here() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file| fs::read_to_string(root.join(file)).expect("it is text");
    let (readme, code) = (read("README.md"), read("tests/it/embedded_readme.rs"));
    let code = code.split_once("\n\n").expect("the file says first what it is").1;
    assert!(readme.contains(&format!("```rust\n{code}```")), "the README shows another text");
}
