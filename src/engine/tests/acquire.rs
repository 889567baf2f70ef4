//! Trying, listening and sleeping: what a contender sends, when it wakes, and how its wait ends.

use super::*;
use crate::error::RefusedKind;

#[tokio::test(start_paused = true)]
async fn a_free_lock_costs_one_round_trip_and_its_release_another() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    assert_eq!(bench.world.verbs(), [Verb::Acquire]);
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    bench.nothing_is_left("a").await;
    assert_eq!(bench.world.verbs(), [Verb::Acquire, Verb::Release]);
    assert_eq!(bench.world.subscriptions_made(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_made_again_wakes_once_more() {
    let bench = Bench::new();
    let world = &bench.world;
    world.other_takes("a", LEASE);
    let waiter = start(bench.lock("a").lock()).await;
    assert_eq!(world.sent(Verb::Acquire).len(), 2);
    let gate = Gate::new();
    world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
    world.interrupt();
    // Deaf, it polls: that try is answered busy, but only after the link came back.
    sleep(100 * MS).await;
    assert_eq!(world.sent(Verb::Acquire).len(), 3);
    world.other_frees("a");
    world.confirm();
    turn().await;
    let freed = Instant::now();
    gate.open();
    drop(waiter.await.unwrap().unwrap());
    assert_eq!(freed.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_missed_while_the_subscription_link_was_away_is_found_by_polling() {
    let bench = Bench::new();
    bench.world.other_takes("a", LEASE);
    let waiter = start(bench.lock("a").lock()).await;
    bench.world.interrupt();
    turn().await;
    bench.world.other_frees("a");
    let freed = Instant::now();
    drop(waiter.await.unwrap().unwrap());
    assert!(freed.elapsed() < 500 * MS, "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn with_a_live_subscription_a_waiter_tries_once_for_each_remaining_ttl() {
    let bench = Bench::new();
    let world = &bench.world;
    let started = Instant::now();
    world.other_takes("a", 10 * SECOND);
    let waiter = start(bench.lock("a").lock()).await;
    assert_eq!(world.sent(Verb::Acquire).len(), 2, "one try, and one for the confirmation");
    // The other process renews every three seconds, so each try is told seven to ten seconds.
    for _ in 0..40 {
        sleep(3 * SECOND).await;
        world.other_takes("a", 10 * SECOND);
    }
    let tries = world.sent(Verb::Acquire);
    for pair in tries[1..].windows(2) {
        let pause = pair[1].at - pair[0].at;
        assert!((7 * SECOND..=10 * SECOND + 30 * MS).contains(&pause), "{pause:?}");
    }
    assert!(started.elapsed() == 120 * SECOND && tries.len() >= 2 + 11, "{}", tries.len());
    // And it is awake at once when the lock is freed.
    world.other_frees("a");
    let freed = Instant::now();
    drop(waiter.await.unwrap().unwrap());
    assert_eq!(freed.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn where_subscriptions_are_refused_a_waiter_polls_with_a_bounded_pause() {
    let bench = Bench::new();
    bench.world.hearing(Hearing::Refused);
    bench.world.other_takes("a", LEASE);
    let waiter = start(bench.lock("a").lock()).await;
    sleep(10 * SECOND).await;
    let tries = bench.world.sent(Verb::Acquire).len();
    // One in 125 ms on average, some of them at once: chance alone does not make it twice as many.
    assert!((40..=160).contains(&tries), "{tries}");
    bench.world.other_frees("a");
    let freed = Instant::now();
    drop(waiter.await.unwrap().unwrap());
    assert!(freed.elapsed() <= 251 * MS, "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_always_too_late_end_the_acquisition() {
    let bench = Bench::new();
    let world = &bench.world;
    world.always(Verb::Acquire, Fate::Slow(150 * MS));
    let error = bench.lock("a").lock().lease(100 * MS).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    world.heal();
    turn().await;
    let (mut tried, released) = (numbers(&world.sent(Verb::Acquire)), numbers(&world.sent(Verb::Release)));
    assert_eq!(tried, released, "each of them is undone");
    tried.dedup();
    assert_eq!(tried.len(), 5, "a bound, and never the same number");
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_single_try_whose_answer_came_too_late_is_not_tried_again() {
    let bench = Bench::new();
    let world = &bench.world;
    world.always(Verb::Acquire, Fate::Slow(150 * MS));
    let asked = Instant::now();
    let error = bench.lock("a").try_lock().lease(100 * MS).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { may_have_run: true, .. }), "{error:?}");
    assert_eq!(asked.elapsed(), 150 * MS);
    world.heal();
    turn().await;
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release]);
    bench.nothing_is_left("a").await;
}

/// The server is far, and the lease short: each answer comes within the time that it may take, and none within its lease.
#[tokio::test(start_paused = true)]
async fn a_try_whose_answer_came_too_late_is_not_tried_again_once_the_wait_is_over() {
    for (wait, tries) in [(50 * MS, 1), (200 * MS, 2)] {
        let bench = Bench::new();
        let world = &bench.world;
        world.set_round_trip(Some(150 * MS));
        world.always(Verb::Acquire, Fate::Slow(150 * MS));
        let asked = Instant::now();
        let error = bench.lock("a").try_lock().lease(100 * MS).wait(wait).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { may_have_run: true, .. }), "{error:?}");
        assert!(format!("{error:?}").contains("the server is 150ms away"), "{error:?}");
        assert_eq!((asked.elapsed(), world.sent(Verb::Acquire).len()), (150 * MS * tries, tries as usize));
        world.heal();
        turn().await;
        assert_eq!(world.sent(Verb::Release).len(), tries as usize, "each of them is undone");
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_whose_answer_was_lost_is_adopted_by_the_next_one_and_reaped_after_the_end() {
    let bench = Bench::new();
    let world = &bench.world;
    world.next(Verb::Acquire, [Fate::Lost]);
    let guard = start(bench.lock("a").lock()).await;
    world.new_link();
    let guard = guard.await.unwrap().unwrap();
    let tries = world.sent(Verb::Acquire);
    assert_eq!(tries.len(), 2);
    assert_eq!(tries[0].numbers, tries[1].numbers);
    assert_eq!(world.holder("a"), Some((Some(tries[0].numbers[0]), 1)));
    assert!(guard.expires_in().unwrap() <= world.ttl("a"));
    // It lives for a while: the reaping is counted from its end.
    sleep(LEASE * 5).await;
    assert!(world.sent(Verb::Release).is_empty());
    let ended = Instant::now();
    guard.unlock().await.unwrap();
    bench.nothing_is_left("a").await;
    let releases = world.sent(Verb::Release);
    let after: Vec<u64> = releases.iter().map(|sent| (sent.at - ended).as_millis() as u64 / 100).collect();
    assert_eq!(after, [0, 100, 200, 300, 400], "every third of a lease, for a lease and a step");
    assert!(releases.iter().all(|sent| sent.numbers == tries[0].numbers && sent.holds == 0));
}

#[tokio::test(start_paused = true)]
async fn an_old_copy_that_runs_on_the_free_key_lives_for_a_third_of_a_lease_at_most() {
    let bench = Bench::new();
    let world = &bench.world;
    // The copy runs 25 s later, long after the hold that its repetition made was released.
    world.next(Verb::Acquire, [Fate::Late(25 * SECOND)]);
    let guard = bench.lock("a").lock().await.unwrap();
    guard.unlock().await.unwrap();
    sleep(22 * SECOND + 500 * MS).await;
    assert!(world.holder("a").is_some(), "the ghost is there");
    sleep(LEASE / 3).await;
    assert_eq!(world.holder("a"), None);
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_repetition_below_never_makes_the_deadline_later_than_the_server_s() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Twice { later: 2 * SECOND, under_way: Duration::ZERO }]);
    let guard = lock.lock().lease(10 * SECOND).await.unwrap();
    assert!(guard.expires_in().unwrap() <= world.ttl("a"));
    world.next(Verb::HandOver, [Fate::Twice { later: 2 * SECOND, under_way: Duration::ZERO }]);
    // Within the slice, since the release comes at once: an acquire that took the key at its second copy counts as now.
    let next = start(lock.lock().lease(5 * SECOND)).await;
    drop(guard);
    let guard = next.await.unwrap().unwrap();
    assert_eq!(world.sent(Verb::HandOver).len(), 1);
    assert!(guard.expires_in().unwrap() <= world.ttl("a"));
    // Held until the deadline, and not a moment longer than on the server.
    let left = guard.expires_in().unwrap();
    sleep(left - MS).await;
    assert!(guard.is_held() && world.holder("a").is_some());
    assert_eq!(cause(&guard.lost().await), Some(LostCause::Expired));
    assert!(world.holder("a").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_long_under_way_gives_no_later_deadline_than_the_server_s() {
    let lease = 10 * SECOND;
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    for verb in [Verb::Acquire, Verb::HandOver, Verb::Renew] {
        world.always(verb, Fate::Slow(2 * SECOND));
    }
    let is_modest = |guard: &LockGuard, how: &str| {
        let (left, ttl) = (guard.expires_in().unwrap(), world.ttl("a"));
        assert!((7 * SECOND..=ttl).contains(&left), "{how}: {left:?} instead of {ttl:?}");
    };
    let fresh = lock.lock().lease(lease).await.unwrap();
    is_modest(&fresh, "acquired");
    let next = start(lock.lock_as(&owner).lease(lease)).await;
    drop(fresh);
    let outer = next.await.unwrap().unwrap();
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::HandOver]);
    is_modest(&outer, "handed over");
    let inner = lock.lock_as(&owner).lease(lease).await.unwrap();
    is_modest(&inner, "nested");
    outer.extend(lease).await.unwrap();
    is_modest(&outer, "extended");
    drop((outer, inner));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn errors_that_heal_are_retried_under_the_same_number() {
    for kind in [FaultKind::Unready, FaultKind::ReadOnly, FaultKind::Dropped, FaultKind::Timeout] {
        let bench = Bench::new();
        bench.world.next(Verb::Acquire, [Fate::Refused(kind), Fate::Refused(kind)]);
        let guard = bench.lock("a").lock().await.unwrap();
        let mut tried = numbers(&bench.world.sent(Verb::Acquire));
        assert_eq!(tried.len(), 3);
        tried.dedup();
        assert_eq!(tried.len(), 1);
        drop(guard);
        bench.nothing_is_left("a").await;
        assert_eq!(bench.world.sent(Verb::Release).len(), 1, "{kind:?}: none of them can have run, so none is reaped");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_does_not_heal_ends_its_own_call_and_the_next_in_line_gets_its_own_answer() {
    let kinds = [
        (FaultKind::Permission, RefusedKind::Permission),
        (FaultKind::WrongType, RefusedKind::WrongType),
        (FaultKind::OutOfMemory, RefusedKind::OutOfMemory),
        (FaultKind::Other, RefusedKind::Other),
    ];
    for (fault, refused) in kinds {
        let bench = Bench::new();
        let lock = bench.lock("a");
        bench.world.next(Verb::Acquire, [Fate::Refused(fault)]);
        let started = Instant::now();
        let (first, second) = tokio::join!(lock.lock(), lock.lock());
        assert!(matches!(first, Err(Error::Refused { kind, .. }) if kind == refused));
        assert!(second.unwrap().is_held());
        assert_eq!(started.elapsed(), Duration::ZERO);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_told_to_all_who_would_wait_for_ever_at_the_same_time() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    bench.world.always(Verb::Acquire, Fate::Never);
    let started = Instant::now();
    let timed = |lock: Lock| async move {
        let error = lock.lock().await.unwrap_err();
        (error, started.elapsed())
    };
    let first = start(timed(lock.clone())).await;
    sleep(SECOND).await;
    let second = start(timed(lock.clone())).await;
    sleep(5 * SECOND).await;
    let third = start(timed(lock.clone())).await;
    for waiter in [first, second, third] {
        let (error, after) = waiter.await.unwrap();
        assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
        assert!((9 * SECOND..9 * SECOND + 100 * MS).contains(&after), "{after:?}");
    }
    bench.world.heal();
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_busy_is_waited_for_without_an_end() {
    let bench = Bench::new();
    bench.world.other_takes("a", 3600 * SECOND);
    let mut waiter = bench.lock("a").lock();
    assert!(timeout(3000 * SECOND, &mut waiter).await.is_err());
    bench.world.other_frees("a");
    drop(waiter.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_over_is_none_after_busy_and_unreachable_after_no_answer() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    bench.world.other_takes("a", LEASE);
    let started = Instant::now();
    assert!(lock.try_lock().wait(SECOND).await.unwrap().is_none());
    assert_eq!(started.elapsed(), SECOND);
    // One that contends, and one that stands in the queue behind it.
    bench.world.always(Verb::Acquire, Fate::Never);
    let (first, second) = tokio::join!(lock.try_lock().wait(5 * SECOND), lock.try_lock().wait(5 * SECOND));
    assert!(matches!(first, Err(Error::Unreachable { .. })), "{first:?}");
    assert!(matches!(second, Err(Error::Unreachable { .. })), "{second:?}");
    assert!(started.elapsed() < 6 * SECOND + 100 * MS, "{:?}", started.elapsed());
    bench.world.heal();
    bench.world.other_frees("a");
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn one_try_without_a_wait_says_busy_or_unreachable_and_is_not_repeated() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    bench.world.other_takes("a", LEASE);
    assert!(lock.try_lock().await.unwrap().is_none());
    bench.world.next(Verb::Acquire, [Fate::Refused(FaultKind::Unready)]);
    assert!(matches!(lock.try_lock().await, Err(Error::Unreachable { .. })));
    assert_eq!(bench.world.verbs(), [Verb::Acquire, Verb::Acquire]);
    assert_eq!(bench.world.subscriptions_made(), 0);
}

#[tokio::test(start_paused = true)]
async fn at_most_128_tries_are_in_flight_and_renewals_and_releases_go_on() {
    let bench = Bench::new();
    let world = &bench.world;
    let held = bench.lock("held").lock().await.unwrap();
    let to_free = bench.lock("to free").lock().await.unwrap();
    // Slower than anything that must get through, faster than the command timeout.
    world.always(Verb::Acquire, Fate::Slow(2 * SECOND));
    let waiters: Vec<_> = (0..1000).map(|n| tokio::spawn(bench.lock(&format!("{n}")).lock())).collect();
    turn().await;
    let in_flight = |world: &World| world.sent(Verb::Acquire).len() - 2;
    assert_eq!(in_flight(world), 128);
    assert_eq!(to_free.unlock().await.unwrap(), Released::Freed);
    sleep(LEASE / 3 + MS).await;
    assert!(!world.sent(Verb::Renew).is_empty() && held.expires_in().unwrap() > LEASE * 9 / 10);
    assert!(in_flight(world) > 128);
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(waiter.await.unwrap().unwrap());
    }
    // Each is under way for two seconds, so the 129th after any of them leaves no sooner.
    let tries = &world.sent(Verb::Acquire)[2..];
    assert_eq!(tries.len(), 1000);
    assert!(tries.windows(129).all(|some| some[128].at - some[0].at >= 2 * SECOND));
    assert!(guards.iter().all(LockGuard::is_held));
}

#[tokio::test(start_paused = true)]
async fn a_second_outermost_acquisition_of_one_owner_is_refused_while_the_first_is_pending() {
    let bench = Bench::new();
    let (lock, owner) = (bench.lock("a"), Owner::new());
    bench.world.other_takes("a", LEASE);
    let first = start(lock.lock_as(&owner)).await;
    for second in [lock.lock_as(&owner).await.map(Some), lock.try_lock_as(&owner).await] {
        assert!(matches!(second, Err(Error::Invalid { .. })), "{second:?}");
    }
    first.abort();
    bench.world.other_frees("a");
    turn().await;
    drop(lock.lock_as(&owner).await.unwrap());
}

/// Trouble that is long over is no reason to give a try up as soon as it leaves.
#[tokio::test(start_paused = true)]
async fn whoever_comes_first_after_a_long_trouble_has_time_for_its_own_answer() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.always(Verb::Acquire, Fate::Refused(FaultKind::Dropped));
    let first = tokio::spawn(lock.try_lock_as(&Owner::new()).wait(LEASE).into_future());
    sleep(15 * SECOND).await;
    let endless = tokio::spawn(lock.lock_as(&Owner::new()));
    turn().await;
    world.heal();
    world.always(Verb::Acquire, Fate::Slow(10 * MS));
    first.abort();
    let guard = endless.await.unwrap().expect("the server is there again");
    guard.unlock().await.unwrap();
    bench.nothing_is_left("a").await;
}
