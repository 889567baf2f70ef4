//! What those who wait were told of a key's life, where it is not true any more.

use super::*;

/// A deletion and an eviction send no message.
#[tokio::test(start_paused = true)]
async fn a_waiter_sleeps_for_no_longer_than_one_watchdog_timeout_whatever_ttl_it_was_told() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", 120 * LEASE);
    let waiting = start(lock.lock()).await;
    let told = Instant::now();
    // Once to find it busy, once for the subscription, then once a watchdog's timeout.
    sleep(5 * LEASE + SECOND).await;
    assert_eq!(world.sent(Verb::Acquire).len(), 7);
    world.delete("a");
    let guard = waiting.await.unwrap().unwrap();
    assert!(told.elapsed() <= 6 * LEASE + 100 * MS, "{:?}", told.elapsed());
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// The old copy is of the waiter's own number, which is released when it waits no more: until then its next try finds it.
#[tokio::test(start_paused = true)]
async fn a_waiter_finds_within_a_third_of_a_lease_what_an_old_copy_of_its_own_try_took() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Late(10 * SECOND)]);
    let waiting = start(lock.lock()).await;
    world.other_takes("a", LEASE);
    sleep(9 * SECOND).await;
    // A deletion sends no message.
    world.server(|server| server.delete("a"));
    sleep(2 * SECOND).await;
    assert!(world.holder("a").is_some_and(|(holder, _)| holder.is_some()), "the old copy took it");
    let guard = timeout(LEASE / 3, waiting).await.expect("it need not wait for the TTL that it was told");
    drop(guard.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

/// A name that another process lets go of while three of ours wait: the first of them has it, the others listen.
async fn heard_by_two(bench: &Bench, leases: [Duration; 2]) -> (LockGuard, [JoinHandle<Result<LockGuard>>; 2]) {
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let first = start(lock.lock().lease(leases[0])).await;
    let others = [start(lock.lock().lease(leases[1])).await, start(lock.lock()).await];
    world.other_frees("a");
    let first = first.await.unwrap().unwrap();
    world.forget_record();
    (first, others)
}

/// The message goes to those of other processes. One of ours that is taken for theirs would ask for a look at the server,
/// and end a cool-down at once.
#[tokio::test(start_paused = true)]
async fn the_message_of_a_hand_over_that_shortens_is_counted_as_our_own() {
    let bench = Bench::new();
    let (first, [second, third]) = heard_by_two(&bench, [10 * SECOND, 5 * SECOND]).await;
    assert_eq!(first.unlock().await.unwrap(), Released::Freed);
    let second = second.await.unwrap().unwrap();
    turn().await;
    assert_eq!(bench.world.verbs(), [Verb::HandOver], "nobody looks after it");
    // The next one is somebody else's.
    bench.world.server(|server| server.publish_only("a"));
    turn().await;
    assert_eq!(bench.world.verbs(), [Verb::HandOver, Verb::Renew]);
    drop(second);
    drop(third.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn no_message_is_expected_of_a_hand_over_that_sent_none() {
    let bench = Bench::new();
    for fate in [Fate::Prompt, Fate::Refused(FaultKind::Unready)] {
        let (first, [second, third]) = heard_by_two(&bench, [5 * SECOND, 10 * SECOND]).await;
        bench.world.next(Verb::HandOver, [fate]);
        drop(first);
        let second = second.await.unwrap().unwrap();
        bench.world.forget_record();
        bench.world.server(|server| server.publish_only("a"));
        turn().await;
        assert_eq!(bench.world.verbs(), [Verb::Renew], "it is somebody else's");
        drop(second);
        drop(third.await.unwrap().unwrap());
        bench.nothing_is_left("a").await;
    }
}

/// Of a hand-over that had no answer a message may still come, and does: before that of the release that undoes it.
#[tokio::test(start_paused = true)]
async fn the_message_of_a_hand_over_whose_answer_was_lost_is_counted_as_our_own() {
    let bench = Bench::new();
    let (first, [second, third]) = heard_by_two(&bench, [60 * SECOND, 30 * SECOND]).await;
    bench.world.server(|server| server.lag = COMMAND_TIMEOUT + SECOND);
    bench.world.next(Verb::HandOver, [Fate::Lost]);
    drop(first);
    let second = second.await.unwrap().unwrap();
    sleep(2 * COMMAND_TIMEOUT).await;
    assert_eq!(
        bench.world.verbs(),
        [Verb::HandOver, Verb::Release, Verb::Release, Verb::Acquire],
        "nobody looks after it"
    );
    assert!(second.is_held());
    bench.world.server(|server| server.lag = Duration::ZERO);
    drop(second);
    drop(third.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

/// One that never ran sends none, and its undoing proves that.
#[tokio::test(start_paused = true)]
async fn no_message_is_expected_of_a_hand_over_that_was_undone_before_it_ran() {
    let bench = Bench::new();
    let (first, [second, third]) = heard_by_two(&bench, [60 * SECOND, 30 * SECOND]).await;
    bench.world.next(Verb::HandOver, [Fate::Never]);
    drop(first);
    let second = second.await.unwrap().unwrap();
    turn().await;
    bench.world.forget_record();
    bench.world.server(|server| server.publish_only("a"));
    turn().await;
    assert_eq!(bench.world.verbs(), [Verb::Renew], "it is somebody else's");
    drop(second);
    drop(third.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}
