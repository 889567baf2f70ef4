//! The rights on the server that `SECURITY.md` asks for: they are enough for all that a lock does, and none is too many.

use std::time::Duration;

use relatch::Client;
use tokio::time::timeout;

use crate::{
    harness::{Server, eventually_async, traces::Traces, unique_name},
    kept::{channel, connected},
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_millis(600);
const PREFIX: &str = "app:";

/// The rights of the line of an ACL file that the page gives for this prefix.
fn rights() -> Vec<&'static str> {
    let page = include_str!("../../SECURITY.md");
    let line = page.lines().find(|line| line.starts_with("user ") && line.contains("~app:*")).expect("the page has it");
    // After the user's name, `on` and the password.
    line.split(' ').skip(4).collect()
}

#[test]
fn the_guide_gives_the_same_rights_as_the_security_page() {
    let line = format!("//! user locks on >a-long-random-secret {}", rights().join(" "));
    assert!(include_str!("../../src/guide/operating.rs").lines().any(|guide| guide == line), "it has another line");
}

fn server() -> (Server, String) {
    let server = Server::builder().line(format!("user ann on >s3cret {}", rights().join(" "))).start();
    let url = format!("redis+unix://{}?user=ann&pass=s3cret", server.socket().display());
    (server, url)
}

async fn client(url: &str) -> Client {
    let builder = Client::builder().url(url).name_prefix(PREFIX).watchdog_timeout(WATCHDOG).command_timeout(MS * 200);
    connected(builder.handover_slice(LOOK)).await
}

/// What the server's log says was denied, apart from the name that the driver gives its connections.
fn denied(server: &Server) -> Vec<String> {
    let log: Vec<redis::Value> = redis::cmd("ACL").arg("LOG").query(&mut server.connection()).expect("ACL LOG answers");
    log.iter().map(|entry| format!("{entry:?}")).filter(|entry| !entry.contains("setinfo")).collect()
}

#[tokio::test]
async fn the_rights_that_the_security_page_asks_for_are_enough() {
    let traces = Traces::here();
    let (server, url) = server();
    let (one, other) = (client(&url).await, client(&url).await);
    for name in ["job", "{job}", "a b*", "x{y"] {
        let lock = one.lock(name);
        let outer = lock.lock().await.expect("a free lock");
        lock.lock().await.expect("ours").unlock().await.expect("a nested hold");
        assert!(timeout(WATCHDOG * 2, outer.lost()).await.is_err(), "it was not renewed");
        outer.extend(WATCHDOG * 2).await.expect("a live hold");
        let successor = tokio::spawn(one.mutex(name).lock().lease(LOOK));
        let waiting = tokio::spawn(other.mutex(name).lock());
        let full = format!("{PREFIX}{name}");
        let channel =
            if name.contains('{') { channel(&full).replace(&format!("{{{full}}}"), &full) } else { channel(&full) };
        eventually_async(LOOK, async || server.listeners(&channel) == 1).await;
        outer.unlock().await.expect("it is handed over");
        successor.await.expect("no panic").expect("its turn").unlock().await.expect("a live hold");
        let guard = waiting.await.expect("no panic").expect("it is free");
        assert!(lock.inspect().await.expect("the server answers").is_some());
        assert!(lock.force_unlock().await.expect("the server answers"));
        drop(guard);
    }
    eventually_async(LOOK, async || server.keys().is_empty()).await;
    let loud: Vec<_> =
        traces.all().into_iter().filter(|said| said.is_ours() && said.what.contains("polling")).collect();
    assert!(loud.is_empty(), "{loud:?}");
    assert_eq!(denied(&server), Vec::<String>::new());
}

/// All that a lock does, whatever comes of it, with a waiter that stays until the server's log names something.
async fn live(server: &Server, url: &str) {
    let builder =
        || Client::builder().url(url).name_prefix(PREFIX).command_timeout(MS * 100).watchdog_timeout(MS * 300);
    let (Ok(one), Ok(other)) = (builder().handover_slice(LOOK).connect().await, builder().connect().await) else {
        return;
    };
    let (name, braced) = (unique_name(), format!("{{{}}}", unique_name()));
    for name in [name, braced] {
        let (lock, mutex) = (one.lock(&name), one.mutex(&name));
        let Ok(guard) = lock.lock().lease(LOOK).await else { return };
        if let Ok(nested) = lock.lock().await {
            let _ = nested.unlock().await;
        }
        let _ = guard.extend(LOOK * 2).await;
        let successor = tokio::spawn(mutex.lock().lease(LOOK));
        let waiting = tokio::spawn(other.mutex(&name).try_lock().wait(MS * 400));
        // Long enough for a waiter's link to be asked whether it lives.
        let _ = timeout(MS * 300, async {
            while denied(server).is_empty() {
                tokio::time::sleep(MS * 10).await
            }
        })
        .await;
        let _ = guard.unlock().await;
        if let Ok(Ok(guard)) = successor.await {
            let _ = guard.unlock().await;
        }
        // Kept: a lock that is free has nobody to be looked at.
        let _held = waiting.await;
        let _ = lock.inspect().await;
        let _ = lock.force_unlock().await;
    }
}

#[tokio::test]
async fn each_right_that_the_security_page_asks_for_is_needed() {
    let (server, url) = server();
    let acl = |words: &[&str]| {
        let _: redis::Value = redis::cmd("ACL").arg(words).query(&mut server.connection()).expect("ACL answers");
    };
    for right in rights() {
        if !right.starts_with('+') && !right.starts_with('&') {
            continue;
        }
        let mut less = vec!["SETUSER", "ann", "reset", "on", ">s3cret"];
        less.extend(rights().into_iter().filter(|kept| *kept != right));
        acl(&less);
        acl(&["LOG", "RESET"]);
        server.flush_scripts();
        live(&server, &url).await;
        eventually_async(LOOK, async || !denied(&server).is_empty()).await;
    }
}
