//! Subscriptions that meet faults, and what is left of them: nothing. How soon a waiter wakes is in `waiting.rs`.

use std::time::Duration;

use futures_util::future::join_all;
use relatch::{Client, LockGuard};
use tokio::task::{JoinHandle, JoinSet, yield_now};

use crate::{
    harness::{
        Server,
        asleep::asleep,
        eventually_async,
        proxy::{
            Action, Proxy,
            matching::{command, script},
        },
        unique_name,
    },
    kept::{channel, client, connected, kept},
};

/// What must come comes within this; a lease is longer.
const SOON: Duration = Duration::from_secs(10);
const COMMAND: Duration = Duration::from_millis(300);

fn enter(client: &Client, name: &str) -> JoinHandle<LockGuard> {
    let lock = client.lock(name);
    tokio::spawn(async move { lock.lock().await.expect("the lock is ours in the end") })
}

async fn entered(waiter: JoinHandle<LockGuard>) -> LockGuard {
    tokio::time::timeout(SOON, waiter).await.expect("the waiter enters").expect("no panic")
}

async fn listeners_are(server: &Server, name: &str, wanted: u64) {
    eventually_async(SOON, async || server.listeners(&channel(name)) == wanted).await;
}

/// Every channel of the server that somebody listens to.
fn channels(server: &Server) -> Vec<String> {
    redis::cmd("PUBSUB").arg("CHANNELS").query(&mut server.connection()).expect("PUBSUB answers")
}

#[tokio::test]
async fn a_subscription_that_breaks_while_it_is_made_keeps_neither_its_waiter_nor_the_next() {
    let server = Server::shared();
    for fault in [
        Action::CutBefore,
        Action::CutMidRequest,
        Action::CutAfter,
        Action::CutMidReply,
        Action::SwallowRequest,
        Action::SwallowReply,
        Action::Silence,
        Action::Answer("-LOADING not yet\r\n"),
    ] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let holder = client(server.url()).await;
        let waiting = connected(Client::builder().url(proxy.url()).command_timeout(COMMAND)).await;
        let broken = proxy.rule(command("SUBSCRIBE").first(1), fault);
        // The second waiter finds what the first one's fault left.
        for (round, name) in [name.clone(), unique_name(), name].into_iter().enumerate() {
            let guard = holder.lock(&name).lock().await.expect("it is free");
            let waiter = enter(&waiting, &name);
            // The first is asked for twice. Somebody else may listen too: the holder, while it leaves others their turn.
            broken.nth(round + 2).await;
            listeners_are(server, &name, 1).await;
            guard.unlock().await.expect("it is held");
            entered(waiter).await.unlock().await.expect("it is held");
            listeners_are(server, &name, 0).await;
        }
    }
}

#[tokio::test]
async fn a_waiter_enters_after_its_server_came_back_empty_and_is_woken_by_the_next_release() {
    let (server, name) = (Server::own(), unique_name());
    let (holder, waiting) = (client(server.url()).await, client(server.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    let waiter = enter(&waiting, &name);
    listeners_are(&server, &name, 1).await;
    server.restart_empty();
    // Its lease and the pauses of a poll play no part: the key is gone, and the new subscription says so.
    let first = entered(waiter).await;
    assert!(kept(&server, &name).is_some_and(|kept| kept.is_of(&waiting)));
    assert!(guard.unlock().await.is_err());
    let waiter = enter(&holder, &name);
    listeners_are(&server, &name, 1).await;
    first.unlock().await.expect("it is held");
    entered(waiter).await.unlock().await.expect("it is held");
}

#[tokio::test]
async fn of_a_thousand_waiters_that_are_cancelled_none_stands_in_the_way_of_the_one_that_stays() {
    const WAITERS: usize = 1_000;
    let (server, name) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let (holder, waiting) = (client(server.url()).await, client(proxy.url()).await);
    let guard = holder.lock(&name).lock().await.expect("it is free");
    let mutex = waiting.mutex(&name);
    let mut cancelled: JoinSet<_> = (0..WAITERS).map(|_| mutex.lock().into_future()).collect();
    yield_now().await;
    let stays = tokio::spawn(mutex.lock());
    yield_now().await;
    listeners_are(server, &name, 1).await;
    cancelled.abort_all();
    while let Some(ended) = cancelled.join_next().await {
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
    // Whoever tries now is the one that stays; the tries before it were of those that went. It sleeps once it has looked.
    asleep(&proxy, "acquire").await;
    listeners_are(server, &name, 1).await;
    proxy.clear_log();
    guard.unlock().await.expect("it is held");
    let next = tokio::time::timeout(SOON, stays).await.expect("it enters").expect("no panic").expect("it is free");
    assert_eq!(proxy.count(&script("acquire")), 1, "the release woke it once");
    // Nobody else is in the queue: it is not handed over to anybody.
    next.unlock().await.expect("it is held");
    assert_eq!((kept(server, &name), proxy.count(&script("hand_over"))), (None, 0));
    listeners_are(server, &name, 0).await;
    assert!(mutex.try_lock().await.expect("the server answers").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_thousands_of_waits_that_ended_in_every_way_no_channel_is_left() {
    const NAMES: usize = 50;
    const ROUNDS: usize = 20;
    let server = Server::own();
    let (holder, waiting) = (client(server.url()).await, client(server.url()).await);
    for round in 0..ROUNDS {
        let names: Vec<_> = (0..NAMES).map(|number| format!("job {round} {number}")).collect();
        let holding = names.iter().map(|name| holder.lock(name).lock().into_future());
        let guards: Vec<_> = join_all(holding).await.into_iter().map(|guard| guard.expect("it is free")).collect();
        let mut waits = JoinSet::new();
        let mut dropped = JoinSet::new();
        for name in &names {
            let mutex = waiting.mutex(name);
            let entering = mutex.lock();
            waits.spawn(async move { drop(entering.await.expect("the lock is ours in the end")) });
            let timed = mutex.try_lock().wait(Duration::from_millis(20));
            // On a busy machine not even an answer comes so soon.
            waits.spawn(async move { drop(timed.await) });
            dropped.spawn(mutex.lock().into_future());
        }
        if round % 2 == 0 {
            // Those that stay are told by their subscriptions.
            eventually_async(SOON, async || channels(&server).len() == NAMES).await;
        }
        drop(dropped);
        for guard in guards {
            drop(guard);
        }
        while let Some(wait) = waits.join_next().await {
            wait.expect("no panic");
        }
    }
    eventually_async(SOON, async || channels(&server).is_empty() && server.keys().is_empty()).await;
}
