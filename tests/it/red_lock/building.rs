//! How many masters there may be, and what cannot be together.

use std::time::Duration;

use relatch::{Client, Error, RedLock, Released, Result};

use super::site::Site;
use crate::{
    harness::{Server, eventually_async, masters, unique_name},
    kept::{client, connected},
};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn one_two_and_four_masters_do_with_as_few_as_a_majority() {
    for (count, down) in [(1, 0), (2, 0), (4, 1)] {
        let (site, name) = (Site::of(count), unique_name());
        let red = site.red().await;
        red.lock(&name).lock().await.expect("a free lock").unlock().await.expect("it is held");
        site.come_to(&name, &vec![0; count]).await;
        (0..down).for_each(|master| site.goes_down(master));
        let guard = red.lock(&name).lock().await.expect("a majority is there");
        let wanted: Vec<u32> = (0..count).map(|master| u32::from(master >= down)).collect();
        site.come_to(&name, &wanted).await;
        let other = site.undisturbed().await;
        assert!(other.lock(&name).try_lock().await.expect("they answer").is_none(), "of {count}");
        assert_eq!(guard.unlock().await.expect("a majority is there"), Released::Freed);
        site.come_to(&name, &vec![0; count]).await;
        assert!(other.lock(&name).try_lock().await.expect("they answer").is_some(), "of {count}");
    }
}

/// What is wrong with the masters, by the first use of the lock; nothing was sent to any of them under the name.
async fn is_refused(clients: Vec<Client>, why: &str) {
    let name = unique_name();
    let builder = RedLock::builder(clients.clone()).restart_quarantine(Duration::ZERO).build();
    let at_first_use = RedLock::new(clients);
    let tried = [
        at_first_use.lock(&name).try_lock().await.map(drop),
        at_first_use.mutex(&name).lock().await.map(drop),
        at_first_use.token_lock(&name).try_lock().wait(MS).await.map(drop),
        at_first_use.lock(&name).is_locked().await.map(drop),
    ];
    let of_builder = builder.err().map(Err);
    for answer in tried.into_iter().chain(of_builder) {
        assert!(matches!(&answer, Err(Error::Invalid { what: "clients", .. })), "{answer:?}");
        let words = answer.expect_err("it is refused").to_string();
        assert!(words.contains(why), "{words:?} does not say {why:?}");
    }
}

#[tokio::test]
async fn clients_that_cannot_be_masters_together_are_refused_before_anything_is_sent() {
    let site = Site::of(3);
    let clients = site.clients().await;
    site.proxies.iter().for_each(|proxy| proxy.clear_log());
    let to = |at: usize| Client::builder().url(site.proxies[at].url());
    is_refused(Vec::new(), "at least one").await;
    is_refused(vec![clients[0].clone(), clients[1].clone(), clients[0].clone()], "twice").await;
    is_refused(vec![clients[0].clone(); 65], "64 at most").await;
    let prefixed = connected(to(1).name_prefix("other:")).await;
    is_refused(vec![clients[0].clone(), prefixed, clients[2].clone()], "prefix").await;
    let acknowledged = connected(to(2).replica_acks(1, MS * 10)).await;
    is_refused(vec![clients[0].clone(), clients[1].clone(), acknowledged], "replica_acks").await;
    let apart = connected(to(1).own_thread()).await;
    is_refused(vec![clients[0].clone(), apart, clients[2].clone()], "runtimes").await;
    for proxy in &site.proxies {
        let scripts = proxy.log().iter().filter(|entry| entry.script().is_some()).count();
        assert_eq!((scripts, proxy.count(&crate::harness::proxy::matching::command("SET"))), (0, 0));
    }
}

#[tokio::test]
async fn a_server_that_has_two_votes_is_found_out_and_nothing_is_sent_to_it() {
    let site = Site::of(3);
    let server = &masters::shared(3)[0];
    let twice = [client(site.proxies[0].url()).await, client(site.proxies[0].url()).await];
    let past_the_proxy = [client(site.proxies[0].url()).await, client(server.url()).await];
    for [one, same] in [twice, past_the_proxy] {
        let clients = [one, client(site.proxies[1].url()).await, same];
        let red = RedLock::builder(clients).restart_quarantine(Duration::ZERO).build().expect("nothing was asked yet");
        let [name, token] = [unique_name(), unique_name()];
        for answer in [
            red.lock(&name).try_lock().await.map(drop),
            red.lock(&name).lock().await.map(drop),
            red.token_lock(&token).try_lock().await.map(drop),
        ] {
            let words = match &answer {
                Err(Error::Invalid { why, .. }) => why.to_string(),
                other => panic!("{other:?}"),
            };
            assert!(words.contains("one vote"), "{words}");
        }
        assert_eq!((site.commands(&name), site.commands(&token)), (0, 0));
        assert_eq!(site.counts(&name), [0, 0, 0]);
    }
}

#[tokio::test]
async fn a_lease_that_outlasts_the_quarantine_is_refused_before_anything_is_sent() {
    // Old enough for leases of a second.
    let site = Site::of(3);
    let (watchdog, quarantine) = (Duration::from_secs(1), Duration::from_millis(1500));
    let builder = RedLock::builder(site.clients().await).watchdog_timeout(watchdog).restart_quarantine(quarantine);
    let red = builder.build().expect("they can be masters");
    eventually_async(SOON, async || red.survey("nobody's").await.iter().all(|view| view.young_for.is_none())).await;
    let (name, too_long) = (unique_name(), quarantine + MS);
    for answer in [
        red.lock(&name).lock().lease(too_long).await.map(drop),
        red.mutex(&name).try_lock().lease(too_long).await.map(drop),
        red.token_lock(&name).try_lock().lease(too_long).wait(MS).await.map(drop),
    ] {
        refused_for(&answer, "lease", "restart_quarantine");
    }
    assert_eq!(site.commands(&name), 0);
    let guard = red.lock(&name).lock().lease(quarantine).await.expect("that long is fine");
    let before = site.commands(&name);
    refused_for(&guard.extend(too_long).await, "lease", "restart_quarantine");
    assert_eq!(site.commands(&name), before);
    guard.extend(quarantine).await.expect("that long is fine");
    guard.unlock().await.expect("it is held");
    // Without one no lease is too long.
    let red = site.red().await;
    red.lock(&name).lock().lease(DAY).await.expect("any lease").unlock().await.expect("it is held");
}

fn refused_for(answer: &Result<()>, option: &str, word: &str) {
    assert!(matches!(answer, Err(Error::Invalid { what, .. }) if *what == option), "{answer:?}");
    let words = answer.as_ref().expect_err("it is refused").to_string();
    assert!(words.contains(word), "{words}");
}

#[tokio::test]
async fn an_option_that_is_out_of_bounds_is_named() {
    let clients = [client(Server::shared().url()).await];
    let with = |set: fn(relatch::RedLockBuilder) -> relatch::RedLockBuilder| {
        set(RedLock::builder(clients.clone())).build().map(drop)
    };
    for ratio in [with(|it| it.drift(-0.01)), with(|it| it.drift(0.51)), with(|it| it.drift(f64::NAN))] {
        refused_for(&ratio, "drift", "0.5");
    }
    for timeout in [with(|it| it.master_timeout(Duration::ZERO)), with(|it| it.master_timeout(DAY * 366))] {
        refused_for(&timeout, "master_timeout", "must be");
    }
    for quarantine in [
        with(|it| it.watchdog_timeout(Duration::from_secs(2)).restart_quarantine(Duration::from_secs(1))),
        with(|it| it.restart_quarantine(DAY * 366)),
    ] {
        refused_for(&quarantine, "restart_quarantine", "must be");
    }
    refused_for(&with(|it| it.watchdog_timeout(MS)), "watchdog_timeout", "must be");
    refused_for(&with(|it| it.unreachable_after(Duration::ZERO)), "unreachable_after", "must be");
    refused_for(&with(|it| it.handover_slice(DAY)), "handover_slice", "must be");
    for fine in [with(|it| it.drift(0.0)), with(|it| it.drift(0.5)), with(|it| it.restart_quarantine(Duration::ZERO))] {
        fine.expect("it is within its bounds");
    }
}
