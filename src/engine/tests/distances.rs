//! A server that is far: until when an answer is waited for, and what a wait that was too short for it means to others.

use super::*;

/// Keeps the server answering somebody, for so long.
async fn answers_others(bench: &Bench, span: Duration) {
    let over = Instant::now() + span;
    while Instant::now() < over {
        sleep(5 * MS).await;
        drop(bench.lock("other").lock().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_by_any_wait_however_far_the_server_is() {
    for trip in [2, 20, 100, 400].map(|ms| ms * MS) {
        for known in [Some(trip), None] {
            let bench = Bench::new();
            bench.world.set_round_trip(known);
            bench.world.always(Verb::Acquire, Fate::Slow(trip));
            let (lock, owner) = (bench.lock("a"), Owner::new());
            let asked = Instant::now();
            let outer = lock.try_lock_as(&owner).wait(MS).await.unwrap().expect("it is free");
            let inner = lock.try_lock_as(&owner).wait(MS).await.unwrap().expect("it is ours");
            assert_eq!(asked.elapsed(), 2 * trip, "{trip:?}, {known:?}");
            drop((inner, outer));
            bench.nothing_is_left("a").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_is_waited_for_in_proportion_to_the_distance() {
    for (trip, over) in [(Some(Duration::ZERO), 115), (Some(20 * MS), 115), (Some(200 * MS), 600), (None, 3000)] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.set_round_trip(trip);
        world.always(Verb::Acquire, Fate::Never);
        let asked = Instant::now();
        let waited = lock.try_lock().wait(100 * MS).await;
        assert!(matches!(waited, Err(Error::Unreachable { .. })), "{waited:?}");
        assert_eq!(asked.elapsed(), over * MS, "{trip:?}");
        world.heal();
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_was_told_busy_and_is_cut_off_hears_busy_unless_the_server_is_silent() {
    for silent in [false, true] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.other_takes("a", LEASE);
        let asked = Instant::now();
        let waiter = start(lock.try_lock().wait(100 * MS)).await;
        assert_eq!(world.sent(Verb::Acquire).len(), 2, "told busy, and once more at the confirmation");
        sleep(90 * MS).await;
        // The message comes, and the answer to the try that follows it does not.
        world.next(Verb::Acquire, [Fate::Late(SECOND)]);
        world.other_frees("a");
        turn().await;
        assert_eq!(world.sent(Verb::Acquire).len(), 3);
        if !silent {
            answers_others(&bench, 5 * MS).await;
        }
        let waited = waiter.await.unwrap();
        assert_eq!(asked.elapsed(), 115 * MS);
        match waited {
            Ok(None) => assert!(!silent),
            Err(Error::Unreachable { may_have_run: true, .. }) => assert!(silent),
            other => panic!("{other:?}"),
        }
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_just_was_too_short_is_no_trouble_for_those_behind_it() {
    for silent in [false, true] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.policy(move |sent| {
            let slow = &*sent.keys[0] == "a" && (silent || sent.verb == Verb::Acquire);
            if slow { Fate::Slow(SECOND) } else { Fate::Prompt }
        });
        let first = start(lock.try_lock().wait(10 * MS)).await;
        let second = start(lock.try_lock().wait(200 * MS)).await;
        let third = start(lock.try_lock().wait(60 * MS)).await;
        if !silent {
            answers_others(&bench, 250 * MS).await;
        }
        // The first asked for the lock and was told nothing, which is an error for itself.
        let told = [first, second, third].map(|waiter| async { waiter.await.unwrap() });
        for (at, told) in futures_util::future::join_all(told).await.into_iter().enumerate() {
            match told {
                Ok(None) => assert!(!silent && at == 2, "{at}"),
                Err(Error::Unreachable { .. }) => assert!(silent || at < 2, "{at}"),
                other => panic!("{at}: {other:?}"),
            }
        }
        world.heal();
        sleep(SECOND).await; // the other name is remembered for a while
        bench.nothing_is_left("a").await;
    }
}

/// More wait than are let through: those whose turn never comes asked nothing, and hear nothing bad of the server.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_the_line_for_a_try_is_none_while_the_server_answers() {
    let bench = Bench::new();
    let world = &bench.world;
    let held = bench.lock("held").lock().await.unwrap();
    world.policy(|sent| if sent.keys[0].starts_with("n") { Fate::Slow(SECOND) } else { Fate::Prompt });
    let waiters: Vec<_> =
        (0..300).map(|n| tokio::spawn(bench.lock(&format!("n{n}")).try_lock().wait(100 * MS).into_future())).collect();
    turn().await;
    let in_flight = world.sent(Verb::Acquire).len() - 1;
    assert!(in_flight < 300);
    sleep(50 * MS).await;
    // A release needs no place.
    held.unlock().await.unwrap();
    let mut none = 0;
    for waiter in waiters {
        match waiter.await.unwrap() {
            Ok(None) => none += 1,
            Err(Error::Unreachable { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(none, 300 - in_flight);
}

#[tokio::test(start_paused = true)]
async fn over_a_long_way_more_tries_are_under_way_and_their_number_is_bounded() {
    for (trip, most) in [(10 * MS, 128), (50 * MS, 640), (SECOND, 2048)] {
        let bench = Bench::new();
        let world = &bench.world;
        world.always(Verb::Acquire, Fate::Slow(2 * SECOND));
        for (trip, most) in [(trip, most), (Duration::ZERO, 128)] {
            world.set_round_trip(Some(trip));
            world.forget_record();
            let names = 0..3000;
            let waiters: Vec<_> =
                names.map(|n| tokio::spawn(bench.lock(&format!("{n}")).lock().into_future())).collect();
            sleep(MS).await;
            assert_eq!(world.sent(Verb::Acquire).len(), most, "{trip:?}");
            waiters.iter().for_each(JoinHandle::abort);
            sleep(5 * SECOND).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_too_short_for_the_way_is_named_with_it() {
    let bench = Bench::new();
    bench.world.set_round_trip(Some(150 * MS));
    bench.world.always(Verb::Acquire, Fate::Slow(150 * MS));
    let error = bench.lock("a").lock().lease(100 * MS).await.unwrap_err();
    let source = std::error::Error::source(&error).expect("what came of it").to_string();
    assert!(source.contains("100ms") && source.contains("150ms"), "{source}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_waited_for_as_long_as_the_way_is_and_never_longer_than_its_hold() {
    // A third of the lease is too short for the answers, two round trips may be long enough.
    for (trip, answered, kept) in [(75, 140, true), (110, 110, true), (20, 140, false), (400, 400, false)] {
        let (trip, answered) = (trip * MS, answered * MS);
        let bench = Bench::with(|settings| settings.watchdog_timeout = 300 * MS);
        let world = &bench.world;
        world.set_round_trip(Some(trip));
        let guard = bench.lock("a").lock().await.unwrap();
        world.always(Verb::Renew, Fate::Slow(answered));
        sleep(2 * SECOND).await;
        assert_eq!(guard.is_held(), kept, "{trip:?}");
        world.heal();
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}

/// A third of the lease is more than what is left after a while without an answer.
#[tokio::test(start_paused = true)]
async fn no_renewal_is_waited_for_beyond_the_end_of_its_hold_however_near_the_server_is() {
    let bench = Bench::with(|settings| settings.watchdog_timeout = 3 * SECOND);
    let world = &bench.world;
    let guard = bench.lock("a").lock().await.unwrap();
    let taken = Instant::now();
    let silent = taken + 2_100 * MS;
    world.policy(move |sent| match sent.verb {
        Verb::Renew if sent.at < silent => Fate::Refused(FaultKind::Unready),
        Verb::Renew => Fate::Never,
        _ => Fate::Prompt,
    });
    assert_eq!(cause(&guard.lost().await), Some(LostCause::Expired));
    turn().await;
    assert!(world.sent(Verb::Renew).last().is_some_and(|sent| sent.at >= silent), "one was under way");
    assert_eq!(world.under_way(), 0);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// What was measured while answers were held up is true no more, and it is other names that tell.
#[tokio::test(start_paused = true)]
async fn whoever_rests_as_one_that_is_far_tries_soon_after_the_server_is_found_to_be_near() {
    for (later, rests) in [(200 * MS, 800 * MS), (MS, 500 * MS)] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = 1);
        world.set_round_trip(Some(200 * MS));
        // Others are heard of with the first release.
        lock.lock().await.unwrap().unlock().await.unwrap();
        let guard = lock.lock().await.unwrap();
        let waiter = start(lock.lock()).await;
        // A far one keeps the name for two round trips.
        sleep(400 * MS).await;
        let given_up = Instant::now();
        guard.unlock().await.unwrap();
        sleep(260 * MS).await;
        world.set_round_trip(Some(later));
        drop(waiter.await.unwrap().unwrap());
        assert_eq!(given_up.elapsed(), rests);
        sleep(3 * SECOND).await;
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_far_does_not_listen_while_it_rests() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.set_round_trip(Some(20 * MS));
    world.server(|server| server.others = 1);
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    let third = start(lock.lock()).await;
    world.other_frees("a");
    for waiter in [first, second] {
        let guard = waiter.await.unwrap().unwrap();
        // Until somebody is known to listen it does not rest.
        sleep(SLICE * 10).await;
        assert_eq!(world.subscriptions(), 1, "the next one still waits");
        drop(guard);
    }
    turn().await;
    world.other_takes("a", LEASE);
    assert_eq!(world.subscriptions(), 0);
    sleep(79 * MS).await;
    assert_eq!(world.subscriptions(), 0, "for four round trips");
    sleep(2 * MS).await;
    turn().await;
    assert_eq!(world.subscriptions(), 1);
    world.other_frees("a");
    drop(third.await.unwrap().unwrap());
    sleep(SECOND).await; // it is remembered for a while
    bench.nothing_is_left("a").await;
}

/// What it waited for has no answer, while others have theirs.
#[tokio::test(start_paused = true)]
async fn whoever_gives_up_while_the_server_answers_others_gives_up_for_itself_alone() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let held = lock.lock().await.unwrap();
    sleep(SLICE * 2).await;
    world.policy(|sent| match (sent.verb, &*sent.keys[0]) {
        (Verb::Release, "a") => Fate::Never,
        _ => Fate::Prompt,
    });
    drop(held);
    let timed = start(lock.try_lock().wait(20 * SECOND)).await;
    let endless = start(lock.lock()).await;
    answers_others(&bench, 21 * SECOND).await;
    let gave_up = timed.await.unwrap();
    assert!(matches!(gave_up, Err(Error::Unreachable { .. })), "{gave_up:?}");
    assert!(!endless.is_finished());
    world.heal();
    drop(endless.await.unwrap().expect("the server answers"));
    sleep(SECOND).await; // the other name is remembered for a while
    bench.nothing_is_left("a").await;
}
