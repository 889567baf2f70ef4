//! Old copies of acquires: how many are watched for, and how often what they may have made is released.

use super::*;

/// However many tries come to nothing, the numbers that are watched for are bounded, and released in few rounds.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_thousands_of_tries_has_a_bounded_number_of_them_reaped() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let hour = Duration::from_secs(3600);
    for _ in 0..2_000 {
        world.next(Verb::Acquire, [Fate::Lost]);
        let tried = timeout(MS, lock.try_lock().lease(hour)).await;
        assert!(tried.is_err(), "{tried:?}");
        turn().await;
    }
    assert_eq!(world.sent(Verb::Acquire).len(), 2_000);
    world.forget_record();
    sleep(LEASE / 3).await;
    let reaped = world.sent(Verb::Release);
    assert!((1..=2 * WATCHED).contains(&reaped.len()), "{} in a third of a lease", reaped.len());
    let mut rounds: Vec<Instant> = reaped.iter().map(|sent| sent.at).collect();
    rounds.dedup();
    assert!(rounds.len() <= 3, "{} rounds", rounds.len());
    sleep(hour + LEASE).await;
    world.forget_record();
    sleep(LEASE).await;
    assert!(world.record().is_empty(), "an hour later nobody is watched for");
    bench.nothing_is_left("a").await;
}

/// A server that answers no release is not asked for the same again and again meanwhile.
#[tokio::test(start_paused = true)]
async fn the_next_round_of_reaps_waits_for_the_answers_to_the_last() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Lost]);
    assert!(timeout(MS, lock.try_lock().lease(900 * MS)).await.is_err());
    turn().await;
    assert_eq!(world.sent(Verb::Release).len(), 1, "it is answered");
    world.forget_record();
    world.always(Verb::Release, Fate::Never);
    sleep(350 * MS).await;
    assert_eq!(world.sent(Verb::Release).len(), 1);
    sleep(2 * SECOND).await;
    assert_eq!(world.sent(Verb::Release).len(), 1, "the command timeout is not over");
    world.heal();
    sleep(2 * SECOND).await;
    assert_eq!(world.sent(Verb::Release).len(), 2, "the last step, late");
    bench.nothing_is_left("a").await;
}

/// Among many, the one is kept whose copy would leave a hold for longest.
#[tokio::test(start_paused = true)]
async fn tries_of_short_leases_do_not_crowd_out_one_of_a_long_lease_that_is_watched_for() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Late(15 * SECOND)]);
    assert!(timeout(MS, lock.try_lock().lease(Duration::from_secs(3600))).await.is_err());
    for _ in 0..2 * WATCHED {
        world.next(Verb::Acquire, [Fate::Lost]);
        assert!(timeout(MS, lock.try_lock().lease(LEASE)).await.is_err());
        turn().await;
    }
    sleep(16 * SECOND).await;
    let ghost = world.holder("a").is_some();
    sleep(LEASE / 3).await;
    assert!(ghost && world.holder("a").is_none(), "{ghost}");
    sleep(Duration::from_secs(3600)).await;
    bench.nothing_is_left("a").await;
}

/// Rounds for short leases come often and take long; a number of a longer step is released in time beside them.
#[tokio::test(start_paused = true)]
async fn a_round_that_is_under_way_puts_nobody_off_for_longer_than_it_takes() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Lost]);
    assert!(timeout(MS, lock.try_lock().lease(LEASE)).await.is_err());
    turn().await;
    let number = world.sent(Verb::Acquire)[0].numbers[0];
    world.always(Verb::Release, Fate::Slow(400 * MS));
    let mut last = Instant::now();
    for _ in 0..150 {
        world.next(Verb::Acquire, [Fate::Lost]);
        drop(timeout(MS, lock.try_lock().lease(300 * MS)).await);
        sleep(200 * MS).await;
    }
    for at in world.sent(Verb::Release).iter().filter(|sent| sent.numbers == [number]).map(|sent| sent.at) {
        assert!(at - last <= LEASE / 3 + SECOND, "{:?}", at - last);
        last = at;
    }
    assert!(last.elapsed() <= LEASE / 3 + SECOND);
    world.heal();
    bench.nothing_is_left("a").await;
}
