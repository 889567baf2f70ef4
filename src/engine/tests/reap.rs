//! Old copies of acquires: how many are watched for, and how often what they may have made is released.

use super::*;

/// A try that left, and that its caller gave up; its link is over before the server hears of that.
async fn given_up(bench: &Bench, lock: &Lock, lease: Duration) {
    bench.world.next(Verb::Acquire, [Fate::Lost]);
    let tried = timeout(MS, lock.try_lock().lease(lease)).await;
    assert!(tried.is_err(), "{tried:?}");
    bench.world.new_link();
    turn().await;
}

/// However many tries come to nothing, the numbers that are watched for are bounded, and released in few rounds.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_thousands_of_tries_has_a_bounded_number_of_them_reaped() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let hour = Duration::from_secs(3600);
    for _ in 0..2_000 {
        given_up(&bench, &lock, hour).await;
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
    given_up(&bench, &lock, 900 * MS).await;
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
        given_up(&bench, &lock, LEASE).await;
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
    given_up(&bench, &lock, LEASE).await;
    let number = world.sent(Verb::Acquire)[0].numbers[0];
    world.always(Verb::Release, Fate::Slow(400 * MS));
    let mut last = Instant::now();
    for _ in 0..150 {
        given_up(&bench, &lock, 300 * MS).await;
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

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A link keeps its order, so the answer to its release says that the try ran before.
#[tokio::test(start_paused = true)]
async fn a_try_that_is_followed_on_its_link_by_an_answered_release_is_watched_for_no_more() {
    for fate in [Fate::Lost, Fate::Never, Fate::Slow(SECOND)] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        if let Fate::Slow(_) = fate {
            // Nor does an answer overtake one before it.
            world.next(Verb::Release, [fate.clone()]);
        }
        world.next(Verb::Acquire, [fate]);
        assert!(timeout(MS, lock.try_lock().lease(DAY)).await.is_err());
        sleep(LEASE).await;
        assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release]);
        assert_eq!(bench.left("a"), [""; 0], "not a trace of it");
        sleep(2 * DAY).await;
        assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release]);
    }
}

/// The first half of the reckoning: the release that is answered in the end left on another link than the try.
#[tokio::test(start_paused = true)]
async fn a_try_whose_release_had_to_take_another_link_is_watched_for() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Lost]);
    world.next(Verb::Release, [Fate::Lost]);
    assert!(timeout(MS, lock.try_lock().lease(LEASE)).await.is_err());
    turn().await;
    world.new_link();
    sleep(LEASE / 3 + 2 * COMMAND_TIMEOUT).await;
    assert!(world.sent(Verb::Release).len() >= 3, "{:?}", world.sent(Verb::Release));
    bench.nothing_is_left("a").await;
}

/// As on a cluster, where a node that gives a slot away sends it on to the next one: a release there may come before it.
#[tokio::test(start_paused = true)]
async fn a_try_that_took_a_way_of_its_own_is_watched_for() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Lost]);
    world.inside().leaves_apart = true;
    assert!(timeout(MS, lock.try_lock().lease(LEASE)).await.is_err());
    world.inside().leaves_apart = false;
    sleep(LEASE).await;
    assert!(world.sent(Verb::Release).len() >= 3, "{:?}", world.sent(Verb::Release));
    bench.nothing_is_left("a").await;
}

/// It knows over which link it left, whoever polled it then.
#[tokio::test(start_paused = true)]
async fn a_try_that_left_from_the_line_is_watched_for_only_where_its_link_was_replaced_since() {
    for replaced in [false, true] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        bench.engine.tries.at(0).free()[0].forget_permits(TRIES);
        world.next(Verb::Acquire, [Fate::Lost]);
        let mut trying = lock.try_lock().lease(LEASE);
        assert!(polled(&mut trying, 1).await.is_none());
        turn().await;
        assert_eq!(world.sent(Verb::Acquire).len(), 1);
        if replaced {
            world.new_link();
        }
        drop(trying);
        bench.engine.tries.at(0).free()[0].add_permits(TRIES);
        sleep(LEASE).await;
        let released = world.sent(Verb::Release).len();
        assert!(if replaced { released >= 3 } else { released == 1 }, "{replaced}: {released}");
        bench.nothing_is_left("a").await;
    }
}

/// What its repetition found is what it left: nothing of it is on its way any more.
#[tokio::test(start_paused = true)]
async fn a_try_that_was_repeated_on_its_link_and_answered_leaves_nothing_to_watch_for() {
    let bench = Bench::new();
    let world = &bench.world;
    world.next(Verb::Acquire, [Fate::Lost]);
    let guard = bench.lock("a").lock().await.unwrap();
    assert_eq!(world.sent(Verb::Acquire).len(), 2);
    guard.unlock().await.unwrap();
    sleep(LEASE).await;
    assert_eq!(world.sent(Verb::Release).len(), 1);
    bench.nothing_is_left("a").await;
}

/// Over all names too: who came first goes first where the leases are equal, and nothing stays of those who go.
#[tokio::test(start_paused = true)]
async fn of_the_tries_of_many_names_a_bounded_number_is_watched_for() {
    let bench = Bench::new();
    let world = &bench.world;
    let names = WATCHED_IN_ALL + 100;
    for n in 0..names {
        given_up(&bench, &bench.lock(&n.to_string()), DAY).await;
    }
    assert_eq!(bench.engine.old_copies(), WATCHED_IN_ALL);
    // The slices of the last ones are over.
    sleep(SECOND).await;
    assert_eq!(bench.engine.places().len(), WATCHED_IN_ALL);
    assert!(bench.engine.find("0").is_none() && bench.engine.find(&(names - 1).to_string()).is_some());
    world.forget_record();
    sleep(LEASE / 3).await;
    assert!(world.sent(Verb::Release).len() <= 2 * WATCHED_IN_ALL);
}
