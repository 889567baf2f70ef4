//! An owner that takes its own lock again: the count on the server, the deadline of mixed leases, and what is still sent
//! when the last of it ends.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_inside_a_watchdog_hold_never_shortens_it_and_the_watchdog_goes_on() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    for (inside, longer) in [(SECOND, false), (100 * SECOND, true)] {
        sleep(5 * SECOND).await;
        let (left, ttl) = (outer.expires_in().unwrap(), world.ttl("a"));
        let inner = lock.lock_as(&owner).lease(inside).await.unwrap();
        assert_eq!(inner.hold_count(), 2);
        assert!(world.ttl("a") >= ttl && outer.expires_in().unwrap() >= left);
        assert_eq!(outer.expires_in(), inner.expires_in());
        assert_eq!(world.ttl("a") > ttl, longer);
        let ttl = world.ttl("a");
        assert_eq!(inner.unlock().await.unwrap(), Released::StillHeld(1));
        assert_eq!(world.ttl("a"), ttl);
        world.forget_record();
        sleep(200 * SECOND).await;
        assert!(outer.is_held() && outer.expires_in().unwrap() <= world.ttl("a"));
        assert!((19..=20).contains(&world.sent(Verb::Renew).len()));
    }
    outer.unlock().await.unwrap();
    world.forget_record();
    sleep(LEASE).await;
    assert!(world.record().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_inside_a_fixed_hold_renews_until_its_last_ticket_ends_and_no_longer() {
    for detached in [false, true] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let outer = lock.lock_as(&owner).lease(5 * SECOND).await.unwrap();
        let inner = lock.lock_as(&owner).await.unwrap();
        let innermost = lock.lock_as(&owner).await.unwrap();
        sleep(100 * SECOND).await;
        assert_eq!(inner.unlock().await.unwrap(), Released::StillHeld(2));
        sleep(100 * SECOND).await;
        assert!(outer.is_held());
        if detached {
            let _ = innermost.detach();
            sleep(100 * SECOND).await;
            assert!(outer.is_held(), "a detached ticket counts");
            assert_eq!(lock.unlock_as(&owner).await.unwrap(), Released::StillHeld(1));
        } else {
            assert_eq!(innermost.unlock().await.unwrap(), Released::StillHeld(1));
        }
        world.forget_record();
        let (ended, left) = (Instant::now(), outer.expires_in().unwrap());
        assert!(left > LEASE / 2, "nothing shortens it");
        let lost = timeout(LEASE * 2, outer.lost()).await.expect("something still renews it");
        assert_eq!(cause(&lost), Some(LostCause::Expired));
        assert!((left..left + 2 * MS).contains(&ended.elapsed()));
        assert!(world.record().is_empty(), "the watchdog stayed");
    }
}

#[tokio::test(start_paused = true)]
async fn bounds_that_come_and_go_inside_never_delay_the_renewals_of_the_hold_outside() {
    // Each of them moves what was sent last, none of them the deadline.
    for (every, bound) in [(9 * SECOND, SECOND), (8 * SECOND, 15 * SECOND), (19 * SECOND + 500 * MS, SECOND)] {
        for outer_bound in [None, Some(500 * SECOND)] {
            let bench = Bench::new();
            let (lock, owner) = (bench.lock("a"), Owner::new());
            let outer = lock.lock_as(&owner);
            let outer = match outer_bound {
                Some(bound) => outer.max_hold(bound).await.unwrap(),
                None => outer.await.unwrap(),
            };
            for _ in 0..12 {
                sleep(every).await;
                let inner = lock.lock_as(&owner).max_hold(bound).await.unwrap();
                sleep(bound - 200 * MS).await;
                assert!(inner.is_held() && outer.is_held(), "{every:?}, {bound:?}, {outer_bound:?}");
                assert_eq!(inner.unlock().await.unwrap(), Released::StillHeld(1));
                assert!(outer.expires_in().unwrap() <= bench.world.ttl("a"));
            }
            assert!(outer.expires_in().unwrap() > LEASE / 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_that_is_given_up_leaves_the_count_as_it_was() {
    for fate in [Fate::Slow(SECOND), Fate::Lost, Fate::Never, Fate::Prompt] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let outer = lock.lock_as(&owner).await.unwrap();
        world.next(Verb::Acquire, [fate.clone()]);
        let mut inner = lock.lock_as(&owner);
        assert!(polled(&mut inner, 1).await.is_none());
        drop(inner);
        sleep(5 * SECOND).await;
        assert_eq!(world.holder("a").unwrap().1, 1, "{fate:?}");
        assert_eq!(outer.unlock().await.unwrap(), Released::Freed);
        drop(outer);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn nested_acquisitions_that_were_never_sent_leave_no_count_behind() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    world.next(Verb::Acquire, [Fate::Slow(SECOND)]);
    let mut first = lock.lock_as(&owner);
    let mut second = lock.lock_as(&owner);
    // The first asks on behalf of all who are pending; the second waits for its answer and is given up.
    assert!(polled(&mut first, 1).await.is_none());
    assert!(polled(&mut second, 1).await.is_none());
    let mut third = lock.lock_as(&owner);
    assert!(polled(&mut third, 1).await.is_none());
    drop((second, third));
    let inner = first.await.unwrap();
    sleep(5 * SECOND).await;
    assert_eq!(world.holder("a").unwrap().1, 2);
    assert_eq!(inner.hold_count(), 2);
    drop((outer, inner));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn nested_acquisitions_on_a_silent_server_are_all_told_that_it_is() {
    let bench = Bench::with(|settings| settings.watchdog_timeout = 300 * SECOND);
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    world.always(Verb::Acquire, Fate::Never);
    let started = Instant::now();
    let (first, second, third) = tokio::join!(lock.lock_as(&owner), lock.lock_as(&owner), lock.lock_as(&owner));
    for nested in [first, second, third] {
        assert!(matches!(nested, Err(Error::Unreachable { .. })), "{nested:?}");
    }
    assert!(started.elapsed() <= 10 * SECOND, "{:?}", started.elapsed());
    assert!(outer.is_held());
    world.heal();
    sleep(5 * SECOND).await;
    assert_eq!(world.holder("a").unwrap().1, 1);
}

/// Rounds in which a renewal and a nested acquisition are on their way when the hold ends: the server answers late, and
/// the end comes in another order each time.
#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_on_behalf_of_a_hold_whose_end_was_decided() {
    let lease = 100 * MS;
    let bench = Bench::with(|settings| settings.watchdog_timeout = lease);
    let (world, lock) = (&bench.world, bench.lock("a"));
    let (over, broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (seen_over, seen_broken) = (Arc::clone(&over), Arc::clone(&broken));
    let mut calls = 0_u64;
    world.policy(move |sent| {
        calls += 1;
        let asks = matches!(sent.verb, Verb::Acquire | Verb::Renew);
        if asks && sent.numbers.iter().any(|number| *number <= seen_over.load(Ordering::Relaxed)) {
            seen_broken.fetch_add(1, Ordering::Relaxed);
        }
        match (sent.verb, sent.holds) {
            (Verb::Acquire, 1) => Fate::Prompt,
            (Verb::Release, _) if calls.is_multiple_of(3) => Fate::Slow(MS),
            (Verb::Release, _) => Fate::Prompt,
            _ => Fate::Slow(2 * MS),
        }
    });
    for round in 0..MANY {
        let owner = Owner::new();
        let outer = lock.lock_as(&owner).await.unwrap();
        let number = number_of(world, "a");
        let renewing = round % 8 == 0;
        if renewing {
            sleep(lease / 3 + MS).await;
        }
        let mut nested = lock.lock_as(&owner);
        let granted = match round % 4 {
            // Answered, under way, or not yet asked for.
            0 => Some((&mut nested).await.unwrap()),
            1 | 2 => {
                assert!(polled(&mut nested, 1).await.is_none());
                None
            }
            _ => None,
        };
        if round % 3 == 0 {
            drop((outer, granted));
            drop(nested);
        } else if round % 3 == 1 {
            drop(nested);
            drop(granted);
            over.store(number, Ordering::Relaxed);
            outer.unlock().await.unwrap();
        } else {
            drop((granted, nested, outer));
        }
        over.store(number, Ordering::Relaxed);
        if renewing {
            sleep(3 * MS).await;
        }
        world.forget_record();
    }
    assert_eq!(broken.load(Ordering::Relaxed), 0);
    bench.nothing_is_left("a").await;
}

/// Tasks that are alive, besides the test itself.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn however_many_nested_acquisitions_come_to_nothing_one_task_tells_the_count() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let guard = lock.lock_as(&owner).await.unwrap();
    let before = tasks();
    // What did not run left nothing to tell.
    world.always(Verb::Acquire, Fate::Refused(FaultKind::Unready));
    for _ in 0..100 {
        assert!(matches!(lock.try_lock_as(&owner).await, Err(Error::Unreachable { .. })));
    }
    turn().await;
    assert_eq!((tasks(), world.sent(Verb::Release).len()), (before, 0));
    // What may have run is told, by one, and as long as it takes.
    world.heal();
    world.always(Verb::Release, Fate::Never);
    for _ in 0..100 {
        assert!(polled(&mut lock.lock_as(&owner), 1).await.is_none());
        turn().await;
    }
    // No task is kept for it.
    assert_eq!(tasks(), before);
    sleep(10 * SECOND).await;
    assert_eq!(tasks(), before);
    assert_eq!(world.holder("a").map(|(_, count)| count), Some(2), "one too many");
    world.heal();
    sleep(5 * SECOND).await;
    assert_eq!(world.holder("a").map(|(_, count)| count), Some(1));
    assert_eq!(tasks(), before);
    // And the next one that is not certain is told of again.
    assert!(polled(&mut lock.lock_as(&owner), 1).await.is_none());
    sleep(SECOND).await;
    assert_eq!(world.holder("a").map(|(_, count)| count), Some(1));
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// The answer to an older count tells nothing of what the server was asked for since.
#[tokio::test(start_paused = true)]
async fn an_answer_that_a_parked_unlock_brings_late_does_not_stand_for_the_newest_count() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let (first, second) = (lock.lock_as(&owner).await.unwrap(), lock.lock_as(&owner).await.unwrap());
    world.next(Verb::Release, [Fate::Slow(MS)]);
    let mut parked = Box::pin(second.unlock());
    assert!(polled(&mut parked, 1).await.is_none());
    // Nobody polls it while three others enter: its turn is over with its answer.
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(lock.lock_as(&owner).await.unwrap());
    }
    assert_eq!(world.holder("a").unwrap().1, 4);
    assert_eq!(parked.await.unwrap(), Released::StillHeld(1));
    others.truncate(0);
    sleep(SECOND).await;
    assert_eq!(world.holder("a").unwrap().1, 1, "the last count was told");
    first.unlock().await.unwrap();
    bench.nothing_is_left("a").await;
}

/// What did not run changed no count, so the hold may be passed on as before.
#[tokio::test(start_paused = true)]
async fn after_a_nested_acquisition_that_was_refused_a_hold_is_still_passed_on_without_a_word() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let guard = lock.lock_as(&owner).await.unwrap();
    world.next(Verb::Acquire, [Fate::Refused(FaultKind::Permission)]);
    assert!(matches!(lock.lock_as(&owner).await, Err(Error::Refused { .. })));
    let next = tokio::spawn(lock.lock_as(&Owner::new()));
    turn().await;
    world.forget_record();
    guard.unlock().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert_eq!(world.verbs(), []);
    next.unlock().await.unwrap();
    bench.nothing_is_left("a").await;
}

/// What a parked acquisition was answered says nothing of the counts that were asked for since.
#[tokio::test(start_paused = true)]
async fn an_answer_that_a_parked_acquisition_looks_at_late_does_not_stand_for_the_newest_count() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    world.next(Verb::Acquire, [Fate::Slow(MS)]);
    let mut parked = lock.lock_as(&owner);
    assert!(polled(&mut parked, 1).await.is_none());
    let other = lock.lock_as(&owner).await.unwrap();
    assert_eq!(world.holder("a").unwrap().1, 3);
    let inner = parked.await.unwrap();
    assert_eq!(other.unlock().await.unwrap(), Released::StillHeld(2));
    assert_eq!(world.holder("a").unwrap().1, 2);
    drop((inner, outer));
    bench.nothing_is_left("a").await;
}

/// Whatever ends it: it changed no count.
#[tokio::test(start_paused = true)]
async fn after_a_nested_acquisition_that_never_left_a_hold_is_still_passed_on_without_a_word() {
    for waits in [None, Some(100 * MS)] {
        let bench = Bench::with(|settings| settings.handover_slice = SECOND);
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let guard = lock.lock_as(&owner).await.unwrap();
        world.unlink();
        match waits {
            None => assert!(polled(&mut lock.lock_as(&owner), 1).await.is_none()),
            Some(wait) => assert!(lock.try_lock_as(&owner).wait(wait).await.is_err()),
        }
        world.relink();
        let next = start(lock.lock_as(&Owner::new())).await;
        world.forget_record();
        guard.unlock().await.unwrap();
        let next = next.await.unwrap().unwrap();
        assert_eq!(world.verbs(), [], "{waits:?}");
        next.unlock().await.unwrap();
        bench.nothing_is_left("a").await;
    }
}
