//! A server that forgets its scripts before every command that runs one: each heals in one more round trip, alone and in
//! batches. The conformance suite runs before such a server too.

use std::{collections::BTreeSet, time::Duration};

use relatch::{Client, Released};

use crate::harness::{
    Server, eventually_async,
    proxy::{
        Action, Event, Proxy,
        matching::{command, script},
    },
};

/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_millis(300);

/// A proxy before a server, by which it never remembers a script.
pub(crate) fn before(server: &Server) -> Proxy {
    let proxy = Proxy::to(server);
    proxy.rule(command("EVALSHA"), Action::FlushScriptsFirst);
    proxy
}

async fn connect(proxy: &Proxy) -> Client {
    let builder = Client::builder().url(proxy.url()).watchdog_timeout(WATCHDOG).handover_slice(Duration::from_secs(60));
    builder.connect().await.expect("connects")
}

/// How many requests by hash were answered by the script itself, and how many as unknown.
fn answers(proxy: &Proxy) -> (usize, usize) {
    let (mut known, mut unknown) = (0, 0);
    for entry in proxy.log() {
        if let Event::Reply { to, frame } = entry.event
            && to[0].eq_ignore_ascii_case(b"EVALSHA")
        {
            let is_unknown = frame.bytes().starts_with(b"-NOSCRIPT");
            (known, unknown) = (known + usize::from(!is_unknown), unknown + usize::from(is_unknown));
        }
    }
    (known, unknown)
}

#[tokio::test]
async fn a_lock_lives_its_whole_life_on_a_server_that_forgets_every_script() {
    let server = Server::own();
    let proxy = before(&server);
    let (client, other) = (connect(&proxy).await, connect(&proxy).await);
    proxy.clear_log();
    let lock = client.lock("job");

    let outer = lock.lock().await.expect("a free lock");
    let inner = lock.lock().await.expect("ours");
    assert!(other.lock("job").try_lock().await.expect("the server answers").is_none());
    assert_eq!(lock.inspect().await.expect("the server answers").map(|seen| seen.hold_count), Some(2));
    assert_eq!(inner.unlock().await.expect("a nested hold"), Released::StillHeld(1));
    assert!(tokio::time::timeout(WATCHDOG * 2, outer.lost()).await.is_err(), "it was not renewed");
    outer.extend(WATCHDOG * 2).await.expect("a live hold");

    // To a task of this client, without the key's ever being free; then to one of the other client.
    let next = tokio::spawn(client.mutex("job").lock().lease(LOOK));
    tokio::task::yield_now().await;
    assert_eq!(outer.unlock().await.expect("it is handed over"), Released::Freed);
    let next = next.await.expect("no panic").expect("its turn");
    assert_eq!(proxy.count(&script("hand_over")), 2, "by its hash, then by its text");
    let waiting = tokio::spawn(other.mutex("job").lock());
    eventually_async(LOOK, async || server.listeners("redisson_lock__channel:{job}") == 1).await;
    assert_eq!(next.unlock().await.expect("a hold of ours is released"), Released::Freed);
    let theirs = waiting.await.expect("no panic").expect("it is free");

    assert!(lock.force_unlock().await.expect("the server answers"));
    assert!(theirs.lost().await.is_lost());
    assert_eq!(server.keys(), Vec::<String>::new());

    // Each of the scripts was run in its longer way, and only so.
    let log = proxy.log();
    let by_text = log.iter().filter(|entry| entry.command().is_some_and(|name| name == "EVAL"));
    let ran: BTreeSet<_> = by_text.filter_map(|entry| entry.script()).collect();
    let all = ["acquire", "force_release", "hand_over", "inspect", "release", "renew"];
    assert_eq!(ran, all.map(str::to_owned).into());
    let (known, unknown) = answers(&proxy);
    assert!(known == 0 && unknown > all.len(), "{known} known, {unknown} unknown");
}

#[tokio::test]
async fn holds_that_are_renewed_together_all_live_on() {
    let server = Server::own();
    let proxy = before(&server);
    // Enough for a busy machine to release them all in.
    let watchdog = WATCHDOG * 3;
    let client = Client::builder().url(proxy.url()).watchdog_timeout(watchdog).connect().await.expect("connects");
    let names: Vec<_> = (0..250).map(|number| format!("job {number}")).collect();
    let taking: Vec<_> = names.iter().map(|name| tokio::spawn(client.lock(name).lock())).collect();
    let mut guards = Vec::new();
    for taking in taking {
        guards.push(taking.await.expect("no panic").expect("a free lock"));
    }
    proxy.clear_log();
    let lost = guards[0].lost();
    assert!(tokio::time::timeout(watchdog + watchdog / 2, lost).await.is_err(), "it was not renewed");
    assert!(guards.iter().all(|guard| guard.is_held()));
    let releasing: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(async move { guard.unlock().await })).collect();
    for releasing in releasing {
        assert_eq!(releasing.await.expect("no panic").expect("it was renewed until now"), Released::Freed);
    }
    assert_eq!(server.keys(), Vec::<String>::new());
    // How many keys the requests had: hash or text, then the number of keys.
    let log = proxy.log();
    let renewals = log.iter().filter(|entry| entry.script().as_deref() == Some("renew"));
    let keys = renewals.filter_map(|entry| std::str::from_utf8(&entry.words()?[2]).ok()?.parse::<usize>().ok());
    assert!(keys.max().is_some_and(|most| most > 1), "no two were renewed together");
    assert_eq!(answers(&proxy).0, 0);
}
