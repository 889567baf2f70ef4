//! Calls that wait for a link: what never left leaves nothing to undo, and what is over by the time a link is there never
//! leaves.

use super::*;

/// Asked for while there is no link, and given up: by its own deadline, by the wait's, by a drop.
#[tokio::test(start_paused = true)]
async fn a_try_that_never_left_leaves_nothing_to_release_or_to_reap() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.unlink();
    for error in [
        lock.try_lock().await.unwrap_err(),
        lock.try_lock().wait(SECOND).await.unwrap_err(),
        lock.try_lock().wait(10 * MS).await.unwrap_err(),
        lock.lock().await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::Unreachable { may_have_run: false, .. }), "{error:?}");
    }
    for polls in 1..4 {
        let mut dropped = lock.lock();
        assert!(timeout(10 * MS, polled(&mut dropped, polls)).await.is_ok_and(|answer| answer.is_none()) || polls > 1);
    }
    world.relink();
    bench.nothing_is_left("a").await;
    assert!(world.record().is_empty(), "{:?}", world.record());
}

/// Nobody said that it is busy.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_without_a_link_is_not_busy_whoever_was_answered_meanwhile() {
    for at_hand in [true, false] {
        let bench = Bench::new();
        let (world, gate) = (&bench.world, Gate::new());
        world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
        let other = start(bench.lock("other").lock()).await;
        if !at_hand {
            bench.engine.tries.at(0).free()[0].forget_permits(TRIES);
        }
        world.unlink();
        let waiter = start(bench.lock("a").try_lock().wait(100 * MS)).await;
        sleep(50 * MS).await;
        // What left before the link was lost.
        gate.open();
        let other = other.await.unwrap().unwrap();
        let error = waiter.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Unreachable { may_have_run: false, .. }), "{error:?}");
        let why = std::error::Error::source(&error).expect("why").to_string();
        assert!(why.contains("no link"), "{why}");
        if !at_hand {
            bench.engine.tries.at(0).free()[0].add_permits(TRIES - 1);
        }
        world.relink();
        drop(other);
        sleep(SECOND).await; // the other name is remembered for a while
        bench.nothing_is_left("a").await;
    }
}

/// Its try stands behind a release that has to be sent again, which leaves once the wait is over: nobody said that it is busy.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_a_release_has_left_asks_all_the_same() {
    for silent in [true, false] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.set_round_trip(Some(20 * MS));
        let guard = lock.lock().await.unwrap();
        world.next(Verb::Release, [Fate::Refused(FaultKind::Dropped)]);
        if silent {
            world.always(Verb::Release, Fate::Never);
            world.always(Verb::Acquire, Fate::Never);
        }
        let held = number_of(world, "a");
        drop(guard);
        turn().await;
        let released = || numbers(&world.sent(Verb::Release)).iter().filter(|number| **number == held).count();
        assert_eq!((released(), world.sent(Verb::Release).len()), (1, 1));
        let asked = Instant::now();
        let answer = lock.try_lock().wait(Duration::from_nanos(1)).await;
        // A try in doubt is released at once.
        let beside = usize::from(silent);
        assert_eq!((released(), world.sent(Verb::Release).len()), (2, 2 + beside));
        assert!(asked.elapsed() <= 120 * MS, "twice the time that an answer may take: {:?}", asked.elapsed());
        match answer {
            Err(Error::Unreachable { .. }) => assert!(silent),
            Ok(Some(_)) => assert!(!silent),
            other => panic!("{other:?}"),
        }
        drop(answer);
        world.heal();
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_tries_that_wait_for_a_link_those_that_were_given_up_are_never_sent() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("held").lock().await.unwrap();
    world.forget_record();
    world.unlink();
    // More than are let through at once: some wait for their place first.
    let locks: Vec<_> = (0..200).map(|n| bench.lock(&format!("{n}"))).collect();
    let mut tasks = Vec::new();
    for lock in &locks {
        tasks.push(start(lock.lock()).await);
    }
    let kept = tasks.split_off(190);
    tasks.iter().for_each(JoinHandle::abort);
    turn().await;
    world.relink();
    for task in kept {
        drop(task.await.unwrap().unwrap());
    }
    turn().await;
    let sent = world.record();
    assert_eq!((world.sent(Verb::Acquire).len(), sent.len()), (10, 20), "{sent:?}");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_waits_for_a_link_is_not_sent_for_a_hold_that_is_over_by_then() {
    for lost in [false, true] {
        let bench = Bench::new();
        let (world, owner) = (&bench.world, Owner::new());
        let first = bench.lock("a").lock().await.unwrap();
        let second = bench.lock("b").lock_as(&owner).await.unwrap();
        let third = bench.lock("c").lock().await.unwrap();
        let number = number_of(world, "b");
        sleep(LEASE / 3 - SECOND).await;
        world.unlink();
        world.forget_record();
        sleep(2 * SECOND).await;
        if lost {
            // The machine slept.
            bench.sleeps.sleep(LEASE);
        } else {
            drop(second);
        }
        turn().await;
        world.relink();
        turn().await;
        let renewed: Vec<u64> = world.sent(Verb::Renew).iter().flat_map(|sent| sent.numbers.clone()).collect();
        assert!(!renewed.contains(&number), "{renewed:?}");
        assert_eq!(renewed.len(), if lost { 0 } else { 2 }, "the others are renewed at once");
        drop((first, third));
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_acquire_that_waits_for_a_link_is_not_sent_for_a_hold_that_is_lost_by_then() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let lock = bench.lock("a");
    let outer = lock.lock_as(&owner).lease(2 * SECOND).await.unwrap();
    let number = number_of(world, "a");
    world.unlink();
    world.forget_record();
    let inner = start(lock.lock_as(&owner)).await;
    sleep(2 * SECOND + 500 * MS).await;
    assert_eq!(cause(&outer.lost().await), Some(LostCause::Expired));
    world.relink();
    let inner = inner.await.unwrap().unwrap();
    assert_eq!(numbers(&world.sent(Verb::Acquire)).iter().filter(|sent| **sent == number).count(), 0);
    assert!(inner.is_held() && number_of(world, "a") != number);
    drop((outer, inner));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_waits_for_a_link_is_not_sent_once_its_guard_was_released() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = Arc::new(bench.lock("a").lock().await.unwrap());
    world.unlink();
    let extending = Arc::clone(&guard);
    let extending = start(async move { extending.extend(LEASE * 2).await }).await;
    let releasing = Arc::clone(&guard);
    let releasing = start(async move { releasing.unlock().await }).await;
    world.relink();
    assert_eq!(releasing.await.unwrap().unwrap(), Released::Freed);
    assert!(matches!(extending.await.unwrap(), Err(Error::NotHeld { .. })));
    assert!(world.sent(Verb::Renew).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_the_first_to_find_the_hold_expired_says_that_it_is_lost() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("a").lock().await.unwrap();
    world.unlink();
    {
        let mut extending = Box::pin(guard.extend(LEASE * 2));
        assert!(polled(&mut extending, 1).await.is_none());
        // No timer tells this one.
        bench.sleeps.sleep(LEASE);
        world.relink();
        assert_eq!(cause(&extending.await.unwrap_err()), Some(LostCause::Expired));
    }
    assert!(world.sent(Verb::Renew).is_empty());
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_try_that_waits_for_a_link_is_not_sent_once_the_client_was_closed() {
    let bench = Bench::new();
    let world = &bench.world;
    world.unlink();
    let waiting = start(bench.lock("a").lock()).await;
    let engine = Arc::clone(&bench.engine);
    let closing = start(async move { engine.close().await }).await;
    world.relink();
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed)));
    closing.await.unwrap();
    assert!(world.record().is_empty(), "{:?}", world.record());
}

#[tokio::test(start_paused = true)]
async fn of_a_hand_over_that_never_left_only_the_old_number_is_released() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    let number = number_of(world, "a");
    let next = start(lock.lock().lease(LEASE)).await;
    world.unlink();
    world.forget_record();
    drop(guard);
    sleep(COMMAND_TIMEOUT + SECOND).await;
    world.relink();
    let next = next.await.unwrap().unwrap();
    assert_eq!(numbers(&world.sent(Verb::Release)), [number]);
    assert!(world.sent(Verb::HandOver).is_empty());
    drop(next);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_faster_than_the_server_answers_leaves_a_bounded_number_of_releases() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.always(Verb::Acquire, Fate::Lost);
    world.always(Verb::Release, Fate::Never);
    for _ in 0..500 {
        assert!(timeout(MS, lock.lock()).await.is_err());
    }
    assert_eq!(world.sent(Verb::Acquire).len(), 64);
    assert_eq!(world.sent(Verb::Release).len(), 64);
    world.heal();
    drop(lock.lock().await.unwrap());
    bench.nothing_is_left("a").await;
}
