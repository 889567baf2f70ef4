//! Token locks by their token alone, where something comes late, is refused or is gone: what is claimed then, what the next release is
//! told, and who goes on waiting.

use std::time::Duration;

#[cfg(feature = "embedded")]
use relatch::Client;
use relatch::{Error, LostCause, RefusedKind, Released, Token, TokenLock};
use tokio::time::timeout;

use crate::{
    harness::{
        Server,
        proxy::{Action, Proxy, matching::script},
        traces::Traces,
        unique_name,
    },
    kept::{client, poll_once, teach},
};

const MS: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(10);
const LASTS: Duration = Duration::from_secs(60);

/// Somebody who is no client of ours has the lock from now on.
fn takes(server: &Server, name: &str) {
    redis::cmd("SET").arg(name).arg("theirs").arg("PX").arg(60_000).exec(&mut server.connection()).expect("it answers");
}

fn token(text: &str) -> Token {
    text.parse().expect("any text is a token")
}

async fn given_away(lock: &TokenLock) -> Token {
    let guard = lock.try_lock().await.expect("the server answers").expect("it is free");
    guard.into_token().expect("it is held")
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(outcome: Result<T, Error>, why: LostCause) {
    assert!(matches!(&outcome, Err(Error::Lost { cause, .. }) if *cause == why), "{outcome:?}");
}

#[tokio::test]
async fn whoever_stood_behind_a_lock_that_was_given_away_goes_on_waiting_for_it() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    let guard = lock.lock().await.expect("it is free");
    let mut next = lock.lock();
    assert!(poll_once(&mut next).await.is_pending());
    let held = lock.resume(guard.into_token().expect("it is held"));
    assert!(poll_once(&mut next).await.is_pending());
    assert_eq!(held.unlock().await.expect("it is the token's"), Released::Freed);
    let next = timeout(SOON, next).await.expect("it is free").expect("the server answers");
    next.unlock().await.expect("it is held");
}

#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn a_process_that_gives_a_lock_away_and_takes_it_back_has_no_longer_turn_for_that() {
    let store = relatch::EmbeddedStore::new();
    let slice = Duration::from_secs(10);
    let process =
        async || Client::builder().embedded(&store).handover_slice(slice).connect().await.expect("it is there");
    let (one, other) = (process().await, process().await);
    let (lock, elsewhere) = (one.token_lock("report"), other.token_lock("report"));
    let guard = lock.lock().await.expect("it is free");
    tokio::time::sleep(slice * 6 / 10).await;
    let held = lock.resume(guard.into_token().expect("it is held"));
    assert_eq!(held.unlock().await.expect("it is the token's"), Released::Freed);
    let guard = lock.try_lock().await.expect("it answers").expect("it is free");
    let theirs = tokio::spawn(elsewhere.lock());
    let mut ours = lock.lock();
    assert!(poll_once(&mut ours).await.is_pending());
    tokio::time::sleep(slice * 6 / 10).await;
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let ours = tokio::spawn(ours);
    let theirs = theirs.await.expect("no panic").expect("it answers");
    assert!(!ours.is_finished(), "the turn was over, and the other process had waited");
    theirs.unlock().await.expect("it is held");
    ours.await.expect("no panic").expect("it answers").unlock().await.expect("it is held");
}

#[tokio::test]
async fn an_extension_that_is_answered_after_its_lease_is_lost_and_claims_nothing() {
    let server = Server::shared();
    teach(server);
    let proxy = Proxy::to(server);
    let lock = client(proxy.url()).await.token_lock(unique_name());
    let held = lock.resume(given_away(&lock).await);
    held.extend(LASTS).await.expect("it is the token's");
    assert!(held.expires_in().is_some_and(|left| LASTS / 2 < left));
    proxy.rule(script("renew").first(1), Action::DelayReply(MS * 300));
    assert_lost(held.extend(MS * 100).await, LostCause::Expired);
    assert_eq!(held.unlock().await.expect("it is the token's"), Released::Freed);
}

#[tokio::test]
async fn what_an_extension_finds_gone_is_claimed_no_more() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    let held = lock.resume(given_away(&lock).await);
    held.extend(LASTS).await.expect("it is the token's");
    assert!(held.expires_in().is_some());
    takes(server, &name);
    assert_lost(held.extend(LASTS).await, LostCause::Gone);
    assert_eq!(held.expires_in(), None);
}

#[tokio::test]
async fn a_release_that_was_refused_has_freed_nothing_when_somebody_else_has_the_lock() {
    let (server, name) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let lock = client(proxy.url()).await.token_lock(&name);
    takes(server, &name);
    let stranger = lock.resume(token("ours"));
    let denied = "-NOPERM this user has no permissions to run the 'evalsha' command\r\n";
    proxy.rule(script("release").first(1), Action::Answer(denied));
    let refused = stranger.unlock().await;
    assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::Permission, .. })), "{refused:?}");
    assert_lost(stranger.unlock().await, LostCause::Gone);
    // Nor has one that was told so, however often it asks.
    assert_lost(stranger.unlock().await, LostCause::Gone);
}

#[tokio::test]
async fn where_nobody_is_told_nothing_is_said_of_a_server_that_would_not_tell() {
    let server = Server::shared();
    let lock = client(server.url()).await.token_lock(unique_name()).silent();
    let traces = Traces::here();
    lock.lock().await.expect("it is free").unlock().await.expect("it is held");
    let said = "the server refuses to publish releases: whoever waits for a lock elsewhere finds it free only by looking again";
    assert_eq!(traces.events(said).len(), 0);
}
