//! A server that forgets its scripts before every command that runs one: each heals in one more round trip, alone and in
//! batches. The conformance suite runs before such a server too.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use relatch::{Client, Error, LostCause, Released};
use tokio::task::{JoinSet, yield_now};

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{
            Action, Event, Proxy,
            matching::{command, script},
        },
    },
    kept::{client, connected, kept},
    mutex,
};

/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
const WATCHDOG: Duration = Duration::from_secs(1);

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
    yield_now().await;
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

/// How often this name is held, by whom.
fn count(server: &Server, name: &str) -> Option<u32> {
    kept(server, name).map(|kept| kept.count)
}

#[tokio::test]
async fn nested_holds_are_counted_through_every_order_of_their_ends() {
    let server = Server::own();
    let proxy = before(&server);
    let client = connect(&proxy).await;
    let lock = client.lock("job");
    let outer = lock.lock().await.expect("a free lock");
    let fixed = lock.lock().lease(WATCHDOG * 10).await.expect("ours");
    let tried = lock.try_lock().await.expect("the server answers").expect("ours");
    assert_eq!((lock.hold_count(), count(&server, "job")), (3, Some(3)));
    assert_eq!(outer.unlock().await.expect("one of three"), Released::StillHeld(2));
    let owner = tried.detach();
    assert_eq!(count(&server, "job"), Some(2));
    drop(fixed);
    eventually_async(LOOK, async || count(&server, "job") == Some(1)).await;
    let again = lock.lock().await.expect("ours");
    assert_eq!((lock.hold_count(), count(&server, "job")), (2, Some(2)));
    assert_eq!(lock.unlock().owner(&owner).await.expect("a detached hold"), Released::StillHeld(1));
    assert_eq!(again.unlock().await.expect("the last one"), Released::Freed);
    assert_eq!((lock.hold_count(), count(&server, "job")), (0, None));
    assert_eq!(answers(&proxy).0, 0);
}

#[tokio::test]
async fn a_try_behind_a_drop_finds_the_lock_free_every_time() {
    let server = Server::own();
    let proxy = before(&server);
    let client = connect(&proxy).await;
    let lock = client.lock("job");
    for round in 0..50 {
        let guard = lock.try_lock().await.expect("the server answers");
        drop(guard.unwrap_or_else(|| panic!("busy in round {round}")));
    }
    eventually_async(LOOK, async || server.keys().is_empty()).await;
    assert_eq!(answers(&proxy).0, 0);
}

#[tokio::test]
async fn branches_of_a_mutex_exclude_each_other_without_a_known_script() {
    let server = Server::own();
    let proxy = before(&server);
    mutex::branches_exclude_each_other(&connect(&proxy).await).await;
    assert_eq!(answers(&proxy).0, 0);
}

#[tokio::test]
async fn a_hold_that_was_forced_or_deleted_is_lost_and_the_next_one_is_whole() {
    let server = Server::own();
    let proxy = before(&server);
    let (one, other) = (connect(&proxy).await, client(server.url()).await);
    let lock = one.lock("job");

    // Freed by another process: its next renewal tells.
    let guard = lock.lock().await.expect("a free lock");
    assert!(other.lock("job").force_unlock().await.expect("the server answers"));
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
    drop(guard);

    // Gone when the owner nests: the nested one is a fresh hold, and only the outer one is lost.
    let outer = lock.lock().await.expect("a free lock");
    redis::cmd("DEL").arg("job").exec(&mut server.connection()).expect("the server answers");
    let fresh = lock.lock().await.expect("a free lock");
    assert!(!outer.is_held() && fresh.is_held());
    assert!(matches!(outer.unlock().await, Err(Error::Lost { cause: LostCause::Gone, .. })));
    assert_eq!(count(&server, "job"), Some(1));
    assert_eq!(fresh.unlock().await.expect("a live hold"), Released::Freed);
    assert_eq!(server.keys(), Vec::<String>::new());
    assert_eq!(answers(&proxy).0, 0);
}

#[tokio::test]
async fn sixteen_tasks_of_two_clients_lose_no_count() {
    const ROUNDS: u32 = 10;
    let server = Server::own();
    let proxy = before(&server);
    let counter = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        // Every section begins and ends at the server.
        let client = connected(Client::builder().url(proxy.url()).handover_slice(Duration::ZERO)).await;
        for _ in 0..8 {
            let (lock, counter) = (client.lock("job"), Arc::clone(&counter));
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = lock.lock().await.expect("the server answers");
                    // Not atomic: two at once would count as one.
                    let before = counter.load(Ordering::Relaxed);
                    yield_now().await;
                    counter.store(before + 1, Ordering::Relaxed);
                    guard.unlock().await.expect("a live hold");
                }
            });
        }
    }
    let all = tokio::time::timeout(LOOK, tasks.join_all()).await;
    assert!(all.is_ok(), "a wake-up was lost");
    assert_eq!(counter.load(Ordering::Relaxed), 16 * ROUNDS);
    assert_eq!(server.keys(), Vec::<String>::new());
    assert_eq!(answers(&proxy).0, 0);
}
