//! From one task of this process to the next without the key ever being free: passed or handed over, in order, and what
//! becomes of it when the next one is gone.

use super::*;

/// A holder, and a waiter behind it whose future is in the test's hands.
async fn held_and_wanted(lock: &Lock, waiter: &mut Acquire) -> LockGuard {
    let guard = lock.lock().await.unwrap();
    assert!(polled(waiter, 1).await.is_none());
    guard
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_hold_passes_from_task_to_task_in_order_and_nothing_is_sent() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for n in 0..20 {
        let (lock, order) = (lock.clone(), Arc::clone(&order));
        let waiting = async move {
            let guard = lock.lock().await.unwrap();
            order.lock().unwrap().push(n);
            guard.unlock().await.unwrap()
        };
        waiters.push(start(waiting).await);
    }
    world.forget_record();
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), Released::Freed);
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert_eq!(world.verbs(), [Verb::Release], "the last one's");
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn the_one_before_holds_no_longer_when_the_next_one_does() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    let mut waiter = lock.lock();
    let guard = held_and_wanted(&lock, &mut waiter).await;
    let token = guard.cancellation();
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    assert!(!guard.is_held() && token.is_cancelled() && guard.expires_in().is_none());
    let next = waiter.await.unwrap();
    assert!(next.is_held() && !next.cancellation().is_cancelled());
    assert!(timeout(LEASE * 3, guard.lost()).await.is_err(), "a released hold is never lost");
    // The old guard has nothing to do with the hold any more.
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    assert!(next.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_on_either_side_or_a_protocol_that_must_know_is_handed_over() {
    let fixed = 5 * SECOND;
    for case in 0..3 {
        let bench = Bench::new();
        let lock = if case == 2 { bench.unpassable("a") } else { bench.lock("a") };
        let first = if case == 0 { lock.lock().lease(fixed) } else { lock.lock() };
        let second = if case == 1 { lock.lock().lease(fixed) } else { lock.lock() };
        let guard = first.await.unwrap();
        let second = start(second).await;
        bench.world.forget_record();
        assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
        let next = second.await.unwrap().unwrap();
        let record = bench.world.record();
        assert_eq!(bench.world.verbs(), [Verb::HandOver]);
        let lease = if case == 1 { fixed } else { LEASE };
        assert_eq!(record[0].lease, lease);
        assert_eq!(bench.world.ttl("a"), lease, "exactly, even where the old one was longer");
        assert_eq!(bench.world.holder("a"), Some((Some(record[0].numbers[1]), 1)));
        assert!(next.is_held() && next.expires_in().unwrap() < lease);
        drop(next);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_less_than_half_of_its_life_left_is_handed_over() {
    for (age, sent) in [(14 * SECOND, vec![]), (16 * SECOND, vec![Verb::HandOver])] {
        // A slice that does not end the sharing first.
        let bench = Bench::with(|settings| settings.handover_slice = 60 * SECOND);
        let lock = bench.lock("a");
        bench.world.always(Verb::Renew, Fate::Never);
        let mut waiter = lock.lock();
        let guard = held_and_wanted(&lock, &mut waiter).await;
        sleep(age).await;
        bench.world.forget_record();
        drop(guard);
        let next = waiter.await.unwrap();
        assert_eq!(bench.world.verbs(), sent);
        assert!(next.expires_in().unwrap() <= bench.world.ttl("a"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_nobody_takes_goes_to_the_next_in_line_or_is_released() {
    for others in [0, 1] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let mut waiter = lock.lock();
        let guard = held_and_wanted(&lock, &mut waiter).await;
        let mut behind = lock.lock();
        if others == 1 {
            assert!(polled(&mut behind, 1).await.is_none());
        }
        world.forget_record();
        drop(guard);
        // It was given the hold, and never looks.
        drop(waiter);
        turn().await;
        if others == 1 {
            assert!(world.record().is_empty());
            assert!(behind.await.unwrap().is_held());
        } else {
            assert_eq!(world.verbs(), [Verb::Release]);
        }
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_ran_out_before_it_was_taken_makes_its_waiter_contend_again() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let mut waiter = lock.lock();
    let guard = held_and_wanted(&lock, &mut waiter).await;
    let old = number_of(world, "a");
    world.always(Verb::Renew, Fate::Never);
    drop(guard);
    sleep(LEASE * 2).await;
    let next = waiter.await.unwrap();
    assert!(next.is_held());
    assert_ne!(number_of(world, "a"), old);
    drop(next);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_nothing_tells_the_one_that_it_lost_and_the_other_to_contend() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.unpassable("a"));
    let mut waiter = lock.lock();
    let guard = held_and_wanted(&lock, &mut waiter).await;
    world.delete("a");
    world.forget_record();
    let (unlocked, next) = tokio::join!(guard.unlock(), waiter);
    assert_eq!(cause(&unlocked.unwrap_err()), Some(LostCause::Gone));
    assert!(next.unwrap().is_held());
    assert_eq!(world.verbs()[..2], [Verb::HandOver, Verb::Acquire]);
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_without_an_answer_is_undone_in_order_before_the_waiter_tries() {
    for fate in [Fate::Lost, Fate::Never, Fate::Late(20 * SECOND), Fate::Broken] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.unpassable("a"));
        let mut waiter = lock.lock();
        let guard = held_and_wanted(&lock, &mut waiter).await;
        let gate = Gate::new();
        world.next(Verb::HandOver, [fate.clone()]);
        world.next(Verb::Release, [Fate::Held(gate.clone())]);
        world.forget_record();
        let waiter = start(waiter).await;
        assert!(matches!(guard.unlock().await, Err(Error::Unreachable { .. })), "{fate:?}");
        sleep(SECOND).await;
        let from_to = world.record()[0].numbers.clone();
        assert_eq!(world.verbs()[..2], [Verb::HandOver, Verb::Release], "{fate:?}");
        assert_eq!(world.record()[1].numbers, from_to[..1]);
        let before_answer = world.sent(Verb::Release);
        assert!(
            before_answer.iter().all(|sent| sent.numbers != from_to[1..]),
            "{fate:?}: the new one was let go first"
        );
        gate.open();
        let next = waiter.await.unwrap().unwrap();
        let record = world.record();
        let at = |verb: Verb, number: u64| {
            record.iter().position(|sent| sent.verb == verb && sent.numbers == [number]).expect("it was sent")
        };
        assert!(at(Verb::Release, from_to[1]) < at(Verb::Acquire, number_of(world, "a")), "{fate:?}");
        assert!(next.is_held());
        assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
        drop((guard, next));
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_is_answered_later_than_its_lease_is_undone() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let mut waiter = lock.lock().lease(SECOND);
    let guard = held_and_wanted(&lock, &mut waiter).await;
    world.next(Verb::HandOver, [Fate::Slow(2 * SECOND)]);
    drop(guard);
    let next = waiter.await.unwrap();
    assert!(next.is_held() && next.expires_in().unwrap() <= world.ttl("a"));
    let given = world.sent(Verb::HandOver)[0].numbers[1];
    assert_ne!(number_of(world, "a"), given);
    assert!(world.sent(Verb::Release).iter().any(|sent| sent.numbers == [given]));
    drop(next);
    bench.nothing_is_left("a").await;
}

/// What it held was moved away, so it is freed, though what it was moved to is still to be undone, or gone by itself.
#[tokio::test(start_paused = true)]
async fn the_one_before_a_hand_over_that_was_answered_too_late_hears_freed_however_often_it_asks() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let mut waiter = lock.lock().lease(SECOND);
    lock.lock_as(&owner).await.unwrap().detach();
    assert!(polled(&mut waiter, 1).await.is_none());
    world.next(Verb::HandOver, [Fate::Slow(2 * SECOND)]);
    world.next(Verb::Release, [Fate::Slow(SECOND), Fate::Slow(SECOND)]);
    let first = start(lock.unlock_as(&owner).into_future()).await;
    assert_eq!(first.await.unwrap().unwrap(), Released::Freed);
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::HandOver, Verb::Release], "it is being undone");
    assert_eq!(lock.unlock_as(&owner).await.unwrap(), Released::Freed);
    drop(waiter.await.unwrap());
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_wait_ended_during_a_hand_over_to_it_may_ask_again() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.unpassable("a"), Owner::new());
    let guard = lock.lock().await.unwrap();
    let mut waiter = lock.lock_as(&owner);
    assert!(polled(&mut waiter, 1).await.is_none());
    world.next(Verb::HandOver, [Fate::Slow(500 * MS)]);
    drop(guard);
    turn().await;
    assert_eq!(world.sent(Verb::HandOver).len(), 1);
    drop(waiter);
    let again = lock.lock_as(&owner).await.unwrap();
    assert!(again.is_held());
    drop(again);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_dropped_during_its_hand_over_leaves_the_lock_to_the_waiter() {
    for polls in 1..5 {
        let bench = Bench::new();
        let lock = bench.unpassable("a");
        let mut waiter = lock.lock();
        let guard = held_and_wanted(&lock, &mut waiter).await;
        bench.world.next(Verb::HandOver, [Fate::Slow(500 * MS)]);
        {
            let mut unlock = Box::pin(guard.unlock());
            let _ = timeout(200 * MS, polled(&mut unlock, polls)).await;
        }
        let next = timeout(2 * SECOND, waiter).await.expect("it got its turn").unwrap();
        assert!(next.is_held());
        drop((guard, next));
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_lost_before_its_next_owner_looks_is_released_at_once() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let mut waiter = lock.lock();
    let guard = held_and_wanted(&lock, &mut waiter).await;
    world.always(Verb::Renew, Fate::Refused(FaultKind::Unready));
    drop(guard);
    world.forget_record();
    sleep(LEASE + MS).await;
    let released = world.sent(Verb::Release);
    assert_eq!(released.len(), 1, "nobody polls the waiter, and nobody works under the hold");
    drop(waiter);
    bench.nothing_is_left("a").await;
    assert_eq!(world.sent(Verb::Release).len(), 1);
}

/// Model trace t1c: an old acquire makes a hold again, and an old hand-over moves it to a number that is over too.
#[tokio::test(start_paused = true)]
async fn what_an_old_acquire_and_an_old_hand_over_make_together_lives_for_a_third_of_a_lease_at_most() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.unpassable("a"));
    world.next(Verb::Acquire, [Fate::Broken]);
    let guard = lock.lock().await.unwrap();
    let waiter = start(lock.lock()).await;
    world.next(Verb::HandOver, [Fate::Never]);
    drop(guard);
    drop(waiter.await.unwrap().unwrap());
    turn().await;
    assert_eq!(world.holder("a"), None);
    let (from, to) = match world.sent(Verb::HandOver).as_slice() {
        [only] => (only.numbers[0], only.numbers[1]),
        others => panic!("one hand-over is sent: {others:?}"),
    };
    let key: Arc<str> = "a".into();
    world.server(|server| {
        server.acquire(&key, from, LEASE, 1);
        server.hand_over(&key, from, to, LEASE);
    });
    assert_eq!(world.holder("a"), Some((Some(to), 1)), "the ghost is there");
    sleep(LEASE / 3 + SECOND).await;
    assert_eq!(world.holder("a"), None);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_hand_over_is_given_up_with_its_lease_whichever_half_of_it_nobody_answers() {
    for answered in [0, 1] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.unpassable("a"));
        let mut waiter = lock.lock();
        let guard = held_and_wanted(&lock, &mut waiter).await;
        world.next(Verb::HandOver, [Fate::Lost]);
        world.next(Verb::Release, vec![Fate::Prompt; answered]);
        world.always(Verb::Release, Fate::Never);
        let dropped = Instant::now();
        drop(guard);
        drop(waiter);
        bench.nothing_is_left("a").await;
        let (from_to, sent) = (world.sent(Verb::HandOver)[0].numbers.clone(), world.sent(Verb::Release));
        assert!(sent[..answered].iter().all(|sent| sent.numbers == from_to[..1]), "{sent:?}");
        assert!(sent[answered..].iter().all(|sent| sent.numbers == from_to[answered..=answered]), "{sent:?}");
        // The hand-over's own time comes before, and the last release's after. Until the old number is answered the hand-over
        // may run as late as the old hold ends, and the new one lasts for a lease from then on.
        let (leases, times) = if answered == 0 { (2, 14..=22) } else { (1, 7..=12) };
        let last = sent.last().unwrap().at - dropped;
        assert!(last <= COMMAND_TIMEOUT + leases * LEASE + SECOND, "{last:?}");
        assert!(times.contains(&sent.len()), "one after the other, each for a command timeout: {}", sent.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_server_may_keep_for_longer_than_was_answered_is_handed_over() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    world.next(Verb::Renew, [Fate::Lost]);
    // Given up within the slice.
    assert!(polled(&mut Box::pin(guard.extend(100 * LEASE)), 1).await.is_none());
    assert!(world.ttl("a") > 99 * LEASE);
    let waiter = start(lock.lock()).await;
    drop(guard);
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(world.sent(Verb::HandOver).len(), 1);
    assert!(world.ttl("a") <= LEASE, "the next owner's process may die, too");
    drop(next);
    bench.nothing_is_left("a").await;
}

/// The hand-over never ran, and what lets go of the old number did, without an answer: nothing was lost.
#[tokio::test(start_paused = true)]
async fn a_hand_over_that_never_ran_is_freed_by_an_undoing_whose_answer_is_lost() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.unpassable("a"));
    let mut waiter = lock.lock();
    let guard = held_and_wanted(&lock, &mut waiter).await;
    world.next(Verb::HandOver, [Fate::Never]);
    world.next(Verb::Release, [Fate::Lost]);
    let waiter = start(waiter).await;
    let mut outcome = guard.unlock().await;
    while let Err(error) = outcome {
        assert!(error.is_transient(), "{error:?}");
        outcome = guard.unlock().await;
    }
    assert_eq!(outcome.unwrap(), Released::Freed);
    assert_eq!(world.sent(Verb::Release).len(), 3, "the first half twice");
    drop((guard, waiter.await.unwrap().unwrap()));
    bench.nothing_is_left("a").await;
}

/// An old copy of its acquire is watched for from the hand-over's end on: before, that would free what is handed over.
#[tokio::test(start_paused = true)]
async fn a_hand_over_that_waits_for_its_turn_is_not_overtaken_by_the_watch_for_old_copies() {
    let bench = Bench::with(|settings| {
        (settings.watchdog_timeout, settings.command_timeout) = (1_500 * MS, 800 * MS);
    });
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    world.next(Verb::Acquire, [Fate::Lost]);
    let (outer, inner) = (lock.lock_as(&owner).await.unwrap(), lock.lock_as(&owner).await.unwrap());
    let waiting = tokio::spawn(lock.lock_as(&Owner::new()).lease(LEASE));
    turn().await;
    world.next(Verb::Release, [Fate::Slow(MS)]);
    let mut parked = Box::pin(inner.unlock());
    assert!(polled(&mut parked, 1).await.is_none());
    outer.unlock().await.expect("what it held was there to be handed over");
    assert_eq!(world.sent(Verb::HandOver).len(), 1);
    drop(parked);
    waiting.await.unwrap().unwrap().unlock().await.unwrap();
    drop((outer, inner));
    bench.nothing_is_left("a").await;
}
