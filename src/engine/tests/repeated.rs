//! Releases that are repeated: for how long, and what a later `unlock` finds.

use super::*;

/// What was asked for counts, and not what was answered: the server may keep the hold for that long.
#[tokio::test(start_paused = true)]
async fn after_an_extension_without_an_answer_a_release_is_repeated_for_as_long_as_that_may_last() {
    for nested in [false, true] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let guard = lock.lock_as(&owner).await.unwrap();
        let asked = 100 * LEASE;
        if nested {
            world.next(Verb::Acquire, [Fate::Lost, Fate::Lost, Fate::Lost, Fate::Lost]);
            assert!(timeout(SECOND, lock.lock_as(&owner).lease(asked)).await.is_err(), "it has no answer");
        } else {
            world.next(Verb::Renew, [Fate::Lost]);
            assert!(matches!(guard.extend(asked).await, Err(Error::Unreachable { .. })));
        }
        assert!(world.ttl("a") > 99 * LEASE);
        world.always(Verb::Release, Fate::Never);
        drop(guard);
        sleep(LEASE * 3).await;
        assert!(world.holder("a").is_some());
        world.heal();
        sleep(5 * SECOND).await;
        assert_eq!(world.holder("a"), None, "nested: {nested}");
        bench.nothing_is_left("a").await;
    }
}

/// What was on its way when the hold ended may run after the release was decided, and the server keeps the hold from then.
#[tokio::test(start_paused = true)]
async fn after_a_renewal_that_runs_late_a_release_is_repeated_for_as_long_as_the_hold_may_last() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    world.next(Verb::Renew, [Fate::Late(LEASE / 2)]);
    sleep(LEASE / 3 + MS).await;
    world.always(Verb::Release, Fate::Never);
    drop(guard);
    sleep(LEASE + SECOND).await;
    assert_eq!(world.sent(Verb::Renew).len(), 1);
    assert!(world.holder("a").is_some(), "it lasts for a lease from when the renewal ran");
    world.heal();
    sleep(5 * SECOND).await;
    assert_eq!(world.holder("a"), None);
    assert!(lock.try_lock().await.unwrap().is_some());
    bench.nothing_is_left("a").await;
}

/// What was answered ran by then, and perhaps only then: the server keeps the hold from its answer on, and not from its
/// sending.
#[tokio::test(start_paused = true)]
async fn after_a_command_that_ran_long_after_it_was_sent_a_release_is_repeated_for_as_long_as_the_hold_may_last() {
    for verb in [Verb::Acquire, Verb::Renew] {
        let bench = Bench::with(|settings| {
            (settings.command_timeout, settings.unreachable_after) = (10 * SECOND, LEASE);
        });
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.next(verb, [Fate::Delayed(9 * SECOND)]);
        let guard = lock.lock().lease(LEASE).await.unwrap();
        if verb == Verb::Renew {
            guard.extend(LEASE).await.unwrap();
        }
        let over = Instant::now() + LEASE;
        // By what it asks for the hold lasts for longer than before, and by what ran it does not.
        guard.extend(LEASE - 8 * SECOND).await.unwrap();
        world.always(Verb::Release, Fate::Refused(FaultKind::Unready));
        drop(guard);
        sleep(LEASE - 4 * SECOND).await;
        assert_eq!(world.ttl("a"), over - Instant::now());
        world.heal();
        sleep(2 * SECOND).await;
        assert_eq!(world.holder("a"), None, "{verb:?}");
        assert!(lock.try_lock().await.unwrap().is_some());
        bench.nothing_is_left("a").await;
    }
}

/// A hand-over without an answer may move the hold while it lives, and what it made lives for a lease from then on.
#[tokio::test(start_paused = true)]
async fn after_a_hand_over_that_runs_late_both_releases_are_repeated_for_as_long_as_the_new_hold_may_last() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.unpassable("a"));
    let guard = lock.lock().await.unwrap();
    let waiting = start(lock.lock()).await;
    world.next(Verb::HandOver, [Fate::Late(LEASE - SECOND)]);
    world.always(Verb::Release, Fate::Refused(FaultKind::Unready));
    drop(guard);
    waiting.abort();
    sleep(LEASE + 20 * SECOND).await;
    assert_eq!(world.ttl("a"), LEASE - 21 * SECOND, "from when the hand-over ran");
    world.heal();
    sleep(2 * SECOND).await;
    assert_eq!(world.holder("a"), None);
    bench.nothing_is_left("a").await;
}

/// As above, for holds that were lost: with a guard that ends later, and detached, where nobody ends it.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_that_the_server_may_keep_for_longer_is_released_though_it_is_forgotten() {
    for detached in [false, true] {
        let bench = Bench::new();
        let world = &bench.world;
        let guard = bench.lock("a").lock().await.unwrap();
        world.next(Verb::Renew, [Fate::Lost]);
        assert!(guard.extend(100 * LEASE).await.is_err());
        world.always(Verb::Renew, Fate::Never);
        assert_eq!(cause(&guard.lost().await), Some(LostCause::Expired));
        if detached {
            guard.detach();
        } else {
            world.always(Verb::Release, Fate::Never);
            drop(guard);
        }
        sleep(LEASE * 3).await;
        world.heal();
        sleep(5 * SECOND).await;
        assert_eq!(world.holder("a"), None, "detached: {detached}");
        bench.nothing_is_left("a").await;
    }
}

/// As above, where the server refuses at first: nothing is repeated by itself, and what is asked for later is.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_asked_for_again_is_repeated_for_as_long_as_the_hold_may_last() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("a").lock().lease(100 * LEASE).await.unwrap();
    world.next(Verb::Release, [Fate::Refused(FaultKind::Permission)]);
    assert!(matches!(guard.unlock().await, Err(Error::Refused { .. })));
    world.always(Verb::Release, Fate::Never);
    assert!(matches!(guard.unlock().await, Err(Error::Unreachable { .. })));
    drop(guard);
    sleep(LEASE * 3).await;
    assert!(world.holder("a").is_some());
    world.heal();
    sleep(5 * SECOND).await;
    assert_eq!(world.holder("a"), None);
    bench.nothing_is_left("a").await;
}

/// What was sent without an answer may have freed it, also where the server refuses the next sending.
#[tokio::test(start_paused = true)]
async fn a_release_that_ran_unheard_and_was_then_refused_is_freed_when_it_is_asked_for_again() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("a").lock().await.unwrap();
    world.next(Verb::Release, [Fate::Lost, Fate::Refused(FaultKind::Permission)]);
    assert!(matches!(guard.unlock().await, Err(Error::Unreachable { may_have_run: true, .. })));
    sleep(SECOND).await;
    assert_eq!(world.sent(Verb::Release).len(), 2, "it was given up");
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Of an abandoned hand-over both numbers are released, also where the server refuses the second at first.
#[tokio::test(start_paused = true)]
async fn what_a_refusal_left_of_an_abandoned_hand_over_is_released_when_it_is_asked_for_again() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    let waiting = tokio::spawn(lock.lock_as(&Owner::new()).lease(100 * LEASE));
    turn().await;
    world.next(Verb::HandOver, [Fate::Lost]);
    world.next(Verb::Release, [Fate::Prompt, Fate::Refused(FaultKind::Permission)]);
    assert!(matches!(guard.unlock().await, Err(Error::Unreachable { .. })));
    waiting.abort();
    sleep(SECOND).await;
    let released = world.sent(Verb::Release);
    assert_eq!(released.len(), 2, "in order, and the second was refused");
    assert_eq!(world.holder("a").unwrap().0, Some(released[1].numbers[0]));
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    assert_eq!(world.holder("a"), None);
    bench.nothing_is_left("a").await;
}

/// What never left was never asked for: a release is not repeated for its sake.
#[tokio::test(start_paused = true)]
async fn after_an_extension_that_never_left_a_release_is_repeated_for_no_longer_than_before() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    world.unlink();
    assert!(matches!(guard.extend(1_000 * LEASE).await, Err(Error::Unreachable { may_have_run: false, .. })));
    drop(guard);
    sleep(2 * LEASE).await;
    world.forget_record();
    assert!(bench.engine.find("a").is_none_or(|place| !place.releases()), "it was given up");
    world.relink();
}

#[tokio::test(start_paused = true)]
async fn a_release_that_waits_for_its_turn_is_not_taken_for_an_old_copy_s_leftover() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    world.next(Verb::Acquire, [Fate::Lost]);
    let outer = start(lock.lock_as(&owner).lease(6 * SECOND)).await;
    world.new_link();
    let outer = outer.await.unwrap().unwrap();
    let inner = lock.lock_as(&owner).lease(6 * SECOND).await.unwrap();
    world.next(Verb::Release, [Fate::Never]);
    drop(inner);
    turn().await;
    // A third of the lease goes by before the count that is told in vain gives the turn up.
    assert_eq!(outer.unlock().await.unwrap(), Released::Freed);
    bench.nothing_is_left("a").await;
}
