//! Servers, links, keys and holders that go away under those who use them.

use std::{future::pending, time::Duration};

use relatch::{Client, Error, LostCause, Owner, Released};
use tokio::{runtime::Runtime, time::sleep};

use crate::{
    harness::{
        Server,
        clock::{monotonic, wall},
        eventually, eventually_async,
        lag::Lag,
        process::{Parent, Process},
        proxy::{
            Action, Door, Proxy,
            matching::{push, script},
        },
        unique_name,
    },
    kept::{assert_modest, channel, client, connected, held, kept, poll_once, teach},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// How late something may be noticed that has a time of its own.
const AWAKE: Duration = Duration::from_millis(50);
/// A lease that a test waits out, and the interval at which it is renewed.
const WATCHDOG: Duration = Duration::from_millis(1_500);
const RENEWAL: Duration = Duration::from_millis(500);
/// After this a command counts as unanswered.
const COMMAND: Duration = Duration::from_millis(300);

async fn watched(url: String) -> Client {
    connected(Client::builder().url(url).watchdog_timeout(WATCHDOG)).await
}

async fn hasty(url: String) -> Client {
    connected(Client::builder().url(url).command_timeout(COMMAND).handover_slice(Duration::from_secs(60))).await
}

#[tokio::test]
async fn the_lock_of_a_killed_holder_is_entered_within_one_lease() {
    let (server, name) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let client = client(proxy.url()).await;
    let mut holder = Process::spawn("hold", &[&server.url(), &name, &WATCHDOG.as_millis().to_string()]);
    holder.hear();
    let lock = client.lock(&name);
    let waiter = tokio::spawn(async move {
        let guard = lock.lock().await.expect("the lock is ours in the end");
        (guard, monotonic())
    });
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    let lag = Lag::watch();
    holder.kill();
    let killed = monotonic();
    let (guard, entered) = waiter.await.expect("no panic");
    let (took, bound) = (entered - killed, lag.added_to(WATCHDOG + AWAKE));
    assert!(took <= bound, "{took:?} of {bound:?}");
    assert_eq!(proxy.count(&push("message")), 0);
    guard.unlock().await.expect("it is held");
}

/// Takes the lock away under its holder in a way of the caller's, and looks at everything that must say so.
async fn is_told(take: impl AsyncFnOnce(&Server, &str)) {
    let (server, name) = (Server::shared(), unique_name());
    let client = watched(server.url()).await;
    let guard = client.lock(&name).lock().await.expect("it is free");
    let token = guard.cancellation();
    take(server, &name).await;
    let (lag, taken) = (Lag::watch(), monotonic());
    let there = kept(server, &name);
    let ((lost, lost_at), (protected, ended_at), cancelled_at) = tokio::join!(
        async { (guard.lost().await, monotonic()) },
        async { (guard.protect(pending::<()>()).await, monotonic()) },
        async {
            token.cancelled().await;
            monotonic()
        },
    );
    let bound = lag.added_to(RENEWAL + AWAKE);
    for told in [lost_at, ended_at, cancelled_at] {
        assert!(told - taken <= bound, "told {:?} later, and not {bound:?}", told - taken);
    }
    assert_lost::<()>(Err(lost));
    assert_lost(protected);
    assert!(!guard.is_held() && guard.expires_in().is_none() && guard.cancellation().is_cancelled());
    assert_eq!(kept(server, &name), there);
    // It is free again, and two renewals would have found it so.
    redis::cmd("DEL").arg(&name).exec(&mut server.connection()).expect("the server answers");
    let until = monotonic() + 2 * RENEWAL + AWAKE;
    while monotonic() < until {
        assert!(!guard.is_held() && kept(server, &name).is_none());
        sleep(Duration::from_millis(5)).await;
    }
    assert_lost(guard.extend(WATCHDOG).await);
    assert_lost(guard.unlock().await);
    drop(guard);
    assert!(client.lock(&name).try_lock().await.expect("the server answers").is_some());
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Lost { cause: LostCause::Gone, .. })), "{outcome:?}");
}

#[tokio::test]
async fn a_holder_whose_key_is_deleted_is_told_within_one_renewal() {
    is_told(async |server, name| {
        redis::cmd("DEL").arg(name).exec(&mut server.connection()).expect("the server answers");
    })
    .await;
}

#[tokio::test]
async fn a_holder_whose_key_is_another_owners_is_told_within_one_renewal() {
    is_told(async |server, name| {
        let mut replace = redis::pipe();
        replace.atomic().del(name).hset(name, "somebody:1", 1).pexpire(name, 60_000);
        replace.exec(&mut server.connection()).expect("the server answers");
    })
    .await;
}

#[tokio::test]
async fn a_holder_whose_lock_is_forced_away_elsewhere_is_told_within_one_renewal() {
    is_told(async |server, name| {
        assert!(client(server.url()).await.lock(name).force_unlock().await.expect("the server answers"));
    })
    .await;
}

/// Takes a lock, looks at it all the time, and says until when it believed and when it was told of the loss; told to go
/// on, it says whether it believes again.
pub(crate) fn watch_a_hold(parent: &mut Parent, args: &[String]) {
    Runtime::new().expect("a runtime starts").block_on(async {
        let client = watched(args[0].clone()).await;
        let guard = client.lock(&args[1]).lock().await.expect("it is free");
        parent.say("held");
        let mut believed;
        loop {
            // Read first: what was true then was true at that time or later.
            believed = wall();
            if !guard.is_held() {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        let lost = guard.lost().await;
        let told = wall();
        assert!(matches!(lost, Error::Lost { cause: LostCause::Expired, .. }), "{lost:?}");
        assert!(guard.cancellation().is_cancelled());
        assert!(guard.protect(pending::<()>()).await.is_err());
        parent.say(&believed.as_nanos().to_string());
        parent.say(&told.as_nanos().to_string());
        parent.hear();
        assert!(!guard.is_held());
        drop(guard);
        client.lock(&args[1]).lock().await.expect("the server is back").unlock().await.expect("it is held");
        client.close().await;
    });
}

#[test]
fn a_holder_of_a_frozen_server_knows_of_its_loss_before_the_server_would() {
    let (server, name) = (Server::own(), unique_name());
    let mut holder = Process::spawn("watch_a_hold", &[&server.url(), &name]);
    holder.hear();
    let mut expires = held(&server, &name).expires;
    // Just renewed: no renewal is answered between the look and the freeze.
    let lag = loop {
        let before = expires;
        eventually(SOON, || {
            expires = held(&server, &name).expires;
            expires != before
        });
        let lag = Lag::watch();
        server.freeze();
        if wall() < expires - WATCHDOG + WATCHDOG / 4 {
            break lag;
        }
        // This machine stood still meanwhile.
        server.thaw();
    };
    let time = |text: String| Duration::from_nanos(text.parse().expect("a number"));
    let (believed, told) = (time(holder.hear()), time(holder.hear()));
    assert!(believed < expires, "believed {:?} too long", believed - expires);
    let bound = lag.added_to(AWAKE);
    assert!(told < expires + bound, "told {:?} late, and not {bound:?}", told - expires);
    server.thaw();
    holder.say("go on");
    assert!(holder.ended_well());
    assert_eq!(holder.printed(), Vec::<String>::new());
}

/// The words of every request that runs this script, in order.
fn requests(proxy: &Proxy, verb: &str) -> Vec<Vec<String>> {
    let text = |words: &[Vec<u8>]| words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let log = proxy.log();
    log.iter().filter(|entry| entry.script().as_deref() == Some(verb)).filter_map(|it| it.words().map(text)).collect()
}

/// Keeps new links away for a while, so that a second sending is later than any margin.
async fn unreachable_for_a_while(proxy: &Proxy) {
    proxy.door(Door::Refusing);
    sleep(COMMAND / 2).await;
    proxy.door(Door::Open);
}

#[tokio::test]
async fn an_acquire_whose_reply_is_lost_is_adopted_once_and_with_a_deadline_of_its_own() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::SwallowReply, Action::CutAfter] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let client = hasty(proxy.url()).await;
        let lost = proxy.rule(script("acquire").first(1), loss);
        let away = async {
            if loss == Action::CutAfter {
                lost.nth(1).await;
                unreachable_for_a_while(&proxy).await;
            }
        };
        let (guard, ()) = tokio::join!(client.lock(&name).lock().lease(Duration::from_secs(2)), away);
        let guard = guard.expect("a second try is answered");
        assert_modest(&guard, server);
        let sent = requests(&proxy, "acquire");
        assert_eq!((sent.len(), held(server, &name).count), (2, 1), "{loss:?}");
        assert_eq!(sent[0], sent[1], "one attempt has one number");
        assert_eq!(held(server, &name).field, sent[0][4]);
        assert_eq!(guard.hold_count(), 1);
        guard.unlock().await.expect("it is held");
        assert_eq!(kept(server, &name), None);
    }
}

#[tokio::test]
async fn a_hand_over_whose_reply_is_lost_gives_no_deadline_beyond_the_keys() {
    let server = Server::shared();
    teach(server);
    let lease = Duration::from_secs(2);
    for loss in [Action::SwallowReply, Action::CutAfter] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let client = hasty(proxy.url()).await;
        let first = client.mutex(&name).lock().lease(lease).await.expect("it is free");
        let mut waiter = client.mutex(&name).lock().lease(lease);
        assert!(poll_once(&mut waiter).await.is_pending());
        let lost = proxy.rule(script("hand_over"), loss);
        let away = async {
            lost.nth(1).await;
            if loss == Action::CutAfter {
                unreachable_for_a_while(&proxy).await;
            }
        };
        let (unlocked, second, ()) = tokio::join!(first.unlock(), waiter, away);
        assert!(matches!(unlocked, Err(Error::Unreachable { may_have_run: true, .. })), "{unlocked:?}");
        let second = second.expect("the waiter enters all the same");
        assert_modest(&second, server);
        assert_eq!(held(server, &name).count, 1);
        assert_eq!(first.unlock().await.expect("it was undone, or it ran"), Released::Freed);
        assert!(second.is_held());
        second.unlock().await.expect("it is held");
        assert_eq!(kept(server, &name), None);
    }
}

#[tokio::test]
async fn a_reply_that_is_long_under_way_gives_no_deadline_beyond_the_keys() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url()).handover_slice(Duration::from_secs(60))).await;
    let (lock, owner, lease) = (client.lock(&name), Owner::new(), Duration::from_secs(2));
    let [acquires, renewals, hand_overs] = ["acquire", "renew", "hand_over"]
        .map(|verb| proxy.rule(script(verb), Action::DelayReply(Duration::from_millis(300))));
    let outer = lock.lock().owner(&owner).lease(lease).await.expect("it is free");
    assert_modest(&outer, server);
    let inner = lock.lock().owner(&owner).lease(lease).await.expect("it nests");
    assert_modest(&inner, server);
    outer.extend(lease).await.expect("it is held");
    assert_modest(&outer, server);
    let mut waiter = lock.lock().owner(&Owner::new()).lease(lease);
    assert!(poll_once(&mut waiter).await.is_pending());
    drop((inner, outer));
    let next = waiter.await.expect("it is the waiter's turn");
    assert_modest(&next, server);
    assert_eq!([acquires, renewals, hand_overs].map(|rule| rule.seen()), [2, 1, 1]);
    next.unlock().await.expect("it is held");
    assert_eq!(kept(server, &name), None);
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_repeated_while_its_owner_takes_the_lock_again() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::SwallowReply, Action::CutAfter] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let client = hasty(proxy.url()).await;
        let owner = Owner::new();
        let first = client.lock(&name).lock().owner(&owner).await.expect("it is free");
        let old = held(server, &name).field;
        let lost = proxy.rule(script("release").first(1), loss);
        let unlocked = first.unlock().await;
        assert!(matches!(unlocked, Err(Error::Unreachable { may_have_run: true, .. })), "{unlocked:?}");
        assert_eq!(lost.seen(), 1);
        let second = client.lock(&name).lock().owner(&owner).await.expect("it is free");
        let new = held(server, &name);
        assert!(new.field != old && new.count == 1 && second.is_held() && !first.is_held());
        assert_eq!(first.unlock().await.expect("it ran"), Released::Freed);
        // On the new link the repetition went before the try.
        let log = proxy.log();
        let order: Vec<String> = log.iter().filter(|entry| entry.connection > 0).filter_map(|it| it.script()).collect();
        assert_eq!(order, ["release", "acquire"], "{loss:?}");
        assert_eq!(held(server, &name), new);
        second.unlock().await.expect("it is held");
        assert_eq!(kept(server, &name), None);
    }
}

#[tokio::test]
async fn a_silent_link_is_found_by_the_command_timeout_and_replaced() {
    let server = Server::shared();
    for proxy in [Proxy::to(server), Proxy::tcp_to(server)] {
        let (name, client) = (unique_name(), hasty(proxy.url()).await);
        proxy.silence_all();
        let (lag, started) = (Lag::watch(), monotonic());
        let guard = client.lock(&name).lock().await.expect("a new link is open");
        let elapsed = monotonic() - started;
        let bound = lag.added_to(2 * COMMAND);
        assert!(elapsed >= COMMAND && elapsed < bound, "{elapsed:?}, and not {bound:?}");
        assert!(held(server, &name).is_of(&client));
        guard.unlock().await.expect("it is held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_idle_client_whose_server_came_back_locks_at_once() {
    let (server, name) = (Server::own(), unique_name());
    let client = client(server.url()).await;
    client.lock(&name).lock().await.expect("it is free").unlock().await.expect("it is held");
    server.restart_empty();
    let (lag, back) = (Lag::watch(), monotonic());
    let guard = client.lock(&name).try_lock().await.expect("the link is new").expect("it is free");
    let took = monotonic() - back;
    // No pause between two attempts to connect is longer.
    assert!(took <= lag.added_to(Duration::from_secs(1)), "{took:?}");
    assert!(held(&server, &name).is_of(&client));
    guard.unlock().await.expect("it is held");
}
