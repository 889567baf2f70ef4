//! Three servers for a vote, and on each side whoever asks all of them: they keep each other out, wake each other, enter again what they
//! hold, and a lock of Redisson's at one server alone is one vote and no more.

use std::{fs, time::Duration};

use relatch::{LockGuard, LostCause, RedLock, RedLockBuilder, Released};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::{
    EXPIRED, SOON, STIRRED, UNDER_WAY, assert_lost, assert_prompt, assert_refused, channel,
    crowd::{overlaps, sections, spans},
    entered,
    masters::{MAJORITY, MASTERS, Masters},
    site::Company,
};
use crate::harness::{clock::monotonic, eventually_async, random::Random, unique_name};

/// Makes tests of functions from three servers.
macro_rules! over_three {
    ($($test:ident),* $(,)?) => {
        mod three {
            use super::{Company, Masters};
            $(#[tokio::test]
            async fn $test() {
                let Some(masters) = Masters::start(Company::Any, stringify!($test)) else { return };
                super::$test(&masters).await;
                masters.are_left_empty().await;
            })*
        }
    };
}

over_three!(
    a_vote_of_java_keeps_ours_out_and_its_unlock_wakes_ours,
    ours_keeps_a_vote_of_java_out_and_our_release_wakes_it,
    a_vote_of_java_is_ended_by_our_force_and_a_hold_of_ours_by_javas_at_each_server,
    a_lock_of_java_at_one_server_is_one_vote_and_the_others_are_enough,
    locks_of_java_at_two_servers_keep_ours_out_and_leave_nothing_of_it,
    a_vote_that_java_had_is_ours_once_java_is_gone_and_our_hold_is_renewed,
    each_side_enters_again_what_it_holds_and_the_other_side_sees_it_held,
    the_watchdog_of_either_side_keeps_the_other_out,
    a_vote_of_java_that_was_killed_is_ours_when_its_lease_is_over,
    with_one_server_gone_both_sides_keep_each_other_out,
    a_server_that_comes_back_gets_our_hold_by_its_renewal_and_then_its_release,
    both_sides_enter_in_turns_and_never_at_once,
);

const LEASE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_millis(300);
const WATCHDOG: Duration = Duration::from_millis(1500);
const WATCHDOG_MS: &str = "1500";

/// Waits for the lock in the background: the guard, and when it came.
fn enter(red: &RedLock, name: &str) -> JoinHandle<(LockGuard, Duration)> {
    let waiting = red.lock(name).lock();
    tokio::spawn(async move { (waiting.await.expect("the lock is ours in the end"), monotonic()) })
}

fn built(builder: RedLockBuilder) -> RedLock {
    builder.build().expect("they can be masters together")
}

/// At how many servers this client has the lock.
fn votes(masters: &Masters, red: &RedLock, name: &str) -> usize {
    let id = red.id().to_string();
    masters.kept(name).iter().flatten().filter(|kept| kept.field.starts_with(&id)).count()
}

/// Which holds of the lock there are, and how deep each is.
fn depths(masters: &Masters, name: &str) -> [Option<u32>; MASTERS] {
    masters.kept(name).map(|kept| kept.map(|kept| kept.count))
}

/// Who is not waited for has answered, too.
async fn all_vote_for(masters: &Masters, red: &RedLock, name: &str) {
    eventually_async(SOON, async || votes(masters, red, name) == MASTERS).await;
}

/// Whether the last of them have heard of a release.
async fn all_are_free(masters: &Masters, name: &str) {
    eventually_async(SOON, async || masters.kept(name).iter().all(Option::is_none)).await;
}

async fn is_refused(red: &RedLock, name: &str) -> bool {
    red.lock(name).try_lock().await.expect("a majority answers").is_none()
}

async fn a_vote_of_java_keeps_ours_out_and_its_unlock_wakes_ours(masters: &Masters) {
    let (java, red, name) = (masters.java(&[]).await, masters.rust().await, unique_name());
    let theirs = java.red_lock("one", &name);
    assert!(theirs.try_lock().await.yes());
    for (kept, client) in masters.kept(&name).iter().zip(java.clients()) {
        assert!(kept.as_ref().is_some_and(|kept| kept.field.starts_with(client)), "{kept:?}");
    }
    assert!(is_refused(&red, &name).await);
    assert!(red.lock(&name).try_lock().wait(WAIT).await.expect("a majority answers").is_none());
    assert!(red.lock(&name).is_locked().await.expect("a majority answers"));
    for (view, client) in red.survey(&name).await.iter().zip(java.clients()) {
        let held = view.held.as_ref().expect("it answers").as_ref().expect("java has it");
        assert_eq!(held.client_id, client);
    }
    // It has another owner at each of them.
    assert_eq!(red.lock(&name).inspect().await.expect("a majority answers"), None);
    let waiter = enter(&red, &name);
    masters.listening(&channel(&name), 1).await;
    let released = theirs.unlock().await;
    assert!(released.yes());
    let (guard, at) = entered(waiter).await;
    // It unlocks at one server after the other.
    assert_prompt(released.began, at, released.took() + STIRRED);
    // The last server may have been asked before Java let go of it there.
    eventually_async(SOON, async || votes(masters, &red, &name) >= MAJORITY).await;
    assert!(red.lock(&name).inspect().await.expect("a majority answers").is_some());
    for at in 0..MASTERS {
        assert_refused(&java.lock_at(at, "one", &name).unlock().await);
    }
    assert!(votes(masters, &red, &name) >= MAJORITY);
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    all_are_free(masters, &name).await;
}

async fn ours_keeps_a_vote_of_java_out_and_our_release_wakes_it(masters: &Masters) {
    let (java, red, name) = (masters.java(&[]).await, masters.rust().await, unique_name());
    let theirs = java.red_lock("one", &name);
    let guard = red.lock(&name).lock().await.expect("it is free");
    all_vote_for(masters, &red, &name).await;
    assert!(!theirs.try_lock().await.yes());
    assert!(!theirs.try_lock_within(WAIT).await.yes());
    for at in 0..MASTERS {
        let one = java.lock_at(at, "one", &name);
        assert!(one.is_locked().await.yes() && !one.is_held().await.yes());
        assert!(!one.try_lock().await.yes());
    }
    let mut waits = theirs.try_lock_within(2 * SOON);
    // It waits at one server after the other.
    eventually_async(SOON, async || masters.servers().iter().any(|it| it.listeners(&channel(&name)) == 1)).await;
    assert!(waits.is_pending() && guard.is_held());
    let released = monotonic();
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    let entered = waits.within(SOON).await;
    assert!(entered.yes());
    assert_prompt(released, entered.ended, STIRRED);
    assert_eq!(votes(masters, &red, &name), 0);
    assert!(is_refused(&red, &name).await);
    assert!(theirs.unlock().await.yes());
    for at in 0..MASTERS {
        assert!(!java.lock_at(at, "one", &name).is_locked().await.yes());
    }
}

async fn a_vote_of_java_is_ended_by_our_force_and_a_hold_of_ours_by_javas_at_each_server(masters: &Masters) {
    let (java, name) = (masters.java(&[]).await, unique_name());
    let red = built(masters.builder().await.watchdog_timeout(WATCHDOG));
    assert!(java.red_lock("one", &name).try_lock_within_for(Duration::ZERO, LEASE).await.yes());
    assert!(red.lock(&name).force_unlock().await.expect("a majority answers"));
    eventually_async(UNDER_WAY, async || masters.kept(&name).iter().all(Option::is_none)).await;
    let guard = red.lock(&name).try_lock().await.expect("a majority answers").expect("it is free");
    all_vote_for(masters, &red, &name).await;
    for at in 0..MASTERS {
        assert!(java.lock_at(at, "two", &name).force_unlock().await.yes());
    }
    let told = tokio::time::timeout(SOON, guard.lost()).await.expect("it is told");
    assert_lost(Err::<(), _>(told), LostCause::Gone);
    assert_lost(guard.unlock().await, LostCause::Gone);
}

async fn a_lock_of_java_at_one_server_is_one_vote_and_the_others_are_enough(masters: &Masters) {
    let (java, red) = (masters.java(&[]).await, masters.rust().await);
    for at in 0..MASTERS {
        let name = unique_name();
        let single = java.lock_at(at, "one", &name);
        assert!(single.try_lock_within_for(Duration::ZERO, LEASE).await.yes());
        let before = masters.kept(&name)[at].clone();
        let guard = red.lock(&name).try_lock().await.expect("a majority answers").expect("two are free");
        eventually_async(SOON, async || votes(masters, &red, &name) == MAJORITY).await;
        assert!(red.lock(&name).is_locked().await.expect("a majority answers"));
        assert_eq!(masters.kept(&name)[at], before);
        // Not even with the thread that has the one, though that gives its hold another end.
        assert!(!java.red_lock("one", &name).try_lock().await.yes());
        assert!(!java.red_lock("two", &name).try_lock().await.yes());
        assert_eq!(votes(masters, &red, &name), MAJORITY);
        let before = masters.kept(&name)[at].clone();
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        eventually_async(SOON, async || masters.kept(&name).iter().flatten().count() == 1).await;
        assert_eq!(masters.kept(&name)[at], before);
        assert!(single.unlock().await.yes());
    }
}

async fn locks_of_java_at_two_servers_keep_ours_out_and_leave_nothing_of_it(masters: &Masters) {
    let (java, red) = (masters.java(&[]).await, masters.rust().await);
    for free in 0..MASTERS {
        let name = unique_name();
        let others: Vec<_> = (0..MASTERS).filter(|at| *at != free).collect();
        for at in &others {
            assert!(java.lock_at(*at, "one", &name).try_lock_within_for(Duration::ZERO, LEASE).await.yes());
        }
        let before = masters.kept(&name);
        assert!(is_refused(&red, &name).await);
        assert!(red.lock(&name).try_lock().wait(WAIT).await.expect("a majority answers").is_none());
        eventually_async(SOON, async || votes(masters, &red, &name) == 0).await;
        assert_eq!(masters.kept(&name), before);
        let waiter = enter(&red, &name);
        // It looks again and again, since whoever has a majority has only just one.
        sleep(WAIT).await;
        assert!(!waiter.is_finished());
        let released = java.lock_at(others[0], "one", &name).unlock().await;
        assert!(released.yes());
        let (guard, at) = entered(waiter).await;
        assert_prompt(released.began, at, STIRRED);
        eventually_async(SOON, async || votes(masters, &red, &name) == MAJORITY).await;
        assert_eq!(masters.kept(&name)[others[1]], before[others[1]]);
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        assert!(java.lock_at(others[1], "one", &name).unlock().await.yes());
        all_are_free(masters, &name).await;
    }
}

async fn a_vote_that_java_had_is_ours_once_java_is_gone_and_our_hold_is_renewed(masters: &Masters) {
    let (java, red) = (masters.java(&[]).await, built(masters.builder().await.watchdog_timeout(WATCHDOG)));
    for at in 0..MASTERS {
        let name = unique_name();
        let single = java.lock_at(at, "one", &name);
        assert!(single.lock().await.yes());
        let guard = red.lock(&name).lock().await.expect("two are free");
        assert!(single.unlock().await.yes());
        all_vote_for(masters, &red, &name).await;
        assert!(!single.try_lock().await.yes());
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        all_are_free(masters, &name).await;
    }
}

async fn each_side_enters_again_what_it_holds_and_the_other_side_sees_it_held(masters: &Masters) {
    let (java, red, name) = (masters.java(&[]).await, masters.rust().await, unique_name());
    let (theirs, ours) = (java.red_lock("one", &name), red.lock(&name));
    let outer = ours.lock().await.expect("it is free");
    let inner = ours.lock().await.expect("it is ours");
    eventually_async(SOON, async || depths(masters, &name) == [Some(2); MASTERS]).await;
    for at in 0..MASTERS {
        let one = java.lock_at(at, "one", &name);
        assert!(one.is_locked().await.yes() && one.hold_count().await.number() == 0);
    }
    assert_eq!(inner.unlock().await.expect("it is held"), Released::StillHeld(1));
    assert!(!theirs.try_lock().await.yes());
    assert_eq!(outer.unlock().await.expect("it is held"), Released::Freed);
    all_are_free(masters, &name).await;

    assert!(theirs.try_lock().await.yes() && theirs.try_lock().await.yes());
    assert_eq!(depths(masters, &name), [Some(2); MASTERS]);
    assert_eq!(ours.inspect().await.expect("a majority answers").map(|seen| seen.hold_count), None);
    assert!(is_refused(&red, &name).await);
    assert!(theirs.unlock().await.yes());
    for at in 0..MASTERS {
        assert_eq!(java.lock_at(at, "one", &name).hold_count().await.number(), 1);
    }
    assert!(is_refused(&red, &name).await);
    assert!(theirs.unlock().await.yes());
    assert!(!is_refused(&red, &name).await);
    all_are_free(masters, &name).await;
}

async fn the_watchdog_of_either_side_keeps_the_other_out(masters: &Masters) {
    let java = masters.java(&[("watchdog", WATCHDOG_MS)]).await;
    let (red, other) = (built(masters.builder().await.watchdog_timeout(WATCHDOG)), masters.rust().await);
    let (of_java, of_ours) = (unique_name(), unique_name());
    let theirs = java.red_lock("one", &of_java);
    assert!(theirs.lock().await.yes());
    let guard = red.lock(&of_ours).lock().await.expect("it is free");
    let (refused, tried) = tokio::join!(
        async { other.lock(&of_java).try_lock().wait(3 * WATCHDOG).await.expect("a majority answers").is_none() },
        java.red_lock("two", &of_ours).try_lock_within(3 * WATCHDOG).within(SOON)
    );
    assert!(refused && !tried.yes() && guard.is_held());
    assert_eq!(votes(masters, &red, &of_ours), MASTERS);
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    assert!(theirs.unlock().await.yes());
}

async fn a_vote_of_java_that_was_killed_is_ours_when_its_lease_is_over(masters: &Masters) {
    let (java, red, name) = (masters.java(&[]).await, masters.rust().await, unique_name());
    let held = java.red_lock("one", &name).try_lock_within_for(Duration::ZERO, SHORT).await;
    assert!(held.yes());
    let waiter = enter(&red, &name);
    java.kill();
    let (guard, at) = entered(waiter).await;
    assert_prompt(held.began + SHORT, at, held.took() + EXPIRED + STIRRED);
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

async fn with_one_server_gone_both_sides_keep_each_other_out(masters: &Masters) {
    // Redisson waits for a server that is gone for as long as it may.
    let java = masters.java(&[("timeout", "300"), ("retry", "0")]).await;
    let (red, name) = (masters.rust().await, unique_name());
    let theirs = java.red_lock("one", &name);
    let gone = &masters.servers()[MASTERS - 1];
    gone.kill();
    assert!(theirs.try_lock().await.yes());
    assert!(is_refused(&red, &name).await);
    let waiter = enter(&red, &name);
    for server in &masters.servers()[..MAJORITY] {
        eventually_async(SOON, async || server.listeners(&channel(&name)) == 1).await;
    }
    assert!(!waiter.is_finished());
    let released = theirs.unlock().await;
    assert!(released.yes());
    let (guard, at) = entered(waiter).await;
    assert_prompt(released.began, at, released.took() + STIRRED);
    assert!(!theirs.try_lock().await.yes());
    assert!(guard.is_held());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    assert!(theirs.try_lock().await.yes() && theirs.unlock().await.yes());
    gone.restart_empty();
}

async fn a_server_that_comes_back_gets_our_hold_by_its_renewal_and_then_its_release(masters: &Masters) {
    let (java, name) = (masters.java(&[]).await, unique_name());
    // Nothing but the release is to end it.
    let red = built(masters.builder().await.watchdog_timeout(4 * WATCHDOG));
    let (last, gone) = (MASTERS - 1, &masters.servers()[MASTERS - 1]);
    gone.kill();
    let guard = red.lock(&name).lock().await.expect("two are free");
    gone.restart_empty();
    all_vote_for(masters, &red, &name).await;
    let there = java.lock_at(last, "one", &name);
    assert!(there.is_locked().await.yes() && !there.try_lock().await.yes());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    eventually_async(UNDER_WAY, async || masters.kept(&name).iter().all(Option::is_none)).await;
}

/// How long both sides are at it, and the longest section and pause of each, in microseconds.
const LASTS: Duration = Duration::from_secs(4);
const SECTION: u64 = 2_000;
const PAUSE: u64 = 10_000;

async fn both_sides_enter_in_turns_and_never_at_once(masters: &Masters) {
    let (java, name) = (masters.java(&[]).await, unique_name());
    let folder = masters.servers()[0].socket().with_file_name("crowd");
    fs::create_dir(&folder).expect("a folder is made");
    let folder_text = folder.to_str().expect("a path of ours is text");
    let reds = [masters.rust().await, masters.rust().await];
    let until = monotonic() + LASTS;
    let mut ours = JoinSet::new();
    for (red, log) in reds.iter().zip(["rust-0", "rust-1"]) {
        let (lock, folder) = (red.lock(&name), folder.clone());
        let random = Random::new(until.as_nanos() as u64, &[ours.len() as u64]);
        ours.spawn(async move { sections(lock, &folder, log, until, [SECTION, PAUSE], random).await });
    }
    let [end, section, pause] = [until.as_nanos().to_string(), SECTION.to_string(), PAUSE.to_string()];
    let theirs = ["java-0", "java-1"]
        .map(|log| java.tell(log, "sections", &["red", &name, folder_text, log, &end, &section, &pause]));
    for answer in theirs {
        assert!(answer.within(LASTS + 2 * SOON).await.number() > 0);
    }
    ours.join_all().await;
    let of = |language: &str| -> Vec<_> {
        [0, 1].iter().flat_map(|worker| spans(&folder.join(format!("{language}-{worker}")))).collect()
    };
    let (java, rust) = (of("java"), of("rust"));
    println!("java entered {} times, rust {}", java.len(), rust.len());
    assert!(java.len() + rust.len() > 4, "nobody entered twice");
    let counter = fs::read(folder.join("counter")).expect("the counter is read");
    assert_eq!(u64::from_be_bytes(counter.try_into().expect("eight bytes")), (java.len() + rust.len()) as u64);
    let overlaps = overlaps([java, rust].concat());
    assert!(overlaps.is_empty(), "{} overlaps, the first: {:?}", overlaps.len(), overlaps[0]);
}
