//! Futures that were polled once, and are neither polled again nor dropped: they wait for themselves alone.

use std::{pin::pin, time::Duration};

use relatch::{Client, Released};
use tokio::time::{sleep, timeout};

use crate::{
    harness::{
        Server,
        clock::monotonic,
        eventually_async,
        lag::Lag,
        proxy::{Door, Event, Proxy},
        unique_name,
    },
    kept::{connected, held, kept, poll_once},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(5);
const COMMAND: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_secs(3);
/// Far longer than what is waited for here: no lease that runs out helps.
const LEASE: Duration = Duration::from_secs(60);
const PARKED: usize = 200;

#[tokio::test]
async fn an_acquisition_that_is_parked_while_there_is_no_link_holds_up_nobody_when_it_is_back() {
    let server = Server::own();
    let proxy = Proxy::to(&server);
    let options = Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG).command_timeout(COMMAND);
    let client = connected(options).await;
    let guard = client.mutex("held").lock().await.expect("it is free");
    proxy.door(Door::Refusing);
    proxy.cut_all();
    // Once it was turned away the client knows that it has no link.
    eventually_async(SOON, async || proxy.log().iter().any(|it| matches!(it.event, Event::Refused))).await;
    let mut parked = client.mutex("parked").lock();
    assert!(poll_once(&mut parked).await.is_pending());
    proxy.door(Door::Open);
    let entering = timeout(SOON, client.mutex("other").lock()).await.expect("it is not held up");
    entering.expect("the link is back").unlock().await.expect("it is held");
    sleep(WATCHDOG).await;
    assert!(guard.is_held() && held(&server, "held").is_of(&client));
    guard.unlock().await.expect("it is held");
    drop(parked);
}

#[tokio::test]
async fn two_hundred_parked_acquisitions_leave_room_for_one_more_try() {
    let server = Server::own();
    let client = connected(Client::builder().url(server.url()).command_timeout(COMMAND)).await;
    let mut parked: Vec<_> = (0..PARKED).map(|number| client.mutex(format!("parked-{number}")).lock()).collect();
    for acquisition in &mut parked {
        assert!(poll_once(acquisition).await.is_pending());
    }
    let (lag, asked) = (Lag::watch(), monotonic());
    let answer = timeout(SOON, client.mutex("free").try_lock()).await.expect("it is answered");
    let took = monotonic() - asked;
    assert!(took <= lag.added_to(COMMAND), "answered after {took:?}");
    assert!(answer.expect("the server answers").is_some());
    drop(parked);
    eventually_async(SOON, async || server.keys().is_empty()).await;
}

/// A release that is begun and left, with a waiter behind it and one more that comes later.
async fn both_enter_behind_a_parked_unlock(slice: Duration) {
    let (server, name) = (Server::shared(), unique_name());
    let client = connected(Client::builder().url(server.url()).handover_slice(slice)).await;
    let mutex = client.mutex(&name);
    let guard = mutex.lock().lease(LEASE).await.expect("it is free");
    let first = held(server, &name);
    let mut waiting = mutex.lock().lease(LEASE);
    assert!(poll_once(&mut waiting).await.is_pending());
    let waiter = tokio::spawn(waiting);
    let mut parked = pin!(guard.unlock());
    assert!(poll_once(&mut parked).await.is_pending());
    let entered =
        timeout(SOON, waiter).await.expect("the waiter is let in").expect("no panic").expect("it is its turn");
    let second = held(server, &name);
    assert!(second.is_of(&client) && second.field != first.field);
    entered.unlock().await.expect("it is held");
    let later = timeout(SOON, mutex.lock().lease(LEASE)).await.expect("it is let in").expect("it is free");
    later.unlock().await.expect("it is held");
    assert_eq!(parked.await.expect("it was released long ago"), Released::Freed);
    assert_eq!(kept(server, &name), None);
}

#[tokio::test]
async fn a_parked_unlock_hands_the_lock_over_to_the_waiter_and_lets_later_ones_in() {
    both_enter_behind_a_parked_unlock(LEASE).await;
}

#[tokio::test]
async fn a_parked_unlock_that_hands_nothing_over_lets_the_waiter_and_later_ones_in() {
    both_enter_behind_a_parked_unlock(Duration::ZERO).await;
}

/// Two tickets of a hold whose count-changing command is parked, and a third that ends.
async fn the_outer_one_ends_beside(parks: impl AsyncFn(&Client, &str)) {
    let (server, name) = (Server::shared(), unique_name());
    let client = connected(Client::builder().url(server.url()).command_timeout(COMMAND)).await;
    // A script that the server does not know yet takes one more poll.
    client.lock(&name).lock().await.expect("it is free").unlock().await.expect("it is held");
    timeout(SOON, parks(&client, &name)).await.expect("nobody is waited for who does not poll");
    eventually_async(SOON, async || kept(server, &name).is_none()).await;
}

#[tokio::test]
async fn a_parked_unlock_of_an_inner_guard_holds_up_no_other_guard() {
    the_outer_one_ends_beside(async |client, name| {
        let lock = client.lock(name);
        let outer = lock.lock().await.expect("it is free");
        let inner = lock.lock().await.expect("it nests");
        let mut parked = pin!(inner.unlock());
        assert!(poll_once(&mut parked).await.is_pending());
        assert_eq!(outer.unlock().await.expect("it is held"), Released::Freed);
        assert_eq!(parked.await.expect("it was released"), Released::StillHeld(1));
    })
    .await;
}

#[tokio::test]
async fn a_parked_nested_acquisition_holds_up_no_other_guard() {
    the_outer_one_ends_beside(async |client, name| {
        let lock = client.lock(name);
        let outer = lock.lock().await.expect("it is free");
        let mut parked = lock.lock();
        assert!(poll_once(&mut parked).await.is_pending());
        assert_eq!(outer.unlock().await.expect("it is held"), Released::StillHeld(1));
        let inner = parked.await.expect("it nests");
        assert_eq!(inner.unlock().await.expect("it is held"), Released::Freed);
    })
    .await;
}
