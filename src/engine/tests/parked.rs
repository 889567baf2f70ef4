//! Acquisitions that were polled, and are neither polled again nor dropped when their turn comes.

use std::task::{Context, Waker};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hold_that_its_owner_has_not_looked_at_is_not_renewed_not_even_with_others() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("passed"));
    let held = lock.lock().await.unwrap();
    let number = number_of(world, "passed");
    let mut parked = lock.lock();
    assert!(polled(&mut parked, 1).await.is_none());
    let mut others = Vec::new();
    for n in 0..199 {
        others.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    drop(held);
    turn().await;
    // A message makes no difference.
    world.server(|server| server.publish_only("passed"));
    sleep(LEASE / 2 - MS).await;
    assert_eq!(number_of(world, "passed"), number, "it was passed on");
    let renewed = |number| world.sent(Verb::Renew).iter().filter(|sent| sent.numbers.contains(&number)).count();
    assert_eq!(renewed(number), 0);
    assert!(others.iter().all(|guard| renewed(number_of(world, guard.name())) >= 1));
    // Once it is taken it is due like any other.
    let guard = parked.await.unwrap();
    turn().await;
    assert_eq!((renewed(number), guard.is_held()), (1, true));
    sleep(LEASE * 3).await;
    assert!(guard.is_held());
    drop((guard, others));
}

/// Polled once where the client does not live, by the clock of home, which stands; it is answered at home.
fn polled_elsewhere<F: Future<Output: Send> + Unpin + Send + 'static>(mut future: F) -> F {
    let home = tokio::runtime::Handle::current();
    let there = thread::spawn(move || {
        let _clock = home.enter();
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        future
    });
    there.join().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_nested_hold_that_nobody_takes_is_renewed_no_longer_than_there_is_an_outer_guard() {
    let (bench, owner) = (Bench::new(), Owner::new());
    let (world, lock) = (&bench.world, bench.lock("a"));
    let outer = lock.lock_as(&owner).await.unwrap();
    let number = number_of(world, "a");
    let nested = polled_elsewhere(lock.lock_as(&owner));
    turn().await;
    assert_eq!(world.holder("a"), Some((Some(number), 2)));
    sleep(LEASE * 2).await;
    assert_eq!(outer.unlock().await.unwrap(), Released::StillHeld(1));
    // Only from now on nobody works under it.
    sleep(LEASE / 2 - MS).await;
    assert_eq!(number_of(world, "a"), number);
    let next = timeout(LEASE / 2, lock.lock_as(&Owner::new())).await.expect("it is taken back").unwrap();
    drop(next);
    let again = nested.await.unwrap();
    assert!(again.is_held() && number_of(world, "a") != number);
    drop(again);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_hold_whose_outer_guard_is_gone_is_kept_for_its_owner_since_it_was_granted() {
    let (bench, owner, gate) = (Bench::new(), Owner::new(), Gate::new());
    let (world, lock) = (&bench.world, bench.lock("a"));
    let outer = lock.lock_as(&owner).await.unwrap();
    let number = number_of(world, "a");
    sleep(LEASE * 2).await;
    world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
    let nested = polled_elsewhere(lock.lock_as(&owner));
    turn().await;
    drop(outer);
    gate.open();
    turn().await;
    sleep(LEASE / 2 - MS).await;
    let guard = nested.await.unwrap();
    assert!(guard.is_held());
    assert_eq!(number_of(world, "a"), number);
    sleep(LEASE * 3).await;
    assert!(guard.is_held());
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_at_home_and_is_left_elsewhere_for_too_long_starts_over() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let held = lock.lock_as(&Owner::new()).await.unwrap();
    let number = number_of(world, "a");
    let mut waiting = lock.lock_as(&Owner::new());
    assert!(polled(&mut waiting, 1).await.is_none());
    let waiting = polled_elsewhere(waiting);
    turn().await;
    drop(held);
    sleep(LEASE / 2 - MS).await;
    assert_eq!(number_of(world, "a"), number, "it was passed on");
    let next = timeout(LEASE / 2, lock.lock_as(&Owner::new())).await.expect("it is taken back").unwrap();
    drop(next);
    let again = waiting.await.unwrap();
    assert!(again.is_held());
    drop(again);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn any_number_of_callers_elsewhere_who_poll_no_more_cost_others_one_turn_and_are_served_when_they_poll() {
    let bench = Bench::new();
    let lock = bench.lock("a");
    let held = lock.lock_as(&Owner::new()).await.unwrap();
    let parked: Vec<_> = (0..100).map(|_| polled_elsewhere(lock.lock_as(&Owner::new()))).collect();
    turn().await;
    let behind = tokio::spawn(lock.lock_as(&Owner::new()));
    turn().await;
    drop(held);
    let entered = timeout(LEASE / 2 + SECOND, behind).await.expect("one turn").unwrap().unwrap();
    drop(entered);
    for waiting in parked.into_iter().rev() {
        let guard = timeout(SECOND, waiting).await.expect("nobody who is not there is in its way").unwrap();
        assert!(guard.is_held());
    }
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_carried_elsewhere_says_its_name_where_home_stands_still() {
    let bench = Bench::with(|settings| settings.unreachable_after = 50 * MS);
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let mut waiting = lock.lock_as(&Owner::new());
    // Until it sleeps.
    assert!(timeout(MS, polled(&mut waiting, 3)).await.ok().flatten().is_none());
    // This thread is all of home.
    let there = thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(waiting)
    });
    match there.join().unwrap() {
        Err(Error::Unreachable { name, .. }) => assert_eq!(&*name, "a"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn who_enters_in_its_turn_ends_a_row_of_missed_ones() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let held = lock.lock_as(&Owner::new()).await.unwrap();
    let mut parked = Vec::new();
    for _ in 0..4 {
        let mut waiting = lock.lock_as(&Owner::new());
        assert!(polled(&mut waiting, 1).await.is_none());
        parked.push(waiting);
    }
    drop(held);
    // The last one's turn is over soon, and that is not long ago.
    sleep(LEASE * 15 / 16).await;
    let entered = timeout(SECOND, lock.lock_as(&Owner::new())).await.expect("nobody else is there").unwrap();
    let mut slow = lock.lock_as(&Owner::new());
    assert!(polled(&mut slow, 1).await.is_none());
    drop(entered);
    turn().await;
    let number = number_of(world, "a");
    sleep(LEASE / 4).await;
    let slow = slow.await.unwrap();
    assert!(slow.is_held());
    assert_eq!(number_of(world, "a"), number);
    drop((slow, parked));
    bench.nothing_is_left("a").await;
}

/// A busy machine polls whoever was woken a moment later.
#[tokio::test(start_paused = true)]
async fn after_a_turn_that_nobody_took_the_next_one_is_kept_for_long_enough_to_be_polled() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let held = lock.lock_as(&Owner::new()).await.unwrap();
    let mut parked = lock.lock_as(&Owner::new());
    assert!(polled(&mut parked, 1).await.is_none());
    drop(held);
    sleep(LEASE / 2 + MS).await;
    assert!(world.holder("a").is_none(), "it is taken back");
    let mut slow = lock.lock_as(&Owner::new());
    assert!(polled(&mut slow, 1).await.is_none());
    turn().await;
    assert!(world.holder("a").is_some(), "it is granted");
    world.forget_record();
    sleep(40 * MS).await;
    let slow = slow.await.unwrap();
    assert!(slow.is_held() && world.record().is_empty(), "{:?}", world.verbs());
    drop((slow, parked));
    bench.nothing_is_left("a").await;
}

/// It waits for a link, and others go first meanwhile.
#[tokio::test(start_paused = true)]
async fn a_contender_whose_command_was_withdrawn_when_it_was_passed_over_starts_over() {
    // Nobody is told meanwhile that there is no server.
    let bench = Bench::with(|settings| settings.unreachable_after = LEASE * 1_000);
    let (world, lock) = (&bench.world, bench.lock("a"));
    for wait in [None, Some(LEASE * 3)] {
        world.unlink();
        let parks = lock.clone();
        let mut parked = Box::pin(async move {
            match wait {
                None => parks.lock_as(&Owner::new()).await.map(Some),
                Some(wait) => parks.try_lock_as(&Owner::new()).wait(wait).await,
            }
        });
        assert!(polled(&mut parked, 1).await.is_none());
        sleep(COMMAND_TIMEOUT + LEASE / 2 + SECOND).await;
        world.relink();
        drop(lock.lock_as(&Owner::new()).await.unwrap());
        turn().await;
        world.forget_record();
        let guard = parked.await.unwrap().expect("it is free");
        assert!(guard.is_held());
        assert_eq!(world.verbs(), [Verb::Acquire]);
        drop(guard);
        turn().await;
    }
    bench.nothing_is_left("a").await;
}

/// A release that nobody answers is given up with its lease.
#[tokio::test(start_paused = true)]
async fn a_contender_that_is_parked_before_a_release_is_given_up_is_passed_over_after_that() {
    let bench = Bench::with(|settings| settings.unreachable_after = LEASE * 1_000);
    let (world, lock) = (&bench.world, bench.lock("a"));
    let held = lock.lock().await.unwrap();
    sleep(SLICE * 2).await;
    world.always(Verb::Release, Fate::Never);
    drop(held);
    let mut parked = lock.lock();
    assert!(polled(&mut parked, 1).await.is_none());
    let behind = start(lock.lock()).await;
    // It may be sent once more, just before the lease is over.
    sleep(LEASE + COMMAND_TIMEOUT + SECOND).await;
    // Whatever was asked for who is passed over may have run: it is released first.
    world.heal();
    let guard = timeout(LEASE / 2 + SECOND, behind).await.expect("it is over").unwrap().unwrap();
    drop((guard, parked));
    bench.nothing_is_left("a").await;
}

/// It has no answer and is not polled: nobody knows when it runs.
#[tokio::test(start_paused = true)]
async fn an_old_copy_of_what_a_contender_asked_for_that_was_passed_over_is_watched_for() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    // When nobody of this process has it any more.
    let late = COMMAND_TIMEOUT + LEASE / 2 + 5 * SECOND;
    world.next(Verb::Acquire, [Fate::Late(late)]);
    let mut parked = lock.lock();
    assert!(polled(&mut parked, 1).await.is_none());
    let asked = number_of_asked(world);
    let asked_at = Instant::now();
    drop(lock.lock().await.unwrap());
    turn().await;
    assert_eq!(world.holder("a"), None);
    sleep(late + MS - asked_at.elapsed()).await;
    assert_eq!(world.holder("a"), Some((Some(asked), 1)), "it ran behind what undoes it");
    sleep(LEASE / 3).await;
    assert_eq!(world.holder("a"), None, "for a third of a lease at most");
    drop(parked);
    bench.nothing_is_left("a").await;
}

fn number_of_asked(world: &World) -> u64 {
    numbers(&world.sent(Verb::Acquire))[0]
}

/// What is heard meanwhile is no reason to try sooner.
#[tokio::test(start_paused = true)]
async fn a_contender_that_pauses_after_faults_is_not_passed_over_whatever_it_hears() {
    let bench = Bench::with(|settings| {
        settings.watchdog_timeout = 400 * MS;
        settings.unreachable_after = LEASE;
    });
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    world.always(Verb::Acquire, Fate::Refused(FaultKind::Unready));
    for _ in 0..200 {
        world.server(|server| server.publish_only("a"));
        sleep(100 * MS).await;
        let place = bench.engine.find("a").expect("somebody waits");
        assert!(!place.missed_turns(), "it is there");
    }
    world.heal();
    world.other_frees("a");
    drop(first.await.unwrap().unwrap());
    drop(second.await.unwrap().unwrap());
}
