//! A forced release of a hold here, as an end of it: how long this process keeps the name, and who waits for the answer.

use super::{copies::Copies, *};

/// Forces the lock open elsewhere, and goes on until that has its answer.
async fn forcing(lock: &Lock) -> JoinHandle<Result<bool>> {
    let handle = lock.0.clone();
    start(async move { handle.force_unlock().await }).await
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_its_own_holds_by_force_gives_the_name_up_after_a_slice_too() {
    for others in [0, 1] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = others);
        let started = Instant::now();
        let mut taken = Vec::new();
        for _ in 0..40 {
            let guard = lock.lock().await.unwrap();
            taken.push(started.elapsed().as_millis() as u64);
            sleep(MS).await;
            assert!(lock.0.force_unlock().await.unwrap());
            drop(guard);
        }
        // One who listens and does not come is given more each time.
        let expected: Vec<u64> =
            if others == 0 { (0..40).collect() } else { (0..10).chain(20..32).chain(44..57).chain(70..75).collect() };
        assert_eq!(taken, expected, "{others} listening");
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_that_found_nothing_begins_no_new_slice() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    let first = lock.lock().await.unwrap();
    let (second, third) = (start(lock.lock()).await, start(lock.lock()).await);
    sleep(2 * SLICE).await;
    world.next(Verb::ForceRelease, [Fate::Gone]);
    let asked = Instant::now();
    assert!(lock.0.force_unlock().await.unwrap());
    let second = second.await.unwrap().unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO, "nobody was told who could be let go first");
    world.forget_record();
    second.unlock().await.unwrap();
    assert_eq!(world.verbs(), [Verb::Release]);
    drop((first, third.await.unwrap().unwrap()));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn the_message_of_our_own_forced_release_is_our_own() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    let third = start(lock.lock()).await;
    world.other_frees("a");
    let guard = first.await.unwrap().unwrap();
    assert_eq!(world.subscriptions(), 1);
    sleep(2 * SLICE).await;
    // It comes after the answer, and the other listener does not.
    world.server(|server| server.lag = 3 * MS);
    let ended = Instant::now();
    assert!(lock.0.force_unlock().await.unwrap());
    let guard = (guard, second.await.unwrap().unwrap());
    assert_eq!(ended.elapsed(), SLICE, "our own message was taken for somebody else's");
    // Within the slice it goes on at once, and hears what it sent itself.
    world.forget_record();
    assert!(lock.0.force_unlock().await.unwrap());
    let third = third.await.unwrap().unwrap();
    assert_eq!(ended.elapsed(), SLICE);
    sleep(3 * MS).await;
    assert!(third.is_held() && world.sent(Verb::Renew).is_empty(), "somebody else was thought to have freed it");
    world.server(|server| server.lag = Duration::ZERO);
    drop((guard, third));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_plain_try_waits_for_the_answer_to_our_own_forced_release_and_yields_to_listeners() {
    for others in [0, 1] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = others);
        let guard = lock.lock().await.unwrap();
        sleep(2 * SLICE).await;
        world.next(Verb::ForceRelease, [Fate::Slow(5 * MS)]);
        let ended = Instant::now();
        let forcing = forcing(&lock).await;
        let tried = lock.try_lock().await.unwrap();
        assert_eq!(ended.elapsed(), 5 * MS);
        assert_eq!(tried.is_some(), others == 0);
        assert!(forcing.await.unwrap().unwrap());
        drop((guard, tried));
        sleep(2 * SLICE).await;
        assert!(lock.try_lock().await.unwrap().is_some());
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_that_is_not_answered_is_remembered_when_nothing_else_is() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    let guard = lock.lock().await.unwrap();
    sleep(2 * SLICE).await;
    world.next(Verb::ForceRelease, [Fate::Slow(SECOND)]);
    let ended = Instant::now();
    let forcing = forcing(&lock).await;
    drop(guard);
    sleep(SECOND / 2).await;
    drop(lock.lock().await.unwrap());
    assert_eq!(ended.elapsed(), SECOND + SLICE);
    assert!(forcing.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

/// Whoever calls `force_unlock` may drop it, or keep it and look no more at it; and it may never be answered.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_forced_release_longer_than_for_its_answer() {
    #[derive(Clone, Copy, Debug)]
    enum Caller {
        Waits,
        Parks,
        Drops,
    }
    let unknown = COMMAND_TIMEOUT + SLICE;
    for (caller, fate, longest) in [
        (Caller::Waits, Fate::Slow(5 * MS), 5 * MS),
        (Caller::Parks, Fate::Slow(5 * MS), 5 * MS),
        // What was sent is the name's, which hears how many listen.
        (Caller::Drops, Fate::Slow(5 * MS), 5 * MS),
        (Caller::Waits, Fate::Never, unknown),
        (Caller::Parks, Fate::Lost, unknown),
        // What never left, or found nothing, freed nothing.
        (Caller::Waits, Fate::Refused(FaultKind::Unready), Duration::ZERO),
        (Caller::Waits, Fate::Gone, Duration::ZERO),
    ] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let guard = lock.lock().await.unwrap();
        let next = start(lock.lock()).await;
        sleep(2 * SLICE).await;
        world.next(Verb::ForceRelease, [fate.clone()]);
        let ended = Instant::now();
        let handle = lock.0.clone();
        let mut forcing = Box::pin(async move { handle.force_unlock().await });
        // The look is answered at the second poll, and then it is sent.
        assert!(polled(&mut forcing, 2).await.is_none());
        assert_eq!(world.sent(Verb::ForceRelease).len(), 1);
        let parked = match caller {
            Caller::Waits => {
                drop(tokio::spawn(forcing));
                None
            }
            Caller::Parks => Some(forcing),
            Caller::Drops => {
                drop(forcing);
                None
            }
        };
        turn().await;
        drop(guard);
        let next = timeout(LEASE / 2, next).await.expect("the lock is free").unwrap().unwrap();
        assert_eq!(ended.elapsed(), longest, "{caller:?} {fate:?}");
        drop((next, parked));
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_forced_release_that_never_ran_the_next_message_is_somebody_elses() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let waiters = [start(lock.lock()).await, start(lock.lock()).await, start(lock.lock()).await];
    world.other_frees("a");
    let [first, second, third] = waiters;
    let guard = first.await.unwrap().unwrap();
    sleep(2 * SLICE).await;
    world.next(Verb::ForceRelease, [Fate::Never]);
    assert!(lock.0.force_unlock().await.is_err());
    drop(guard);
    let guard = second.await.unwrap().unwrap();
    turn().await;
    // Somebody forces this one away; the third still waits, so that it is heard.
    world.forget_record();
    world.other_frees("a");
    turn().await;
    assert_eq!(world.sent(Verb::Renew).len(), 1, "it was taken for the message of the forced release");
    drop((guard, third.await.unwrap().unwrap()));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_client_waits_for_the_answer_to_its_forced_release() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    sleep(2 * SLICE).await;
    world.next(Verb::ForceRelease, [Fate::Slow(5 * MS)]);
    let forcing = forcing(&lock).await;
    let asked = Instant::now();
    bench.engine.close().await;
    assert!(asked.elapsed() >= 5 * MS, "the links were closed under it, after {:?}", asked.elapsed());
    drop(guard);
    assert!(forcing.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_try_that_overtakes_our_own_forced_release_is_nobodys_turn() {
    let bench = Bench::new();
    let (world, lock, late) = (&bench.world, bench.lock("a"), Copies::default());
    world.server(|server| server.others = 1);
    let started = Instant::now();
    let guard = lock.lock().await.unwrap();
    sleep(SLICE / 2).await;
    world.next(Verb::ForceRelease, [Fate::Withheld(late.clone())]);
    let forcing = forcing(&lock).await;
    // It is sent anew, behind the try, where the server does not know its script.
    let next = start(lock.lock()).await;
    turn().await;
    assert_eq!(world.verbs().last(), Some(&Verb::Acquire), "the try met our own field");
    late.run(world);
    let next = next.await.unwrap().unwrap();
    sleep(SLICE - started.elapsed() + MS).await;
    drop(next);
    drop(lock.lock().await.unwrap());
    assert_eq!(started.elapsed(), 2 * SLICE + MS, "the slice began anew though nobody else had a turn");
    drop(guard);
    assert!(forcing.await.unwrap().is_err());
    bench.nothing_is_left("a").await;
}

/// The server granted it, it was seen and forced away, and only then the answer is read: it counts for nothing, and is asked for
/// anew.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_forced_away_before_its_grant_is_read_is_never_believed_in() {
    for waits in [false, true] {
        let bench = Bench::new();
        let (world, lock, gate) = (&bench.world, bench.lock("a"), Gate::new());
        world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
        let asks = start(async move { if waits { lock.lock().await.map(Some) } else { lock.try_lock().await } }).await;
        let (lock, forced) = (bench.lock("a"), number_of(world, "a"));
        assert!(lock.0.force_unlock().await.unwrap());
        assert!(world.server(|server| server.other_tries("a", LEASE)), "it was freed");
        gate.open();
        turn().await;
        assert_eq!(world.holder("a"), Some((None, 1)));
        if waits {
            assert!(!asks.is_finished(), "somebody else has it");
            world.other_frees("a");
            let guard = asks.await.unwrap().unwrap().expect("it is free");
            assert!(guard.is_held() && number_of(world, "a") != forced);
            drop(guard);
        } else {
            assert!(asks.await.unwrap().unwrap().is_none(), "somebody else has it");
            world.other_frees("a");
        }
        // What comes later is another hold, and nothing of this is left.
        let next = lock.lock().await.unwrap();
        assert!(next.is_held());
        drop(next);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_forced_away_before_its_hand_over_is_answered_is_never_believed_in() {
    let bench = Bench::new();
    let (world, lock, gate) = (&bench.world, bench.lock("a"), Gate::new());
    let guard = lock.lock().lease(LEASE).await.unwrap();
    let next = start(lock.lock().lease(LEASE)).await;
    world.next(Verb::HandOver, [Fate::Held(gate.clone())]);
    drop(guard);
    turn().await;
    let handed = number_of(world, "a");
    assert!(lock.0.force_unlock().await.unwrap());
    assert!(world.server(|server| server.other_tries("a", LEASE)), "it was freed");
    gate.open();
    turn().await;
    assert!(!next.is_finished(), "somebody else has it");
    world.other_frees("a");
    let next = next.await.unwrap().unwrap();
    assert!(next.is_held() && number_of(world, "a") != handed);
    drop(next);
    bench.nothing_is_left("a").await;
}

/// The grant was never heard of, somebody freed it by force, and the next try is a hold that nobody freed.
#[tokio::test(start_paused = true)]
async fn a_try_after_a_forced_release_of_what_was_never_heard_of_is_another_hold() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Broken]);
    let guard = start(lock.lock()).await;
    let first = number_of(world, "a");
    assert!(lock.0.force_unlock().await.unwrap());
    let guard = guard.await.unwrap().unwrap();
    assert!(guard.is_held());
    assert_ne!(number_of(world, "a"), first);
    sleep(LEASE * 3).await;
    assert!(guard.is_held());
    drop(guard);
    bench.nothing_is_left("a").await;
}
