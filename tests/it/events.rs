//! What a service sees in its log: one span and one event for each step of a lock's life, at levels that can be left on.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use relatch::{Client, Error, LostCause, Owner};
use tracing::Level;

use crate::harness::{
    Server, eventually_async,
    traces::{Said, Traces},
    unique_name,
};

const MS: Duration = Duration::from_millis(1);
/// How long a look may take on a busy machine.
const LOOK: Duration = Duration::from_secs(10);
/// A busy machine renews it in time.
const WATCHDOG: Duration = Duration::from_millis(1_200);
/// A lease, or a bound, that is waited out. It is not over before a busy machine hears that it was given.
const SHORT: Duration = Duration::from_millis(300);

async fn connect(server: &Server) -> Client {
    Client::builder().url(server.url()).watchdog_timeout(WATCHDOG).connect().await.expect("connects")
}

/// The events about one lock, in order.
fn about(traces: &Traces, lock: &str) -> Vec<Said> {
    let is_it = |said: &Said| said.is_ours() && said.fields.get("lock").is_some_and(|name| name == lock);
    traces.all().into_iter().filter(is_it).collect()
}

/// What was said about one lock: `acquired`, `released`, …
fn story(traces: &Traces, lock: &str) -> Vec<String> {
    about(traces, lock).into_iter().filter(|said| !said.is_span).map(|said| said.what).collect()
}

fn milliseconds(said: &Said, field: &str) -> u128 {
    said.field(field).parse().expect("a number of milliseconds")
}

#[tokio::test]
async fn an_uncontended_lock_has_one_span_and_two_events_with_their_fields() {
    let traces = Traces::here();
    let client = connect(Server::shared()).await;
    let name = unique_name();
    let owner = Owner::new();
    let guard = client.lock(&name).lock().owner(&owner).await.expect("a free lock");
    assert_eq!(traces.open_spans(), 0, "it lasts until the lock is acquired, and no longer");
    tokio::time::sleep(MS * 30).await;
    guard.unlock().await.expect("a hold of ours is released");
    let [span, acquired, released]: [Said; 3] = about(&traces, &name).try_into().expect("a span and two events");
    assert!(span.is_span && span.what == "acquire" && span.level == Level::DEBUG, "{span:?}");
    assert_eq!((&*acquired.what, acquired.level), ("acquired", Level::DEBUG));
    assert_eq!((&*released.what, released.level), ("released", Level::DEBUG));
    for said in [&span, &acquired, &released] {
        assert_eq!((said.field("lock"), said.field("owner")), (&*name, &*owner.to_string()));
    }
    assert!(milliseconds(&acquired, "waited_ms") < LOOK.as_millis());
    assert!((30..LOOK.as_millis()).contains(&milliseconds(&released, "held_ms")), "{released:?}");
}

#[tokio::test]
async fn a_contended_lock_says_so_once_and_how_long_it_waited() {
    let traces = Traces::here();
    let (holder, client) = (connect(Server::shared()).await, connect(Server::shared()).await);
    let name = unique_name();
    let held = holder.lock(&name).lock().await.expect("a free lock");
    let owners = [Owner::new(), Owner::new()];
    // One tries at the server, again and again; the other stands behind it.
    let waiting = owners.clone().map(|owner| tokio::spawn(client.lock(&name).lock().owner(&owner)));
    // The holder's watchdog renews meanwhile, so the waiter's own look at the end of a lease is one more busy answer.
    tokio::time::sleep(WATCHDOG + MS * 100).await;
    held.unlock().await.expect("a hold of ours is released");
    for waiting in waiting {
        let guard = waiting.await.expect("no panic").expect("it became free");
        guard.unlock().await.expect("a hold of ours is released");
    }
    assert_eq!(traces.open_spans(), 0, "that of who tried, and that of who was handed the lock");
    for owner in owners {
        let of_owner = |said: &Said| said.field("owner") == owner.to_string();
        let said: Vec<_> = about(&traces, &name).into_iter().filter(of_owner).collect();
        let steps: Vec<_> = said.iter().map(|said| &*said.what).collect();
        assert_eq!(steps, ["acquire", "contended", "acquired", "released"]);
        assert!(said.iter().all(|said| said.level == Level::DEBUG));
        assert!(milliseconds(&said[2], "waited_ms") >= WATCHDOG.as_millis(), "{said:?}");
    }
    // An answer of "somebody else has it" is a contended acquisition too, and has no other event.
    let held = holder.lock(&name).lock().await.expect("free again");
    let owner = Owner::new();
    assert!(client.lock(&name).try_lock().owner(&owner).await.expect("the server answers").is_none());
    let steps = about(&traces, &name).into_iter().filter(|said| said.field("owner") == owner.to_string());
    assert_eq!(steps.map(|said| said.what).collect::<Vec<_>>(), ["acquire", "contended"]);
    held.unlock().await.expect("a hold of ours is released");
}

#[tokio::test]
async fn a_renewal_is_said_below_the_level_that_a_service_leaves_on() {
    let traces = Traces::here();
    let client = connect(Server::shared()).await;
    let names = [unique_name(), unique_name()];
    let first = client.lock(&names[0]).lock().await.expect("a free lock");
    let second = client.lock(&names[1]).lock().await.expect("a free lock");
    let renewals = |name: &str| about(&traces, name).into_iter().filter(|said| said.what == "renewed");
    eventually_async(LOOK, async || names.iter().all(|name| renewals(name).count() >= 2)).await;
    for (name, guard) in names.iter().zip([first, second]) {
        assert!(
            renewals(name).all(|said| said.field("owner") == guard.owner().to_string() && said.level == Level::TRACE)
        );
        guard.unlock().await.expect("a hold of ours is released");
    }
}

#[tokio::test]
async fn every_loss_is_one_warning_with_its_cause_and_how_long_it_was_held() {
    let traces = Traces::here();
    let server = Server::shared();
    let client = connect(server).await;
    let [expired, gone, forced, bounded, closed] = [(); 5].map(|()| unique_name());
    let mut guards = Vec::new();
    guards.push((client.lock(&expired).lock().lease(SHORT).await.expect("a free lock"), LostCause::Expired));
    guards.push((client.lock(&bounded).lock().max_hold(SHORT).await.expect("a free lock"), LostCause::MaxHold));
    guards.push((client.lock(&gone).lock().await.expect("a free lock"), LostCause::Gone));
    guards.push((client.lock(&forced).lock().await.expect("a free lock"), LostCause::Forced));
    let _: () = redis::AsyncCommands::del(&mut server.async_connection().await, &gone).await.expect("DEL answers");
    assert!(client.lock(&forced).force_unlock().await.expect("the server answers"));
    let last = client.lock(&closed).lock().await.expect("a free lock");
    for (guard, _) in &guards {
        guard.lost().await;
    }
    client.close().await;
    guards.push((last, LostCause::Closed));
    for (guard, expected) in guards {
        assert!(matches!(guard.lost().await, Error::Lost { cause, .. } if cause == expected), "{expected:?}");
        // A lost hold is not released as well: whoever counts must not count it twice.
        let said = about(&traces, guard.name());
        let [lost]: [&Said; 1] =
            said.iter().filter(|said| said.what == "lost").collect::<Vec<_>>().try_into().expect("one");
        assert_eq!(lost.level, Level::WARN);
        assert_eq!(lost.field("owner"), guard.owner().to_string());
        assert!(lost.field("cause").contains(&format!("{expected:?}")), "{lost:?}");
        assert!(milliseconds(lost, "held_ms") < LOOK.as_millis());
        let name = guard.name().to_owned();
        drop(guard);
        assert!(!story(&traces, &name).contains(&"released".to_owned()), "{:?}", story(&traces, &name));
    }
}

#[tokio::test]
async fn a_detached_hold_that_ends_with_its_fixed_lease_is_no_warning() {
    let traces = Traces::here();
    let client = connect(Server::shared()).await;
    let [planned, renewed] = [(); 2].map(|()| unique_name());
    let lock = client.lock(&planned);
    let asked = Instant::now();
    let guard = lock.lock().lease(SHORT).await.expect("a free lock");
    let answered = asked.elapsed();
    let owner = guard.detach();
    eventually_async(LOOK, async || story(&traces, &planned).len() == 2).await;
    let said = about(&traces, &planned);
    let ended = said.last().expect("an end");
    assert_eq!((&*ended.what, ended.level), ("its lease is over", Level::DEBUG));
    assert_eq!(ended.field("owner"), owner.to_string());
    // It is over that long after it was asked for, and held from the answer on.
    let held = milliseconds(ended, "held_ms");
    assert!(held + answered.as_millis() >= 290 && held < LOOK.as_millis(), "{held} ms, {answered:?}");
    // Whoever asks is told all the same.
    let error = lock.unlock().owner(&owner).await.expect_err("it is over");
    assert_eq!(error.to_string(), format!("lock \"{planned}\" was lost: its lease is over"));
    // One that was to be renewed is a loss, detached or not.
    let renews = client.lock(&renewed).lock().await.expect("a free lock").detach();
    let _: () = redis::AsyncCommands::del(&mut Server::shared().async_connection().await, &renewed).await.expect("DEL");
    eventually_async(LOOK, async || story(&traces, &renewed).contains(&"lost".to_owned())).await;
    assert!(client.lock(&renewed).unlock().owner(&renews).await.is_err());
}

#[tokio::test]
async fn on_a_good_path_nothing_is_above_debug_and_every_hold_has_its_end() {
    let traces = Traces::here();
    let client = connect(Server::shared()).await;
    let names = [(); 3].map(|()| unique_name());
    for name in &names {
        let lock = client.lock(name);
        let outer = lock.lock().await.expect("a free lock");
        let inner = lock.try_lock().wait(LOOK).await.expect("ours").expect("ours");
        inner.unlock().await.expect("a nested hold");
        outer.extend(WATCHDOG * 2).await.expect("a live hold");
        outer.unlock().await.expect("a hold of ours is released");
        // Passed on between two tasks, handed over to a fixed lease, dropped, detached.
        let holders = [client.mutex(name).lock(), client.mutex(name).lock().lease(LOOK), client.mutex(name).lock()];
        for holder in holders.map(tokio::spawn) {
            drop(holder.await.expect("no panic").expect("its turn"));
        }
        let owner = client.mutex(name).lock().await.expect("free again").detach();
        lock.unlock().owner(&owner).await.expect("a detached hold");
        assert!(lock.try_lock().await.expect("the server answers").is_some());
        eventually_async(LOOK, async || !lock.is_locked().await.expect("the server answers")).await;
    }
    client.close().await;
    let ours: Vec<_> = traces.all().into_iter().filter(Said::is_ours).collect();
    let loud: Vec<_> = ours.iter().filter(|said| said.level < Level::DEBUG).collect();
    assert!(loud.is_empty(), "{loud:?}");
    let messages: BTreeSet<_> = ours.iter().map(|said| &*said.what).collect();
    assert!(messages.contains("acquired") && messages.contains("released"), "{messages:?}");
    for name in &names {
        let count = |what: &str| story(&traces, name).iter().filter(|said| *said == what).count();
        // Six holds and one nested acquisition.
        assert_eq!((count("released"), count("acquired")), (6, 7), "{:?}", story(&traces, name));
    }
}

#[tokio::test]
async fn a_name_is_shown_escaped_and_short_by_every_event() {
    let traces = Traces::here();
    let (client, other) = (connect(Server::shared()).await, connect(Server::shared()).await);
    let unique = unique_name();
    for (name, shown) in [
        (format!("{unique}\n\u{1b}[2J\0\"x\""), format!("{unique}\\n\\u{{1b}}[2J\\0\\\"x\\\"")),
        (format!("{unique}-{}", "é".repeat(30_000)), format!("{unique}-{}…", "é".repeat(99 - unique.len()))),
    ] {
        let lock = client.lock(&name);
        let outer = lock.lock().await.expect("a free lock");
        let inner = lock.lock().await.expect("ours");
        assert!(other.lock(&name).try_lock().await.expect("the server answers").is_none());
        eventually_async(LOOK, async || story(&traces, &shown).contains(&"renewed".to_owned())).await;
        outer.unlock().await.expect("a nested hold");
        inner.unlock().await.expect("a hold of ours is released");
        let lost = lock.lock().lease(SHORT).await.expect("free again");
        lost.lost().await;
        let forced = client.mutex(&name).lock().await.expect("free again");
        assert!(lock.force_unlock().await.expect("the server answers"));
        drop((lost, forced));
        let said = story(&traces, &shown);
        let steps = ["acquired", "nested", "contended", "renewed", "released", "lost", "forced release"];
        assert!(steps.iter().all(|step| said.iter().any(|said| said == step)), "{said:?}");
        assert!(said.iter().any(|said| said.starts_with("an inner guard outlives")), "{said:?}");
    }
    let ours = traces.all().into_iter().filter(Said::is_ours);
    for text in ours.flat_map(|said| said.fields.into_values().chain([said.what])) {
        assert!(!text.contains(char::is_control) && text.chars().count() < 500, "{text:?}");
    }
}

/// The warnings of a lock that start so.
fn warnings(traces: &Traces, lock: &str, start: &str) -> usize {
    about(traces, lock).iter().filter(|said| said.level == Level::WARN && said.what.starts_with(start)).count()
}

#[tokio::test]
async fn a_guard_that_is_dropped_at_once_three_times_in_a_row_is_one_warning() {
    const DROPPED: &str = "guards are dropped at once";
    let traces = Traces::here();
    let client = connect(Server::shared()).await;
    let [in_a_row, asked, unlocked, kept, carried] = [(); 5].map(|()| unique_name());
    // As in Java; what is dropped may take longer on a busy machine, and then counts for nothing.
    eventually_async(LOOK, async || {
        if client.lock(&in_a_row).try_lock().await.expect("the server answers").is_some() {
            tokio::time::sleep(MS).await;
        }
        warnings(&traces, &in_a_row, DROPPED) == 1
    })
    .await;
    for _ in 0..10 {
        let _ = client.lock(&in_a_row).lock().await.expect("a free lock");
        let guard = client.lock(&asked).lock().await.expect("a free lock");
        assert!(guard.is_held());
        drop(guard);
        client.lock(&unlocked).lock().await.expect("a free lock").unlock().await.expect("a hold of ours is released");
        let guard = client.lock(&kept).lock().await.expect("a free lock");
        tokio::time::sleep(MS).await;
        drop(guard);
        let mutex = client.mutex(&carried);
        drop(tokio::spawn(async move { mutex.lock().await }).await.expect("no panic").expect("a free lock"));
    }
    let said = [&in_a_row, &asked, &unlocked, &kept, &carried].map(|name| warnings(&traces, name, DROPPED));
    assert_eq!(said, [1, 0, 0, 0, 0]);
}

#[tokio::test]
async fn a_task_that_waits_for_a_mutex_that_it_took_is_one_warning() {
    const ITSELF: &str = "the task that waits for this mutex took it";
    let traces = Traces::here();
    let client = Client::builder().url(Server::shared().url()).connect().await.expect("connects");
    let [itself, branches, others] = [(); 3].map(|()| unique_name());
    let seconds = MS * 1_200;
    tokio::spawn({
        let (client, itself, branches) = (client.clone(), itself.clone(), branches.clone());
        async move {
            let waits =
                async |name: &str, wait: Duration| client.mutex(name).try_lock().wait(wait).await.expect("is answered");
            let guard = client.mutex(&itself).lock().await.expect("a free lock");
            assert!(waits(&itself, seconds).await.is_none());
            assert!(waits(&itself, seconds).await.is_none());
            guard.unlock().await.expect("a hold of ours is released");
            // Branches of one task take turns.
            let turn = async || {
                let guard = waits(&branches, LOOK).await.expect("its turn");
                tokio::time::sleep(MS * 30).await;
                guard.unlock().await.expect("a hold of ours is released");
            };
            tokio::join!(turn(), turn(), turn());
        }
    })
    .await
    .expect("no panic");
    let guard = client.mutex(&others).lock().await.expect("a free lock");
    let waiting = client.mutex(&others).try_lock().wait(seconds);
    assert!(tokio::spawn(waiting).await.expect("no panic").expect("is answered").is_none());
    guard.unlock().await.expect("a hold of ours is released");
    let said = [&itself, &branches, &others].map(|name| warnings(&traces, name, ITSELF));
    assert_eq!(said, [1, 0, 0]);
}

/// Two tasks that take two locks in opposite orders wait for one another for ever.
#[cfg(feature = "embedded")]
#[tokio::test(start_paused = true)]
async fn owners_that_wait_for_one_another_in_one_client_are_one_warning_with_the_names_of_their_locks() {
    let traces = Traces::here();
    let client = Client::embedded();
    let both = |kind: &'static str, from: &'static str, to: &'static str, wait: Duration| {
        let take = {
            let client = client.clone();
            async move |name: &str| match kind {
                "lock" => client.lock(name).try_lock().wait(wait).await.expect("is answered"),
                _ => client.mutex(name).try_lock().wait(wait).await.expect("is answered"),
            }
        };
        tokio::spawn(async move {
            let first = take(from).await;
            tokio::time::sleep(MS).await;
            let second = take(to).await;
            assert!(first.is_some(), "nobody has it");
            drop((first, second));
        })
    };
    let ever = Duration::MAX;
    let circles = [
        both("lock", "a", "b", ever),
        both("lock", "b", "c", ever),
        both("lock", "c", "a", ever),
        both("mutex", "x", "y", ever),
        both("mutex", "y", "x", ever),
    ];
    // One order, and a wait that ends by itself.
    let others =
        [both("lock", "m", "n", ever), both("lock", "p", "q", MS * 60_000), both("lock", "q", "p", MS * 60_000)];
    let held = client.lock("n").lock().await.expect("a free lock");
    tokio::time::sleep(MS * 60_000).await;
    let said = traces.all();
    let told = said.iter().filter(|said| said.what.starts_with("owners of these locks wait for one another"));
    let mut named: Vec<_> = told.map(|said| (said.level, said.field("locks"))).collect();
    named.sort_unstable();
    assert_eq!(named, [(Level::WARN, "a, b, c"), (Level::WARN, "x, y")]);
    circles.iter().for_each(|task| task.abort());
    held.unlock().await.expect("a hold of ours is released");
    for other in others {
        other.await.expect("no panic");
    }
}
