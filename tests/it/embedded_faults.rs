//! What a test can do to a client of the store in this process, and what the client makes of it. All on a paused clock.

use std::time::Duration;

use relatch::{
    Client, EmbeddedStore, Error, LostCause, RefusedKind,
    embedded::{Happening, Road, Weather},
};
use tokio::time::{Instant, sleep};

use crate::embedded::client;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
/// Of a client with the default options.
const TIMEOUT: Duration = Duration::from_secs(3);

async fn traced() -> (EmbeddedStore, Client) {
    let store = EmbeddedStore::seeded(3);
    store.start_trace();
    let ann = client(&store).await;
    (store, ann)
}

/// The roads and the verbs of the scripts that ran, in order.
fn ran(store: &EmbeddedStore) -> Vec<(Road, String)> {
    let verb = |script: &str| script.rsplit('/').next().unwrap_or_default().trim_end_matches(".lua").to_owned();
    let of = |what| match what {
        Happening::Ran(ran) => Some((ran.road(), verb(ran.script()))),
        _ => None,
    };
    store.take_trace().into_iter().filter_map(|traced| of(traced.what)).collect()
}

fn over_the_link(verb: &str) -> (Road, String) {
    (Road::Link, verb.to_owned())
}

/// Nothing is left once everything late is over.
async fn ends_empty(store: &EmbeddedStore) {
    sleep(LEASE * 3).await;
    assert!(store.is_empty() && store.listeners().is_empty(), "{:?} {:?}", store.keys(), store.listeners());
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_partition_arrives_if_it_ends_in_time() {
    let (store, ann) = traced().await;
    store.partition(&ann).expect("its client");
    let asked = Instant::now();
    let waiting = tokio::spawn(ann.lock("a").try_lock());
    sleep(SECOND).await;
    assert!(!waiting.is_finished() && store.is_empty());
    store.heal(&ann).expect("its client");
    let guard = waiting.await.expect("no panic").expect("it was answered").expect("a free lock");
    assert!(asked.elapsed() < SECOND * 2);
    guard.unlock().await.expect("a hold of ours");
    assert_eq!(ran(&store), ["acquire", "release"].map(over_the_link));
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_on_a_link_that_was_given_up_in_a_partition_never_arrives() {
    let (store, ann) = traced().await;
    store.partition(&ann).expect("its client");
    let asked = Instant::now();
    let failed = ann.lock("a").try_lock().await;
    assert!(matches!(failed, Err(Error::Unreachable { may_have_run: true, .. })));
    assert!((TIMEOUT..TIMEOUT + SECOND).contains(&asked.elapsed()));
    // Without a link nothing can have run.
    let failed = ann.lock("b").try_lock().await;
    assert!(matches!(failed, Err(Error::Unreachable { may_have_run: false, .. })));
    store.heal(&ann).expect("its client");
    let guard = ann.lock("a").lock().await.expect("a free lock");
    assert!(ran(&store).iter().all(|(road, verb)| *road == Road::Link && (verb == "acquire" || verb == "release")));
    guard.unlock().await.expect("a hold of ours");
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_behind_a_partition_stops_before_anybody_else_starts() {
    let (store, ann) = traced().await;
    let ben = client(&store).await;
    let guard = ann.lock("a").lock().await.expect("a free lock");
    store.partition(&ann).expect("its client");
    let waiting = tokio::spawn(ben.lock("a").lock());
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
    assert!(!waiting.is_finished());
    let theirs = waiting.await.expect("no panic").expect("its turn");
    store.heal(&ann).expect("its client");
    drop(guard);
    sleep(LEASE * 3).await;
    assert!(theirs.is_held());
    theirs.unlock().await.expect("a hold of theirs");
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_frozen_store_took_runs_as_an_old_copy_when_it_thaws() {
    let (store, ann) = traced().await;
    store.freeze(&ann).expect("its client");
    let failed = ann.lock("a").try_lock().await;
    assert!(matches!(failed, Err(Error::Unreachable { may_have_run: true, .. })));
    assert!(store.is_empty() && ran(&store).is_empty());
    store.thaw(&ann).expect("its client");
    assert_eq!(ran(&store), [(Road::OldLink, "acquire".to_owned())]);
    assert_eq!(store.keys(), ["a"]);
    // The client cannot know, and releases it.
    sleep(SECOND * 2).await;
    assert!(store.is_empty());
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_command_under_a_link_that_is_cut_may_have_run_and_arrives_all_the_same() {
    let (store, ann) = traced().await;
    store.set_weather(Weather::fair().request_delay(MS * 100..=MS * 100));
    let trying = tokio::spawn(ann.lock("a").try_lock());
    sleep(MS * 50).await;
    store.cut(&ann).expect("its client");
    let failed = trying.await.expect("no panic");
    assert!(matches!(failed, Err(Error::Unreachable { may_have_run: true, .. })), "{failed:?}");
    sleep(SECOND).await;
    assert_eq!(ran(&store).first(), Some(&(Road::OldLink, "acquire".to_owned())));
    store.set_weather(Weather::fair());
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_never_runs_and_a_lost_answer_s_command_did() {
    let (store, ann) = traced().await;
    let lock = ann.lock("a");
    store.drop_next_request(&ann).expect("its client");
    assert!(lock.is_locked().await.is_err());
    assert_eq!(store.calls(&ann).expect("its client"), 0);
    store.drop_next_reply(&ann).expect("its client");
    assert!(lock.is_locked().await.is_err());
    assert_eq!(store.calls(&ann).expect("its client"), 1);
    assert!(!lock.is_locked().await.expect("only the next one was lost"));
    let happened = store.take_trace().into_iter().map(|traced| traced.what);
    let losses = happened.filter(|what| matches!(what, Happening::Lost { .. } | Happening::Unanswered));
    assert_eq!(losses.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_copy_of_an_acquire_runs_when_it_was_told_to_and_is_gone_a_lease_later() {
    let (store, ann) = traced().await;
    store.duplicate_next(&ann, SECOND * 60).expect("its client");
    let guard = ann.lock("a").lock().await.expect("a free lock");
    guard.unlock().await.expect("a hold of ours");
    sleep(SECOND * 59).await;
    assert!(store.is_empty());
    sleep(SECOND * 2).await;
    assert_eq!(store.keys(), ["a"]);
    assert_eq!(ran(&store).last(), Some(&(Road::Copy, "acquire".to_owned())));
    // Meanwhile nobody is let in by it.
    assert!(ann.lock("a").try_lock().await.expect("the store answers").is_none());
    sleep(LEASE).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiters_hear_again_after_a_cut_and_after_a_restart() {
    let (store, ann) = traced().await;
    let ben = client(&store).await;
    for restarts in [false, true] {
        let guard = ann.lock("a").lock().lease(LEASE * 100).await.expect("a free lock");
        let waiting = tokio::spawn(ben.lock("a").lock());
        sleep(SECOND).await;
        if restarts {
            store.restart();
            assert!(store.is_empty() && store.listeners().is_empty());
        } else {
            store.cut(&ben).expect("its client");
            assert!(store.listeners().is_empty());
            sleep(SECOND * 5).await;
            assert_eq!(store.listeners().len(), 1);
            assert!(!waiting.is_finished());
            guard.unlock().await.expect("a hold of ours");
        }
        let asked = Instant::now();
        let theirs = waiting.await.expect("no panic").expect("its turn");
        assert!(asked.elapsed() < SECOND * 2, "after {:?}", asked.elapsed());
        theirs.unlock().await.expect("a hold of theirs");
        drop(guard);
    }
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_falls_silent_is_made_anew_and_its_waiter_polls_meanwhile() {
    let (store, ann) = traced().await;
    let ben = client(&store).await;
    let guard = ann.lock("a").lock().await.expect("a free lock");
    let waiting = tokio::spawn(ben.lock("a").lock());
    sleep(SECOND).await;
    store.partition(&ben).expect("its client");
    sleep(TIMEOUT * 3).await;
    assert!(store.listeners().is_empty());
    guard.unlock().await.expect("a hold of ours");
    sleep(SECOND * 5).await;
    assert!(!waiting.is_finished(), "nobody could tell it");
    store.heal(&ben).expect("its client");
    let healed = Instant::now();
    let theirs = waiting.await.expect("no panic").expect("it goes on trying");
    assert!(healed.elapsed() < SECOND * 3);
    theirs.unlock().await.expect("a hold of theirs");
    // The next one hears.
    let guard = ann.lock("a").lock().await.expect("a free lock");
    let waiting = tokio::spawn(ben.lock("a").lock());
    sleep(SECOND).await;
    assert_eq!(store.listeners().len(), 1);
    let freed = Instant::now();
    guard.unlock().await.expect("a hold of ours");
    let theirs = waiting.await.expect("no panic").expect("woken");
    assert!(freed.elapsed() < MS * 50);
    theirs.unlock().await.expect("a hold of theirs");
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_ends_a_lease_and_one_that_is_set_back_prolongs_it() {
    let (store, ann) = traced().await;
    let ben = client(&store).await;
    let guard = ann.lock("a").lock().await.expect("a free lock");
    store.set_clock_forward(LEASE + SECOND);
    let theirs = ben.lock("a").try_lock().await.expect("the store answers").expect("free for the store");
    assert!(guard.is_held(), "which its holder cannot know");
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
    theirs.unlock().await.expect("a hold of theirs");
    store.steal("b", SECOND);
    store.set_clock_back(LEASE);
    sleep(LEASE).await;
    assert_eq!(store.keys(), ["b"]);
    sleep(SECOND * 2).await;
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn commands_of_one_link_keep_their_order_whatever_the_weather() {
    let (store, ann) = traced().await;
    let fast = Duration::ZERO;
    store.set_weather(Weather::fair().request_delay(fast..=MS * 200).reply_delay(fast..=MS * 200));
    let asked = Instant::now();
    let questions = (0..50).map(|n| {
        let lock = ann.lock(format!("{n:02}"));
        tokio::spawn(async move { lock.is_locked().await })
    });
    for question in questions.collect::<Vec<_>>() {
        assert!(!question.await.expect("no panic").expect("the store answers"));
    }
    assert!((MS * 100..MS * 500).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    let keys = store.take_trace().into_iter().filter_map(|traced| match traced.what {
        Happening::Ran(ran) => ran.keys().first().cloned(),
        _ => None,
    });
    assert_eq!(keys.collect::<Vec<_>>(), (0..50).map(|n| format!("{n:02}")).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_answers_what_is_under_way_and_what_waits_for_a_link() {
    let (store, ann) = traced().await;
    store.freeze(&ann).expect("its client");
    let under_way = tokio::spawn(ann.lock("a").lock());
    sleep(MS).await;
    let (began, closes) = (Instant::now(), ann.clone());
    let closing = tokio::spawn(async move { closes.close().await });
    assert!(matches!(under_way.await.expect("no panic"), Err(Error::Closed)));
    closing.await.expect("no panic");
    assert!(began.elapsed() <= TIMEOUT, "within one command timeout");
    store.thaw(&ann).expect_err("it is gone");

    // The same where the link was given up, so that a command stands in line for the next one.
    let ben = client(&store).await;
    store.freeze(&ben).expect("its client");
    assert!(ben.lock("b").is_locked().await.is_err());
    let parked = tokio::spawn(ben.lock("b").lock());
    sleep(MS).await;
    ben.close().await;
    assert!(matches!(parked.await.expect("no panic"), Err(Error::Closed)));
    sleep(LEASE * 3).await;
    // What the frozen store had taken from ann ran as she left, and its lease is over.
    assert_eq!(ran(&store).iter().filter(|(_, verb)| verb == "acquire").count(), 1);
    assert!(store.is_empty() && store.listeners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_before_its_command_left_takes_it_back() {
    let (store, ann) = traced().await;
    store.partition(&ann).expect("its client");
    assert!(ann.lock("a").is_locked().await.is_err());
    let parked = tokio::spawn(ann.lock("b").lock());
    sleep(MS * 100).await;
    parked.abort();
    assert!(parked.await.is_err_and(|error| error.is_cancelled()));
    store.heal(&ann).expect("its client");
    assert!(!ann.lock("c").is_locked().await.expect("a new link"));
    assert_eq!(ran(&store), [over_the_link("inspect")]);
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn times_beyond_every_clock_are_never_and_break_nothing() {
    let (store, ann) = traced().await;
    store.duplicate_next(&ann, Duration::MAX).expect("its client");
    let guard = ann.lock("a").lock().await.expect("a free lock");
    store.set_weather(Weather::fair().reply_delay(Duration::MAX..=Duration::MAX));
    assert!(matches!(guard.unlock().await, Err(Error::Unreachable { .. })));
    store.set_weather(Weather::fair());
    store.set_clock_forward(Duration::MAX);
    store.set_clock_back(Duration::MAX);
    store.steal("b", Duration::MAX);
    let thief = ann.lock("b").inspect().await.expect("the store answers").expect("somebody has it");
    assert!(thief.remaining_lease.is_some());
    assert!(store.expire("b"));
    let again = ann.lock("a").lock().await.expect("a new link");
    again.unlock().await.expect("a hold of ours");
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_partitioned_client_learns_of_a_restart_when_it_is_healed() {
    let (store, ann) = traced().await;
    let guard = ann.lock("a").lock().await.expect("a free lock");
    store.partition(&ann).expect("its client");
    store.restart();
    sleep(MS).await;
    let asked = Instant::now();
    let silent = ann.lock("a").is_locked().await;
    assert!(matches!(silent, Err(Error::Unreachable { may_have_run: true, .. })), "{silent:?}");
    assert_eq!(asked.elapsed(), TIMEOUT, "its link is silent, and says nothing of an end");
    assert!(guard.is_held());
    store.heal(&ann).expect("its client");
    assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
    let again = ann.lock("a").lock().await.expect("a new link");
    again.unlock().await.expect("a hold of ours");
    ends_empty(&store).await;
}

/// The server's rule: a script that wrote is not refused memory, so nothing is half done.
#[tokio::test(start_paused = true)]
async fn in_a_full_store_a_lock_is_handed_over_and_can_be_stolen_as_in_any_other() {
    let (store, ann) = traced().await;
    let lock = ann.lock("a");
    let (first, other) = (lock.lock().await.expect("a free lock"), ann.lock("b").lock().await.expect("a free lock"));
    let waiting = tokio::spawn(lock.lock().lease(LEASE).into_future());
    sleep(MS).await;
    store.limit_memory(1);
    first.unlock().await.expect("a hold of ours");
    let next = waiting.await.expect("no panic").expect("it was handed over");
    assert!(next.is_held() && store.keys() == ["a", "b"]);
    store.steal("a", LEASE);
    assert_eq!(store.keys(), ["a", "b"]);
    store.limit_memory(usize::MAX);
    drop((next, other));
    sleep(LEASE * 3).await;
    ends_empty(&store).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_empty_has_no_more_memory_than_before() {
    let (store, ann) = traced().await;
    let is_full = |tried| matches!(tried, Err(Error::Refused { kind: RefusedKind::OutOfMemory, .. }));
    let before = ann.lock("a").lock().await.expect("a free lock");
    store.limit_memory(1);
    assert!(is_full(ann.lock("b").try_lock().await));
    store.restart();
    assert!(before.lost().await.is_lost() && store.is_empty());
    // What is empty has room for one.
    let after = ann.lock("a").lock().await.expect("a free lock");
    assert!(is_full(ann.lock("b").try_lock().await));
    store.limit_memory(usize::MAX);
    store.restart();
    assert!(after.lost().await.is_lost());
    let all = [ann.lock("a").lock().await, ann.lock("b").lock().await];
    assert!(all.iter().all(Result::is_ok) && store.keys() == ["a", "b"]);
    drop(all);
    ends_empty(&store).await;
}

/// Where even the runtime's own memory of a thread may be gone by then.
#[test]
fn a_client_may_go_with_its_thread() {
    thread_local! {
        static KEPT: std::cell::RefCell<Option<Client>> = const { std::cell::RefCell::new(None) };
    }
    let thread = std::thread::spawn(|| {
        // Before the runtime is known to the thread, so after it in the end.
        KEPT.with_borrow_mut(|kept| *kept = None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let client = runtime.block_on(async { client(&EmbeddedStore::new()).await });
        KEPT.with_borrow_mut(|kept| *kept = Some(client));
    });
    thread.join().expect("no panic");
}

/// A failover that forgets: links are cut, and what answers next knows of nothing.
#[tokio::test(start_paused = true)]
async fn holders_of_a_store_that_restarts_empty_are_told_at_once_however_many_they_are() {
    for holds in [1, 1000] {
        let store = EmbeddedStore::seeded(5);
        let (ann, ben) = (client(&store).await, client(&store).await);
        let mut guards = Vec::new();
        for number in 0..holds {
            let lock = ann.mutex(format!("{number}"));
            let acquire = if number % 2 == 0 { lock.lock() } else { lock.lock().lease(LEASE * 100) };
            guards.push(acquire.await.expect("a free lock"));
        }
        sleep(MS * 100).await;
        store.restart();
        let restarted = Instant::now();
        let theirs = ben.mutex("0").lock().await.expect("a free lock");
        for guard in guards {
            assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
        }
        assert!(restarted.elapsed() < MS * 1500, "{:?}", restarted.elapsed());
        assert!(theirs.is_held());
    }
}
