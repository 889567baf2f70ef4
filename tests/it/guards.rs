//! What a guard promises: how it is released, by whom and how often, what it tells of its hold, and what becomes of
//! work that runs under it. Nothing of detached holds, and nothing of who may nest.

use std::{
    collections::BTreeSet,
    future::pending,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use relatch::{
    Acquire, Client, Error, LockGuard, LostCause, Owner, ReentrantLock, Released, Result, TryAcquire, Unlock,
};
use tokio::{
    runtime,
    sync::oneshot,
    task::yield_now,
    time::{sleep, timeout},
};

use tracing::Level;

use crate::harness::{
    Server, eventually, eventually_async,
    monitor::Ran,
    proxy::{Action, Proxy, matching},
    traces::{Said, Traces},
    unique_name,
};

const MS: Duration = Duration::from_millis(1);
/// Where something has to run out.
const LEASE: Duration = Duration::from_millis(300);
/// Far more than anything here takes: only what hangs is found by it.
const HANGS: Duration = Duration::from_secs(10);

/// A client that keeps a name among its own tasks for the whole test, and whose leases outlive it.
async fn connect() -> Client {
    connect_to(&Server::shared().url(), HANGS * 3).await
}

async fn connect_to(url: &str, watchdog: Duration) -> Client {
    let builder = Client::builder().url(url).watchdog_timeout(watchdog).handover_slice(Duration::from_secs(60));
    builder.connect().await.expect("connects")
}

fn is_free(name: &str) -> bool {
    Server::shared().hash(name).is_empty()
}

/// How many scripts clients asked for about a key. One that the server does not know yet is sent twice, and counts once.
fn sent(ran: &[Ran], name: &str) -> usize {
    ran.iter().filter(|ran| ran.name() == "EVALSHA" && ran.mentions(name)).count()
}

/// The holds as which a client asked for a key.
fn asked_as(ran: &[Ran], name: &str, client: &Client) -> BTreeSet<Vec<u8>> {
    let id = client.id().to_string();
    let asked = ran.iter().filter(|ran| matching::verb(&ran.words).as_deref() == Some("acquire") && ran.mentions(name));
    asked.flat_map(|ran| &ran.words).filter(|word| word.starts_with(id.as_bytes())).cloned().collect()
}

/// One look at a future.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn is_not_held<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::NotHeld { .. }))
}

#[tokio::test]
async fn a_dropped_lock_is_free_for_the_next_try() {
    let client = Client::connect(Server::shared().url()).await.expect("connects");
    let lock = client.lock(unique_name());
    let mut guard = lock.try_lock().await.expect("answers").expect("it was free");
    for round in 0..1_000 {
        drop(guard);
        guard = lock.try_lock().await.expect("answers").unwrap_or_else(|| panic!("round {round} found it taken"));
    }
    guard.unlock().await.expect("releases");
}

#[tokio::test]
async fn a_dropped_lock_is_free_for_the_next_try_also_where_the_server_has_forgotten_how_to_release() {
    let server = Server::own();
    let client = connect_to(&server.url(), HANGS * 3).await;
    let lock = client.lock(unique_name());
    for round in 0..20 {
        let guard = lock.try_lock().await.expect("answers").unwrap_or_else(|| panic!("round {round} found it taken"));
        server.flush_scripts();
        // Teaches it to acquire again, and nothing else: the release has to be sent twice, the try does not.
        let _other = client.lock(unique_name()).lock().await.expect("acquires").detach();
        drop(guard);
    }
}

#[tokio::test]
async fn a_try_without_a_wait_is_answered_without_a_command_while_the_lock_is_taken_here() {
    let (client, other) = (connect().await, connect().await);
    let [held, awaited] = [client.lock(unique_name()), client.lock(unique_name())];
    let monitor = Server::shared().monitor();
    let guard = held.lock().await.expect("acquires");
    let theirs = other.lock(awaited.name()).lock().await.expect("acquires");
    let waiting = tokio::spawn(awaited.lock());
    eventually_async(HANGS, async || asked_as(&monitor.ran(), awaited.name(), &client).len() == 1).await;

    for lock in [&held, &awaited] {
        for _ in 0..20 {
            let answer = timeout(HANGS, lock.try_lock().owner(&Owner::new())).await.expect("it does not wait");
            assert!(answer.expect("answers").is_none());
        }
    }
    // Every acquisition that goes to the server has a number of its own: the holder's and the waiter's are all.
    let ran = monitor.ran();
    for lock in [&held, &awaited] {
        assert_eq!(asked_as(&ran, lock.name(), &client).len(), 1);
    }

    theirs.unlock().await.expect("releases");
    waiting.await.expect("no panic").expect("acquires").unlock().await.expect("releases");
    guard.unlock().await.expect("releases");
}

#[tokio::test]
async fn a_released_guard_repeats_its_answer_and_holds_nothing() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let (outer, inner) = (lock.lock().await.expect("acquires"), lock.lock().await.expect("nests"));
    for (guard, answer) in [(&inner, Released::StillHeld(1)), (&outer, Released::Freed)] {
        assert_eq!(guard.unlock().await.expect("releases"), answer);
        let monitor = Server::shared().monitor();
        assert_eq!(guard.unlock().await.expect("repeats"), answer);
        assert!(!guard.is_held());
        assert_eq!((guard.expires_in(), guard.hold_count()), (None, 0));
        assert!(is_not_held(guard.extend(LEASE).await));
        let started = AtomicBool::new(false);
        assert!(is_not_held(guard.protect(async { started.store(true, Ordering::SeqCst) }).await));
        assert!(!started.into_inner());
        assert_eq!(sent(&monitor.ran(), lock.name()), 0, "a released guard has nothing to send");
    }
    assert!(is_free(lock.name()));

    let monitor = Server::shared().monitor();
    drop((inner, outer));
    // What the drops sent would be answered before the second of these is.
    for _ in 0..2 {
        assert!(!lock.is_locked().await.expect("answers"));
    }
    assert_eq!(sent(&monitor.ran(), lock.name()), 2, "only the two questions");
}

#[tokio::test]
async fn an_unlock_whose_answer_was_lost_asks_again() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let short = 100 * MS;
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(HANGS).command_timeout(short);
    let client = builder.connect().await.expect("connects");
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    let rule = proxy.rule(matching::script("release"), Action::HoldReply);
    let unknown = guard.unlock().await;
    assert!(matches!(unknown, Err(Error::Unreachable { may_have_run: true, .. })), "{unknown:?}");
    assert!(!guard.is_held());
    rule.remove();
    rule.let_go();
    let mut answer = guard.unlock().await;
    let asked = Instant::now();
    while answer.as_ref().is_err_and(Error::is_transient) && asked.elapsed() < HANGS {
        answer = guard.unlock().await;
    }
    assert_eq!(answer.expect("is answered"), Released::Freed);
    assert!(server.hash(lock.name()).is_empty());
}

#[tokio::test]
async fn guards_of_one_hold_are_released_in_any_order_and_by_any_task() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut guards = Vec::new();
        for _ in 0..3 {
            guards.push(Arc::new(lock.lock().await.expect("acquires")));
        }
        let expected = [Released::StillHeld(2), Released::StillHeld(1), Released::Freed];
        for (at, expected) in order.into_iter().zip(expected) {
            let guard = Arc::clone(&guards[at]);
            let released = tokio::spawn(async move { guard.unlock().await }).await.expect("no panic");
            assert_eq!(released.expect("releases"), expected, "order {order:?}");
            let held = Server::shared().hash(lock.name()).into_values().next();
            let left = lock.hold_count();
            assert_eq!(held, (left > 0).then(|| left.to_string()), "order {order:?}");
        }
        assert!(is_free(lock.name()));
    }
}

#[tokio::test]
async fn two_tasks_that_unlock_one_guard_get_one_release_and_the_same_answer() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    for _ in 0..50 {
        let guard = Arc::new(lock.lock().await.expect("acquires"));
        let monitor = Server::shared().monitor();
        let both = [Arc::clone(&guard), guard].map(|guard| tokio::spawn(async move { guard.unlock().await }));
        for unlock in both {
            assert_eq!(unlock.await.expect("no panic").expect("releases"), Released::Freed);
        }
        assert_eq!(sent(&monitor.ran(), lock.name()), 1);
    }
}

#[tokio::test]
async fn unlock_of_a_hold_that_goes_on_to_the_next_task_is_freed_and_ends_the_guard() {
    let client = connect().await;
    for (lease, commands) in [(None, 0), (Some(HANGS), 1)] {
        let lock = client.lock(unique_name());
        let acquire = || lease.map_or_else(|| lock.lock(), |lease| lock.lock().lease(lease));
        let guard = acquire().await.expect("acquires");
        let token = guard.cancellation();
        let mut next = pin!(acquire().owner(&Owner::new()));
        assert!(now(next.as_mut()).is_none(), "it queues");
        let monitor = Server::shared().monitor();
        assert_eq!(guard.unlock().await.expect("goes on"), Released::Freed);
        let next = timeout(HANGS, next).await.expect("it is its turn").expect("acquires");
        assert_eq!(sent(&monitor.ran(), lock.name()), commands, "passed for nothing, handed over by one command");
        assert!(token.is_cancelled() && !guard.is_held() && next.is_held());
        assert_eq!(guard.unlock().await.expect("repeats"), Released::Freed);
        assert!(now(guard.lost()).is_none(), "going on is no loss");
        drop(guard);
        assert!(next.is_held());
        assert_eq!(next.unlock().await.expect("releases"), Released::Freed);
        assert!(is_free(lock.name()));
    }
}

#[tokio::test]
async fn the_token_of_a_guard_is_a_child_and_is_cancelled_by_release_and_by_loss() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    let (cancelled, token) = (guard.cancellation(), guard.cancellation());
    cancelled.cancel();
    assert!(!token.is_cancelled(), "cancelling one is nobody else's business");
    assert!(guard.is_held() && now(guard.lost()).is_none());
    guard.protect(yield_now()).await.expect("the hold is as it was");
    guard.unlock().await.expect("releases");
    timeout(HANGS, token.cancelled()).await.expect("released");
    assert!(guard.cancellation().is_cancelled(), "also when it is asked for later");
    assert!(now(guard.lost()).is_none());

    let guard = lock.lock().lease(LEASE).await.expect("acquires");
    let token = guard.cancellation();
    let waiting = timeout(HANGS, guard.lost());
    let left = guard.expires_in().expect("it is held");
    assert!(left <= LEASE, "{left:?}");
    let reason = waiting.await.expect("a fixed lease runs out");
    assert!(matches!(&reason, Error::Lost { cause: LostCause::Expired, .. }), "{reason:?}");
    assert_eq!(reason.lock_name(), Some(lock.name()));
    assert!(token.is_cancelled() && !guard.is_held());
    assert_eq!(guard.expires_in(), None);
    assert!(timeout(HANGS, guard.lost()).await.is_ok(), "it stays lost");
}

/// A future that never ends, and says when it is dropped.
struct Noted(Arc<AtomicBool>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn protected_work_is_dropped_when_its_hold_is_lost() {
    let client = connect_to(&Server::shared().url(), LEASE).await;
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    let dropped = Arc::new(AtomicBool::new(false));
    let noted = Noted(Arc::clone(&dropped));
    let work = guard.protect(async move {
        let _noted = noted;
        pending::<()>().await;
    });
    let mut work = pin!(work);
    assert!(now(work.as_mut()).is_none());
    Server::shared().delete(lock.name());
    let result = timeout(HANGS, work.as_mut()).await.expect("the next renewal finds it gone");
    assert!(matches!(result, Err(Error::Lost { cause: LostCause::Gone, .. })), "{result:?}");
    // The future is over, but still there: what it protected is not.
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_result_that_comes_after_the_loss_is_lost() {
    let client = connect().await;
    let lease = LEASE;
    let blocks = async || {
        // The test's only thread, so no timer and no answer is looked at meanwhile.
        thread::sleep(lease + 50 * MS);
        17
    };
    let guard = client.lock(unique_name()).lock().lease(lease).await.expect("acquires");
    let result = guard.protect(blocks()).await;
    assert!(matches!(result, Err(Error::Lost { cause: LostCause::Expired, .. })), "{result:?}");

    let guard = client.lock(unique_name()).lock().lease(HANGS).await.expect("acquires");
    assert_eq!(guard.protect(blocks()).await.expect("the lease is long enough"), 17);
    guard.unlock().await.expect("releases");
}

#[tokio::test]
async fn the_hold_is_looked_at_before_every_poll_of_protected_work() {
    let client = connect().await;
    let guard = client.lock(unique_name()).lock().lease(LEASE).await.expect("acquires");
    let polls = AtomicU32::new(0);
    let mut work = pin!(guard.protect(std::future::poll_fn(|_| {
        polls.fetch_add(1, Ordering::SeqCst);
        Poll::<()>::Pending
    })));
    assert!(now(work.as_mut()).is_none());
    // The test's only thread, so nobody else can have noticed the loss by the second poll.
    thread::sleep(LEASE);
    let result = now(work.as_mut()).expect("the hold is over");
    assert!(matches!(result, Err(Error::Lost { cause: LostCause::Expired, .. })), "{result:?}");
    assert_eq!(polls.load(Ordering::SeqCst), 1);

    let started = AtomicBool::new(false);
    let result = guard.protect(async { started.store(true, Ordering::SeqCst) }).await;
    assert!(matches!(result, Err(Error::Lost { .. })) && !started.into_inner(), "a lost hold protects nothing");
}

#[tokio::test]
async fn a_released_inner_guard_never_says_lost_though_the_rest_of_its_hold_is() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let (outer, inner) = (lock.lock().await.expect("acquires"), lock.lock().await.expect("nests"));
    inner.unlock().await.expect("releases");
    assert!(lock.force_unlock().await.expect("the server answers"));
    assert!(timeout(HANGS, outer.lost()).await.expect("the rest is lost").is_lost());
    let told = inner.lost();
    assert!(timeout(Duration::from_millis(50), told).await.is_err());
}

#[tokio::test]
async fn work_whose_guard_is_released_meanwhile_ends_as_not_held() {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let (outer, inner) = (lock.lock().await.expect("acquires"), lock.lock().await.expect("nests"));
    // Released by one branch while the other works: the last guard of the hold, and one whose hold goes on.
    for guard in [&inner, &outer] {
        let both = async { tokio::join!(guard.protect(pending::<()>()), guard.unlock()) };
        let (work, released) = timeout(HANGS, both).await.expect("the work ends with the guard");
        assert!(is_not_held(work));
        released.expect("releases");
    }

    // Released by another task: nothing but the end of the guard wakes the work.
    let guards = [lock.lock().await.expect("acquires"), lock.lock().await.expect("nests")].map(Arc::new);
    for guard in guards.into_iter().rev() {
        let released = Arc::clone(&guard);
        let (begun, begins) = oneshot::channel();
        let work = tokio::spawn(async move {
            let work = async {
                begun.send(()).expect("the test waits");
                pending::<()>().await;
            };
            guard.protect(work).await
        });
        begins.await.expect("the work begins");
        released.unlock().await.expect("releases");
        assert!(is_not_held(timeout(HANGS, work).await.expect("the work ends with the guard").expect("no panic")));
    }
}

/// A guard is dropped in some way: the key is gone soon.
async fn dropped_by(end: impl AsyncFnOnce(LockGuard)) {
    let client = connect().await;
    let lock = client.lock(unique_name());
    let guard = lock.lock().await.expect("acquires");
    assert!(!is_free(lock.name()));
    end(guard).await;
    eventually_async(HANGS, async || is_free(lock.name())).await;
}

#[tokio::test]
async fn a_guard_that_is_dropped_in_a_task_on_a_thread_or_by_a_panic_is_released() {
    dropped_by(async |guard| tokio::spawn(async move { drop(guard) }).await.expect("no panic")).await;
    dropped_by(async |guard| thread::spawn(move || drop(guard)).join().expect("no panic")).await;
    dropped_by(async |guard| tokio::task::spawn_blocking(move || drop(guard)).await.expect("no panic")).await;
    dropped_by(async |guard| {
        let task = tokio::spawn(async move {
            let _guard = guard;
            panic!("a panic that the test wants");
        });
        assert!(task.await.expect_err("it panics").is_panic());
    })
    .await;
    dropped_by(async |guard| {
        let thread = thread::spawn(move || {
            let _guard = guard;
            panic!("a panic that the test wants");
        });
        assert!(thread.join().is_err());
    })
    .await;
}

#[test]
fn guards_that_a_runtime_drops_while_it_ends_are_gone_within_a_lease() {
    let ending = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts");
    let names: [String; 3] = std::array::from_fn(|_| unique_name());
    let (client, locks) = ending.block_on(async {
        let client = connect_to(&Server::shared().url(), LEASE).await;
        let locks: Vec<_> = names.iter().map(|name| client.lock(name)).collect();
        (client, locks)
    });
    // One alone, one with a nested guard, one with a task that waits.
    let [alone, nested, awaited] = <[_; 3]>::try_from(locks).expect("three of them");
    ending.block_on(async {
        let guards = [
            alone.lock().await.expect("acquires"),
            nested.lock().await.expect("acquires"),
            nested.lock().await.expect("nests"),
            awaited.lock().await.expect("acquires"),
        ];
        tokio::spawn(awaited.lock());
        tokio::spawn(async move {
            let _guards = guards;
            pending::<()>().await;
        });
        yield_now().await;
    });
    assert!(names.iter().all(|name| !is_free(name)));
    let ended = Instant::now();
    drop(ending);
    assert!(ended.elapsed() < HANGS / 2, "dropping guards does not block");
    // What was not released is not renewed either: it ends when it would have ended, a lease after its last renewal.
    let ends = names.each_ref().map(|name| Server::shared().ends_at(name));
    eventually(HANGS, || {
        let now = names.each_ref().map(|name| Server::shared().ends_at(name));
        now.iter().zip(&ends).for_each(|(now, end)| assert!(now.is_none() || now == end, "{end:?} {now:?}"));
        now.iter().all(Option::is_none)
    });
    drop((client, alone, nested, awaited));
}

#[tokio::test]
async fn the_futures_are_owned_and_can_be_spawned_joined_and_looped_over() {
    fn owned<F: Future + Send + Unpin + 'static>(future: F) -> F {
        future
    }
    let client = connect().await;
    let lock = client.lock(unique_name());
    let _: (Acquire, TryAcquire, Unlock) = (owned(lock.lock()), owned(lock.try_lock()), owned(lock.unlock()));

    let spawned = tokio::spawn(lock.lock()).await.expect("no panic").expect("acquires");
    spawned.unlock().await.expect("releases");

    let names: Vec<String> = (0..4).map(|_| unique_name()).collect();
    let guards = join_all(names.iter().map(|name| client.lock(name).lock())).await;
    for guard in guards.into_iter().map(|guard| guard.expect("acquires")) {
        guard.unlock().await.expect("releases");
    }

    let taken = lock.lock().owner(&Owner::new()).await.expect("acquires");
    let mut acquisition = lock.lock();
    let mut turns = 0;
    let guard = loop {
        tokio::select! {
            guard = &mut acquisition => break guard.expect("acquires"),
            () = sleep(5 * MS) => turns += 1,
        }
        if turns == 3 {
            taken.unlock().await.expect("releases");
        }
    };
    assert!(turns >= 3);
    guard.unlock().await.expect("releases");
    let again = now(&mut acquisition).expect("it is over");
    assert!(matches!(again, Err(Error::Invalid { .. })), "a second answer is an error and no panic");
}

/// What was said of a lock at this level, or a graver one.
fn said(traces: &Traces, lock: &ReentrantLock, level: Level) -> Vec<String> {
    let of_it = |said: &Said| {
        !said.is_span && said.level <= level && said.fields.get("lock").is_some_and(|it| it == lock.name())
    };
    traces.all().into_iter().filter(of_it).map(|said| said.what).collect()
}

#[tokio::test]
async fn guards_released_out_of_order_are_warned_of_once_a_name_and_nesting_is_a_debug_event() {
    let traces = Traces::here();
    let client = connect().await;
    let [ordered, crossed, detached] = [(); 3].map(|()| client.lock(unique_name()));

    for _ in 0..2 {
        let (outer, inner) = (ordered.lock().await.expect("acquires"), ordered.lock().await.expect("nests"));
        inner.unlock().await.expect("releases");
        drop(ordered.lock().await.expect("nests"));
        outer.unlock().await.expect("releases");
    }
    assert_eq!(said(&traces, &ordered, Level::WARN), Vec::<String>::new());
    let nested = said(&traces, &ordered, Level::DEBUG).into_iter().filter(|what| what == "nested").count();
    assert_eq!(nested, 4);

    for _ in 0..3 {
        let (outer, inner) = (crossed.lock().await.expect("acquires"), crossed.lock().await.expect("nests"));
        let third = crossed.lock().await.expect("nests");
        assert_eq!(outer.unlock().await.expect("releases"), Released::StillHeld(2));
        drop(inner);
        assert_eq!(crossed.hold_count(), 1);
        assert_eq!(third.unlock().await.expect("releases"), Released::Freed);
    }
    assert!(is_free(crossed.name()));
    let warnings = said(&traces, &crossed, Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:?}");

    // A detached hold belongs to no guard that could be left inside another one.
    let (outer, inner) = (detached.lock().await.expect("acquires"), detached.lock().await.expect("nests"));
    let owner = inner.detach();
    outer.unlock().await.expect("releases");
    detached.unlock().owner(&owner).await.expect("releases");
    assert_eq!(said(&traces, &detached, Level::WARN), Vec::<String>::new());
}
