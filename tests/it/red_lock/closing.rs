//! The end of a RedLock: what is sent, who is told, and that nothing is left. Its clients are their owner's.

use std::time::Duration;

use relatch::{Client, Error, LostCause, RedLock, Released, Said};
use tokio::{runtime::Handle, time::sleep};

use super::site::{SOON, Site};
use crate::{
    harness::{eventually_async, unique_name},
    kept::{channel, connected},
};

#[tokio::test]
async fn a_shutdown_lets_holders_finish_and_tells_waiters_and_the_clients_stay() {
    let site = Site::of(3);
    let clients = site.clients().await;
    let builder = RedLock::builder(clients.clone()).restart_quarantine(Duration::ZERO);
    let (red, name) = (builder.build().expect("they can be masters"), unique_name());
    let guard = red.lock(&name).lock().await.expect("a free lock");
    let waiting = tokio::spawn(red.mutex(&name).lock());
    tokio::task::yield_now().await;
    let worker = tokio::spawn(async move {
        guard.cancellation().cancelled().await;
        sleep(Duration::from_millis(100)).await;
        guard.is_held()
    });
    let shutdown = red.shutdown(SOON).await;
    assert!(shutdown.is_clean() && shutdown.released == 1, "{shutdown:?}");
    assert!(worker.await.expect("no panic"), "it held it to its end");
    assert!(matches!(waiting.await.expect("no panic"), Err(Error::Closed)));
    assert!(red.is_closed() && matches!(red.lock(&name).try_lock().await, Err(Error::Closed)));
    site.come_to(&name, &[0, 0, 0]).await;
    for client in &clients {
        assert!(!client.is_closed());
        client.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn a_close_sends_what_was_released_and_tells_all_others_and_the_clients_stay() {
    let site = Site::of(3);
    let clients = site.clients().await;
    let builder = RedLock::builder(clients.clone()).restart_quarantine(Duration::ZERO);
    let (red, [name, dropped]) = (builder.build().expect("they can be masters"), [unique_name(), unique_name()]);
    let guard = red.lock(&name).lock().await.expect("a free lock");
    let waiting = tokio::spawn(red.mutex(&name).lock());
    tokio::task::yield_now().await;
    drop(red.mutex(&dropped).lock().await.expect("a free lock"));
    red.close().await;
    let left = site.counts(&dropped).into_iter().filter(|count| *count > 0).count();
    assert!(left <= 1, "a majority was told before it came back");
    site.come_to(&dropped, &[0, 0, 0]).await;
    assert!(matches!(waiting.await.expect("no panic"), Err(Error::Closed)));
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Closed, .. }));
    assert!(matches!(red.lock(&name).lock().await, Err(Error::Closed)));
    // Its work may still run.
    assert_eq!(site.counts(&name), [1, 1, 1]);
    let listens = |at: usize| site.servers()[at].listeners(&channel(&name)) > 0;
    eventually_async(SOON, async || !(0..3).any(listens)).await;
    for (client, server) in clients.iter().zip(site.servers()) {
        assert!(!client.is_closed());
        client.lock(&dropped).lock().await.expect("a free lock").unlock().await.expect("it is held");
        server.delete(&name);
    }
}

#[tokio::test]
async fn of_one_that_was_dropped_with_its_clients_nothing_is_left() {
    let (site, names) = (Site::of(3), [unique_name(), unique_name(), unique_name()]);
    let before = tasks();
    {
        let red = site.builder().await.watchdog_timeout(Duration::from_secs(1)).build().expect("they can be masters");
        let kept = red.lock(&names[0]).lock().await.expect("a free lock");
        drop(red.mutex(&names[1]).lock().await.expect("a free lock"));
        red.token_lock(&names[2]).lock().await.expect("a free lock").unlock().await.expect("it is held");
        let waiting = tokio::spawn(red.mutex(&names[0]).lock());
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.is_err_and(|error| error.is_cancelled()));
        drop(kept);
    }
    eventually_async(SOON, async || tasks() == before).await;
    for (proxy, server) in site.proxies.iter().zip(site.servers()) {
        eventually_async(SOON, async || proxy.open_connections() == 0).await;
        for name in &names {
            assert_eq!((server.listeners(&channel(name)), server.keys().contains(name)), (0, false), "{name}");
        }
    }
}

#[tokio::test]
async fn of_one_with_a_silent_master_nothing_is_left_once_what_it_was_asked_for_is_over() {
    const LEASE: Duration = Duration::from_millis(600);
    const COMMAND: Duration = Duration::from_millis(300);
    let (site, name) = (Site::of(3), unique_name());
    let before = tasks();
    {
        let mut clients = Vec::new();
        for proxy in &site.proxies {
            clients.push(connected(Client::builder().url(proxy.url()).command_timeout(COMMAND)).await);
        }
        let builder = RedLock::builder(clients).watchdog_timeout(LEASE).restart_quarantine(Duration::ZERO);
        let red = builder.build().expect("they can be masters");
        red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
        site.come_to(&name, &[0, 0, 0]).await;
        site.falls_silent(2);
        for _ in 0..5 {
            red.lock(&name).lock().await.expect("two are enough").unlock().await.expect("it is held");
        }
    }
    eventually_async(SOON, async || tasks() == before).await;
    assert_eq!(site.counts(&name), [0, 0, 0]);
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn it_keeps_the_links_of_clients_that_their_owner_dropped() {
    let (site, name) = (Site::of(3), unique_name());
    let red = site.red().await;
    // The clients that it was made of are gone by now.
    let links: Vec<_> = site.proxies.iter().map(|proxy| proxy.open_connections()).collect();
    assert!(links.iter().all(|links| *links > 0), "{links:?}");
    for _ in 0..3 {
        let guard = red.lock(&name).lock().await.expect("a free lock");
        sleep(Duration::from_millis(20)).await;
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    }
    site.come_to(&name, &[0, 0, 0]).await;
    // A guard does, too.
    let guard = red.lock(&name).lock().await.expect("a free lock");
    drop(red);
    sleep(Duration::from_millis(50)).await;
    assert!(guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    site.come_to(&name, &[0, 0, 0]).await;
}

#[tokio::test]
async fn a_client_that_was_closed_is_a_master_that_cannot_be_reached() {
    let site = Site::of(3);
    let clients = site.clients().await;
    let builder = RedLock::builder(clients.clone()).restart_quarantine(Duration::ZERO);
    let (red, name) = (builder.build().expect("they can be masters"), unique_name());
    clients[2].close().await;
    let guard = red.lock(&name).lock().await.expect("two are enough");
    assert_eq!(site.counts(&name), [1, 1, 0]);
    assert_eq!(guard.unlock().await.expect("two are enough"), Released::Freed);
    clients[1].close().await;
    let error = red.lock(&name).try_lock().await.expect_err("one is no majority");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let votes = error.votes().expect("each has its word");
    // It may be decided before the first one has answered, and then that is what is said.
    assert!(matches!(votes[0].said, Said::Granted | Said::NotWaitedFor), "{votes:?}");
    for vote in &votes[1..] {
        assert!(matches!(&vote.said, Said::Unreachable(why) if why.contains("closed")), "{votes:?}");
    }
    site.come_to(&name, &[0, 0, 0]).await;
    assert!(!red.is_closed());
}
