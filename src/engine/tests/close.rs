//! The end of a client: who is told what, what is still sent, and what is left alone.

use super::*;

#[tokio::test(start_paused = true)]
async fn closing_tells_waiters_and_holders_and_refuses_new_calls() {
    let bench = Bench::new();
    let world = &bench.world;
    let held = bench.lock("held").lock().await.unwrap();
    let queued = start(bench.lock("held").lock()).await;
    world.other_takes("busy", LEASE);
    let contending = start(bench.lock("busy").lock()).await;
    let behind = start(bench.lock("busy").try_lock().wait(LEASE)).await;
    let lost = start(async move { (held.lost().await, held) }).await;
    world.forget_record();
    let closing = Instant::now();
    bench.engine.close().await;
    assert!(bench.engine.is_closed() && world.is_closed());
    assert!(matches!(queued.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(contending.await.unwrap(), Err(Error::Closed)));
    assert!(matches!(behind.await.unwrap(), Err(Error::Closed)));
    let (error, held) = lost.await.unwrap();
    assert_eq!(cause(&error), Some(LostCause::Closed));
    assert_eq!(closing.elapsed(), Duration::ZERO);
    assert!(matches!(bench.lock("new").lock().await, Err(Error::Closed)));
    assert!(matches!(bench.lock("new").try_lock().await, Err(Error::Closed)));
    assert!(matches!(bench.lock("new").unlock_as(&Owner::new()).await, Err(Error::Closed)));
    assert!(matches!(bench.lock("new").0.sight().await, Err(Error::Closed)));
    // Its work may still run, so the hold is left to its lease.
    assert_eq!(cause(&held.unlock().await.unwrap_err()), Some(LostCause::Closed));
    drop(held);
    sleep(LEASE * 2).await;
    assert!(world.record().is_empty());
    assert_eq!(world.subscriptions(), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_again_does_no_harm() {
    let bench = Bench::new();
    drop(bench.lock("a").lock().await.unwrap());
    tokio::join!(bench.engine.close(), bench.engine.close());
    bench.engine.close().await;
    assert!(bench.engine.is_closed());
    assert_eq!(bench.world.holder("a"), None, "what was let go before is sent");
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_releases_but_not_longer_than_a_command_timeout() {
    for (release, takes) in [(Fate::Slow(SECOND), SECOND), (Fate::Never, COMMAND_TIMEOUT)] {
        let bench = Bench::new();
        let guard = bench.lock("a").lock().await.unwrap();
        bench.world.always(Verb::Release, release);
        drop(guard);
        let closing = Instant::now();
        bench.engine.close().await;
        assert_eq!(closing.elapsed(), takes);
        let sent = bench.world.record().len();
        sleep(LEASE).await;
        assert_eq!(bench.world.record().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_goes_on_when_nobody_waits_for_it() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    bench.world.next(Verb::Release, [Fate::Refused(FaultKind::Unready), Fate::Slow(SECOND)]);
    drop(guard);
    turn().await;
    {
        let mut close = Box::pin(bench.engine.close());
        assert!(polled(&mut close, 1).await.is_none());
    }
    sleep(2 * SECOND).await;
    assert!(bench.engine.is_closed() && bench.world.is_closed());
    assert_eq!(bench.world.holder("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_answered_after_the_end_gives_no_guard_and_is_released() {
    let bench = Bench::new();
    let world = &bench.world;
    world.next(Verb::Acquire, [Fate::Slow(SECOND)]);
    let waiter = start(bench.lock("a").lock()).await;
    bench.engine.close().await;
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    assert_eq!(world.holder("a"), None);
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release]);
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_pauses_after_a_failure_is_told_at_once() {
    let bench = Bench::new();
    bench.world.always(Verb::Acquire, Fate::Refused(FaultKind::Unready));
    let waiter = start(bench.lock("a").lock()).await;
    // The pauses have grown by then.
    sleep(5 * SECOND).await;
    let closing = Instant::now();
    bench.engine.close().await;
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    assert_eq!(closing.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_under_way_at_the_end_is_undone() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.unpassable("a"));
    let guard = lock.lock().await.unwrap();
    let waiter = start(lock.lock()).await;
    world.next(Verb::HandOver, [Fate::Slow(SECOND)]);
    drop(guard);
    turn().await;
    bench.engine.close().await;
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    assert_eq!(world.holder("a"), None);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_nobody_has_any_more_ends_its_driver_and_its_links() {
    let bench = Bench::new();
    drop(bench.lock("a").lock().await.unwrap());
    sleep(SECOND).await;
    let Bench { world, engine, .. } = bench;
    let weak = Arc::downgrade(&engine);
    drop(engine);
    turn().await;
    assert!(weak.upgrade().is_none() && world.is_closed());
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
}
