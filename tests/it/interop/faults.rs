//! What was seen to go wrong in Redisson, and the same drive with our client. Each test shows both: the guide's page on
//! Redisson says of this version what the first half asserts.

use std::time::Duration;

use redis::Commands;
use relatch::Owner;

use super::{SOON, assert_refused, enter, entered, site::Site};
use crate::{
    harness::{
        eventually_async,
        monitor::{Monitor, Ran},
        proxy::{
            Action, Proxy,
            matching::{command, script},
        },
        unique_name,
    },
    kept::{connected, held, kept, poll_once, teach},
};

live!(
    Any:
    the_guide_speaks_of_the_version_that_runs_here_and_of_no_other,
    an_inner_lease_that_is_released_does_not_end_the_renewal_of_the_outer_hold,
    a_caller_that_leaves_while_its_answer_is_on_its_way_leaves_no_lock_behind,
    a_key_that_is_no_lock_any_more_does_not_keep_the_others_from_being_renewed,
    a_hold_is_renewed_as_often_after_many_short_ones_as_before,
    the_next_holder_is_renewed_after_one_of_the_same_client_whose_nested_hold_was_lost,
    an_acquisition_whose_answer_was_lost_counts_once,
    a_client_can_wait_for_more_than_two_hundred_and_fifty_names;
);

const WATCHDOG: Duration = Duration::from_millis(1500);
const WATCHDOG_MS: &str = "1500";

async fn the_guide_speaks_of_the_version_that_runs_here_and_of_no_other(site: &Site) {
    let java = site.java().await;
    let named = include_str!("../../../src/guide/redisson.rs").split("Redisson ").skip(1);
    let version = |text: &'static str| {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text[..end].trim_end_matches('.')
    };
    let versions: Vec<&str> = named.map(version).filter(|version| !version.is_empty()).collect();
    assert!(!versions.is_empty() && versions.iter().all(|version| *version == java.version()), "{versions:?}");
}

async fn an_inner_lease_that_is_released_does_not_end_the_renewal_of_the_outer_hold(site: &Site) {
    let java = site.java_with(&[("watchdog", WATCHDOG_MS)]).await;
    let rust = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let name = unique_name();
    let theirs = java.lock("one", &name);
    assert!(theirs.lock().await.yes());
    assert!(theirs.lock_for(WATCHDOG).await.yes());
    assert!(theirs.unlock().await.yes());
    assert_eq!(theirs.hold_count().await.number(), 1);
    eventually_async(SOON, async || kept(site.server(), &name).is_none()).await;
    assert_refused(&theirs.unlock().await);

    let ours = rust.lock(&name);
    let outer = ours.lock().await.expect("it is free");
    let inner = ours.lock().lease(WATCHDOG).await.expect("it is ours");
    inner.unlock().await.expect("it is held");
    assert!(tokio::time::timeout(3 * WATCHDOG, outer.lost()).await.is_err(), "it is renewed");
    assert_eq!(held(site.server(), &name).count, 1);
    outer.unlock().await.expect("it is held");
}

/// In Java it is an interrupt, here a future that is dropped.
async fn a_caller_that_leaves_while_its_answer_is_on_its_way_leaves_no_lock_behind(site: &Site) {
    teach(site.server());
    let (theirs_way, our_way) = (Proxy::tcp_to(site.server()), Proxy::to(site.server()));
    let java = site.java_behind(&theirs_way, "single", &[("watchdog", WATCHDOG_MS)]).await;
    let rust = connected(site.builder().url(our_way.url()).watchdog_timeout(WATCHDOG)).await;
    let name = unique_name();
    // The server knows Redisson's scripts from here on.
    let known = java.lock("one", &unique_name());
    assert!(known.lock().await.yes() && known.unlock().await.yes());
    let theirs = java.lock("one", &name);
    let reply = theirs_way.rule(command("EVALSHA").mentioning(&name).nth(1), Action::HoldReply);
    let asked = theirs.lock();
    reply.nth(1).await;
    assert!(java.interrupt("one").await.yes());
    assert_eq!(asked.await.refusal(), "RedisException");
    reply.let_go();
    // Nobody has it, and it is renewed.
    tokio::time::sleep(3 * WATCHDOG).await;
    assert!(kept(site.server(), &name).is_some());
    assert!(theirs.force_unlock().await.yes());

    let reply = our_way.rule(script("acquire").mentioning(&name).nth(1), Action::HoldReply);
    let mut asked = Box::pin(rust.lock(&name).lock());
    assert!(poll_once(&mut asked).await.is_pending());
    reply.nth(1).await;
    eventually_async(SOON, async || kept(site.server(), &name).is_some()).await;
    let published = site.server().count("publish");
    drop(asked);
    reply.let_go();
    eventually_async(SOON, async || kept(site.server(), &name).is_none()).await;
    assert_eq!(site.server().count("publish"), published + 1, "it was released, and did not run out");
}

/// The keys of a client's newest renewal of so many holds, in its order.
async fn renewed_together(monitor: &Monitor<'_>, client: &str, holds: usize) -> Vec<String> {
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let number = holds.to_string();
    let is_one = |ran: &Ran| {
        let theirs = ran.words.iter().any(|word| text(word).starts_with(client));
        theirs && ran.name() == "EVALSHA" && ran.words.get(2).is_some_and(|keys| text(keys) == number)
    };
    let mut keys = Vec::new();
    eventually_async(SOON, async || {
        let newest = monitor.ran().into_iter().rfind(is_one);
        keys = newest.map(|ran| ran.words[3..3 + holds].iter().map(text).collect()).unwrap_or_default();
        !keys.is_empty()
    })
    .await;
    keys
}

/// On a single server what ends the renewal of the others is a key that is refused; in a cluster a shard that does not
/// answer: that is in `several.rs`.
async fn a_key_that_is_no_lock_any_more_does_not_keep_the_others_from_being_renewed(site: &Site) {
    let java = site.java_with(&[("watchdog", WATCHDOG_MS)]).await;
    let rust = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let names = [unique_name(), unique_name(), unique_name()];
    let overwrite = |name: &str| -> () { site.server().connection().set(name, "text").expect("the server takes it") };
    let monitor = site.server().monitor();
    for name in &names {
        assert!(java.lock("one", name).lock().await.yes());
    }
    // A script that fails has done what came before.
    let order = renewed_together(&monitor, java.client(), names.len()).await;
    overwrite(&order[0]);
    eventually_async(SOON, async || site.server().keys() == order[..1]).await;
    for name in &order[1..] {
        assert_refused(&java.lock("one", name).unlock().await);
    }
    site.server().delete(&order[0]);
    // Or it would go on asking for what it has lost.
    java.kill();

    // At once, so that they are due together; the first of them comes first in whatever goes out.
    let [first, second, third] = [0, 1, 2].map(|at: usize| rust.lock(&names[at]));
    let (spoilt, second, third) = tokio::join!(first.lock(), second.lock(), third.lock());
    let spoilt = spoilt.expect("it is free");
    overwrite(&names[0]);
    tokio::time::timeout(SOON, spoilt.lost()).await.expect("it is told");
    tokio::time::sleep(2 * WATCHDOG).await;
    for guard in [second, third].map(|guard| guard.expect("it is free")) {
        assert!(guard.is_held());
        assert!(kept(site.server(), guard.name()).is_some());
        guard.unlock().await.expect("it is held");
    }
    site.server().delete(&names[0]);
}

/// How often a client asked to renew this hold.
fn renewals(ran: &[Ran], owner: &str) -> usize {
    ran.iter().filter(|ran| !ran.by_script && ran.name() == "EVALSHA" && ran.mentions(owner)).count()
}

async fn a_hold_is_renewed_as_often_after_many_short_ones_as_before(site: &Site) {
    const SHORT_ONES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(10);
    let java = site.java_with(&[("watchdog", WATCHDOG_MS)]).await;
    let rust = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let (name, churned) = (unique_name(), unique_name());
    let monitor = site.server().monitor();
    // Three leases, and a renewal each third of them.
    let fair = 9;
    assert!(java.lock("one", &churned).again(SHORT_ONES, PAUSE).await.yes());
    let theirs = java.lock("one", &name);
    let tid = theirs.lock().await.tid;
    monitor.take();
    tokio::time::sleep(3 * WATCHDOG).await;
    let seen = renewals(&monitor.take(), &format!("{}:{tid}", java.client()));
    assert!(theirs.unlock().await.yes());
    println!("Redisson {} renewed one hold {seen} times in three leases", java.version());
    assert!(seen >= 2 * fair, "{seen}");

    for _ in 0..SHORT_ONES {
        rust.lock(&churned).lock().await.expect("it is free").unlock().await.expect("it is held");
        tokio::time::sleep(PAUSE).await;
    }
    let guard = rust.lock(&name).lock().await.expect("it is free");
    let owner = held(site.server(), &name).field;
    monitor.take();
    tokio::time::sleep(3 * WATCHDOG).await;
    let seen = renewals(&monitor.take(), &owner);
    assert!(seen > 0 && seen <= fair + 1, "{seen}");
    guard.unlock().await.expect("it is held");
}

async fn the_next_holder_is_renewed_after_one_of_the_same_client_whose_nested_hold_was_lost(site: &Site) {
    const NESTED: usize = 9;
    let java = site.java_with(&[("watchdog", WATCHDOG_MS)]).await;
    let rust = connected(site.builder().watchdog_timeout(WATCHDOG)).await;
    let name = unique_name();
    let (first, second) = (java.lock("one", &name), java.lock("two", &name));
    for _ in 0..NESTED {
        assert!(first.lock().await.yes());
    }
    site.server().delete(&name);
    assert!(second.lock().await.yes());
    eventually_async(SOON, async || kept(site.server(), &name).is_none()).await;
    assert_refused(&second.unlock().await);
    java.kill();

    let ours = rust.lock(&name);
    let (first, second) = (Owner::new(), Owner::new());
    let mut guards = Vec::new();
    for _ in 0..NESTED {
        guards.push(ours.lock().owner(&first).await.expect("it is ours"));
    }
    site.server().delete(&name);
    // Another task of this client waits for the first, until that is told.
    let guard = ours.lock().owner(&second).await.expect("it is free");
    assert!(tokio::time::timeout(3 * WATCHDOG, guard.lost()).await.is_err(), "it is renewed");
    guard.unlock().await.expect("it is held");
    drop(guards);
}

/// To Redisson in its mode for masters and replicas, a single server is a master without any.
async fn an_acquisition_whose_answer_was_lost_counts_once(site: &Site) {
    teach(site.server());
    let (theirs_way, our_way) = (Proxy::tcp_to(site.server()), Proxy::to(site.server()));
    let java = site.java_behind(&theirs_way, "masterslave", &[]).await;
    let rust = connected(site.builder().url(our_way.url())).await;
    let name = unique_name();
    let known = java.lock("one", &unique_name());
    assert!(known.lock().await.yes() && known.unlock().await.yes());
    let theirs = java.lock("one", &name);
    let cut = theirs_way.rule(command("EVALSHA").mentioning(&name).nth(1), Action::CutAfter);
    assert!(theirs.lock().await.yes());
    cut.nth(1).await;
    assert_eq!(theirs.hold_count().await.number(), 2);
    assert!(theirs.unlock().await.yes());
    assert_eq!(held(site.server(), &name).count, 1);
    assert!(theirs.unlock().await.yes());

    let cut = our_way.rule(script("acquire").mentioning(&name).nth(1), Action::CutAfter);
    let guard = rust.lock(&name).lock().await.expect("it asks again");
    cut.nth(1).await;
    assert_eq!(held(site.server(), &name).count, 1);
    guard.unlock().await.expect("it is held");
    assert_eq!(kept(site.server(), &name), None);
}

/// How many channels of locks somebody listens on.
fn listened_to(site: &Site) -> usize {
    let asked =
        redis::cmd("PUBSUB").arg("CHANNELS").arg("redisson_lock__channel:*").query(&mut site.server().connection());
    let channels: Vec<String> = asked.expect("PUBSUB answers");
    channels.len()
}

/// Redisson has five subscriptions on each of fifty connections.
async fn a_client_can_wait_for_more_than_two_hundred_and_fifty_names(site: &Site) {
    const NAMES: usize = 300;
    const LIMIT: usize = 250;
    let java = site.java_with(&[("subscription-timeout", "3000")]).await;
    let (holding, waiting) = (site.rust().await, site.rust().await);
    let names: Vec<String> = (0..NAMES).map(|_| unique_name()).collect();
    let hold = async || {
        let mut guards = Vec::new();
        for name in &names {
            guards.push(holding.mutex(name).lock().await.expect("it is free"));
        }
        guards
    };
    let tell = |thread: usize, verb: &str| java.tell(&thread.to_string(), verb, &["plain", &names[thread]]);
    let guards = hold().await;
    let asked: Vec<_> = (0..NAMES).map(|thread| tokio::spawn(tell(thread, "lock").within(3 * SOON))).collect();
    let ended = || asked.iter().filter(|asked| asked.is_finished()).count();
    eventually_async(SOON, async || ended() >= NAMES - LIMIT).await;
    assert_eq!(listened_to(site), LIMIT);
    drop(guards);
    let mut refused = 0;
    for (thread, asked) in asked.into_iter().enumerate() {
        let answer = asked.await.expect("no panic");
        if answer.refused("RedisTimeoutException") {
            refused += 1;
            continue;
        }
        assert!(answer.yes() && tell(thread, "unlock").await.yes());
    }
    println!("Redisson {} refused {refused} of {NAMES} waiters", java.version());
    assert_eq!(refused, NAMES - LIMIT);
    eventually_async(SOON, async || listened_to(site) == 0).await;

    let guards = hold().await;
    let waiters: Vec<_> = names.iter().map(|name| enter(&waiting, name)).collect();
    eventually_async(SOON, async || listened_to(site) == NAMES).await;
    drop(guards);
    for waiter in waiters {
        let (guard, _) = entered(waiter).await;
        guard.unlock().await.expect("it is held");
    }
}
