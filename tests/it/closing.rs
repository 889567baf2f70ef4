//! How a client ends: by `close()`, by the drop of its last handle, with or without a server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use relatch::{Client, Error, LostCause, Owner, Released};
use tokio::runtime::Handle;

use crate::harness::{
    Server, eventually_async,
    lag::Lag,
    proxy::{Action, Door, Proxy, matching},
    unique_name,
};

/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
/// How much later than its bound an answer may be seen on a busy machine.
const SLACK: Duration = Duration::from_millis(500);
const COMMAND: Duration = Duration::from_millis(600);
const WATCHDOG: Duration = Duration::from_secs(1);

async fn connect(url: impl AsRef<str>) -> Client {
    let builder = Client::builder().url(url).command_timeout(COMMAND).watchdog_timeout(WATCHDOG);
    builder.connect().await.expect("connects")
}

async fn pttl(server: &Server, key: &str) -> i64 {
    let mut connection = server.async_connection().await;
    redis::cmd("PTTL").arg(key).query_async(&mut connection).await.expect("PTTL answers")
}

#[track_caller]
fn closed<T>(answer: relatch::Result<T>) {
    match answer.map(|_| ()) {
        Err(Error::Closed) => {}
        other => panic!("a closed client gave {other:?}"),
    }
}

#[tokio::test]
async fn a_closed_client_answers_closed_to_everything_and_sends_nothing() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(proxy.url()).await;
    assert!(!client.is_closed());
    let twin = client.clone();
    client.close().await;
    assert!(client.is_closed() && twin.is_closed());
    proxy.clear_log();
    let (lock, mutex) = (twin.lock("job"), twin.mutex("job"));
    closed(lock.lock().await);
    closed(lock.try_lock().await);
    closed(lock.try_lock().wait(Duration::MAX).await);
    closed(lock.unlock().await);
    closed(lock.force_unlock().await);
    closed(lock.is_locked().await);
    closed(lock.remaining_lease().await);
    closed(lock.inspect().await);
    closed(mutex.lock().await);
    closed(mutex.try_lock().await);
    closed(mutex.inspect().await);
    assert!(!lock.is_held() && lock.hold_count() == 0 && lock.attach(&Owner::new()).is_none());
    // What it asked and said of itself, once connected, may still be on its way.
    let asks = |command: String| !matches!(&*command, "INFO" | "CLIENT");
    let sent = proxy.log().iter().filter(|entry| entry.command().is_some_and(asks)).count();
    assert_eq!(sent, 0);
}

#[tokio::test]
async fn everybody_who_waits_is_told_that_the_client_was_closed() {
    let server = Server::shared();
    let (holder, client) = (connect(server.url()).await, connect(server.url()).await);
    let name = unique_name();
    let held = holder.lock(&name).lock().await.expect("a free lock");
    // Another name is held by the client itself: its waiters stand in the local queue alone.
    let local = unique_name();
    let own = client.mutex(&local).lock().await.expect("a free lock");
    let mut waiting = Vec::new();
    for name in [&name, &local] {
        for _ in 0..3 {
            waiting.push(tokio::spawn(async_some(client.mutex(name).lock())));
            waiting.push(tokio::spawn(async_some(client.mutex(name).try_lock().wait(LOOK))));
        }
    }
    eventually_async(LOOK, async || server.listeners(&format!("redisson_lock__channel:{{{name}}}")) == 1).await;
    let (lag, closing) = (Lag::watch(), Instant::now());
    client.close().await;
    for waiting in waiting {
        closed(waiting.await.expect("no panic"));
    }
    let took = closing.elapsed();
    assert!(took < lag.added_to(COMMAND + SLACK), "told after {took:?}");
    assert!(!own.is_held());
    // Nothing of those who waited is left.
    eventually_async(LOOK, async || server.listeners(&format!("redisson_lock__channel:{{{name}}}")) == 0).await;
    held.unlock().await.expect("a hold of ours is released");
    assert_eq!(pttl(server, &name).await, -2);
}

async fn async_some<T>(acquiring: impl IntoFuture<Output = relatch::Result<T>>) -> relatch::Result<()> {
    acquiring.await.map(|_| ())
}

#[tokio::test]
async fn live_holds_are_told_and_neither_renewed_nor_released() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(proxy.url()).await;
    let watched = client.lock("watched").lock().await.expect("a free lock");
    let fixed = client.lock("fixed").lock().lease(LOOK).await.expect("a free lock");
    let owner = client.mutex("detached").lock().await.expect("a free lock").detach();
    let token = watched.cancellation();
    let inside = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&inside);
    let protected = tokio::spawn(async move {
        let lost = watched.protect(std::future::pending::<()>()).await;
        seen.store(false, Ordering::Release);
        (watched, lost)
    });
    tokio::task::yield_now().await;
    client.close().await;
    assert!(token.is_cancelled());
    let (watched, lost) = protected.await.expect("no panic");
    assert!(matches!(lost, Err(Error::Lost { cause: LostCause::Closed, .. })), "{lost:?}");
    assert!(!inside.load(Ordering::Acquire));
    for guard in [&watched, &fixed] {
        assert!(!guard.is_held() && guard.expires_in().is_none());
        for error in
            [guard.lost().await, guard.unlock().await.expect_err("lost"), guard.extend(LOOK).await.expect_err("lost")]
        {
            assert!(matches!(error, Error::Lost { cause: LostCause::Closed, .. }), "{error:?}");
        }
    }
    assert!(client.lock("detached").attach(&owner).is_none_or(|guard| !guard.is_held()));
    drop((watched, fixed));
    let keys = server.keys();
    assert!(keys.contains(&"fixed".to_owned()) && keys.contains(&"watched".to_owned()), "{keys:?}");
    assert!(pttl(&server, "fixed").await > 1000);
    assert_eq!(proxy.count(&matching::script("release")), 0);
    // The watchdog has ended with the client: its keys go with their leases.
    for key in ["watched", "detached"] {
        eventually_async(LOOK, async || pttl(&server, key).await == -2).await;
    }
}

#[tokio::test]
async fn a_holder_that_leaves_while_the_client_closes_is_not_released_either() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(proxy.url()).await;
    let slow = client.lock("slow").lock().await.expect("a free lock");
    let guard = client.lock("left").lock().lease(LOOK).await.expect("a free lock");
    let leaving = tokio::spawn(async move {
        let lost = guard.lost().await;
        drop(guard);
        lost
    });
    tokio::task::yield_now().await;
    proxy.rule(matching::script("release").nth(1), Action::DelayRequest(COMMAND / 2));
    drop(slow);
    let closing = Instant::now();
    client.close().await;
    assert!(closing.elapsed() >= COMMAND / 2, "nothing kept the client open");
    assert!(matches!(leaving.await.expect("no panic"), Error::Lost { cause: LostCause::Closed, .. }));
    assert_eq!(server.keys(), ["left"]);
    assert_eq!(proxy.count(&matching::script("release").mentioning("left")), 0);
}

#[tokio::test]
async fn releases_of_dropped_guards_are_on_the_server_before_close_returns() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let client = connect(proxy.url()).await;
    let mut guards = Vec::new();
    for number in 0..50 {
        guards.push(client.lock(format!("job {number}")).lock().lease(LOOK).await.expect("a free lock"));
    }
    // They are slow, but for the command timeout fast enough.
    proxy.rule(matching::script("release").nth(1), Action::DelayRequest(COMMAND / 3));
    drop(guards);
    client.close().await;
    assert_eq!(server.keys(), Vec::<String>::new());
    // So is one that is still waited for.
    let client = connect(server.url()).await;
    let guard = client.lock("last").lock().await.expect("a free lock");
    let (unlocked, ()) = tokio::join!(guard.unlock(), client.close());
    assert_eq!(unlocked.expect("it was on its way"), Released::Freed);
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn closing_twice_or_at_the_same_time_is_closing_once() {
    let server = Server::own();
    let client = connect(server.url()).await;
    let guard = client.lock("job").lock().await.expect("a free lock");
    drop(guard);
    let closing: Vec<_> = (0..5)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.close().await })
        })
        .collect();
    client.close().await;
    assert_eq!(server.keys(), Vec::<String>::new());
    for closing in closing {
        closing.await.expect("no panic");
    }
    let again = Instant::now();
    client.close().await;
    assert!(again.elapsed() < SLACK);
    // One that was dropped in the middle goes on.
    let client = connect(server.url()).await;
    let held = client.lock("held").lock().await.expect("a free lock");
    let started = tokio::time::timeout(Duration::ZERO, client.close()).await;
    assert!(client.is_closed() && (started.is_ok() || !held.is_held()));
    closed(client.lock("job").try_lock().await);
    eventually_async(LOOK, async || connections(&server).await == 1).await;
}

/// Open connections, the one that asks among them.
async fn connections(server: &Server) -> usize {
    let mut connection = server.async_connection().await;
    let list: String =
        redis::cmd("CLIENT").arg("LIST").query_async(&mut connection).await.expect("CLIENT LIST answers");
    list.lines().count()
}

#[tokio::test]
async fn without_a_server_closing_takes_no_longer_than_a_command() {
    let server = Server::own();
    for silent in [true, false] {
        let proxy = Proxy::to(&server);
        let client = connect(proxy.url()).await;
        let (dropped, kept) = (unique_name(), unique_name());
        let guard = client.lock(&dropped).lock().await.expect("a free lock");
        let kept = client.lock(&kept).lock().await.expect("a free lock");
        if silent {
            proxy.silence_all();
            proxy.door(Door::Silent);
        } else {
            proxy.door(Door::Refusing);
            proxy.cut_all();
        }
        drop(guard);
        let waiting = tokio::spawn(client.mutex(&dropped).lock());
        tokio::task::yield_now().await;
        let (lag, closing) = (Lag::watch(), Instant::now());
        client.close().await;
        let took = closing.elapsed();
        closed(waiting.await.expect("no panic"));
        let told = closing.elapsed();
        let late = lag.added_to(Duration::ZERO);
        assert!(took < COMMAND + SLACK / 2 + late, "silent {silent}: took {took:?}, {late:?}");
        assert!(told < COMMAND + SLACK + late, "silent {silent}: told after {told:?}, {late:?}");
        assert!(!kept.is_held());
    }
}

#[tokio::test]
async fn without_its_last_client_a_guard_is_still_renewed_and_released() {
    let server = Server::own();
    let client = connect(server.url()).await;
    let guard = client.lock("job").lock().await.expect("a free lock");
    let waiting = tokio::spawn(client.mutex("job").lock());
    tokio::task::yield_now().await;
    drop(client);
    assert!(tokio::time::timeout(WATCHDOG * 2, guard.lost()).await.is_err(), "the watchdog went with the client");
    assert!(pttl(&server, "job").await > 0);
    assert_eq!(guard.unlock().await.expect("a hold of ours is released"), Released::Freed);
    let guard = waiting.await.expect("no panic").expect("it waits on");
    assert!(guard.is_held());
    drop(guard);
    eventually_async(LOOK, async || server.keys().is_empty()).await;
}

#[tokio::test]
async fn when_everything_is_dropped_all_tasks_and_connections_end() {
    let server = Server::own();
    let alive = || Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for close in [true, false] {
        let (holder, client) = (connect(server.url()).await, connect(server.url()).await);
        let held = holder.lock("job").lock().await.expect("a free lock");
        // A waiter that is dropped, so that the subscription link was open too.
        let waiting = tokio::spawn(client.lock("job").lock());
        eventually_async(LOOK, async || server.listeners("redisson_lock__channel:{job}") == 1).await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        assert!(alive() > before);
        held.unlock().await.expect("a hold of ours is released");
        if close {
            client.close().await;
            holder.close().await;
            // Handles of a closed client keep no task and no connection.
            eventually_async(LOOK, async || alive() == before && connections(&server).await == 1).await;
        }
        drop((client, holder, held));
        eventually_async(LOOK, async || alive() == before && connections(&server).await == 1).await;
    }
}
