//! Those who wait: woken by the release, quiet until then, and gone when their wait is over.

use std::time::Duration;

use relatch::{Client, Error, LockGuard};
use tokio::{runtime::Runtime, task::JoinHandle, time::sleep};

use crate::{
    harness::{
        Server,
        asleep::asleep,
        clock::monotonic,
        eventually_async,
        lag::Lag,
        process::{Parent, Process},
        proxy::{
            Action, Door, Event, Proxy,
            matching::{any, command, push, verb},
        },
        unique_name,
    },
    kept::{channel, client, connected, poll_once},
};

/// What must come comes within this; a lease is longer.
const SOON: Duration = Duration::from_secs(10);
/// How late a waiter may wake, and how far from its bound a wait may end.
const AWAKE: Duration = Duration::from_millis(50);

/// Takes a lock under a watchdog of so many milliseconds, says so, frees it when it is told to, and says when that was
/// done.
pub(crate) fn hold(parent: &mut Parent, args: &[String]) {
    let watchdog = Duration::from_millis(args[2].parse().expect("a number"));
    Runtime::new().expect("a runtime starts").block_on(async {
        let client = connected(Client::builder().url(&args[0]).watchdog_timeout(watchdog)).await;
        let guard = client.lock(&args[1]).lock().await.expect("it is free");
        parent.say("held");
        parent.hear();
        guard.unlock().await.expect("it is held");
        parent.say(&monotonic().as_nanos().to_string());
    });
}

/// Waits for the lock in the background; the guard, and when it came.
fn enter(client: &Client, name: &str) -> JoinHandle<(LockGuard, Duration)> {
    let lock = client.lock(name);
    tokio::spawn(async move {
        let guard = lock.lock().await.expect("the lock is ours in the end");
        (guard, monotonic())
    })
}

async fn entered(waiter: JoinHandle<(LockGuard, Duration)>) -> (LockGuard, Duration) {
    tokio::time::timeout(SOON, waiter).await.expect("the waiter enters").expect("no panic")
}

async fn listening(server: &Server, name: &str) {
    eventually_async(SOON, async || server.listeners(&channel(name)) == 1).await;
}

#[track_caller]
fn assert_awake(lag: Lag, since: Duration, entered: Duration) {
    let (late, bound) = (entered.saturating_sub(since), lag.added_to(AWAKE));
    assert!(late <= bound, "entered {late:?} later, and not {bound:?}");
}

/// When the newest confirmation of a subscription before `at` came by; zero if there was none.
fn confirmed(proxy: &Proxy, at: Duration) -> Duration {
    let log = proxy.log();
    let confirmation = |event: &Event| matches!(event, Event::Push { words, .. } if words[0] == b"subscribe");
    log.iter().rfind(|entry| confirmation(&entry.event) && entry.at <= at).map_or(Duration::ZERO, |entry| entry.at)
}

#[tokio::test]
async fn a_waiter_wakes_at_the_release_in_another_process() {
    let (server, name) = (Server::shared(), unique_name());
    let client = client(server.url()).await;
    let mut holder = Process::spawn("hold", &[&server.url(), &name, "30000"]);
    holder.hear();
    let waiter = enter(&client, &name);
    listening(server, &name).await;
    let lag = Lag::watch();
    holder.say("release");
    let (guard, at) = entered(waiter).await;
    let released = Duration::from_nanos(holder.hear().parse().expect("a number"));
    assert_awake(lag, released, at);
    guard.unlock().await.expect("it is held");
}

/// How many tries came back with an answer.
fn answered_tries(proxy: &Proxy) -> usize {
    let try_of = |event: &Event| matches!(event, Event::Reply { to, .. } if verb(to).as_deref() == Some("acquire"));
    proxy.log().iter().filter(|entry| try_of(&entry.event)).count()
}

/// A waiter whose subscription the rule holds up, and which has just been told that the lock is busy: nothing but the
/// confirmation, or another poll much later, can make it look again.
async fn waits_unconfirmed(server: &Server, action: Action) {
    let (proxy, name) = (Proxy::to(server), unique_name());
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    let subscribe = proxy.rule(command("SUBSCRIBE"), action);
    let waiter = enter(&waiting, &name);
    subscribe.nth(1).await;
    // By then a pause between two polls is 125 ms on average.
    eventually_async(SOON, async || answered_tries(&proxy) >= 6).await;
    guard.unlock().await.expect("it is held");
    let (lag, let_go) = (Lag::watch(), monotonic());
    subscribe.let_go();
    let (_guard, at) = entered(waiter).await;
    assert_awake(lag, let_go, at);
}

#[tokio::test]
async fn a_waiter_wakes_at_a_confirmation_that_came_after_the_release() {
    waits_unconfirmed(Server::shared(), Action::HoldReply).await;
}

#[tokio::test]
async fn a_waiter_wakes_though_the_release_fell_between_its_try_and_its_subscription() {
    waits_unconfirmed(Server::shared(), Action::HoldRequest).await;
}

#[tokio::test]
async fn a_waiter_wakes_though_its_subscription_link_was_killed() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    for released_first in [true, false] {
        let name = unique_name();
        let guard = holder.lock(&name).lock().await.expect("it is free");
        let waiter = enter(&waiting, &name);
        listening(&server, &name).await;
        proxy.clear_log();
        let mut connection = server.connection();
        let _: u64 = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").query(&mut connection).expect("kills");
        if !released_first {
            listening(&server, &name).await;
        }
        let lag = Lag::watch();
        guard.unlock().await.expect("it is held");
        let released = monotonic();
        let (guard, at) = entered(waiter).await;
        assert_awake(lag, released.max(confirmed(&proxy, at)), at);
        guard.unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn a_waiter_wakes_though_the_link_was_cut_instead_of_the_message_reaching_it() {
    let (server, name) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    let waiter = enter(&waiting, &name);
    listening(server, &name).await;
    let message = proxy.rule(push("message"), Action::CutAfter);
    let lag = Lag::watch();
    guard.unlock().await.expect("it is held");
    let released = monotonic();
    message.nth(1).await;
    let (_, at) = entered(waiter).await;
    assert_awake(lag, released.max(confirmed(&proxy, at)), at);
}

#[tokio::test]
async fn a_waiter_with_a_live_subscription_sends_nothing() {
    let (server, name) = (Server::own(), unique_name());
    let proxy = Proxy::to(&server);
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    let waiter = enter(&waiting, &name);
    asleep(&proxy, "acquire").await;
    let monitor = server.monitor();
    sleep(Duration::from_secs(3)).await;
    let ran: Vec<String> = monitor.ran().iter().map(|ran| ran.name()).collect();
    // The subscription link asks once a command timeout whether anybody is there.
    assert!(ran.iter().all(|name| name == "PING") && ran.len() <= 2, "{ran:?}");
    drop(monitor);
    guard.unlock().await.expect("it is held");
    drop(entered(waiter).await);
}

#[track_caller]
fn assert_ended(lag: Lag, wait: Duration, started: Duration) {
    let (elapsed, bound) = (monotonic() - started, lag.added_to(wait + AWAKE));
    assert!(elapsed >= wait && elapsed <= bound, "a wait of {wait:?} took {elapsed:?}, and not {bound:?}");
}

/// Waits for a lock and says what came of it, at the bound and not somewhere else.
async fn wait_out(client: &Client, name: &str, wait: Duration) -> Result<Option<LockGuard>, Error> {
    let (lag, started) = (Lag::watch(), monotonic());
    let outcome = client.lock(name).try_lock().wait(wait).await;
    assert_ended(lag, wait, started);
    outcome
}

#[track_caller]
fn assert_unreachable(outcome: Result<Option<LockGuard>, Error>) {
    assert!(matches!(outcome, Err(Error::Unreachable { .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_wait_for_a_busy_lock_ends_at_its_bound_with_none() {
    let (server, name) = (Server::shared(), unique_name());
    let (holder, waiting) = (client(server.url()).await, client(server.url()).await);
    let _guard = holder.lock(&name).lock().await.expect("it is free");
    for wait in [1, 30, 300].map(Duration::from_millis) {
        assert!(wait_out(&waiting, &name, wait).await.expect("the server answers").is_none());
    }
    // In the queue of the holder's own process, too.
    let other = holder.mutex(&name);
    let (lag, started) = (Lag::watch(), monotonic());
    let none = other.try_lock().wait(Duration::from_millis(200)).await.expect("nobody needs the server");
    assert_ended(lag, Duration::from_millis(200), started);
    assert!(none.is_none());
}

#[tokio::test]
async fn a_wait_of_zero_is_one_try() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let none_yet = |client: &Client| client.lock(&name).try_lock().wait(Duration::ZERO);
    let guard = none_yet(&one).await.expect("the server answers").expect("it is free");
    assert!(none_yet(&other).await.expect("the server answers").is_none());
    guard.unlock().await.expect("it is held");
    assert!(none_yet(&other).await.expect("the server answers").is_some());
}

#[tokio::test]
async fn a_wait_ends_at_its_bound_when_the_server_is_slow() {
    let (server, name) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    let _guard = holder.lock(&name).lock().await.expect("it is free");
    let slow = proxy.rule(any(), Action::DelayReply(Duration::from_millis(40)));
    // A machine that stands still for as long as an answer takes says nothing of it.
    let answer = loop {
        let lag = Lag::watch();
        let answer = wait_out(&waiting, &name, Duration::from_millis(400)).await;
        if answer.is_ok() || lag.added_to(Duration::ZERO) < Duration::from_millis(40) {
            break answer;
        }
    };
    assert!(answer.expect("it was answered").is_none());
    slow.remove();
    proxy.rule(any(), Action::DelayReply(Duration::from_millis(1500)));
    let wait = Duration::from_millis(300);
    assert_unreachable(wait_out(&waiting, &name, wait).await);
    assert_unreachable(wait_out(&waiting, &unique_name(), wait).await);
}

/// The first answers are missing when the short way would have brought them, and what comes late is known to have come.
#[tokio::test]
async fn a_free_lock_is_taken_by_a_short_wait_soon_after_the_way_became_longer() {
    let proxy = Proxy::to(Server::shared());
    let waiting = connected(Client::builder().url(proxy.url())).await;
    for _ in 0..20 {
        waiting.lock(unique_name()).lock().await.expect("it is free").unlock().await.expect("it is held");
    }
    proxy.rule(any(), Action::DelayReply(Duration::from_millis(200)));
    let mut answers = Vec::new();
    while answers.len() < 8 {
        let lag = Lag::watch();
        let answer = waiting.mutex(unique_name()).try_lock().wait(Duration::from_millis(1)).await;
        let answer = answer.map(|guard| drop(guard.expect("it is free")));
        // A way of 200 ms is far from 300 ms; what a machine that stood still for longer answers says nothing of it.
        if answer.is_ok() || lag.added_to(Duration::ZERO) < Duration::from_millis(100) {
            answers.push(answer);
        }
    }
    let in_vain = answers.iter().filter(|answer| answer.is_err()).count();
    assert!(in_vain <= 3 && answers[in_vain..].iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn a_wait_ends_at_its_bound_when_nothing_comes_through() {
    let server = Server::shared();
    let proxy = Proxy::tcp_to(server);
    let wait = Duration::from_millis(300);
    for (command_timeout, silent) in [(3000, true), (100, true), (3000, false)] {
        proxy.door(Door::Open);
        let builder = Client::builder().url(proxy.url()).command_timeout(Duration::from_millis(command_timeout));
        let waiting = connected(builder).await;
        proxy.door(if silent { Door::Silent } else { Door::Refusing });
        if silent {
            proxy.silence_all()
        } else {
            proxy.cut_all()
        }
        assert_unreachable(wait_out(&waiting, &unique_name(), wait).await);
    }
}

#[tokio::test]
async fn a_wait_ends_at_its_bound_when_the_server_is_frozen_or_gone() {
    for end in [Server::freeze, Server::kill] {
        let server = Server::builder().tcp().start();
        let waiting = client(server.tcp_url()).await;
        let name = unique_name();
        end(&server);
        assert_unreachable(wait_out(&waiting, &name, Duration::from_millis(300)).await);
        // One in the queue behind a contender that gets no answers has none either.
        let mut first = waiting.lock(&name).lock();
        assert!(poll_once(&mut first).await.is_pending());
        assert!(waiting.mutex(&name).try_lock().await.expect("nothing is sent").is_none());
        assert_unreachable(waiting.mutex(&name).try_lock().wait(Duration::from_millis(300)).await);
    }
}

#[tokio::test]
async fn the_last_answer_decides_and_not_what_became_of_the_server_later() {
    let (server, name) = (Server::own(), unique_name());
    let proxy = Proxy::to(&server);
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    let _guard = holder.lock(&name).lock().await.expect("it is free");
    // Nothing that it asked for is on its way.
    let freezes = async {
        asleep(&proxy, "acquire").await;
        server.freeze();
    };
    let (outcome, ()) = tokio::join!(wait_out(&waiting, &name, Duration::from_millis(2500)), freezes);
    server.thaw();
    assert!(outcome.expect("busy was the last that was heard").is_none());
}
