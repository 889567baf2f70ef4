//! Futures that are dropped after every number of polls, whatever the server does meanwhile: nothing is left behind, and
//! the next one gets in long before a lease could have cleaned up.

use super::*;

/// The longest that a forgotten copy of an acquire may keep others out (a third of a lease), and time to wait for it.
const SOON: Duration = Duration::from_secs(20);

/// More polls than any of these futures needs.
const POLLS: usize = 40;

fn acquire_fates() -> Vec<Fate> {
    vec![
        Fate::Prompt,
        Fate::Slow(50 * MS),
        Fate::Slow(4 * SECOND),
        Fate::Lost,
        Fate::Never,
        Fate::Late(5 * SECOND),
        Fate::Broken,
        Fate::Refused(FaultKind::Unready),
        Fate::Refused(FaultKind::Permission),
    ]
}

fn release_fates() -> Vec<Fate> {
    vec![Fate::Prompt, Fate::Slow(50 * MS), Fate::Lost, Fate::Never, Fate::Broken, Fate::Refused(FaultKind::Unready)]
}

/// Everybody who waits, and one more, gets in; then nothing is left.
async fn everybody_gets_in(bench: &Bench, lock: &Lock, waiters: Vec<JoinHandle<Result<LockGuard>>>, what: &str) {
    for waiter in waiters {
        let guard = timeout(SOON, waiter).await.unwrap_or_else(|_| panic!("a waiter hangs: {what}"));
        match guard.unwrap() {
            Ok(guard) => drop(guard),
            // The fate that was meant for the one that gave up.
            Err(Error::Refused { .. }) => {}
            Err(error) => panic!("a waiter failed: {error}: {what}"),
        }
    }
    let guard = match timeout(SOON, lock.lock()).await {
        Ok(Err(Error::Refused { .. })) => timeout(SOON, lock.lock()).await,
        guard => guard,
    };
    let guard = guard.unwrap_or_else(|_| panic!("the lock stays taken: {what}"));
    let guard = guard.unwrap_or_else(|error| panic!("the next one failed: {error}: {what}"));
    assert_eq!(bench.world.holder("a"), Some((Some(number_of(&bench.world, "a")), 1)));
    drop(guard);
    // Long enough for a release that has to be repeated, too short for a lease to run out.
    sleep(SOON).await;
    assert_eq!(bench.world.holder("a"), None, "{what}");
    bench.nothing_is_left("a").await;
}

async fn waiters(lock: &Lock, count: usize) -> Vec<JoinHandle<Result<LockGuard>>> {
    let mut waiters = Vec::new();
    for n in 0..count {
        // One to pass to, one to hand over to.
        let waiter = if n % 2 == 0 { lock.lock() } else { lock.lock().lease(60 * SECOND) };
        waiters.push(start(waiter).await);
    }
    waiters
}

/// An acquisition that is dropped after `polls`; whether it was over by then.
async fn give_up(acquire: &Fate, release: &Fate, hearing: Hearing, busy: bool, behind: usize, polls: usize) -> bool {
    let what = format!("{acquire:?}, {release:?}, {hearing:?}, busy: {busy}, {behind} behind, {polls} polls");
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.hearing(hearing);
    if busy {
        world.other_takes("a", 2 * SECOND);
    }
    world.next(Verb::Acquire, if busy { vec![Fate::Prompt, acquire.clone()] } else { vec![acquire.clone()] });
    world.next(Verb::Release, [release.clone()]);
    let mut first = lock.lock();
    let mut over = polled(&mut first, 1).await;
    let waiters = waiters(&lock, behind).await;
    if over.is_none() && polls > 1 {
        // One that is woken no more has had all the polls that it gets.
        over = timeout(SOON, polled(&mut first, polls - 1)).await.expect("it hangs");
    }
    drop(first);
    let over = over.is_some_and(|answer| answer.is_ok() || matches!(answer, Err(Error::Refused { .. })));
    everybody_gets_in(&bench, &lock, waiters, &what).await;
    over
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_is_dropped_after_any_number_of_polls_leaves_nothing() {
    for acquire in acquire_fates() {
        for release in release_fates() {
            // Without somebody else's hold nobody listens.
            let busy = [Hearing::Prompt, Hearing::ByHand, Hearing::Refused].map(|hearing| (hearing, true));
            for (hearing, busy) in busy.into_iter().chain([(Hearing::Prompt, false)]) {
                for behind in [0, 2] {
                    let mut polls = 1;
                    while !give_up(&acquire, &release, hearing, busy, behind, polls).await {
                        polls += 1;
                        assert!(polls < POLLS, "{acquire:?}, {release:?}, {hearing:?}: it never ends");
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_dropped_after_any_number_of_polls_still_unlocks() {
    let hand_overs = [Fate::Prompt, Fate::Slow(50 * MS), Fate::Lost, Fate::Never, Fate::Broken, Fate::Late(5 * SECOND)];
    for release in release_fates() {
        for hand_over in &hand_overs {
            for (behind, passes, nested) in
                [(0, true, false), (2, true, false), (2, false, false), (0, true, true), (2, true, true)]
            {
                for polls in 1..POLLS {
                    let what =
                        format!("{release:?}, {hand_over:?}, {behind} behind, {passes}, {nested}, {polls} polls");
                    let bench = Bench::new();
                    let lock = if passes { bench.lock("a") } else { bench.unpassable("a") };
                    let owner = Owner::new();
                    let outer = lock.lock_as(&owner).await.unwrap();
                    let inner = if nested { Some(lock.lock_as(&owner).await.unwrap()) } else { None };
                    let waiters = waiters(&lock, behind).await;
                    bench.world.next(Verb::Release, [release.clone()]);
                    bench.world.next(Verb::HandOver, [hand_over.clone()]);
                    let over = {
                        let guard = inner.as_ref().unwrap_or(&outer);
                        let mut unlock = Box::pin(guard.unlock());
                        timeout(SOON, polled(&mut unlock, polls)).await.expect("it hangs").is_some()
                    };
                    assert!(
                        inner.as_ref().unwrap_or(&outer).expires_in().is_none(),
                        "{what}: claimed after the release"
                    );
                    drop((inner, outer));
                    everybody_gets_in(&bench, &lock, waiters, &what).await;
                    if over {
                        break;
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_dropped_after_any_number_of_polls_leaves_the_hold_as_it_was() {
    for renew in release_fates() {
        for polls in 1..5 {
            let bench = Bench::new();
            let (world, lock) = (&bench.world, bench.lock("a"));
            let guard = lock.lock().await.unwrap();
            let before = guard.expires_in().unwrap();
            world.next(Verb::Renew, [renew.clone()]);
            let started = Instant::now();
            let over = {
                let mut extend = Box::pin(guard.extend(LEASE * 2));
                timeout(SOON, polled(&mut extend, polls)).await.expect("it hangs")
            };
            if over.is_none_or(|over| over.is_err()) {
                assert_eq!(guard.expires_in().unwrap(), before - started.elapsed());
            }
            assert!(guard.is_held() && guard.expires_in().unwrap() <= world.ttl("a"));
            assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
            drop(guard);
            everybody_gets_in(&bench, &lock, Vec::new(), &format!("{renew:?}, {polls}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_around_its_turn_gives_the_turn_to_the_next() {
    let hand_overs = [Fate::Prompt, Fate::Slow(50 * MS), Fate::Lost, Fate::Never, Fate::Broken, Fate::Slow(2 * SECOND)];
    for hand_over in hand_overs {
        for passes in [true, false] {
            // Given and not looked at, under way, and taken by the future but not by its caller.
            for (wait, polls) in [(None, 0), (Some(20 * MS), 0), (Some(SECOND), 0), (None, 1), (Some(SECOND), 1)] {
                for behind in [0, 2] {
                    let what = format!("{hand_over:?}, passes: {passes}, {wait:?}, {polls} polls, {behind} behind");
                    let bench = Bench::new();
                    let lock = if passes { bench.lock("a") } else { bench.unpassable("a") };
                    let guard = lock.lock().await.unwrap();
                    let mut waiter = lock.lock();
                    assert!(polled(&mut waiter, 1).await.is_none());
                    let behind = waiters(&lock, behind).await;
                    bench.world.next(Verb::HandOver, [hand_over.clone()]);
                    drop(guard);
                    turn().await;
                    if let Some(wait) = wait {
                        sleep(wait).await;
                    }
                    let taken = timeout(5 * SECOND, polled(&mut waiter, polls)).await;
                    drop(waiter);
                    drop(taken);
                    everybody_gets_in(&bench, &lock, behind, &what).await;
                }
            }
        }
    }
}
