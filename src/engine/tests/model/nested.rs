//! Counts: each command says what shall be afterwards, and a hold lasts as long as anybody has a part in it.

use super::*;

/// Model trace d1: the release of an inner hold is lost, or an old copy of its acquire runs, and then the last release
/// comes. It frees the key whatever the count was.
#[tokio::test(start_paused = true)]
async fn the_last_release_frees_the_key_although_the_count_was_never_lowered() {
    for dropped in [true, false] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let (lost, old) = (Copies::default(), Copies::default());
        let mut other = Other::of(world);
        let outer = lock.lock_as(&owner).await.unwrap();
        world.next(Verb::Acquire, [Fate::Doubled(old.clone())]);
        let inner = lock.lock_as(&owner).await.unwrap();
        world.next(Verb::Release, [Fate::Withheld(lost.clone()), Fate::Behind(old.clone())]);
        world.forget_record();
        if dropped {
            drop((inner, outer));
            turn().await;
            // The last one at once, or after the newest count that was still told.
            sleep(SECOND).await;
        } else {
            assert!(matches!(inner.unlock().await, Err(Error::Unreachable { .. })));
            assert_eq!(outer.unlock().await.unwrap(), Released::Freed);
            drop((inner, outer));
        }
        assert_eq!(world.holder("a"), None, "held for nobody");
        assert_eq!(world.sent(Verb::Release).last().unwrap().holds, 0);
        assert_eq!((lost.len(), old.len()), (1, 0));
        // The lost one comes at last, when the key is another's.
        assert!(other.tries());
        let before = there(world);
        lost.run(world);
        assert_eq!(there(world), before);
        other.frees();
        bench.nothing_is_left("a").await;
    }
}

/// Model trace d2: an old copy of a nested acquire raises the count again after it was lowered. That is seen by `inspect`
/// only: the next command says the right count again, and zero frees whatever it was.
#[tokio::test(start_paused = true)]
async fn a_count_that_an_old_copy_raised_is_set_right_by_the_next_command_and_keeps_nothing_alive() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    let number = number_of(world, "a");
    let old = Copies::default();
    let count = || world.holder("a").unwrap().1;
    world.next(Verb::Acquire, [Fate::Withheld(old.clone()), Fate::Doubled(old.clone())]);
    let inner = lock.lock_as(&owner).await.unwrap();
    assert_eq!((count(), inner.unlock().await.unwrap(), count()), (2, Released::StillHeld(1), 1));
    old.run_one(world, 0);
    assert_eq!((count(), outer.hold_count()), (2, 1), "too many, as the server sees it");
    // What is said next is what shall be, not one more and one less.
    let inner = lock.lock_as(&owner).await.unwrap();
    assert_eq!((count(), inner.unlock().await.unwrap(), count()), (2, Released::StillHeld(1), 1));
    old.run(world);
    assert_eq!(count(), 2);
    assert_eq!(outer.unlock().await.unwrap(), Released::Freed);
    assert_eq!(world.holder("a"), None);
    assert!(numbers(&world.sent(Verb::Acquire)).iter().all(|asked| *asked == number));
    drop((inner, outer));
    bench.nothing_is_left("a").await;
}

/// Model trace d3: the server loses the key while a nested acquire is on its way. It makes no hold under the lost one:
/// that is gone, and the acquisition goes on as a fresh one under a new number.
#[tokio::test(start_paused = true)]
async fn a_nested_acquire_of_a_hold_that_the_server_lost_makes_no_hold_under_the_old_number() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let mut other = Other::of(world);
    let outer = lock.lock_as(&owner).await.unwrap();
    let lost = number_of(world, "a");
    world.next(Verb::Acquire, [Fate::Gone]);
    let inner = lock.lock_as(&owner).await.unwrap();
    let fresh = number_of(world, "a");
    assert_ne!(fresh, lost, "resurrected");
    let asked: Vec<_> = world.sent(Verb::Acquire)[1..].iter().map(|sent| (sent.numbers[0], sent.holds)).collect();
    assert_eq!(asked, [(lost, 2), (fresh, 1)]);
    assert!(inner.is_held() && inner.hold_count() == 1 && !outer.is_held());
    assert_eq!(cause(&outer.unlock().await.unwrap_err()), Some(LostCause::Gone));
    assert!(!other.tries() && inner.is_held(), "the end of the lost one is no end of the fresh one");
    assert_eq!(inner.unlock().await.unwrap(), Released::Freed);
    drop((outer, inner));
    bench.nothing_is_left("a").await;
}

/// Model trace d3 with nothing left of the hold but a nested acquisition that still waits to be sent: its count is one,
/// but it asks as what it is, an inner one, and makes nothing of nothing.
#[tokio::test(start_paused = true)]
async fn the_last_nested_acquisition_of_a_hold_that_the_server_lost_makes_no_key_under_the_old_number() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).await.unwrap();
    let old = number_of(world, "a");
    let gate = Gate::new();
    world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
    let mut first = lock.lock_as(&owner);
    let mut second = lock.lock_as(&owner);
    assert!(polled(&mut first, 1).await.is_none());
    assert!(polled(&mut second, 1).await.is_none());
    assert_eq!(world.sent(Verb::Acquire).len(), 2, "the second waits behind the first");
    // Of the hold nothing but the second is left, so its count is one; but it is still an inner one.
    drop((outer, first));
    world.delete("a");
    gate.open();
    let guard = second.await.unwrap();
    let asked: Vec<_> = world.sent(Verb::Acquire)[2..].iter().map(|sent| (sent.numbers[0], sent.holds)).collect();
    let fresh = number_of(world, "a");
    assert_ne!(fresh, old);
    assert_eq!(asked, [(old, 2), (fresh, 1)], "answered gone, and asked anew");
    assert_eq!(world.holder("a"), Some((Some(fresh), 1)));
    assert!(guard.is_held() && guard.hold_count() == 1);
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Model trace rf1w: the outer guard goes elsewhere while a nested acquire is on its way. That one is a part of the hold:
/// nothing is let go of under it, and its answer makes a guard of a hold that lives.
#[tokio::test(start_paused = true)]
async fn a_hold_does_not_end_while_a_nested_acquisition_is_pending() {
    for in_time in [true, false] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let outer = lock.lock_as(&owner).await.unwrap();
        let number = number_of(world, "a");
        let gate = Gate::new();
        world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
        let mut inner = lock.lock_as(&owner);
        assert!(polled(&mut inner, 1).await.is_none());
        drop(outer);
        sleep(SECOND).await;
        assert!(world.sent(Verb::Release).iter().all(|sent| sent.holds > 0), "it ended under a pending acquisition");
        gate.open();
        if in_time {
            let inner = inner.await.unwrap();
            assert!(inner.is_held() && inner.hold_count() == 1);
            assert_eq!(number_of(world, "a"), number, "it is the same hold still");
            assert_eq!(inner.unlock().await.unwrap(), Released::Freed);
        } else {
            drop(inner);
        }
        turn().await;
        sleep(SECOND).await;
        assert_eq!(world.holder("a"), None);
        bench.nothing_is_left("a").await;
    }
}
