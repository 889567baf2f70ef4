//! The token lock: what its key holds, who may extend and release it, and how it ends. What it shares with the plain lock is in
//! `conformance.rs`, what its scripts do in `scripts.rs`, and what other libraries make of it in `interop/`.

use std::time::Duration;

use futures_util::future::join;
use relatch::{Client, Error, LockGuard, LostCause, Owner, RefusedKind, Released, Token, TokenLock};
use tokio::time::{Instant, timeout};
use tracing::Level;

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{
            Action, Entry, Proxy,
            matching::{command, script},
        },
        traces::Traces,
        unique_name,
    },
    kept::{client, connected, poll_once, teach},
};

const MS: Duration = Duration::from_millis(1);
/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// For holds that are to outlive the test.
const LASTS: Duration = Duration::from_secs(60);
/// After this a command counts as unanswered.
const COMMAND: Duration = Duration::from_millis(300);

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

fn channel(name: &str) -> String {
    format!("relatch_token__channel:{{{name}}}")
}

fn token(text: &str) -> Token {
    text.parse().expect("any text is a token")
}

/// The command, or the verb of its script.
fn asks(entry: &Entry) -> String {
    entry.script().or_else(|| entry.command()).expect("it is a command")
}

async fn held(lock: &TokenLock) -> LockGuard {
    lock.try_lock().await.expect("the server answers").expect("it is free")
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(outcome: Result<T, Error>, why: LostCause) {
    assert!(matches!(&outcome, Err(Error::Lost { cause, .. }) if *cause == why), "{outcome:?}");
}

/// A guard claims no more than the server gives, and not much less.
#[track_caller]
fn assert_deadline(guard: &LockGuard, server: &Server, lease: Duration) {
    let claims = guard.expires_in().expect("it is held");
    let keeps = Duration::from_millis(u64::try_from(ttl_ms(server, guard.name())).expect("it has a TTL"));
    assert!(claims <= keeps + lease / 256, "claims {claims:?} of {keeps:?}");
    assert!(lease - lease / 10 < claims, "claims {claims:?} of {lease:?}");
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

#[tokio::test]
async fn a_stranger_extends_nothing_and_whoever_has_the_token_does() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    takes(server, &name, "theirs", LASTS);
    let stranger = lock.resume(token("ours"));
    assert_lost(stranger.extend(LASTS * 2).await, LostCause::Gone);
    assert_lost(stranger.unlock().await, LostCause::Gone);
    assert!((59_000..=60_000).contains(&ttl_ms(server, &name)) && stranger.expires_in().is_none());
    assert_eq!(holder(server, &name).as_deref(), Some("theirs"));

    let held = lock.resume(token("theirs"));
    assert_eq!((held.expires_in(), held.token().as_ref(), held.name()), (None, "theirs", &*name));
    held.extend(LASTS * 2).await.expect("it is theirs");
    assert!((119_000..=120_000).contains(&ttl_ms(server, &name)));
    // Never shorter, there and here.
    held.extend(LASTS).await.expect("it is theirs");
    assert!((119_000..=120_000).contains(&ttl_ms(server, &name)));
    assert!(held.expires_in().is_some_and(|left| (LASTS * 19 / 10..LASTS * 2).contains(&left)), "{held:?}");
    assert_eq!(held.unlock().await.expect("it is theirs"), Released::Freed);
    assert_eq!((holder(server, &name), held.expires_in()), (None, None));
    // Somebody else's by then.
    takes(server, &name, "theirs", LASTS);
    assert_eq!(held.unlock().await.expect("the answer is repeated"), Released::Freed);
    assert!(matches!(held.extend(LASTS).await, Err(Error::NotHeld { .. })));
    assert_eq!(holder(server, &name).as_deref(), Some("theirs"));
}

#[tokio::test]
async fn a_lease_of_nothing_is_refused_before_anything_is_sent() {
    let (server, name) = (Server::shared(), unique_name());
    let proxy = Proxy::to(server);
    let lock = client(proxy.url()).await.token_lock(&name);
    let guard = held(&lock).await;
    let held = lock.resume(guard.token().expect("it has one"));
    proxy.clear_log();
    for lease in [Duration::ZERO, MS * 9, Duration::MAX] {
        let refused = [
            lock.lock().lease(lease).await.map(drop),
            lock.try_lock().lease(lease).await.map(drop),
            guard.extend(lease).await,
            held.extend(lease).await,
        ];
        assert!(refused.iter().all(|it| matches!(it, Err(Error::Invalid { what: "lease", .. }))), "{refused:?}");
    }
    for ttl in [Duration::ZERO, MS * 999] {
        let refused = lock.clone().repair_orphans(ttl).lock().await;
        assert!(matches!(refused, Err(Error::Invalid { what: "repair_orphans", .. })), "{refused:?}");
    }
    assert!(matches!("".parse::<Token>(), Err(Error::Invalid { what: "token", .. })));
    assert_eq!(proxy.commands_of(&name).len(), 0);
    guard.unlock().await.expect("it is held");
}

/// A detached hold that was lost is known for as long as its lease was.
const REMEMBERED: Duration = Duration::from_millis(1500);

/// A hold of so short a lease that it is over, and its key gone, when this returns.
async fn ran_out(server: &Server, lock: &TokenLock, lease: Duration) -> LockGuard {
    let guard = lock.lock().lease(lease).await.expect("it is free");
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
    eventually_async(SOON, async || holder(server, lock.name()).is_none()).await;
    guard
}

#[tokio::test]
async fn a_hold_that_ran_out_counts_as_released_unless_somebody_has_the_lock_by_then() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let (lock, theirs) = (one.token_lock(&name), other.token_lock(&name));
    let guard = ran_out(server, &lock, MS * 60).await;
    assert!(!guard.is_held() && guard.extend(LASTS).await.is_err_and(|error| error.is_lost()));
    for _ in 0..2 {
        assert_eq!(guard.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
    }
    // Whoever left it to the client to release it.
    let owner = ran_out(server, &lock, REMEMBERED).await.detach();
    assert_eq!(lock.unlock().owner(&owner).await.expect("nobody has it"), Released::AlreadyExpired);
    let guard = ran_out(server, &lock, MS * 60).await;
    let dropped = ran_out(server, &lock, MS * 60).await;
    let late = ran_out(server, &lock, REMEMBERED).await.detach();
    let taken = theirs.lock().await.expect("it is free");
    let now = holder(server, &name);
    for _ in 0..2 {
        assert_lost(guard.unlock().await, LostCause::Gone);
    }
    assert_lost(lock.unlock().owner(&late).await, LostCause::Gone);
    drop(dropped);
    assert!(
        lock.try_lock().await.expect("the server answers").is_none(),
        "behind the release of the one that was dropped"
    );
    assert_eq!((holder(server, &name), taken.is_held()), (now, true));
    assert_eq!(taken.unlock().await.expect("it is held"), Released::Freed);
}

#[tokio::test]
async fn a_token_that_ran_out_counts_as_released_unless_somebody_has_the_lock_by_then() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    let lent = async || {
        let guard = lock.lock().lease(MS * 60).await.expect("it is free");
        let held = lock.resume(guard.into_token().expect("it is held"));
        eventually_async(SOON, async || holder(server, &name).is_none()).await;
        held
    };
    let held = lent().await;
    assert_lost(held.extend(LASTS).await, LostCause::Gone);
    assert_eq!(held.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
    let held = lent().await;
    takes(server, &name, "theirs", LASTS);
    assert_lost(held.unlock().await, LostCause::Gone);
    assert_eq!(holder(server, &name).as_deref(), Some("theirs"));
}

#[tokio::test]
async fn a_key_without_a_ttl_is_waited_for_and_repaired_once_where_that_is_asked_for() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let lock = one.token_lock(&name);
    let leaves = || run::<()>(server, &["SET", &name, "whose"]);
    leaves();
    assert!(lock.try_lock().wait(MS * 300).await.expect("the server answers").is_none());
    assert_eq!(ttl_ms(server, &name), -1, "it may be somebody's who wants it so");
    // Whoever holds it lives, and frees it in the end.
    let waiting = tokio::spawn(lock.lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    run::<()>(server, &["DEL", &name]);
    waiting.await.expect("no panic").expect("it is free").unlock().await.expect("it is held");

    let name = unique_name();
    let ttl = MS * 1500;
    let (lock, theirs) = (one.token_lock(&name).repair_orphans(ttl), other.token_lock(&name).repair_orphans(ttl));
    run::<()>(server, &["SET", &name, "whose"]);
    assert!(lock.try_lock().await.expect("the server answers").is_none());
    assert_eq!(ttl_ms(server, &name), -1, "one try repairs nothing");
    let (traces, started) = (Traces::here(), Instant::now());
    let both = async { tokio::try_join!(enters(&lock), enters(&theirs)) };
    timeout(SOON, both).await.expect("it is free in the end").expect("the server answers");
    assert!(ttl <= started.elapsed(), "it was left for its time");
    let said = traces.events("a key that somebody left without a TTL was given one");
    let fields: Vec<_> = said.iter().map(|said| (said.level, &*said.fields["lock"], &*said.fields["ttl_ms"])).collect();
    assert_eq!(fields, [(Level::WARN, &*name, "1500")]);
}

async fn enters(lock: &TokenLock) -> relatch::Result<Released> {
    lock.lock().await?.unlock().await
}

#[tokio::test]
async fn a_plain_command_whose_reply_is_lost_is_followed_by_the_script_which_finds_its_token() {
    let server = Server::shared();
    teach(server);
    let lease = Duration::from_secs(20);
    for loss in [Action::SwallowReply, Action::CutAfter, Action::CutMidReply, Action::SwallowRequest, Action::CutBefore]
    {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let lock = connected(Client::builder().url(proxy.url()).command_timeout(COMMAND)).await.token_lock(&name);
        proxy.rule(command("SET").mentioning(&name).first(1), loss);
        let guard = lock.lock().lease(lease).await.expect("it is asked for again");
        let token = guard.token().expect("it has one");
        assert_eq!(holder(server, &name).as_deref(), Some(token.as_ref()), "{loss:?}");
        assert_deadline(&guard, server, lease);
        let asked: Vec<_> = proxy.commands_of(token.as_ref()).iter().map(asks).collect();
        assert_eq!(asked[..2], ["SET", "acquire"], "{loss:?}: {asked:?}");
        assert_eq!(proxy.commands_of("SET").len(), 1, "{loss:?}");
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        assert_eq!(holder(server, &name), None, "{loss:?}");
    }
}

#[tokio::test]
async fn a_single_try_whose_reply_is_lost_leaves_nothing_in_the_way_of_the_next() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::SwallowReply, Action::CutAfter] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let lock = connected(Client::builder().url(proxy.url()).command_timeout(COMMAND)).await.token_lock(&name);
        proxy.rule(command("SET").mentioning(&name).first(1), loss);
        let outcome = lock.try_lock().await;
        assert!(matches!(outcome, Err(Error::Unreachable { may_have_run: true, .. })), "{outcome:?}");
        let guard = held(&lock).await;
        assert_eq!(holder(server, &name).as_deref(), guard.token().as_ref().map(AsRef::as_ref), "{loss:?}");
        guard.unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_has_freed_the_lock_when_it_is_asked_again() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::SwallowReply, Action::CutAfter] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let lock = connected(Client::builder().url(proxy.url()).command_timeout(COMMAND)).await.token_lock(&name);
        let guard = held(&lock).await;
        proxy.rule(script("release").first(1), loss);
        let outcome = guard.unlock().await;
        assert!(matches!(outcome, Err(Error::Unreachable { may_have_run: true, .. })), "{outcome:?}");
        let answered = async {
            loop {
                if let Ok(outcome) = guard.unlock().await {
                    return outcome;
                }
            }
        };
        assert_eq!(timeout(SOON, answered).await.expect("it is answered in the end"), Released::Freed, "{loss:?}");

        let held = lock.resume(held(&lock).await.into_token().expect("it is held"));
        proxy.rule(script("release").first(1), loss);
        let outcome = held.unlock().await;
        assert!(matches!(outcome, Err(Error::Unreachable { may_have_run: true, .. })), "{outcome:?}");
        let answered = async {
            loop {
                if let Ok(outcome) = held.unlock().await {
                    return outcome;
                }
            }
        };
        assert_eq!(timeout(SOON, answered).await.expect("it is answered in the end"), Released::Freed, "{loss:?}");
        assert_eq!(holder(server, &name), None);
    }
}

#[tokio::test]
async fn whoever_waits_finds_a_lock_that_was_freed_without_a_word() {
    let server = Server::shared();
    let proxy = Proxy::to(server);
    let client = client(proxy.url()).await;
    for silent in [false, true] {
        let name = unique_name();
        let lock = client.token_lock(&name);
        let lock = if silent { lock.silent() } else { lock };
        takes(server, &name, "theirs", LASTS);
        let waiting = tokio::spawn(lock.lock());
        // It knows the TTL by then.
        let told = || proxy.commands_of(&name).iter().filter(|entry| asks(entry) == "acquire").count() > 1;
        eventually_async(SOON, async || told() && server.listeners(&channel(&name)) == u64::from(!silent)).await;
        run::<()>(server, &["DEL", &name]);
        let guard = timeout(SOON, waiting).await.expect("long before that").expect("no panic").expect("it is free");
        guard.unlock().await.expect("it is held");
        let listened = proxy.commands_of(&channel(&name)).len();
        assert_eq!(listened > 0, !silent, "no right to a channel is needed");
    }
}

#[tokio::test]
async fn whoever_waits_for_relatch_alone_listens_and_asks_no_more() {
    let server = Server::shared();
    let (proxy, name) = (Proxy::to(server), unique_name());
    let (waiter, holder) = (client(proxy.url()).await, client(server.url()).await);
    let guard = holder.token_lock(&name).only_relatch().lock().lease(LASTS).await.expect("it is free");
    let waiting = tokio::spawn(waiter.token_lock(&name).only_relatch().lock());
    eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    // Four times as long as whoever looks again every now and then lets go by at most.
    let is_quiet = async || {
        let before = proxy.commands_of(&name).len();
        tokio::time::sleep(MS * 1000).await;
        proxy.commands_of(&name).len() == before
    };
    eventually_async(SOON, is_quiet).await;
    guard.unlock().await.expect("it is held");
    let guard = timeout(SOON, waiting).await.expect("it is told").expect("no panic").expect("the server answers");
    guard.unlock().await.expect("it is held");
}

/// However long it was held: where nobody listens, nobody is stood back for.
#[tokio::test]
async fn a_lock_that_was_freed_is_taken_again_at_once_whether_or_not_anybody_is_told() {
    let server = Server::shared();
    let client = connected(Client::builder().url(server.url()).handover_slice(MS)).await;
    for lock in [client.token_lock(unique_name()), client.token_lock(unique_name()).silent()] {
        for _ in 0..3 {
            let guard = held(&lock).await;
            tokio::time::sleep(MS * 20).await;
            drop(guard);
        }
    }
}

#[tokio::test]
async fn a_waiter_of_ours_is_told_of_a_release_at_once() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let mut soonest = SOON;
    for only_relatch in [false, true] {
        let name = format!("{name}{only_relatch}");
        let of = |client: &Client| {
            let lock = client.token_lock(&name);
            if only_relatch { lock.only_relatch() } else { lock }
        };
        for _ in 0..5 {
            let guard = of(&one).lock().lease(LASTS).await.expect("it is free");
            let waiting = tokio::spawn(of(&other).lock());
            eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
            let freed = Instant::now();
            guard.unlock().await.expect("it is held");
            let guard =
                timeout(SOON, waiting).await.expect("it is free").expect("no panic").expect("the server answers");
            soonest = soonest.min(freed.elapsed());
            guard.unlock().await.expect("it is held");
        }
    }
    assert!(soonest < MS * 50, "{soonest:?}");
}

#[tokio::test]
async fn the_next_holder_has_another_token_once_somebody_was_told_it() {
    let (server, name) = (Server::shared(), unique_name());
    let builder = Client::builder().url(server.url()).handover_slice(LASTS);
    let lock = connected(builder).await.token_lock(&name);
    for told in [false, true] {
        let guard = held(&lock).await;
        let there = holder(server, &name);
        let known = told.then(|| lock.resume(guard.token().expect("it has one")));
        let mut next = lock.lock();
        assert!(poll_once(&mut next).await.is_pending());
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        let next = next.await.expect("its turn");
        assert_eq!(holder(server, &name) == there, !told, "passed on without a word, or not");
        if let Some(known) = known {
            assert_lost(known.extend(LASTS).await, LostCause::Gone);
            assert_lost(known.unlock().await, LostCause::Gone);
        }
        assert!(next.is_held() && holder(server, &name).is_some());
        next.unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn a_hand_over_whose_reply_is_lost_leaves_one_holder_who_knows_it() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::SwallowReply, Action::CutAfter, Action::SwallowRequest] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let builder = Client::builder().url(proxy.url()).command_timeout(COMMAND).handover_slice(LASTS);
        let lock = connected(builder).await.token_lock(&name);
        let guard = lock.lock().lease(LASTS).await.expect("it is free");
        let mut next = lock.lock();
        assert!(poll_once(&mut next).await.is_pending());
        proxy.rule(script("hand_over").first(1), loss);
        drop(guard);
        let next = next.await.expect("its turn, in the end");
        assert_eq!(holder(server, &name).as_deref(), next.token().as_ref().map(AsRef::as_ref), "{loss:?}");
        assert_deadline(&next, server, Duration::from_secs(30));
        next.unlock().await.expect("it is held");
        assert_eq!(holder(server, &name), None);
    }
}

#[tokio::test]
async fn a_hold_that_is_gone_when_it_is_handed_over_counts_as_released_unless_somebody_has_the_lock() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = connected(Client::builder().url(server.url()).handover_slice(LASTS)).await.token_lock(&name);
    for taken in [false, true] {
        let guard = held(&lock).await;
        let mut next = lock.lock().lease(LASTS);
        assert!(poll_once(&mut next).await.is_pending());
        server.delete(&name);
        if taken {
            takes(server, &name, "theirs", LASTS);
            assert_lost(guard.unlock().await, LostCause::Gone);
            server.delete(&name);
        } else {
            assert_eq!(guard.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
        }
        let next = timeout(SOON, next).await.expect("it is free").expect("the server answers");
        next.unlock().await.expect("it is held");
    }
}

#[tokio::test]
async fn a_lock_that_is_given_away_is_neither_renewed_nor_released_here_and_others_wait_for_it() {
    let (server, name) = (Server::shared(), unique_name());
    let one = connected(Client::builder().url(server.url()).watchdog_timeout(COMMAND)).await;
    let (lock, elsewhere) = (one.token_lock(&name), client(server.url()).await.token_lock(&name));
    let guard = held(&lock).await;
    let (stop, waiting) = (guard.cancellation(), tokio::spawn(lock.lock()));
    let token = guard.into_token().expect("it is held");
    assert!(stop.is_cancelled(), "whoever worked under it stops");
    let lent = elsewhere.resume(token.clone());
    lent.extend(LASTS).await.expect("it is the token's");
    assert_eq!((holder(server, &name).as_deref(), waiting.is_finished()), (Some(token.as_ref()), false));
    // The waiter, which others of its process wait for, asks the server.
    assert!(lock.try_lock().wait(COMMAND * 2).await.expect("the server answers").is_none());
    assert!(ttl_ms(server, &name) > 50_000);
    assert_eq!(lent.unlock().await.expect("it is the token's"), Released::Freed);
    let guard = timeout(SOON, waiting).await.expect("it is free").expect("no panic").expect("the server answers");
    // Without an extension it is over with its lease, which nobody here renews.
    let token = guard.into_token().expect("it is held");
    assert_eq!(holder(server, &name).as_deref(), Some(token.as_ref()));
    eventually_async(SOON, async || holder(server, &name).is_none()).await;
    one.close().await;
}

#[tokio::test]
async fn what_is_no_token_of_ours_any_more_is_not_given_away() {
    let (server, name) = (Server::shared(), unique_name());
    let one = client(server.url()).await;
    let plain = one.mutex(unique_name()).lock().await.expect("it is free");
    assert!(plain.token().is_none());
    let plain = plain.into_token().expect_err("it has none");
    assert_eq!((plain.is_held(), plain.unlock().await.expect("it is held")), (true, Released::Freed));
    let lock = one.token_lock(&name);
    let lost = ran_out(server, &lock, MS * 60).await;
    assert!(lost.token().is_none());
    let lost = lost.into_token().expect_err("it is over");
    assert_eq!(lost.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
    let released = held(&lock).await;
    released.unlock().await.expect("it is held");
    assert!(released.token().is_none() && released.into_token().is_err());
}

#[tokio::test]
async fn what_is_dropped_on_its_way_leaves_nothing() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    drop(lock.resume(token("theirs")));
    let mut acquiring = lock.lock();
    assert!(poll_once(&mut acquiring).await.is_pending());
    drop(acquiring);
    let guard = held(&lock).await;
    let held = lock.resume(guard.into_token().expect("it is held"));
    drop(Box::pin(held.extend(LASTS * 2)));
    let mut extending = Box::pin(held.extend(LASTS * 2));
    assert!(poll_once(&mut extending).await.is_pending());
    drop(extending);
    assert_eq!(held.expires_in(), None, "it goes by what was answered");
    held.extend(LASTS).await.expect("it is the token's");
    drop(Box::pin(held.unlock()));
    assert!(held.expires_in().is_some(), "nobody began to release it");
    let mut unlocking = Box::pin(held.unlock());
    assert!(poll_once(&mut unlocking).await.is_pending());
    assert_eq!(held.expires_in(), None);
    drop(unlocking);
    assert_eq!(held.unlock().await.expect("it is the token's"), Released::Freed);
    assert_eq!((holder(server, &name), server.listeners(&channel(&name))), (None, 0));
}

#[tokio::test]
async fn nobody_takes_it_twice_and_a_name_is_of_one_kind_and_manner_in_a_client() {
    let (server, name) = (Server::shared(), unique_name());
    let one = client(server.url()).await;
    let lock = one.token_lock(&name);
    let guard = held(&lock).await;
    assert!(lock.try_lock().await.expect("the server answers").is_none(), "the same task");
    assert!(lock.try_lock().wait(MS * 30).await.expect("the server answers").is_none());
    let refused = lock.lock().owner(&Owner::current()).await;
    assert!(matches!(refused, Err(Error::Invalid { what: "owner", .. })), "{refused:?}");
    let others = [one.lock(&name).try_lock().await, one.token_lock(&name).silent().try_lock().await];
    assert!(others.iter().all(|it| matches!(it, Err(Error::Invalid { what: "name", .. }))), "{others:?}");
    let elsewhere = client(server.url()).await.lock(&name).try_lock().await;
    assert!(matches!(elsewhere, Err(Error::Refused { kind: RefusedKind::WrongType, .. })), "{elsewhere:?}");
    guard.unlock().await.expect("it is held");
}

#[tokio::test]
async fn whatever_else_stands_at_the_key_is_said_to_whoever_waits() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    run::<i64>(server, &["HSET", &name, "field", "1"]);
    assert!(lock.try_lock().await.expect("the plain command says no more").is_none());
    let refusals = [
        lock.lock().await.map(drop),
        lock.try_lock().wait(SOON).await.map(drop),
        lock.inspect().await.map(drop),
        lock.resume(token("x")).unlock().await.map(drop),
    ];
    for refused in refusals {
        let Err(Error::Refused { kind: RefusedKind::WrongType, source, .. }) = &refused else { panic!("{refused:?}") };
        assert!(source.to_string().contains("a hash"), "{source}");
    }
    assert_lost(lock.resume(token("x")).extend(LASTS).await, LostCause::Gone);
    assert_eq!(run::<i64>(server, &["HLEN", &name]), 1);
}

#[tokio::test]
async fn whoever_asks_is_told_who_holds_it_and_the_token_is_shown_nowhere() {
    let (server, name) = (Server::shared(), unique_name());
    let (one, other) = (client(server.url()).await, client(server.url()).await);
    let (lock, elsewhere) = (one.token_lock(&name), other.token_lock(&name));
    assert_eq!((elsewhere.inspect().await.expect("the server answers"), lock.name()), (None, &*name));
    let guard = held(&lock).await;
    let token = guard.token().expect("it has one");
    let seen = elsewhere.inspect().await.expect("the server answers").expect("it is held");
    assert_eq!((&seen.token, elsewhere.is_locked().await.expect("the server answers")), (&token, true));
    let left = elsewhere.remaining_lease().await.expect("the server answers");
    assert!(left.into_iter().chain(seen.remaining_lease).all(|left| left > Duration::from_secs(20)), "{left:?}");
    let shown = format!("{token:?} {seen:?} {guard:?} {lock:?} {:?}", lock.resume(token.clone()));
    assert!(!shown.contains(token.as_ref()), "{shown}");
    assert!(elsewhere.force_unlock().await.expect("the server answers"));
    assert_eq!(holder(server, &name), None);
    assert_eq!(guard.unlock().await.expect("nobody has it"), Released::AlreadyExpired);
    // A token that is no text cannot be named.
    redis::cmd("SET").arg(&name).arg(b"\xff\xfe").exec(&mut server.connection()).expect("SET answers");
    let unknown = elsewhere.force_unlock().await;
    assert!(matches!(unknown, Err(Error::Protocol { .. })), "{unknown:?}");
    assert!(elsewhere.try_lock().await.expect("the server answers").is_none());
    server.delete(&name);
}

#[tokio::test]
async fn a_hold_under_the_watchdog_outlives_its_lease_and_never_its_bound() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = connected(Client::builder().url(server.url()).watchdog_timeout(COMMAND)).await.token_lock(&name);
    let started = Instant::now();
    let guard = lock.lock().max_hold(COMMAND * 4).await.expect("it is free");
    let there = holder(server, &name);
    let outlives = guard.protect(async {
        tokio::time::sleep(COMMAND * 2).await;
        holder(server, &name)
    });
    assert_eq!(outlives.await.expect("it is renewed"), there);
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::MaxHold, .. }));
    assert!(COMMAND * 4 - MS * 10 <= started.elapsed());
    eventually_async(SOON, async || holder(server, &name).is_none()).await;
    assert_lost(guard.unlock().await, LostCause::MaxHold);
}

#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn a_key_that_was_left_for_good_is_given_a_time_where_replicas_are_to_know_of_grants_too() {
    let store = relatch::EmbeddedStore::seeded(5);
    store.set_replicas(1);
    let client = Client::builder().embedded(&store).replica_acks(1, MS * 100).connect().await.expect("it lets all in");
    store.steal_token("report", None);
    let (asked, lock) = (Instant::now(), client.token_lock("report").repair_orphans(MS * 2_000));
    let guard = lock.try_lock().wait(LASTS).await.expect("the store answers").expect("that time is over");
    assert!(asked.elapsed() < MS * 2_500, "{:?}", asked.elapsed());
    guard.unlock().await.expect("it is held");
}

#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn whoever_listens_already_and_finds_the_lock_taken_asks_for_how_long_though_nobody_tells() {
    let store = relatch::EmbeddedStore::seeded(5);
    let client = Client::builder().embedded(&store).connect().await.expect("it lets all in");
    let lock = client.token_lock("report").only_relatch();
    store.steal_token("report", Some(MS * 500));
    let first = lock.lock().lease(MS * 300).await.expect("the other's lease is over");
    // It asks when the first one's time is over here, which is a moment before it is so at the store.
    let asked = Instant::now();
    let next = lock.lock().await.expect("the first one's lease is over");
    assert!(!first.is_held() && asked.elapsed() < MS * 400, "{:?}", asked.elapsed());
    next.unlock().await.expect("it is held");
}

#[tokio::test]
async fn what_is_released_is_claimed_no_more_whatever_an_extension_is_answered_meanwhile() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    let held = lock.resume(held(&lock).await.into_token().expect("it is held"));
    let (extended, released) = join(held.extend(LASTS), held.unlock()).await;
    extended.expect("it left first");
    assert_eq!((released.expect("it is the token's"), held.expires_in()), (Released::Freed, None));
}

#[tokio::test]
async fn two_releases_at_once_are_told_the_same_and_a_stranger_frees_nothing_by_the_second() {
    let (server, name) = (Server::shared(), unique_name());
    let lock = client(server.url()).await.token_lock(&name);
    let nobodys = lock.resume(token("ours"));
    let both = join(nobodys.unlock(), nobodys.unlock()).await;
    assert_eq!(
        (both.0.expect("nobody has it"), both.1.expect("nobody has it")),
        (Released::AlreadyExpired, Released::AlreadyExpired)
    );
    takes(server, &name, "theirs", LASTS);
    let stranger = lock.resume(token("ours"));
    let both = join(stranger.unlock(), stranger.unlock()).await;
    assert_lost(both.0, LostCause::Gone);
    assert_lost(both.1, LostCause::Gone);
    assert_lost(stranger.unlock().await, LostCause::Gone);
    let theirs = lock.resume(token("theirs"));
    let both = join(theirs.unlock(), theirs.unlock()).await;
    assert_eq!((both.0.expect("it is theirs"), both.1.expect("it was theirs")), (Released::Freed, Released::Freed));
}

#[tokio::test]
async fn no_error_shows_the_token_that_a_server_quotes() {
    let proxy = Proxy::to(Server::shared());
    let lock = client(proxy.url()).await.token_lock(unique_name());
    let held = lock.resume(token("s3cret"));
    let quoted = "-ERR unknown command 'EVALSHA', with args beginning with: 'abc' '1' 'lock' 's3cret' \r\n";
    proxy.rule(script("release"), Action::Answer(quoted));
    let traces = Traces::here();
    let refused = held.unlock().await;
    assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::ScriptDisabled, .. })), "{refused:?}");
    let shown = format!("{refused:?} {:?}", traces.all());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn a_stranger_whose_first_release_was_dropped_frees_nothing_by_the_second() {
    let (server, name) = (Server::shared(), unique_name());
    takes(server, &name, "theirs", LASTS);
    let stranger = client(server.url()).await.token_lock(&name).resume(token("ours"));
    let mut first = Box::pin(stranger.unlock());
    assert!(poll_once(&mut first).await.is_pending());
    drop(first);
    assert_lost(stranger.unlock().await, LostCause::Gone);
}

#[tokio::test]
async fn a_name_is_repaired_in_one_way_in_a_client() {
    let (server, name) = (Server::shared(), unique_name());
    let one = client(server.url()).await;
    let guard = held(&one.token_lock(&name).repair_orphans(MS * 1000)).await;
    let refused = one.token_lock(&name).repair_orphans(MS * 2000).try_lock().await;
    assert!(matches!(refused, Err(Error::Invalid { what: "name", .. })), "{refused:?}");
    guard.unlock().await.expect("it is held");
}
