//! Replays and old copies: what was sent twice, or comes after everything that it was for is over.

use super::*;

/// Model trace a0q: an acquire runs and its answer is lost; a while later the same number is asked for again. The holder
/// counts from the sending that was answered, so that one must have raised the TTL as far, and its answer may not be
/// counted from when it came.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_only_its_second_sending_answers_is_believed_no_longer_than_the_server_has_it() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let mut other = Other::of(world);
    world.next(Verb::Acquire, [Fate::Lost, Fate::Slow(SECOND)]);
    let guard = lock.lock().lease(LEASE).await.unwrap();
    let tries = numbers(&world.sent(Verb::Acquire));
    assert!(tries.len() == 2 && tries[0] == tries[1], "adopted, not taken anew: {tries:?}");
    assert_eq!(world.holder("a"), Some((Some(tries[0]), 1)));
    assert!(guard.is_held());
    other.waits_out(&guard).await;
    drop(guard);
    other.frees();
    bench.nothing_is_left("a").await;
}

/// Model trace a0t: a hand-over runs, its answer is lost, and it is sent again below the engine. The next owner counts from
/// before the first sending, so it believes no longer than the server has it, whether or not the replay raised the TTL.
#[tokio::test(start_paused = true)]
async fn a_hand_over_that_only_its_second_sending_answers_is_believed_no_longer_than_the_server_has_it() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.unpassable("a"));
    let mut other = Other::of(world);
    let guard = lock.lock().await.unwrap();
    let next = start(lock.lock().lease(THIRD)).await;
    world.next(Verb::HandOver, [Fate::Twice { later: 2 * SECOND, under_way: 500 * MS }]);
    drop(guard);
    let guard = next.await.unwrap().unwrap();
    assert_eq!(world.sent(Verb::HandOver).len(), 1);
    assert!(guard.is_held());
    other.waits_out(&guard).await;
    drop(guard);
    other.frees();
    bench.nothing_is_left("a").await;
}

/// Model trace a1, the release: it is repeated on a new link and answered there, its owner locks again, and the old copy
/// runs at last. It names a hold that is over, whether that ended as an abandoned try or by its guard.
#[tokio::test(start_paused = true)]
async fn an_old_release_that_runs_late_does_not_touch_the_next_hold_of_the_same_owner() {
    for abandoned in [true, false] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let (mut other, old) = (Other::of(world), Copies::default());
        if abandoned {
            world.next(Verb::Acquire, [Fate::Never]);
            let mut asked = lock.lock_as(&owner);
            assert!(polled(&mut asked, 1).await.is_none());
            world.next(Verb::Release, [Fate::Withheld(old.clone())]);
            drop(asked);
        } else {
            let guard = lock.lock_as(&owner).await.unwrap();
            world.next(Verb::Release, [Fate::Doubled(old.clone())]);
            drop(guard);
        }
        turn().await;
        world.new_link();
        let guard = lock.lock_as(&owner).await.unwrap();
        assert_eq!(old.len(), 1);
        let before = there(world);
        old.run(world);
        assert_eq!(there(world), before, "an old release let go of a newer hold");
        assert!(!other.tries() && guard.is_held());
        assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}

/// Model trace a1, the renewal: it is under way when its hold is released, and runs when its owner has the next one.
#[tokio::test(start_paused = true)]
async fn an_old_renewal_that_runs_late_does_not_extend_the_next_hold_of_the_same_owner() {
    let bench = Bench::new();
    let (world, lock, owner, old) = (&bench.world, bench.lock("a"), Owner::new(), Copies::default());
    let guard = lock.lock_as(&owner).await.unwrap();
    world.next(Verb::Renew, [Fate::Withheld(old.clone())]);
    sleep(THIRD + MS).await;
    guard.unlock().await.unwrap();
    let next = lock.lock_as(&owner).lease(5 * SECOND).await.unwrap();
    let (before, left) = (there(world), next.expires_in());
    assert_eq!(old.len(), 1);
    old.run(world);
    assert_eq!((there(world), next.expires_in()), (before, left), "an old renewal extended a newer hold");
    drop((guard, next));
    bench.nothing_is_left("a").await;
}

/// Model trace a2: handed over to another task and back; then the old copy of the first hand-over runs. The hold that came
/// back has a number that was never handed away.
#[tokio::test(start_paused = true)]
async fn an_old_hand_over_that_runs_late_does_not_move_a_hold_that_came_back() {
    let bench = Bench::new();
    let (world, lock, old) = (&bench.world, bench.unpassable("a"), Copies::default());
    let (one, two) = (Owner::new(), Owner::new());
    let guard = lock.lock_as(&one).await.unwrap();
    let next = start(lock.lock_as(&two)).await;
    world.next(Verb::HandOver, [Fate::Doubled(old.clone())]);
    drop(guard);
    let guard = next.await.unwrap().unwrap();
    let back = start(lock.lock_as(&one)).await;
    drop(guard);
    let guard = back.await.unwrap().unwrap();
    assert_eq!((world.sent(Verb::HandOver).len(), old.len()), (2, 1));
    let before = there(world);
    old.run(world);
    assert_eq!(there(world), before, "an old hand-over moved a newer hold");
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Model trace rb4w: an acquire is answered later than its own lease. Its number is finished: the next try has a new one,
/// which the release of the first, however late, does not name.
#[tokio::test(start_paused = true)]
async fn an_answer_later_than_its_own_lease_gives_no_guard_and_is_tried_anew_under_a_new_number() {
    let bench = Bench::new();
    let (world, old) = (&bench.world, Copies::default());
    let mut other = Other::of(world);
    world.next(Verb::Acquire, [Fate::Slow(150 * MS)]);
    world.next(Verb::Release, [Fate::Withheld(old.clone())]);
    let guard = bench.lock("a").lock().lease(100 * MS).await.unwrap();
    let record = world.record();
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release, Verb::Release, Verb::Acquire]);
    let (late, fresh) = (record[0].numbers[0], record[3].numbers[0]);
    assert_ne!(late, fresh);
    assert!(record[1..3].iter().all(|sent| (sent.numbers[0], sent.holds) == (late, 0)));
    assert_eq!((number_of(world, "a"), old.len()), (fresh, 1));
    old.run(world);
    assert_eq!(number_of(world, "a"), fresh, "the release of the late answer let go of the newer hold");
    assert!(guard.is_held());
    other.waits_out(&guard).await;
    drop(guard);
    other.frees();
    bench.nothing_is_left("a").await;
}

/// Model trace rb5w: a waiter is dropped during the hand-over to it, whose copy is held back. The old number is let go of
/// first: once that is answered, the late hand-over has nothing to move to the new one, which is let go of then.
#[tokio::test(start_paused = true)]
async fn a_late_hand_over_to_a_waiter_that_is_gone_finds_nothing_to_move() {
    let bench = Bench::new();
    let (world, lock, old) = (&bench.world, bench.unpassable("a"), Copies::default());
    let guard = lock.lock().await.unwrap();
    let mut waiter = lock.lock();
    assert!(polled(&mut waiter, 1).await.is_none());
    world.next(Verb::HandOver, [Fate::Withheld(old.clone())]);
    world.next(Verb::Release, [Fate::Prompt, Fate::Behind(old.clone())]);
    drop(guard);
    drop(waiter);
    sleep(SECOND).await;
    let from_to = world.sent(Verb::HandOver)[0].numbers.clone();
    assert_eq!(old.len(), 0, "the old copy has run by now");
    assert_eq!(world.holder("a"), None, "a hold that nobody will let go of");
    assert_eq!(numbers(&world.sent(Verb::Release)), from_to, "in this order, each once");
    bench.nothing_is_left("a").await;
}
