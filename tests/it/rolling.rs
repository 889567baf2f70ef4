//! Two versions side by side, as in a fleet that is upgraded one process after the other: the scripts as they were when all their
//! answers were arrays, sent by hand, and a client of today. What both share is the key and the channel.

use std::time::Duration;

use relatch::{LockGuard, Released};

use crate::{
    harness::{Server, eventually_async, unique_name},
    kept::{channel, client, held, kept},
};

/// What must come comes within this, and no lease here ends so soon.
const SOON: Duration = Duration::from_secs(10);
const LEASE: &str = "60000";

/// The script as it was, where it was another, and these arguments of today as it took them.
pub(crate) fn before<'a>(verb: &str, args: &[&'a str]) -> Option<(&'static str, Vec<&'a str>)> {
    let source = match verb {
        "reentrant/acquire" => include_str!("rolling/acquire.lua"),
        "reentrant/release" => include_str!("rolling/release.lua"),
        "reentrant/renew" => include_str!("rolling/renew.lua"),
        "reentrant/hand_over" => include_str!("rolling/hand_over.lua"),
        "reentrant/force_release" => include_str!("rolling/force_release.lua"),
        _ => return None,
    };
    let args = match (verb, args) {
        ("reentrant/acquire", [field, lease_ms]) => vec![*field, *lease_ms, "1"],
        ("reentrant/release", [field, publish, channel]) => vec![*field, "0", *publish, *channel],
        ("reentrant/release", [field, publish, channel, left]) => vec![*field, *left, *publish, *channel],
        _ => args.to_vec(),
    };
    Some((source, args))
}

/// A process that was not upgraded yet.
struct Older<'a> {
    server: &'a Server,
    name: String,
    field: &'static str,
}

impl Older<'_> {
    fn run(&self, verb: &str, args: &[&str]) -> Vec<i64> {
        let (source, args) = before(verb, args).expect("it was another");
        let mut eval = redis::cmd("EVAL");
        eval.arg(source).arg(1).arg(&self.name).arg(args);
        eval.query(&mut self.server.connection()).expect("the server runs it")
    }

    fn try_lock(&self) -> Vec<i64> {
        self.run("reentrant/acquire", &[self.field, LEASE])
    }

    fn unlock(&self) -> Vec<i64> {
        self.run("reentrant/release", &[self.field, "PUBLISH", &channel(&self.name)])
    }
}

async fn entered(waiter: tokio::task::JoinHandle<relatch::Result<LockGuard>>) -> LockGuard {
    let entered = tokio::time::timeout(SOON, waiter).await.expect("it is told");
    entered.expect("no panic").expect("the server answers")
}

#[tokio::test]
async fn a_process_of_the_version_before_and_one_of_today_exclude_and_wake_each_other() {
    let (server, name) = (Server::shared(), unique_name());
    let older = Older { server, name: name.clone(), field: "7a1a4a2c-0000-4000-8000-000000000001:1" };
    let today = client(server.url()).await;
    let lock = today.lock(&name);

    assert_eq!(older.try_lock(), [1, 0, 1, 0]);
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    let waiter = tokio::spawn(lock.lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    assert_eq!(older.run("reentrant/renew", &["90000", older.field]), [1]);
    assert_eq!(older.unlock(), [1, 0, 1]);
    let guard = entered(waiter).await;

    let &[busy, ttl_ms, ..] = &older.try_lock()[..] else { panic!("the answer has four parts") };
    assert!(busy == 0 && (1..=30_000).contains(&ttl_ms), "{busy} {ttl_ms}");
    assert_eq!(older.unlock(), [-1, 0, -1], "the hold is not its own");
    let mut listens = server.connection();
    let mut heard = listens.as_pubsub();
    heard.subscribe(channel(&name)).expect("the server lets it listen");
    heard.set_read_timeout(Some(SOON)).expect("a socket has timeouts");
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let message: String = heard.get_message().expect("it is told").get_payload().expect("a text");
    assert_eq!(message, "0");
    assert_eq!(older.try_lock(), [1, 0, 1, 0]);
    assert_eq!(held(server, &name).field, older.field);
    assert!(lock.force_unlock().await.expect("the server answers"), "there was something to free");
    assert_eq!(older.unlock(), [-1, 0, -1]);
    assert_eq!(kept(server, &name), None);
}
