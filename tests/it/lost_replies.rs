//! Replies that are lost after the script ran, or with it: what their caller is told, what is repeated, and what is left.
//! What comes late instead of never is in `late.rs` and `replays.rs`.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use relatch::{Client, Error, LockGuard, Owner, Released, Result};

use crate::{
    harness::{
        Server, eventually_async,
        proxy::{
            Action, Door, Entry, Event, Proxy,
            matching::{script, verb},
        },
        unique_name,
    },
    kept::{connected, held, kept, poll_once, teach},
    sent::{Does, assert_ends_are_final, sent, sent_about},
};

/// What must come comes within this.
const SOON: Duration = Duration::from_secs(10);
/// After this a command counts as unanswered.
const COMMAND: Duration = Duration::from_millis(800);
/// So many round trips of a link that came back may pass until what was given up is gone.
const ROUND_TRIPS: usize = 2;

async fn hasty(proxy: &Proxy) -> Client {
    let builder = Client::builder().url(proxy.url()).command_timeout(COMMAND);
    connected(builder.handover_slice(Duration::from_secs(60))).await
}

#[track_caller]
fn assert_may_have_run<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Unreachable { may_have_run: true, .. })), "{outcome:?}");
}

async fn is_free(server: &Server, name: &str) {
    eventually_async(SOON, async || kept(server, name).is_none()).await;
}

#[tokio::test]
async fn a_try_whose_reply_was_lost_and_that_its_caller_makes_again_holds_once() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::SwallowReply, Action::CutAfter, Action::CutMidReply] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let (client, owner) = (hasty(&proxy).await, Owner::new());
        let lock = client.lock(&name);
        proxy.rule(script("acquire").first(1), loss);
        assert_may_have_run(lock.try_lock().owner(&owner).await);
        assert!(!lock.is_held_by(&owner));
        let guard = lock.try_lock().owner(&owner).await.expect("it is answered").expect("what was left went before");
        let now = held(server, &name);
        assert_eq!((now.count, guard.hold_count()), (1, 1), "{loss:?}");
        let all: Vec<_> = sent(&proxy).into_iter().map(|sent| (sent.field == now.field, sent.does)).collect();
        // What may have run is released before anybody of this process tries, if not on both links then on the new one.
        let of_first = all.iter().filter(|(of_second, _)| !of_second).map(|(_, does)| *does);
        let of_first: Vec<_> = of_first.collect();
        assert_eq!(of_first[..2], [Does::Acquire, Does::Release(0)], "{loss:?}");
        assert!(of_first[2..].iter().all(|does| *does == Does::Release(0)), "{loss:?}: {all:?}");
        assert_eq!(all.last(), Some(&(true, Does::Acquire)), "{loss:?}: {all:?}");
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        assert_eq!(kept(server, &name), None);
        assert_ends_are_final(&proxy);
    }
}

/// How often the client waited for the server on this connection, until it was told what the entry says.
fn round_trips(log: &[Entry], until: impl Fn(&Event) -> bool) -> usize {
    let last = log.iter().position(|entry| until(&entry.event)).expect("it was answered");
    let on_link = log[..=last].iter().filter(|entry| entry.connection == log[last].connection);
    let (mut round_trips, mut waits) = (0, false);
    // A question for what the server is, and how the connection is called: nobody waits for either.
    let is_aside = |of: &[Vec<u8>]| {
        let starts = |words: &[&str]| of.iter().zip(words).all(|(of, word)| of.eq_ignore_ascii_case(word.as_bytes()));
        starts(&["info"]) || starts(&["client", "setname"])
    };
    for entry in on_link {
        match &entry.event {
            Event::Request { words: of, .. } | Event::Reply { to: of, .. } if is_aside(of) => {}
            Event::Request { .. } => waits = true,
            Event::Reply { .. } => round_trips += usize::from(std::mem::take(&mut waits)),
            _ => {}
        }
    }
    round_trips
}

fn is_answer_to(event: &Event, script: &str) -> bool {
    matches!(event, Event::Reply { to, .. } if verb(to).as_deref() == Some(script))
}

/// How an acquisition comes to its end without its reply.
#[derive(Clone, Copy, Debug)]
enum GivenUp {
    Dropped,
    WaitOver,
}

#[tokio::test]
async fn an_acquisition_that_is_given_up_without_its_reply_is_gone_two_round_trips_after_the_link_is_back() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::CutAfter, Action::SwallowReply] {
        for given_up in [GivenUp::Dropped, GivenUp::WaitOver] {
            let (proxy, name) = (Proxy::to(server), unique_name());
            let client = hasty(&proxy).await;
            proxy.rule(script("acquire").first(1), loss);
            proxy.door(Door::Refusing);
            let wait = if matches!(given_up, GivenUp::Dropped) { SOON } else { COMMAND / 2 };
            let acquiring = tokio::spawn(client.lock(&name).try_lock().wait(wait));
            eventually_async(SOON, async || kept(server, &name).is_some()).await;
            // What was swallowed on a link that lives would be gone already.
            proxy.silence_all();
            match given_up {
                GivenUp::Dropped => {
                    acquiring.abort();
                    assert!(acquiring.await.is_err_and(|error| error.is_cancelled()));
                }
                GivenUp::WaitOver => {
                    let outcome = acquiring.await.expect("no panic");
                    assert!(matches!(outcome, Err(Error::Unreachable { .. })), "{outcome:?}");
                }
            }
            assert!(kept(server, &name).is_some());
            proxy.clear_log();
            proxy.door(Door::Open);
            is_free(server, &name).await;
            eventually_async(SOON, async || proxy.log().iter().any(|it| is_answer_to(&it.event, "release"))).await;
            let took = round_trips(&proxy.log(), |event| is_answer_to(event, "release"));
            assert!(took <= ROUND_TRIPS, "{loss:?}, {given_up:?}: gone after {took} round trips");
            // Nothing was adopted by anybody.
            assert!(client.lock(&name).try_lock().await.expect("the server answers").is_some());
            assert_ends_are_final(&proxy);
        }
    }
}

#[tokio::test]
async fn an_acquisition_that_is_dropped_while_its_reply_is_swallowed_is_gone_without_a_new_link() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = hasty(&proxy).await;
    proxy.rule(script("acquire").first(1), Action::SwallowReply);
    let mut acquire = client.lock(&name).lock();
    assert!(poll_once(&mut acquire).await.is_pending());
    eventually_async(SOON, async || kept(server, &name).is_some()).await;
    drop(acquire);
    is_free(server, &name).await;
    let all = sent(&proxy);
    assert!(all.iter().all(|sent| sent.connection == all[0].connection), "{all:?}");
    assert_eq!(sent_about(&proxy, &all[0].field)[..2], [Does::Acquire, Does::Release(0)]);
}

#[tokio::test]
async fn a_reply_that_is_older_than_its_lease_gives_no_guard_and_is_cleaned_up_before_the_next_try() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url())).await;
    let lease = Duration::from_millis(500);
    proxy.rule(script("acquire").first(1), Action::DelayReply(lease + lease / 5));
    let guard = client.lock(&name).lock().lease(lease).await.expect("the second try is answered in time");
    let now = held(server, &name);
    let all = sent(&proxy);
    let does: Vec<_> = all.iter().map(|sent| sent.does).collect();
    assert_eq!(does, [Does::Acquire, Does::Release(0), Does::Acquire]);
    assert!(all[0].field == all[1].field && all[2].field == now.field && all[0].field != now.field, "{all:?}");
    assert_eq!((now.count, guard.is_held()), (1, true));
    guard.unlock().await.expect("it is held");
    assert_ends_are_final(&proxy);
}

/// What can happen to a command on its way there or back, each before the next one may be sent.
const LOSSES: [Action; 8] = [
    Action::SwallowRequest,
    Action::SwallowReply,
    Action::CutBefore,
    Action::CutMidRequest,
    Action::CutAfter,
    Action::CutMidReply,
    Action::HoldRequest,
    Action::Silence,
];

fn answers_nested_release(event: &Event) -> bool {
    matches!(event, Event::Reply { to, .. } if is_answer_to(event, "release") && to.last().is_some_and(|left| left == b"1"))
}

#[tokio::test]
async fn a_nested_release_without_an_answer_does_not_keep_the_key_after_the_last_one() {
    let server = Server::shared();
    teach(server);
    for loss in LOSSES {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let (client, owner) = (hasty(&proxy).await, Owner::new());
        let lock = client.lock(&name);
        let outer = lock.lock().owner(&owner).await.expect("it is free");
        let inner = lock.lock().owner(&owner).await.expect("it nests");
        assert_eq!(held(server, &name).count, 2);
        let late = proxy.rule(script("release").first(1), loss);
        drop(inner);
        late.nth(1).await;
        drop(outer);
        is_free(server, &name).await;
        let next = lock.lock().owner(&owner).await.expect("it is free");
        let now = held(server, &name);
        if loss == Action::HoldRequest {
            late.let_go();
            eventually_async(SOON, async || proxy.log().iter().any(|it| answers_nested_release(&it.event))).await;
        }
        let released = sent(&proxy).into_iter().filter(|sent| matches!(sent.does, Does::Release(_)));
        let fields: Vec<_> = released.map(|sent| sent.field).collect();
        assert!(fields.iter().all(|field| *field == fields[0] && *field != now.field), "{loss:?}: {fields:?}");
        assert_eq!(held(server, &name), now, "{loss:?}");
        assert_eq!(next.unlock().await.expect("it is held"), Released::Freed);
        assert_eq!(kept(server, &name), None);
        assert_ends_are_final(&proxy);
    }
}

/// How two guards of one hold end on two threads at the same moment.
async fn end_together(guards: [LockGuard; 2], end: fn(LockGuard)) {
    let start = Arc::new(Barrier::new(2));
    let threads = guards.map(|guard| {
        let start = Arc::clone(&start);
        thread::spawn(move || {
            start.wait();
            end(guard);
        })
    });
    let joined = tokio::task::spawn_blocking(|| threads.map(|thread| thread.join().expect("no panic")));
    joined.await.expect("no panic");
}

/// Whether the server found every hold that it was to release.
fn all_were_there(proxy: &Proxy) -> bool {
    let gone =
        |event: &Event| matches!(event, Event::Reply { frame, .. } if frame.bytes().starts_with(b"*3\r\n:-1\r\n"));
    !proxy.log().iter().any(|entry| is_answer_to(&entry.event, "release") && gone(&entry.event))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_guards_of_one_hold_that_two_threads_drop_are_both_released_and_the_key_goes() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url())).await;
    let lock = client.lock(&name);
    for round in 0..200 {
        let owner = Owner::new();
        let outer = lock.try_lock().owner(&owner).await.expect("the server answers").expect("the one before is gone");
        let inner = lock.try_lock().owner(&owner).await.expect("the server answers").expect("it nests");
        if round % 2 == 0 {
            end_together([outer, inner], drop).await;
        } else {
            let unlock = |guard: LockGuard| tokio::spawn(async move { guard.unlock().await });
            let (one, other) = (unlock(inner), unlock(outer));
            let [one, other] = [one.await, other.await].map(|end| end.expect("no panic").expect("it is held"));
            assert!([one, other].contains(&Released::Freed), "{one:?}, {other:?}");
        }
    }
    is_free(server, &name).await;
    assert!(all_were_there(&proxy));
    assert_eq!(assert_ends_are_final(&proxy), 200);
}

#[tokio::test]
async fn a_release_that_fails_three_times_is_released_when_it_is_asked_again_and_its_owner_locks_anew() {
    let server = Server::shared();
    teach(server);
    for loss in [Action::CutBefore, Action::CutMidRequest, Action::CutAfter, Action::SwallowReply] {
        let (proxy, name) = (Proxy::to(server), unique_name());
        let (client, owner) = (hasty(&proxy).await, Owner::new());
        let lock = client.lock(&name);
        let guard = lock.lock().owner(&owner).await.expect("it is free");
        let field = held(server, &name).field;
        let failing = proxy.rule(script("release").first(3), loss);
        assert_may_have_run(guard.unlock().await);
        let answered = async {
            loop {
                match guard.unlock().await {
                    Err(error) => assert!(matches!(error, Error::Unreachable { .. }), "{loss:?}: {error:?}"),
                    Ok(outcome) => return outcome,
                }
            }
        };
        let outcome = tokio::time::timeout(SOON, answered).await.expect("it is answered in the end");
        assert_eq!(outcome, Released::Freed, "{loss:?}");
        assert_eq!((kept(server, &name), failing.seen() >= 4), (None, true), "{loss:?}");
        let next = lock.try_lock().owner(&owner).await.expect("the server answers").expect("it is free");
        assert_ne!(held(server, &name).field, field);
        assert_eq!(guard.unlock().await.expect("the answer is repeated"), Released::Freed);
        assert!(next.is_held());
        next.unlock().await.expect("it is held");
        assert_ends_are_final(&proxy);
    }
}

#[tokio::test]
async fn a_guard_claims_nothing_any_more_when_its_release_leaves() {
    let (server, name) = (Server::shared(), unique_name());
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url())).await;
    let guard = Arc::new(client.lock(&name).lock().await.expect("it is free"));
    let release = proxy.rule(script("release"), Action::HoldRequest);
    let unlocking = Arc::clone(&guard);
    let mut unlocking = Box::pin(async move { unlocking.unlock().await });
    assert!(poll_once(&mut unlocking).await.is_pending());
    // This runtime has one thread, and nobody else of it has run yet.
    assert!(!guard.is_held() && guard.expires_in().is_none() && guard.cancellation().is_cancelled());
    assert_eq!((release.seen(), held(server, &name).count), (0, 1));
    release.nth(1).await;
    release.let_go();
    assert_eq!(unlocking.await.expect("it is held"), Released::Freed);
}
