//! The token lock: what its key holds, who may extend and release it, and how it ends. What it shares with the plain lock is in
//! `conformance.rs`, what its scripts do in `scripts.rs`, and what other libraries make of it in `interop/`.

use std::time::Duration;

use relatch::{Client, Error, LockGuard, LostCause, Owner, RefusedKind, Released, Token, TokenLock};

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{
            Action, Event, Proxy,
            matching::{command, script},
        },
        unique_name,
    },
    kept::{client, connected, poll_once, teach},
};

const MS: Duration = Duration::from_millis(1);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// For holds that are to outlive the test.
const LASTS: Duration = Duration::from_secs(60);

fn run<T: redis::FromRedisValue>(server: &Server, words: &[&str]) -> T {
    redis::cmd(words[0]).arg(&words[1..]).query(&mut server.connection()).expect("the server answers")
}

/// Whose token the key has.
fn holder(server: &Server, name: &str) -> Option<String> {
    run(server, &["GET", name])
}

fn ttl_ms(server: &Server, name: &str) -> i64 {
    run(server, &["PTTL", name])
}

/// Somebody who is no client of ours takes the lock.
fn takes(server: &Server, name: &str, token: &str, ttl: Duration) {
    let taken: Option<String> = run(server, &["SET", name, token, "NX", "PX", &ttl.as_millis().to_string()]);
    assert!(taken.is_some(), "it is free");
}

async fn held(lock: &TokenLock) -> LockGuard {
    lock.try_lock().await.expect("the server answers").expect("it is free")
}

fn is_lost<T: std::fmt::Debug>(outcome: Result<T, Error>, why: LostCause) {
    assert!(matches!(&outcome, Err(Error::Lost { cause, .. }) if *cause == why), "{outcome:?}");
}

#[tokio::test]
async fn a_free_lock_is_taken_by_one_plain_command_and_released_by_one_script() {
    let server = Server::own();
    teach(&server);
    let lock = client(server.url()).await.token_lock("report");
    held(&lock).await.unlock().await.expect("it is held");
    server.reset_counts();
    let guard = held(&lock).await;
    let token = guard.token().expect("it has one");
    assert_eq!((holder(&server, "report").as_deref(), token.as_ref().len()), (Some(token.as_ref()), 48));
    assert!((29_000..=30_000).contains(&ttl_ms(&server, "report")));
    assert_eq!((guard.fence(), guard.hold_count()), (None, 1));
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    assert_eq!(holder(&server, "report"), None);
    assert_eq!(["set", "evalsha", "eval"].map(|command| server.count(command)), [1, 1, 0]);
}
