//! The end of a client that waits for its holders: who is refused, who is told to stop, and what becomes of the rest.

use super::*;
use crate::engine::Shutdown;

/// More than anybody here needs.
const GRACE: Duration = Duration::from_secs(300);

async fn shutting_down(bench: &Bench, grace: Duration) -> JoinHandle<Shutdown> {
    let engine = Arc::clone(&bench.engine);
    start(async move { engine.shutdown(grace).await }).await
}

fn still_held(shutdown: &Shutdown) -> Vec<&str> {
    shutdown.still_held.iter().map(AsRef::as_ref).collect()
}

#[tokio::test(start_paused = true)]
async fn nobody_is_let_in_any_more_but_holders_who_nest() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let outer = bench.lock("held").lock_as(&owner).await.unwrap();
    let queued = start(bench.lock("held").lock()).await;
    world.other_takes("busy", LEASE);
    let contending = start(bench.lock("busy").lock()).await;
    let behind = start(bench.lock("busy").try_lock().wait(GRACE)).await;
    let began = Instant::now();
    let shutdown = shutting_down(&bench, GRACE).await;
    for waiting in [queued, contending] {
        assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    }
    assert!(matches!(behind.await.unwrap(), Err(Error::Closed)));
    assert_eq!(began.elapsed(), Duration::ZERO);
    world.forget_record();
    assert!(matches!(bench.lock("new").lock().await, Err(Error::Closed)));
    assert!(matches!(bench.lock("held").try_lock().await, Err(Error::Closed)));
    assert!(matches!(bench.lock("new").try_lock_as(&owner).wait(SECOND).await, Err(Error::Closed)));
    assert!(world.record().is_empty() && !bench.engine.is_closed());
    // Questions are answered, and whoever holds may go on with what it does.
    assert!(bench.lock("held").0.sight().await.unwrap().is_some());
    let inner = bench.lock("held").lock_as(&owner).await.unwrap();
    assert_eq!(inner.unlock().await.unwrap(), Released::StillHeld(1));
    outer.extend(LEASE * 2).await.unwrap();
    assert!(!shutdown.is_finished());
    assert_eq!(outer.unlock().await.unwrap(), Released::Freed);
    let shutdown = shutdown.await.unwrap();
    assert!(shutdown.is_clean() && shutdown.released == 1, "{shutdown:?}");
    assert!(bench.engine.is_closed() && world.is_closed());
    assert_eq!(world.holder("held"), None);
}

#[tokio::test(start_paused = true)]
async fn holders_are_told_to_stop_and_keep_what_they_have() {
    let bench = Bench::new();
    let guard = Arc::new(bench.lock("a").lock().await.unwrap());
    let before = guard.cancellation();
    let (working, listening) = (Arc::clone(&guard), Arc::clone(&guard));
    let work = start(async move { working.protect(sleep(LEASE * 3)).await }).await;
    let lost = start(async move { listening.lost().await }).await;
    bench.world.forget_record();
    let shutdown = shutting_down(&bench, GRACE).await;
    assert!(before.is_cancelled() && guard.cancellation().is_cancelled());
    sleep(LEASE * 2).await;
    assert!(guard.is_held() && bench.world.holder("a").is_some());
    assert!(bench.world.verbs().iter().all(|verb| *verb == Verb::Renew) && bench.world.record().len() >= 5);
    work.await.unwrap().unwrap();
    assert!(!lost.is_finished() && !shutdown.is_finished());
    let released = Instant::now();
    drop(guard);
    lost.abort();
    let shutdown = shutdown.await.unwrap();
    assert!(shutdown.is_clean() && shutdown.released == 1 && released.elapsed() == Duration::ZERO);
    assert_eq!(bench.world.holder("a"), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_still_held_after_the_grace_is_named_and_left_to_its_lease() {
    let bench = Bench::new();
    let [gone, kept, also] = [
        bench.lock("gone").lock().await.unwrap(),
        bench.lock("kept").lock().await.unwrap(),
        bench.lock("also kept").lock().lease(GRACE * 2).await.unwrap(),
    ];
    let short = bench.lock("short").lock().lease(SECOND).await.unwrap();
    let owners = [(); 2].map(|()| Owner::new());
    let detached = [bench.lock("detached"), bench.lock("forgotten")];
    for (lock, owner) in detached.iter().zip(&owners) {
        lock.lock_as(owner).await.unwrap().detach();
    }
    let lost = start(async move { (kept.lost().await, kept) }).await;
    let began = Instant::now();
    let shutdown = shutting_down(&bench, 10 * SECOND).await;
    gone.unlock().await.unwrap();
    detached[0].unlock_as(&owners[0]).await.unwrap();
    let shutdown = shutdown.await.unwrap();
    assert_eq!(began.elapsed(), 10 * SECOND);
    assert_eq!((shutdown.released, still_held(&shutdown)), (2, vec!["kept", "also kept", "forgotten"]));
    assert!(!shutdown.is_clean());
    let (error, kept) = lost.await.unwrap();
    assert_eq!((cause(&error), cause(&also.lost().await)), (Some(LostCause::Closed), Some(LostCause::Closed)));
    assert_eq!(cause(&short.lost().await), Some(LostCause::Expired), "lost before, and in neither");
    bench.world.forget_record();
    drop((kept, also));
    sleep(SECOND).await;
    assert!(bench.world.record().is_empty() && bench.world.holder("kept").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_second_call_joins_the_first_and_a_dropped_one_goes_on() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    {
        let mut dropped = Box::pin(bench.engine.shutdown(10 * SECOND));
        assert!(polled(&mut dropped, 1).await.is_none());
    }
    let joined = [shutting_down(&bench, SECOND).await, shutting_down(&bench, GRACE).await];
    sleep(9 * SECOND).await;
    assert!(guard.is_held() && joined.iter().all(|joined| !joined.is_finished()));
    let began = Instant::now();
    for joined in joined {
        assert_eq!(still_held(&joined.await.unwrap()), ["a"]);
    }
    assert_eq!(began.elapsed(), SECOND);
    // So does one that comes late.
    assert_eq!(still_held(&bench.engine.shutdown(GRACE).await), ["a"]);
    bench.engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn close_cuts_a_shutdown_short_and_leaves_nothing_to_shut_down() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    drop(bench.lock("b").lock().await.unwrap());
    let shutdown = shutting_down(&bench, GRACE).await;
    let began = Instant::now();
    bench.engine.close().await;
    assert_eq!(still_held(&shutdown.await.unwrap()), ["a"]);
    assert!(!guard.is_held());
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    bench.engine.close().await;
    let after = bench.engine.shutdown(GRACE).await;
    assert!(after.is_clean() && after.released == 0 && !guard.is_held());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_it_begins_is_undone_or_sent() {
    // A try, a hand-over and a release that are slow.
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.unpassable("handed").lock().await.unwrap();
    let successor = start(bench.unpassable("handed").lock()).await;
    let released = bench.lock("released").lock().await.unwrap();
    world.next(Verb::Acquire, [Fate::Slow(SECOND)]);
    let trying = start(bench.lock("tried").lock()).await;
    world.next(Verb::HandOver, [Fate::Slow(SECOND)]);
    world.next(Verb::Release, [Fate::Slow(SECOND)]);
    drop((guard, released));
    turn().await;
    let began = Instant::now();
    let shutdown = bench.engine.shutdown(GRACE).await;
    assert!(shutdown.is_clean() && shutdown.released == 0, "{shutdown:?}");
    assert!(began.elapsed() <= COMMAND_TIMEOUT, "it took {:?}", began.elapsed());
    for waiting in [successor, trying] {
        assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    }
    assert_eq!(["handed", "released", "tried"].map(|name| world.holder(name)), [None; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_holds_nothing_is_shut_down_at_once() {
    let bench = Bench::new();
    drop(bench.lock("a").lock().await.unwrap());
    turn().await;
    let began = Instant::now();
    let shutdown = bench.engine.shutdown(GRACE).await;
    assert!(shutdown.is_clean() && shutdown.released == 0 && bench.world.is_closed());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_nobody_began_to_work_under_is_released_by_the_end() {
    for in_order in [true, false] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let guard = lock.lock().await.unwrap();
        // It is passed the lock, and does not look.
        let mut parked = lock.lock();
        assert!(polled(&mut parked, 1).await.is_none());
        guard.unlock().await.unwrap();
        assert!(world.holder("a").is_some());
        if in_order {
            let shutdown = bench.engine.shutdown(SECOND).await;
            assert!(shutdown.is_clean() && shutdown.released == 1, "{shutdown:?}");
        } else {
            bench.engine.close().await;
        }
        assert_eq!(world.holder("a"), None);
        assert!(matches!(parked.await, Err(Error::Closed)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_nobody_polls_does_not_take_the_grace() {
    let bench = Bench::new();
    bench.world.other_takes("busy", GRACE * 2);
    let mut parked = bench.lock("busy").lock();
    assert!(polled(&mut parked, 1).await.is_none());
    let began = Instant::now();
    assert!(bench.engine.shutdown(GRACE).await.is_clean());
    assert!(began.elapsed() <= COMMAND_TIMEOUT, "it took {:?}", began.elapsed());
    assert!(matches!(parked.await, Err(Error::Closed)));
}

#[tokio::test(start_paused = true)]
async fn many_holders_that_stop_one_after_the_other_are_all_waited_for() {
    const MANY: u32 = 2_000;
    let bench = Bench::new();
    for number in 0..MANY {
        let guard = bench.lock(&format!("lock {number}")).lock().await.unwrap();
        tokio::spawn(async move {
            guard.cancellation().cancelled().await;
            sleep(MS * (MANY - number)).await;
            drop(guard);
        });
    }
    let began = Instant::now();
    let shutdown = bench.engine.shutdown(GRACE).await;
    assert_eq!((shutdown.released, shutdown.is_clean()), (MANY as usize, true));
    assert!(began.elapsed() >= MS * MANY && began.elapsed() < MS * MANY + SECOND);
}
