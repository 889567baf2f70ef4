//! The end of a hold, and what comes after it: its release, its loss, its pass, and who wakes up.

use super::*;

/// Model trace f0: a contender subscribes and is dropped; its successor's first try leaves before the subscription is
/// confirmed; the other process lets go, which nobody hears; the confirmation comes, and then the try's answer, "busy". A
/// confirmation is something to wake up for like a message, so one more try follows.
#[tokio::test(start_paused = true)]
async fn a_confirmation_between_a_try_and_its_busy_answer_is_not_slept_through() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let mut other = Other::of(world);
    world.hearing(Hearing::ByHand);
    assert!(other.tries());
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    let gate = Gate::new();
    world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
    first.abort();
    turn().await;
    assert_eq!((world.sent(Verb::Acquire).len(), world.subscriptions_made()), (2, 1));
    other.frees();
    world.confirm();
    turn().await;
    let freed = Instant::now();
    gate.open();
    let guard = timeout(LEASE * 2, second).await.expect("a lease is over some day").unwrap().unwrap();
    assert!(guard.is_held());
    assert_eq!(freed.elapsed(), Duration::ZERO, "slept on a free lock");
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Model trace ra1w: a release runs, but its answer is lost, so it waits to be sent again; the other process takes the
/// key. The next acquisition of the same owner does not take the released hold back: it asks, as a new one.
#[tokio::test(start_paused = true)]
async fn a_release_that_waits_to_be_sent_again_is_not_taken_back() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let mut other = Other::of(world);
    let guard = lock.lock_as(&owner).await.unwrap();
    let old = number_of(world, "a");
    world.next(Verb::Release, [Fate::Broken]);
    drop(guard);
    // Answered as broken, and pausing before it is repeated.
    turn().await;
    assert_eq!(world.sent(Verb::Release).len(), 1);
    assert!(other.tries());
    let again = start(lock.lock_as(&owner)).await;
    sleep(LEASE / 2).await;
    assert!(other.believes() && !again.is_finished(), "two believe that they hold");
    other.frees();
    let guard = again.await.unwrap().unwrap();
    assert!(guard.is_held() && number_of(world, "a") != old);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Model trace ra4: let go of and tried again in one breath, so that the release is not even sent yet. It goes out before
/// the try, which never meets a hold of its own process that is about to end.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_dropped_can_be_tried_at_once() {
    let held = [(Lease::Watchdog, Duration::ZERO), (Lease::Fixed(LEASE), Duration::ZERO), (Lease::Watchdog, 2 * SLICE)];
    for (lease, section) in held {
        for under_way in [Duration::ZERO, 50 * MS] {
            let bench = Bench::new();
            let (world, lock) = (&bench.world, bench.lock("a"));
            let guard = lock.lock().lease(lease).await.unwrap();
            sleep(section).await;
            world.next(Verb::Release, [Fate::Slow(under_way)]);
            world.forget_record();
            let dropped = Instant::now();
            drop(guard);
            let guard = lock.try_lock().await.unwrap().expect("free");
            assert_eq!(world.verbs(), [Verb::Release, Verb::Acquire]);
            // On one link there is no answer to wait for, but where it must say who else listens.
            let waited = if section < SLICE { Duration::ZERO } else { under_way };
            assert_eq!(dropped.elapsed(), waited);
            drop(guard);
            bench.nothing_is_left("a").await;
        }
    }
}

/// Model trace rc3w: a hold is lost by its deadline while the server still has it, and its owner, who keeps the guard,
/// asks for the name again. Its own lost field goes first, or it would wait for itself.
#[tokio::test(start_paused = true)]
async fn an_owner_that_asks_again_first_releases_the_field_that_it_lost() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let lost = lock.lock_as(&owner).lease(2 * SECOND).await.unwrap();
    let old = number_of(world, "a");
    bench.sleeps.sleep(LEASE);
    assert!(!lost.is_held());
    world.forget_record();
    let again = lock.lock_as(&owner).await.unwrap();
    let record = world.record();
    assert_eq!(world.verbs(), [Verb::Release, Verb::Acquire]);
    assert_eq!(record[0].numbers, [old]);
    assert!(again.is_held() && !lost.is_held());
    drop(lost);
    turn().await;
    assert_eq!(world.record().len(), 2, "it was released before");
    drop(again);
    bench.nothing_is_left("a").await;
}

/// Model trace rd5w: the slice is over, and the server lost the key meanwhile: the release finds nothing, so it publishes
/// nothing, and no message will ever end the cool-down. Not held is as good as nobody listening; and where not even that
/// is known, a slice is the end of it.
#[tokio::test(start_paused = true)]
async fn a_release_that_found_nothing_does_not_leave_the_next_one_waiting_for_a_message() {
    for known in [true, false] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let mut other = Other::of(world);
        assert!(other.tries());
        let first = start(lock.lock()).await;
        let second = start(lock.lock()).await;
        other.frees();
        let guard = first.await.unwrap().unwrap();
        assert_eq!(world.subscriptions(), 1);
        // Somebody else listens too.
        world.server(|server| server.others = 1);
        sleep(2 * SLICE).await;
        world.delete("a");
        if !known {
            world.next(Verb::Release, [Fate::Broken]);
        }
        let ended = Instant::now();
        drop(guard);
        let guard = timeout(SECOND, second).await.expect("asleep on a free lock").unwrap().unwrap();
        // The pause before the repetition, and the slice.
        let longest = if known { Duration::ZERO } else { 20 * MS + SLICE + MS };
        assert!(ended.elapsed() <= longest, "{:?}", ended.elapsed());
        world.server(|server| server.others = 0);
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}

/// Model trace re1n: a forced release tells the holder here before it is sent, and then it never runs. The field is still
/// let go of when the guard goes, instead of staying for the rest of its lease.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_forced_away_in_vain_is_released_with_its_guard() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let mut other = Other::of(world);
    let guard = lock.lock().await.unwrap();
    world.next(Verb::ForceRelease, [Fate::Never]);
    let handle = lock.0.clone();
    let forcing = start(async move { handle.force_unlock().await }).await;
    assert!(!guard.is_held() && world.holder("a").is_some(), "told before it is sent");
    assert!(matches!(forcing.await.unwrap(), Err(Error::Unreachable { .. })));
    let lost = timeout(SECOND, guard.lost()).await.expect("it was told");
    assert_eq!(cause(&lost), Some(LostCause::Forced));
    assert!(!other.tries(), "a holder that winds down keeps what protection there is");
    world.forget_record();
    drop(guard);
    turn().await;
    assert_eq!(world.verbs(), [Verb::Release]);
    assert!(other.tries());
    other.frees();
    bench.nothing_is_left("a").await;
}

/// Model trace rh1w: a hold with a bound is passed on, or handed over, and then the first owner's bound comes. It belonged
/// to that owner's ticket; the next one's starts with the pass.
#[tokio::test(start_paused = true)]
async fn a_bound_does_not_outlive_a_pass() {
    for passes in [true, false] {
        let bench = Bench::new();
        let lock = if passes { bench.lock("a") } else { bench.unpassable("a") };
        let mut other = Other::of(&bench.world);
        let guard = lock.lock().max_hold(2 * THIRD).await.unwrap();
        let next = start(lock.lock()).await;
        let third = start(lock.lock().max_hold(5 * SECOND)).await;
        drop(guard);
        let next = next.await.unwrap().unwrap();
        let sent = bench.world.sent(Verb::Release).len();
        sleep(100 * SECOND).await;
        assert!(next.is_held() && !other.tries(), "released under its holder");
        assert_eq!(bench.world.sent(Verb::Release).len(), sent);
        drop(next);
        let third = third.await.unwrap().unwrap();
        sleep(4 * SECOND).await;
        assert!(third.is_held());
        sleep(SECOND).await;
        let lost = timeout(SECOND, third.lost()).await.expect("its bound came");
        assert_eq!(cause(&lost), Some(LostCause::MaxHold));
        drop(third);
        bench.nothing_is_left("a").await;
    }
}
