//! Renewals: when they are due, what goes together, and what a failure does to the others.

use super::*;

fn due_at(world: &World, started: Instant) -> Vec<u64> {
    world.sent(Verb::Renew).iter().map(|sent| (sent.at - started).as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_renewal_leaves_a_third_of_the_lease_after_the_last_one_left() {
    let bench = Bench::new();
    let world = &bench.world;
    let started = Instant::now();
    let guard = bench.lock("a").lock().await.unwrap();
    // However long the answer takes.
    world.always(Verb::Renew, Fate::Slow(2 * SECOND));
    sleep(65 * SECOND).await;
    assert_eq!(due_at(world, started), [10, 20, 30, 40, 50, 60]);
    assert!(guard.is_held() && guard.expires_in().unwrap() <= world.ttl("a"));
    assert!(world.sent(Verb::Renew).iter().all(|sent| sent.lease == LEASE));
    guard.unlock().await.unwrap();
    sleep(LEASE).await;
    assert_eq!(due_at(world, started).len(), 6);
}

#[tokio::test(start_paused = true)]
async fn renewals_go_in_batches_of_at_most_a_hundred_and_one_node_s_together() {
    let bench = Bench::new();
    let mut guards = Vec::new();
    for n in 0..250 {
        guards.push(bench.on_shard(&format!("{n}"), 1).lock().await.unwrap());
    }
    for n in 250..260 {
        guards.push(bench.on_shard(&format!("{n}"), 2).lock().await.unwrap());
    }
    sleep(11 * SECOND).await;
    let mut sizes: Vec<usize> = bench.world.sent(Verb::Renew).iter().map(|sent| sent.numbers.len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [10, 50, 100, 100]);
    sleep(LEASE * 10).await;
    assert!(guards.iter().all(LockGuard::is_held));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_silent_does_not_delay_the_renewals_of_another() {
    let bench = Bench::new();
    let started = Instant::now();
    let dead = bench.on_shard("dead", 1).lock().await.unwrap();
    let alive = bench.on_shard("alive", 2).lock().await.unwrap();
    let silent = number_of(&bench.world, "dead");
    bench.world.policy(move |sent| if sent.numbers.contains(&silent) { Fate::Never } else { Fate::Prompt });
    sleep(45 * SECOND).await;
    let alive_due: Vec<u64> = bench
        .world
        .sent(Verb::Renew)
        .iter()
        .filter(|sent| !sent.numbers.contains(&silent))
        .map(|sent| (sent.at - started).as_secs())
        .collect();
    assert_eq!(alive_due, [10, 20, 30, 40]);
    assert!(alive.is_held() && !dead.is_held());
}

#[tokio::test(start_paused = true)]
async fn one_hold_that_cannot_be_renewed_does_not_stop_the_others() {
    let bench = Bench::new();
    let mut guards = Vec::new();
    for n in 0..100 {
        guards.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    let bad = number_of(&bench.world, "3");
    bench.world.policy(move |sent| match sent.verb {
        Verb::Renew if sent.numbers.contains(&bad) => Fate::Refused(FaultKind::Other),
        _ => Fate::Prompt,
    });
    sleep(LEASE * 5).await;
    for (n, guard) in guards.iter().enumerate() {
        assert_eq!(guard.is_held(), n != 3, "{n}");
    }
    let failed = bench.world.sent(Verb::Renew).into_iter().filter(|sent| sent.numbers.contains(&bad));
    let sizes: Vec<usize> = failed.map(|sent| sent.numbers.len()).collect();
    assert_eq!(sizes[0], 100);
    let alone = sizes.iter().position(|size| *size == 1).expect("halves, down to the one");
    assert!(sizes[..alone].windows(2).all(|pair| pair[1] <= pair[0].div_ceil(2)), "{sizes:?}");
    assert!(alone <= 8 && sizes[alone..].iter().all(|size| *size == 1), "it fails alone from then on: {sizes:?}");
    assert_eq!(cause(&guards[3].lost().await), Some(LostCause::Expired));
}

#[tokio::test(start_paused = true)]
async fn no_answer_leaves_the_deadline_alone_and_is_retried_with_pauses_until_then() {
    let bench = Bench::new();
    let world = &bench.world;
    let started = Instant::now();
    let guard = bench.lock("a").lock().await.unwrap();
    let promised = guard.expires_in().unwrap();
    world.always(Verb::Renew, Fate::Refused(FaultKind::Unready));
    sleep(20 * SECOND).await;
    assert_eq!(guard.expires_in().unwrap(), promised - 20 * SECOND);
    assert_eq!(cause(&guard.lost().await), Some(LostCause::Expired));
    // The timer's own resolution is a millisecond.
    assert!((promised..=promised + MS).contains(&started.elapsed()), "{:?}", started.elapsed());
    let tries = world.sent(Verb::Renew);
    // One in half a second on average; chance alone does not make it twice as many.
    assert!((20..90).contains(&tries.len()), "{}", tries.len());
    let bounds = (0..).map(|tries| (20 * MS * 2_u32.pow(tries.min(10))).min(SECOND));
    for (pair, bound) in tries.windows(2).zip(bounds) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause <= bound + MS, "{pause:?} where {bound:?} is the bound");
    }
    sleep(LEASE).await;
    assert_eq!(world.sent(Verb::Renew).len(), tries.len(), "a lost hold is not renewed");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_succeeds_after_failures_ends_the_trouble() {
    let bench = Bench::new();
    let world = &bench.world;
    let started = Instant::now();
    let guard = bench.lock("a").lock().await.unwrap();
    world.next(Verb::Renew, [Fate::Never, Fate::Lost, Fate::Broken]);
    sleep(LEASE * 2).await;
    assert!(guard.is_held());
    let due = due_at(world, started);
    assert_eq!(due[0], 10);
    assert!(due[3] <= 17, "{due:?}");
    assert_eq!(due[4], due[3] + 10);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_has_a_third_of_a_short_lease_to_be_answered() {
    let bench = Bench::with(|settings| settings.watchdog_timeout = 3 * SECOND);
    let started = Instant::now();
    let guard = bench.lock("a").lock().await.unwrap();
    bench.world.next(Verb::Renew, [Fate::Never]);
    sleep(10 * SECOND).await;
    let tries = bench.world.sent(Verb::Renew);
    assert_eq!(tries[0].at - started, SECOND);
    assert!(tries[1].at - started <= 2 * SECOND + 25 * MS, "{:?}", tries[1].at - started);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_in_flight_at_the_release_does_nothing_to_the_next_hold() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let gate = Gate::new();
    let guard = lock.lock().await.unwrap();
    world.next(Verb::Renew, [Fate::Held(gate.clone())]);
    sleep(10 * SECOND + MS).await;
    assert_eq!(world.sent(Verb::Renew).len(), 1);
    guard.unlock().await.unwrap();
    let next = lock.lock().lease(5 * SECOND).await.unwrap();
    let left = next.expires_in();
    gate.open();
    turn().await;
    assert_eq!(next.expires_in(), left);
    sleep(COMMAND_TIMEOUT).await;
    assert_eq!(world.sent(Verb::Renew).len(), 1);
    drop(next);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_with_nothing_to_do_does_nothing() {
    struct Counted(AtomicU64);
    impl SleepSource for Counted {
        fn slept(&self) -> Duration {
            self.0.fetch_add(1, Ordering::Relaxed);
            Duration::ZERO
        }
    }
    let looks = Arc::new(Counted(AtomicU64::new(0)));
    let clock = Clock::with_source(Arc::clone(&looks) as Arc<dyn SleepSource>);
    let made = Bench::new();
    let engine = Engine::start(Uuid::from_u128(2), Arc::clone(&made.world) as _, *made.engine.settings(), clock);
    let lock = Lock(Handle::new(&engine, Ok(FakeLock::on(&made.world, "a", true, 0))));
    drop(lock.lock().await.unwrap());
    sleep(LEASE).await;
    assert!(engine.find("a").is_none());
    let before = looks.0.load(Ordering::Relaxed);
    sleep(3600 * SECOND).await;
    assert_eq!(looks.0.load(Ordering::Relaxed), before);
}
