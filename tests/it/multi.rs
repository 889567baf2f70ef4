//! Several locks as one, on real servers and among processes. What the embedded store shows better is in
//! `multi/in_this_process.rs`, and what it shares with other locks in `conformance.rs`.

#[cfg(feature = "embedded")]
mod in_this_process;
#[cfg(feature = "embedded")]
mod several_clients;

use std::time::Duration;

use redis::AsyncCommands;
use relatch::{Client, Error, LostCause, MultiLock, Owner, Part, RefusedKind, Released};
use tokio::runtime::Runtime;

use crate::{
    harness::{
        Server, eventually_async,
        process::{Parent, Process},
        proxy::{Action, Proxy, matching::script},
        unique_name,
    },
    kept::{channel, client, connected, held, kept, teach},
    runtimes::{elsewhere, without_a_runtime},
};

const MS: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(10);
const PROCESSES: usize = 4;
const ROUNDS: usize = 250;
/// What all rounds take at most; who waited for each other would do so for ever.
const LONG: Duration = Duration::from_secs(100);

fn names(count: usize) -> Vec<String> {
    (0..count).map(|_| unique_name()).collect()
}

#[tokio::test]
async fn fifty_locks_are_all_asked_for_and_all_released_before_any_answer() {
    let server = Server::shared();
    teach(server);
    let (proxy, names) = (Proxy::to(server), names(50));
    let client = client(proxy.url()).await;
    let lock = client.multi_lock(&names);
    for _ in 0..2 {
        let acquires = proxy.rule(script("acquire"), Action::HoldReply);
        let acquiring = tokio::spawn(lock.lock());
        acquires.nth(names.len()).await;
        assert!(!acquiring.is_finished());
        acquires.let_go();
        let guard = acquiring.await.expect("no panic").expect("all are free");
        assert_eq!(acquires.seen(), names.len(), "each was asked for once");
        assert!(guard.is_held() && names.iter().all(|name| held(server, name).is_of(&client)));
        let releases = proxy.rule(script("release"), Action::HoldReply);
        let releasing = tokio::spawn(async move { guard.unlock().await });
        releases.nth(names.len()).await;
        releases.let_go();
        assert_eq!(releasing.await.expect("no panic").expect("it is held"), Released::Freed);
        assert_eq!(releases.seen(), names.len());
        assert!(names.iter().all(|name| kept(server, name).is_none()));
        acquires.remove();
        releases.remove();
    }
}

/// Counts up a plain key under two locks, which it names in this order.
pub(crate) fn take_two(parent: &mut Parent, args: &[String]) {
    let [url, first, second, counter] = args else { panic!("four arguments") };
    Runtime::new().expect("a runtime starts").block_on(async {
        let client = client(url).await;
        let server = redis::Client::open(url.as_str()).expect("the url is good");
        let mut server = server.get_multiplexed_async_connection().await.expect("the server takes a connection");
        parent.say("ready");
        parent.hear();
        let lock = client.multi_lock([first, second]);
        for _ in 0..ROUNDS {
            let guard = lock.lock().await.expect("the server answers");
            // Not atomic: two at once would count as one.
            let before: Option<u64> = server.get(counter).await.expect("the server answers");
            let _: () = server.set(counter, before.unwrap_or(0) + 1).await.expect("the server answers");
            assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        }
        parent.say("done");
    });
}

#[tokio::test]
async fn processes_that_name_two_locks_in_two_orders_never_wait_for_each_other() {
    let server = Server::shared();
    let (one, other, counter, url) = (unique_name(), unique_name(), unique_name(), server.url());
    let mut processes: Vec<_> = (0..PROCESSES)
        .map(|number| {
            let (first, second) = if number % 2 == 0 { (&one, &other) } else { (&other, &one) };
            Process::spawn("take_two", &[&url, first, second, &counter])
        })
        .collect();
    for process in &processes {
        assert_eq!(process.hear(), "ready");
    }
    for process in &mut processes {
        process.say("go");
    }
    for process in &processes {
        assert_eq!(process.hear_within(LONG).as_deref(), Some("done"));
    }
    let counted: usize = redis::cmd("GET").arg(&counter).query(&mut server.connection()).expect("the server answers");
    assert_eq!(counted, PROCESSES * ROUNDS);
    server.delete(&counter);
    assert!(kept(server, &one).is_none() && kept(server, &other).is_none());
}

#[tokio::test]
async fn what_comes_behind_the_first_that_is_missing_is_let_go_of_and_nobody_is_listened_for_but_that() {
    let server = Server::shared();
    let (ours, theirs) = (client(server.url()).await, client(server.url()).await);
    let mut names = names(3);
    names.sort();
    let guard = theirs.mutex(&names[1]).lock().await.expect("it is free");
    let waiting = tokio::spawn(ours.multi_lock(names.iter().rev()).lock());
    eventually_async(SOON, async || server.listeners(&channel(&names[1])) == 1).await;
    eventually_async(SOON, async || kept(server, &names[2]).is_none()).await;
    assert!(held(server, &names[0]).is_of(&ours));
    assert_eq!([0, 2].map(|at: usize| server.listeners(&channel(&names[at]))), [0, 0]);
    guard.unlock().await.expect("it is held");
    let guard = waiting.await.expect("no panic").expect("all are free");
    assert!(names.iter().all(|name| held(server, name).is_of(&ours)));
    guard.unlock().await.expect("it is held");
    // Who waits no longer leaves nothing.
    let busy = theirs.mutex(&names[2]).lock().await.expect("it is free");
    assert!(ours.multi_lock(&names).try_lock().wait(50 * MS).await.expect("the server answers").is_none());
    eventually_async(SOON, async || names[..2].iter().all(|name| kept(server, name).is_none())).await;
    assert!(held(server, &names[2]).is_of(&theirs));
    busy.unlock().await.expect("it is held");
}

#[tokio::test]
async fn a_key_that_is_no_lock_refuses_all_and_is_named() {
    let (server, mut names) = (Server::shared(), names(3));
    names.sort();
    let (ours, theirs) = (client(server.url()).await, client(server.url()).await);
    redis::cmd("SET").arg(&names[2]).arg("text").exec(&mut server.connection()).expect("the server answers");
    // Even where somebody else's is to be waited for first.
    for busy in [false, true] {
        let guard = if busy { Some(theirs.mutex(&names[0]).lock().await.expect("it is free")) } else { None };
        let error = ours.multi_lock(&names).lock().await.expect_err("one of them is a string");
        assert!(matches!(error, Error::Refused { kind: RefusedKind::WrongType, .. }), "{error:?}");
        assert_eq!(error.lock_name(), Some(&*names[2]));
        drop(guard);
        eventually_async(SOON, async || names[..2].iter().all(|name| kept(server, name).is_none())).await;
    }
    server.delete(&names[2]);
}

#[tokio::test]
async fn a_release_that_is_not_answered_is_the_answer_and_the_others_are_free() {
    let server = Server::shared();
    let (proxy, mut names) = (Proxy::to(server), names(3));
    names.sort();
    let client = connected(Client::builder().url(proxy.url()).command_timeout(300 * MS)).await;
    let guard = client.multi_lock(&names).lock().await.expect("all are free");
    let middle = names[1].clone();
    proxy.rule(script("release").mentioning(&middle).first(1), Action::Answer("-LOADING not now\r\n"));
    let error = guard.unlock().await.expect_err("the server cannot now");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert_eq!(error.lock_name(), Some(&*names[1]));
    assert!([0, 2].iter().all(|at: &usize| kept(server, &names[*at]).is_none()));
    assert!(!guard.is_held());
    // Asked again it says what became of it.
    assert_eq!(guard.unlock().await.expect("it is repeated"), Released::Freed);
    assert!(kept(server, &names[1]).is_none());
}

#[tokio::test]
async fn locks_of_two_servers_and_of_several_kinds_are_taken_together() {
    let (one, two, name) = (Server::shared(), Server::own(), unique_name());
    let (here, there) = (client(one.url()).await, client(two.url()).await);
    let fenced = there.fenced_lock(unique_name());
    let lock = MultiLock::new([Part::from(here.lock(&name)), Part::from(there.lock(&name)), Part::from(&fenced)]);
    let guard = lock.lock().await.expect("all are free");
    assert!(held(one, &name).is_of(&here) && held(&two, &name).is_of(&there));
    two.delete(fenced.name());
    guard.extend(2 * SOON).await.expect_err("one of them is gone");
    assert!(guard.lost().await.is_lost());
    let error = guard.unlock().await.expect_err("one of them was lost");
    assert!(
        matches!(&error, Error::Lost { cause: LostCause::Gone, name, .. } if &**name == fenced.name()),
        "{error:?}"
    );
    assert!(kept(one, &name).is_none() && kept(&two, &name).is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_taken_from_another_runtime_and_from_none() {
    let (server, names) = (Server::shared(), names(2));
    let client = client(server.url()).await;
    let [first, second] = [(); 2].map(|()| client.multi_lock(&names));
    let from_another = elsewhere(move || {
        Runtime::new().expect("a runtime starts").block_on(async {
            let guard = first.lock().await?;
            assert!(guard.is_held() && *guard.owner() == Owner::current());
            guard.extend(2 * SOON).await?;
            guard.unlock().await
        })
    });
    let from_none = elsewhere(move || {
        without_a_runtime(async {
            let guard = second.try_lock().wait(SOON).await?.expect("all are free");
            assert_eq!(guard.protect(async { 7 }).await?, 7);
            let owner = guard.detach();
            second.unlock().owner(&owner).await
        })
    });
    for taken in [from_another, from_none] {
        assert_eq!(taken.expect("it is held"), Released::Freed);
    }
    assert!(names.iter().all(|name| kept(server, name).is_none()));
}
