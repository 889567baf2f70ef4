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
