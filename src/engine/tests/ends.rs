//! Holds that the server or time ended, as ends of this process's slice.

use super::*;
use crate::error::Op;

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_server_lost_does_not_start_a_new_slice() {
    for others in [0, 1] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = others);
        let lost = lock.lock().await.unwrap();
        sleep(5 * MS).await;
        world.delete("a");
        assert_eq!(cause(&lost.extend(LEASE).await.unwrap_err()), Some(LostCause::Gone));
        drop(lost);
        let guard = lock.lock().await.unwrap();
        sleep(7 * MS).await;
        // 12 ms after the slice began.
        let next = start(lock.lock()).await;
        let ended = Instant::now();
        drop(guard);
        drop(next.await.unwrap().unwrap());
        assert_eq!(ended.elapsed(), others * SLICE);
        assert_eq!(world.sent(Verb::Acquire).len(), 3);
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_hand_over_found_missing_does_not_start_a_new_slice() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    let guard = lock.lock().lease(LEASE).await.unwrap();
    sleep(5 * MS).await;
    let second = start(lock.lock().lease(LEASE)).await;
    world.next(Verb::HandOver, [Fate::Gone]);
    assert_eq!(cause(&guard.unlock().await.unwrap_err()), Some(LostCause::Gone));
    let second = second.await.unwrap().unwrap();
    sleep(7 * MS).await;
    let third = start(lock.lock()).await;
    let ended = Instant::now();
    drop(second);
    drop(third.await.unwrap().unwrap());
    assert_eq!(ended.elapsed(), SLICE);
    bench.nothing_is_left("a").await;
}

/// Nobody was told of it, so nobody is to be let in first: somebody may listen, and nobody here knows.
#[tokio::test(start_paused = true)]
async fn a_waiter_here_enters_at_once_when_the_server_lost_the_hold_however_old_the_slice() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    let guard = lock.lock().await.unwrap();
    let next = start(lock.lock()).await;
    sleep(5 * SLICE).await;
    world.delete("a");
    let lost = Instant::now();
    assert_eq!(cause(&guard.extend(LEASE).await.unwrap_err()), Some(LostCause::Gone));
    drop(next.await.unwrap().unwrap());
    assert_eq!(lost.elapsed(), Duration::ZERO);
    drop(guard);
    sleep(2 * SLICE).await;
    bench.nothing_is_left("a").await;
}

/// Sections that outlive their lease by a little, so that each ends with the release of a lost hold, behind which
/// somebody of this process tries already. What that one is refused for is our own.
#[tokio::test(start_paused = true)]
async fn tasks_whose_holds_always_run_out_give_the_name_up_after_a_slice_too_and_not_before() {
    let (slice, lease) = (5 * SECOND, 2 * SECOND);
    // The answer to that try comes before the release is decided, or after it.
    for under_way in [Duration::ZERO, 5 * MS] {
        let section = 1_995 * MS - under_way;
        for others in [0, 1] {
            let bench = Bench::with(|settings| settings.handover_slice = slice);
            let (world, lock) = (&bench.world, bench.lock("a"));
            world.server(|server| server.others = others);
            world.always(Verb::Acquire, Fate::Slow(under_way));
            let started = Instant::now();
            let work = |lock: Lock| async move {
                let guard = lock.lock().lease(lease).await.unwrap();
                let taken = started.elapsed();
                sleep(section).await;
                assert!(!guard.is_held(), "lost before the server ends it");
                taken
            };
            let mut tasks = Vec::new();
            for _ in 0..4 {
                tasks.push(start(work(lock.clone())).await);
            }
            let mut taken = Vec::new();
            for task in tasks {
                taken.push(task.await.unwrap());
            }
            let gaps: Vec<_> = taken.windows(2).map(|two| two[1] - two[0] - section).collect();
            assert!(gaps[..2].iter().all(|gap| *gap <= 15 * MS), "{others} listening: {gaps:?}");
            let yielded = if others == 0 { Duration::ZERO } else { slice };
            assert!((yielded..=yielded + 15 * MS).contains(&gaps[2]), "{others} listening: {gaps:?}");
            world.server(|server| server.others = 0);
            bench.nothing_is_left("a").await;
        }
    }
}

/// Letting go of a lost hold begins a cool-down while somebody here is asleep: no timer stands for what woke that one.
#[tokio::test(start_paused = true)]
async fn whoever_was_just_woken_does_not_sleep_on_when_a_lost_hold_is_let_go_of() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let lost = lock.lock().lease(SECOND).await.unwrap();
    bench.sleeps.sleep(LEASE);
    assert!(!lost.is_held());
    sleep(2 * SECOND).await;
    world.other_takes("a", LEASE);
    let waiter = start(lock.lock()).await;
    assert_eq!(world.subscriptions(), 1);
    world.delete("a");
    let freed = Instant::now();
    world.confirm();
    drop(lost);
    drop(timeout(LEASE / 2, waiter).await.expect("asleep on a free lock").unwrap().unwrap());
    assert_eq!(freed.elapsed(), Duration::ZERO);
    bench.nothing_is_left("a").await;
}

/// Whoever gave up waiting for the end of a detached hold asks again, while that is a release and while it is a hand-over.
#[tokio::test(start_paused = true)]
async fn asked_again_an_unlock_of_a_detached_hold_says_what_becomes_of_the_one_under_way() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Ends {
        Freed,
        Gone,
        Undone,
        Silent,
    }
    for (waits, ends) in
        [(false, Ends::Freed), (false, Ends::Gone), (true, Ends::Freed), (true, Ends::Gone), (true, Ends::Undone)]
    {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        lock.lock_as(&owner).lease(LEASE).await.unwrap().detach();
        let next = if waits { Some(start(lock.lock().lease(LEASE)).await) } else { None };
        if ends == Ends::Gone {
            world.server(|server| server.other_wrests("a", SECOND));
        }
        let verb = if waits { Verb::HandOver } else { Verb::Release };
        // Given up half-way, a hand-over is undone by a release, which is answered.
        let fate = match ends {
            Ends::Undone => Fate::Broken,
            Ends::Silent => Fate::Never,
            Ends::Freed | Ends::Gone => Fate::Slow(SECOND),
        };
        world.next(verb, [fate]);
        if ends == Ends::Silent {
            world.always(Verb::Release, Fate::Never);
        }
        let mut first = lock.unlock_as(&owner);
        assert!(polled(&mut first, 1).await.is_none());
        drop(first);
        let again = lock.unlock_as(&owner).await;
        match ends {
            Ends::Freed | Ends::Undone => assert!(matches!(again, Ok(Released::Freed)), "{ends:?} {waits}: {again:?}"),
            Ends::Gone => assert_eq!(cause(&again.unwrap_err()), Some(LostCause::Gone)),
            Ends::Silent => {
                assert!(matches!(again, Err(Error::Unreachable { op: Op::Release, .. })), "{waits}: {again:?}");
                world.heal();
                sleep(2 * COMMAND_TIMEOUT).await;
            }
        }
        // Once that is over there is nothing left to release.
        assert!(matches!(lock.unlock_as(&owner).await, Err(Error::NotHeld { .. })));
        if let Some(next) = next {
            drop(next.await.unwrap().unwrap());
        }
        bench.nothing_is_left("a").await;
    }
}

/// The same where other tickets stay, so that only a count is told.
#[tokio::test(start_paused = true)]
async fn asked_again_an_unlock_of_one_of_several_detached_holds_says_what_is_left_until_the_server_was_told() {
    for fate in [Fate::Slow(SECOND), Fate::Broken] {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let outer = lock.lock_as(&owner).lease(LEASE).await.unwrap();
        lock.lock_as(&owner).lease(LEASE).await.unwrap().detach();
        world.next(Verb::Release, [fate]);
        let mut first = lock.unlock_as(&owner);
        assert!(polled(&mut first, 1).await.is_none());
        drop(first);
        for _ in 0..2 {
            let mut again = lock.unlock_as(&owner);
            assert!(polled(&mut again, 1).await.is_none());
            drop(again);
        }
        assert!(matches!(lock.unlock_as(&owner).await, Ok(Released::StillHeld(1))));
        sleep(SECOND * 2).await;
        assert_eq!(world.holder("a").map(|(_, count)| count), Some(1));
        // Once that is over there is nothing left to release, but the guard's.
        assert!(matches!(lock.unlock_as(&owner).await, Err(Error::NotHeld { guards: 1, .. })));
        lock.lock_as(&owner).lease(LEASE).await.unwrap().detach();
        assert!(matches!(lock.unlock_as(&owner).await, Ok(Released::StillHeld(1))));
        assert!(matches!(lock.unlock_as(&owner).await, Err(Error::NotHeld { guards: 1, .. })));
        outer.unlock().await.unwrap();
        bench.nothing_is_left("a").await;
    }
}
