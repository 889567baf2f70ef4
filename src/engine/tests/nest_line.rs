//! An owner that takes its own lock several times at once: its commands go one after the other, whoever polls.

use super::*;

#[tokio::test(start_paused = true)]
async fn nested_waits_that_end_in_line_are_served_while_the_server_answers() {
    const TRIP: Duration = Duration::from_millis(400);
    for wait in [Some(Duration::ZERO), Some(MS), Some(SECOND), None] {
        let bench = Bench::with(|settings| settings.unreachable_after = SECOND);
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let outer = lock.lock_as(&owner).await.unwrap();
        world.set_round_trip(Some(TRIP));
        world.always(Verb::Acquire, Fate::Slow(TRIP));
        let started = Instant::now();
        let mut asking = Vec::new();
        for _ in 0..7 {
            let (asks, waits) = (lock.lock_as(&owner), lock.try_lock_as(&owner));
            asking.push(tokio::spawn(async move {
                match wait {
                    Some(wait) => waits.wait(wait).await,
                    None => asks.await.map(Some),
                }
            }));
        }
        let mut inside = Vec::new();
        for nested in asking {
            inside.push(nested.await.unwrap().unwrap().expect("its owner holds it"));
        }
        assert_eq!(started.elapsed(), 7 * TRIP, "{wait:?}");
        assert_eq!(world.holder("a").unwrap().1, 8);
        drop((inside, outer));
        bench.nothing_is_left("a").await;
    }
}

/// The time that it stood in line is not taken from it.
#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_that_stood_in_line_tries_again_for_as_long_as_any_other() {
    const TRIP: Duration = Duration::from_millis(400);
    let bench = Bench::with(|settings| settings.unreachable_after = 3 * SECOND);
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    world.set_round_trip(Some(TRIP));
    world.always(Verb::Acquire, Fate::Slow(TRIP));
    let mut before = Vec::new();
    for _ in 0..7 {
        before.push(start(lock.lock_as(&owner)).await);
    }
    let last = start(lock.lock_as(&owner)).await;
    // All but the last have left by then.
    sleep(7 * TRIP - MS).await;
    world.always(Verb::Acquire, Fate::Refused(FaultKind::Unready));
    sleep(2 * SECOND).await;
    assert!(!last.is_finished());
    world.heal();
    let inner = last.await.unwrap().unwrap();
    for nested in before {
        drop(nested.await.unwrap().unwrap());
    }
    drop((inner, outer));
    bench.nothing_is_left("a").await;
}

/// However long an answer may take there.
#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_asks_no_more_once_its_wait_is_over_where_the_server_says_no() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    world.set_round_trip(Some(SECOND));
    world.always(Verb::Acquire, Fate::Refused(FaultKind::Unready));
    for (wait, over) in [(Some(2 * SECOND), 2 * SECOND), (None, 9 * SECOND)] {
        let started = Instant::now();
        let answer = match wait {
            Some(wait) => timeout(60 * SECOND, lock.try_lock_as(&owner).wait(wait)).await.expect("it ends").map(drop),
            None => timeout(60 * SECOND, lock.lock_as(&owner)).await.expect("it ends").map(drop),
        };
        assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
        assert!(started.elapsed() <= over, "{:?}", started.elapsed());
    }
    drop(outer);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_wait_in_line_ends_soon_where_the_server_answers_nobody() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    world.set_round_trip(Some(20 * MS));
    world.always(Verb::Acquire, Fate::Never);
    let first = start(lock.lock_as(&owner)).await;
    for (wait, over) in [(MS, 60), (100 * MS, 115)] {
        let started = Instant::now();
        let nested = lock.try_lock_as(&owner).wait(wait).await;
        assert!(matches!(nested, Err(Error::Unreachable { may_have_run: false, .. })), "{nested:?}");
        assert_eq!(started.elapsed(), over * MS);
    }
    assert!(!first.is_finished() && outer.is_held());
    first.abort();
    world.heal();
    drop(outer);
    bench.nothing_is_left("a").await;
}

/// One in flight, one in line, and one that unlocks: none of them is polled again.
#[tokio::test(start_paused = true)]
async fn whoever_is_parked_inside_a_hold_holds_its_owner_up_for_no_longer_than_its_answer_takes() {
    const TRIP: Duration = Duration::from_millis(2);
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let (outer, inner) = (lock.lock_as(&owner).await.unwrap(), lock.lock_as(&owner).await.unwrap());
    world.set_round_trip(Some(TRIP));
    world.always(Verb::Acquire, Fate::Slow(TRIP));
    world.always(Verb::Release, Fate::Slow(TRIP));
    let (mut sent, mut in_line) = (lock.lock_as(&owner), lock.lock_as(&owner));
    let mut unlocking = Box::pin(inner.unlock());
    assert!(polled(&mut sent, 1).await.is_none() && polled(&mut in_line, 1).await.is_none());
    assert!(polled(&mut unlocking, 1).await.is_none());
    for round in 0..3 {
        let started = Instant::now();
        let waited = lock.try_lock_as(&owner).wait(100 * MS).await.unwrap().expect("its owner holds it");
        let tried = lock.try_lock_as(&owner).await.unwrap().expect("its owner holds it");
        assert_eq!(waited.unlock().await.unwrap(), Released::StillHeld(4));
        assert_eq!(tried.unlock().await.unwrap(), Released::StillHeld(3));
        assert!(started.elapsed() <= TRIP * if round == 0 { 7 } else { 4 }, "{round}: {:?}", started.elapsed());
        assert_eq!(world.holder("a").unwrap().1, 3);
        sleep(20 * SECOND).await;
    }
    let started = Instant::now();
    assert_eq!(outer.unlock().await.unwrap(), Released::StillHeld(2));
    assert_eq!(started.elapsed(), TRIP);
    assert_eq!(unlocking.await.unwrap(), Released::StillHeld(3));
    let (sent, in_line) = (sent.await.unwrap(), in_line.await.unwrap());
    assert!(sent.is_held() && in_line.is_held());
    assert_eq!(sent.unlock().await.unwrap(), Released::StillHeld(1));
    assert_eq!(in_line.unlock().await.unwrap(), Released::Freed);
    bench.nothing_is_left("a").await;
}
