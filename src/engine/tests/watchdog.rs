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
async fn of_holds_that_are_asked_for_together_each_has_its_own_answer() {
    for kind in [FaultKind::Unready, FaultKind::Other] {
        let bench = Bench::new();
        let names = ["a", "b", "c", "d"];
        let mut guards = Vec::new();
        for name in names {
            guards.push(bench.lock(name).lock().await.unwrap());
        }
        bench.world.server(|server| server.failing = ["b", "c"].map(|name| (Arc::from(name), kind)).into());
        // Until the renewal, and for a while after it.
        sleep(LEASE / 2).await;
        let failing = ["b", "c"].map(|name| number_of(&bench.world, name));
        let sent = bench.world.sent(Verb::Renew);
        assert_eq!(sent[0].numbers.len(), 4, "{kind:?}");
        assert!(sent.len() > 1 && sent[1..].iter().flat_map(|sent| &sent.numbers).all(|it| failing.contains(it)));
        sleep(LEASE * 3 / 4).await;
        let held: Vec<_> = guards.iter().map(LockGuard::is_held).collect();
        assert_eq!(held, [true, false, false, true], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn those_that_were_asked_for_together_in_vain_are_asked_for_together_again() {
    let bench = Bench::new();
    let mut guards = Vec::new();
    for n in 0..50 {
        guards.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    bench.world.next(Verb::Renew, [Fate::Refused(FaultKind::Unready), Fate::Refused(FaultKind::Unready)]);
    sleep(LEASE / 2).await;
    let sizes: Vec<usize> = bench.world.sent(Verb::Renew).iter().map(|sent| sent.numbers.len()).collect();
    assert_eq!(sizes, [50; 3]);
    assert!(guards.iter().all(LockGuard::is_held));
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
    let engine = Engine::start(
        Uuid::from_u128(2),
        Arc::clone(&made.world) as _,
        *made.engine.settings(),
        clock,
        Chance::default(),
    );
    let lock = Lock(Handle::new(&engine, Ok(FakeLock::on(&made.world, "a", true, 0))));
    drop(lock.lock().await.unwrap());
    sleep(LEASE).await;
    assert!(engine.find("a").is_none());
    let before = looks.0.load(Ordering::Relaxed);
    sleep(3600 * SECOND).await;
    assert_eq!(looks.0.load(Ordering::Relaxed), before);
}

/// Two links are reset under a renewal, and the third time it goes through.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_goes_through_after_two_resets_keeps_the_hold() {
    for reset in [Fate::Broken, Fate::Refused(FaultKind::Dropped)] {
        let bench = Bench::new();
        let world = &bench.world;
        let guard = bench.lock("a").lock().await.unwrap();
        world.next(Verb::Renew, [reset.clone(), reset]);
        sleep(LEASE / 3 + SECOND).await;
        let sent = world.sent(Verb::Renew);
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|again| again.numbers == sent[0].numbers));
        assert!(guard.is_held() && guard.expires_in().unwrap() > LEASE - 2 * SECOND);
        assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}

/// "Not yours" is an answer: nothing is asked again, nothing is made again, and what another process has is let be. Fault
#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_answered_gone_loses_the_hold_at_once_and_for_ever() {
    for fate in [Fate::Gone, Fate::Taken(LEASE)] {
        let bench = Bench::new();
        let world = &bench.world;
        let taken = Instant::now();
        let guard = bench.lock("a").lock().await.unwrap();
        world.next(Verb::Renew, [fate.clone()]);
        let lost = timeout(LEASE, guard.lost()).await.expect("it was told");
        assert_eq!(cause(&lost), Some(LostCause::Gone));
        assert!((LEASE / 3..=LEASE / 3 + MS).contains(&taken.elapsed()), "{:?}", taken.elapsed());
        let theirs = (world.holder("a"), world.ttl("a"));
        sleep(LEASE / 2).await;
        if let Fate::Taken(_) = fate {
            assert_eq!((world.holder("a"), world.ttl("a")), (theirs.0, theirs.1 - LEASE / 2));
        }
        world.other_frees("a");
        sleep(LEASE * 2).await;
        assert!(!guard.is_held(), "lost is for ever");
        drop(guard);
        turn().await;
        assert_eq!(world.verbs(), [Verb::Acquire, Verb::Renew], "zero retries, and nothing to let go of");
        bench.nothing_is_left("a").await;
    }
}

/// Each kind of fault, in its own place.
const KINDS: [FaultKind; 14] = [
    FaultKind::Timeout,
    FaultKind::Dropped,
    FaultKind::Unready,
    FaultKind::ReadOnly,
    FaultKind::Permission,
    FaultKind::WrongType,
    FaultKind::OutOfMemory,
    FaultKind::ScriptDisabled,
    FaultKind::Other,
    FaultKind::Unexpected,
    FaultKind::Closed,
    FaultKind::Credentials,
    FaultKind::Certificate,
    FaultKind::Invalid,
];

/// A kind that is new does not compile here before it has a place above.
fn place_of(kind: FaultKind) -> usize {
    match kind {
        FaultKind::Timeout => 0,
        FaultKind::Dropped => 1,
        FaultKind::Unready => 2,
        FaultKind::ReadOnly => 3,
        FaultKind::Permission => 4,
        FaultKind::WrongType => 5,
        FaultKind::OutOfMemory => 6,
        FaultKind::ScriptDisabled => 7,
        FaultKind::Other => 8,
        FaultKind::Unexpected => 9,
        FaultKind::Closed => 10,
        FaultKind::Credentials => 11,
        FaultKind::Certificate => 12,
        FaultKind::Invalid => 13,
        // Nothing that happens to a renewal: one is the engine's own doing, the other a grant's end.
        FaultKind::Withdrawn | FaultKind::TooFewReplicas => usize::MAX,
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_a_renewal_meets_the_watchdog_lives_and_renews_at_the_next_chance() {
    assert_eq!(KINDS.map(place_of).to_vec(), (0..KINDS.len()).collect::<Vec<_>>());
    let each = KINDS.map(|kind| vec![Fate::Refused(kind)]);
    let all_in_a_row = KINDS.map(Fate::Refused).to_vec();
    for faults in each.into_iter().chain([all_in_a_row]) {
        let bench = Bench::new();
        let (world, started) = (&bench.world, Instant::now());
        let guard = bench.lock("a").lock().await.unwrap();
        let count = faults.len();
        world.next(Verb::Renew, faults.clone());
        // Alone, and with one of its batch whose renewal is not due to its own fault.
        let other = bench.lock("b").lock().await.unwrap();
        sleep(LEASE * 3).await;
        let sent = world.sent(Verb::Renew);
        assert!(sent.len() > count, "{faults:?}");
        for pair in sent[..=count].windows(2) {
            assert!(pair[1].at - pair[0].at <= SECOND + MS, "{faults:?}: {:?}", pair[1].at - pair[0].at);
        }
        // And then as ever.
        let last = sent.last().unwrap().at - started;
        assert!(last >= LEASE * 3 - LEASE / 3 - SECOND, "{faults:?}: {last:?}");
        assert!(guard.is_held() && other.is_held(), "{faults:?}");
        drop((guard, other));
        bench.nothing_is_left("a").await;
    }
}

/// What a renewal's answer finds when it comes at last.
#[derive(Clone, Copy, Debug)]
enum Found {
    Nobody,
    TheSameOwner(Lease),
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_renewal_that_comes_after_the_release_does_nothing_to_anybody() {
    let fixed = Lease::Fixed(5 * SECOND);
    for gone in [false, true] {
        for found in [Found::Nobody, Found::TheSameOwner(Lease::Watchdog), Found::TheSameOwner(fixed)] {
            let bench = Bench::new();
            let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
            let gate = Gate::new();
            let guard = lock.lock_as(&owner).await.unwrap();
            let old = number_of(world, "a");
            world.next(Verb::Renew, [Fate::Held(gate.clone())]);
            if gone {
                world.delete("a");
            }
            sleep(LEASE / 3 + MS).await;
            assert_eq!(world.sent(Verb::Renew).len(), 1);
            assert_eq!(guard.unlock().await.is_err(), gone);
            let next = match found {
                Found::Nobody => None,
                Found::TheSameOwner(lease) => Some(lock.lock_as(&owner).lease(lease).await.unwrap()),
            };
            let before = (world.holder("a"), world.ttl("a"), next.as_ref().and_then(LockGuard::expires_in));
            gate.open();
            turn().await;
            let after = (world.holder("a"), world.ttl("a"), next.as_ref().and_then(LockGuard::expires_in));
            assert_eq!(after, before, "gone: {gone}, {found:?}");
            assert!(next.as_ref().is_none_or(LockGuard::is_held), "gone: {gone}, {found:?}");
            sleep(LEASE).await;
            let again: Vec<_> = world.sent(Verb::Renew)[1..].iter().flat_map(|sent| sent.numbers.clone()).collect();
            assert!(!again.contains(&old), "renewed after its release: gone: {gone}, {found:?}");
            assert_eq!(again.is_empty(), !matches!(found, Found::TheSameOwner(Lease::Watchdog)));
            drop((guard, next));
            bench.nothing_is_left("a").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_renewal_that_comes_after_the_deadline_does_not_bring_the_hold_back() {
    let bench = Bench::new();
    let (world, gate) = (&bench.world, Gate::new());
    let guard = bench.lock("a").lock().await.unwrap();
    world.always(Verb::Renew, Fate::Refused(FaultKind::Unready));
    sleep(LEASE - 2 * SECOND).await;
    world.always(Verb::Renew, Fate::Held(gate.clone()));
    let lost = ends(timeout(2 * SECOND, guard.lost())).await.expect("its deadline came");
    assert_eq!(cause(&lost), Some(LostCause::Expired));
    assert!(world.ttl("a") > LEASE - 2 * SECOND, "the server did renew it");
    let sent = world.record().len();
    gate.open();
    turn().await;
    assert!(!guard.is_held() && guard.expires_in().is_none());
    sleep(LEASE / 2).await;
    assert!(!guard.is_held(), "resurrected");
    assert_eq!(world.record().len(), sent, "armed again");
    // The server has it for a while yet: the drop lets go of it.
    drop(guard);
    turn().await;
    assert_eq!(world.holder("a"), None);
    bench.nothing_is_left("a").await;
}
