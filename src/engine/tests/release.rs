//! Letting go: what is sent, how often, and in which order with the tries of this process.

use std::{
    sync::Barrier,
    task::{Context, Waker},
};

use super::*;

#[tokio::test(start_paused = true)]
async fn an_unlock_has_no_room_for_what_is_rare() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    let unlock = guard.unlock();
    let room = size_of_val(&unlock);
    assert!(room <= 320, "every caller's future carries it: {room} bytes");
    unlock.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_with_growing_pauses_until_it_is_answered() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("a").lock().await.unwrap();
    world.next(Verb::Release, vec![Fate::Refused(FaultKind::Unready); 6]);
    let error = guard.unlock().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(!guard.is_held());
    // Asked again, it waits for what the background makes of it.
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    let sent = world.sent(Verb::Release);
    assert_eq!(sent.len(), 7);
    for (pair, longest) in sent.windows(2).zip([20, 40, 80, 160, 320, 640]) {
        assert!(pair[1].at - pair[0].at <= longest * MS + MS, "{:?}", pair[1].at - pair[0].at);
    }
    assert!(sent.iter().all(|again| again.numbers == sent[0].numbers && again.holds == 0));
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_never_answered_is_given_up_with_its_lease() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("a").lock().await.unwrap();
    world.always(Verb::Release, Fate::Never);
    drop(guard);
    let dropped = Instant::now();
    bench.nothing_is_left("a").await;
    let sent = world.sent(Verb::Release);
    let last = sent.last().unwrap().at - dropped;
    assert!(last <= LEASE + COMMAND_TIMEOUT, "{last:?}");
    assert!((7..=11).contains(&sent.len()), "one after the other, each for a command timeout: {}", sent.len());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_release_that_ran_is_freed_when_it_is_asked_again() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    bench.world.next(Verb::Release, [Fate::Lost]);
    assert!(matches!(guard.unlock().await, Err(Error::Unreachable { may_have_run: true, .. })));
    assert_eq!(bench.world.holder("a"), None);
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    assert_eq!(bench.world.sent(Verb::Release).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_of_a_hold_that_the_server_had_lost_says_so() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    bench.world.delete("a");
    assert_eq!(cause(&guard.unlock().await.unwrap_err()), Some(LostCause::Gone));
    assert_eq!(cause(&guard.unlock().await.unwrap_err()), Some(LostCause::Gone));
    assert_eq!(bench.world.sent(Verb::Release).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_release_is_not_repeated_by_itself_but_is_sent_again_when_it_is_asked_for() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().await.unwrap();
    bench.world.next(Verb::Release, [Fate::Refused(FaultKind::Permission)]);
    assert!(matches!(guard.unlock().await, Err(Error::Refused { .. })));
    sleep(SECOND).await;
    assert_eq!(bench.world.sent(Verb::Release).len(), 1);
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn one_count_is_on_its_way_at_a_time_and_only_the_newest_follows() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let lock = bench.lock("a");
    let mut guards = Vec::new();
    for _ in 0..5 {
        guards.push(lock.lock_as(&owner).await.unwrap());
    }
    assert_eq!(world.holder("a").unwrap().1, 5);
    let gate = Gate::new();
    world.next(Verb::Release, [Fate::Held(gate.clone())]);
    world.forget_record();
    drop(guards.pop());
    turn().await;
    guards.clear();
    sleep(SECOND).await;
    gate.open();
    turn().await;
    let holds: Vec<u32> = world.record().iter().map(|sent| sent.holds).collect();
    assert_eq!(holds, [4, 0], "nothing in between");
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn counts_that_changed_while_one_was_on_its_way_are_told_by_one_more() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let lock = bench.lock("a");
    let mut guards = Vec::new();
    for _ in 0..5 {
        guards.push(lock.lock_as(&owner).await.unwrap());
    }
    let gate = Gate::new();
    world.next(Verb::Release, [Fate::Held(gate.clone())]);
    world.forget_record();
    for _ in 0..3 {
        drop(guards.pop());
        turn().await;
    }
    gate.open();
    turn().await;
    let holds: Vec<u32> = world.record().iter().map(|sent| sent.holds).collect();
    assert_eq!(holds, [4, 2]);
    assert_eq!(world.holder("a").unwrap().1, 2);
}

#[tokio::test(start_paused = true)]
async fn guards_that_two_threads_drop_at_once_leave_the_lock_free() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let lock = bench.lock("a");
    for _ in 0..500 {
        let outer = lock.lock_as(&owner).await.unwrap();
        let inner = lock.lock_as(&owner).await.unwrap();
        world.forget_record();
        let both = Barrier::new(2);
        thread::scope(|scope| {
            for guard in [outer, inner] {
                scope.spawn(|| {
                    both.wait();
                    drop(guard);
                });
            }
        });
        turn().await;
        assert_eq!(world.holder("a"), None);
        assert_eq!(world.record().last().unwrap().holds, 0, "an older count came after the last one");
    }
    bench.nothing_is_left("a").await;
}

/// Whom an older release told says nothing of those whom the newest will tell.
#[tokio::test(start_paused = true)]
async fn a_single_try_waits_for_the_newest_release_whatever_becomes_of_an_older_one() {
    for older in [Fate::Slow(SECOND), Fate::Lost] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = 1);
        // It seems far, so that its next try does not wait for an answer to its release.
        world.set_round_trip(Some(200 * MS));
        for (fate, lease) in [(older.clone(), SECOND), (Fate::Delayed(COMMAND_TIMEOUT - 100 * MS), LEASE)] {
            let guard = lock.lock().lease(lease).await.unwrap();
            sleep(400 * MS).await;
            world.next(Verb::Release, [fate]);
            drop(guard);
            turn().await;
        }
        let released = Instant::now();
        world.set_round_trip(Some(Duration::ZERO));
        world.server(|server| server.others = 0);
        let guard = lock.try_lock().await.unwrap();
        assert_eq!(released.elapsed(), COMMAND_TIMEOUT - 100 * MS, "{older:?}");
        assert!(guard.is_some(), "nobody listened to the newest");
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_new_link_a_release_without_an_answer_goes_out_again_before_any_try() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    world.next(Verb::Release, [Fate::Never]);
    world.forget_record();
    drop(guard);
    turn().await;
    world.new_link();
    let next = start(lock.lock()).await;
    drop(next.await.unwrap().unwrap());
    assert_eq!(world.verbs()[..3], [Verb::Release, Verb::Release, Verb::Acquire]);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn what_an_abandoned_try_may_have_left_is_released_before_the_next_try() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Slow(50 * MS)]);
    let mut first = lock.lock();
    assert!(polled(&mut first, 1).await.is_none());
    let second = start(lock.lock()).await;
    drop(first);
    let dropped = Instant::now();
    let guard = second.await.unwrap().unwrap();
    assert_eq!(dropped.elapsed(), Duration::ZERO, "no extra round trip");
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release, Verb::Acquire]);
    let record = world.record();
    assert_eq!(record[0].numbers, record[1].numbers);
    assert_ne!(record[0].numbers, record[2].numbers);
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_try_without_a_wait_sends_nothing_while_somebody_here_holds_tries_or_waits() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    // A holder.
    let guard = lock.lock().await.unwrap();
    world.forget_record();
    assert!(lock.try_lock().await.unwrap().is_none());
    // A holder and a waiter.
    let waiter = start(lock.lock()).await;
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(world.record().is_empty());
    drop(guard);
    drop(waiter.await.unwrap().unwrap());
    turn().await;
    // A contender.
    world.other_takes("a", LEASE);
    let contender = start(lock.lock()).await;
    world.forget_record();
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(world.record().is_empty());
    world.other_frees("a");
    drop(contender.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_detached_hold_is_released_once_however_often_that_is_asked() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let _ = lock.lock_as(&owner).await.unwrap().detach();
    world.next(Verb::Release, [Fate::Refused(FaultKind::Unready), Fate::Slow(SECOND)]);
    assert!(matches!(lock.unlock_as(&owner).await, Err(Error::Unreachable { .. })));
    assert_eq!(lock.unlock_as(&owner).await.unwrap(), Released::Freed);
    assert!(matches!(lock.unlock_as(&owner).await, Err(Error::NotHeld { .. })));
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn guards_that_two_threads_unlock_at_once_are_both_told_what_is_left() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let lock = bench.lock("a");
    let runtime = tokio::runtime::Handle::current();
    for _ in 0..500 {
        let guards = [lock.lock_as(&owner).await.unwrap(), lock.lock_as(&owner).await.unwrap()];
        let both = Barrier::new(2);
        // The first poll decides; the rest is waiting.
        let mut unlocking = guards.each_ref().map(|guard| (Box::pin(guard.unlock()), None));
        thread::scope(|scope| {
            for (unlock, answer) in &mut unlocking {
                scope.spawn(|| {
                    let _in = runtime.enter();
                    both.wait();
                    if let Poll::Ready(at_once) = unlock.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        *answer = Some(at_once);
                    }
                });
            }
        });
        let mut answers = Vec::new();
        for (unlock, answer) in unlocking {
            answers.push(match answer {
                Some(answer) => answer,
                None => unlock.await,
            });
        }
        let freed = answers.iter().filter(|answer| matches!(answer, Ok(Released::Freed))).count();
        let left = answers.iter().filter(|answer| matches!(answer, Ok(Released::StillHeld(1)))).count();
        assert_eq!((freed, left), (1, 1), "{answers:?}");
        turn().await;
        assert_eq!(world.holder("a"), None);
    }
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_under_a_guard_lets_go_of_it() {
    for protected in [false, true] {
        let bench = Bench::new();
        let lock = bench.lock("a");
        let worker = lock.clone();
        let work = start(async move {
            let guard = worker.lock().await.unwrap();
            if protected {
                let _ = guard.protect(async { panic!("the work goes wrong, as the test wants it") }).await;
            }
            panic!("the work goes wrong, as the test wants it");
        });
        let started = Instant::now();
        assert!(work.await.await.unwrap_err().is_panic());
        drop(lock.try_lock().await.unwrap().expect("free"));
        assert_eq!(started.elapsed(), Duration::ZERO);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_forgotten_is_freed_by_its_bound() {
    let bound = 47 * SECOND;
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().max_hold(bound).await.unwrap();
    let (taken, token) = (Instant::now(), guard.cancellation());
    std::mem::forget(guard);
    let waiter = start(lock.lock()).await;
    sleep(bound - SECOND).await;
    assert!(!waiter.is_finished() && !token.is_cancelled() && world.holder("a").is_some());
    let next = timeout(LEASE, waiter).await.expect("the bound is kept").unwrap().unwrap();
    assert!((bound - SECOND..=bound + MS).contains(&taken.elapsed()), "{:?}", taken.elapsed());
    assert!(token.is_cancelled(), "whoever works under it is told");
    world.forget_record();
    drop(next);
    sleep(LEASE * 3).await;
    assert_eq!(world.verbs(), [Verb::Release], "the waiter's, and no renewal of either");
    assert_eq!(world.holder("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_count_that_nobody_answers_is_told_no_longer_than_its_hold_lasts() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).lease(LEASE).await.unwrap();
    let inner = lock.lock_as(&owner).lease(LEASE).await.unwrap();
    world.always(Verb::Release, Fate::Never);
    drop(inner);
    timeout(LEASE, outer.lost()).await.expect("a fixed lease ends");
    sleep(COMMAND_TIMEOUT).await;
    let told = world.sent(Verb::Release);
    // One after the other, each for a command timeout.
    assert!((7..=11).contains(&told.len()) && told.iter().all(|sent| sent.holds == 1), "{told:?}");
    sleep(LEASE).await;
    assert_eq!(world.sent(Verb::Release).len(), told.len());
    drop(outer);
    bench.nothing_is_left("a").await;
}
