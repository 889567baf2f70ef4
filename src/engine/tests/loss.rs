//! How a hold is lost, who is told when, and what is sent for it then and later.

use super::*;

/// What was sent since, as verbs.
fn since(world: &World) -> Vec<Verb> {
    let verbs = world.verbs();
    world.forget_record();
    verbs
}

/// A lost hold stays lost, whatever the server has.
async fn stays_lost(guard: &LockGuard, why: LostCause) {
    for _ in 0..3 {
        assert!(!guard.is_held() && guard.expires_in().is_none() && guard.hold_count() == 0);
        assert!(guard.cancellation().is_cancelled());
        assert_eq!(cause(&guard.lost().await), Some(why));
        assert_eq!(cause(&guard.extend(LEASE).await.unwrap_err()), Some(why));
        assert_eq!(cause(&guard.protect(std::future::ready(())).await.unwrap_err()), Some(why));
        sleep(LEASE / 3).await;
    }
    assert_eq!(cause(&guard.unlock().await.unwrap_err()), Some(why));
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_lost_at_its_deadline_which_lies_before_the_server_s_and_is_released_when_its_guard_goes() {
    let bench = Bench::new();
    let world = &bench.world;
    let lease = 10 * SECOND;
    let taken = Instant::now();
    let guard = bench.lock("a").lock().lease(lease).await.unwrap();
    world.forget_record();
    let promised = guard.expires_in().unwrap();
    assert_eq!(promised, lease - lease / 256 - MS);
    assert_eq!(cause(&guard.lost().await), Some(LostCause::Expired));
    assert!((promised..promised + 2 * MS).contains(&taken.elapsed()));
    assert!(world.holder("a").is_some());
    assert!(since(world).is_empty(), "nothing is sent at the loss");
    drop(guard);
    turn().await;
    assert_eq!(since(world), [Verb::Release]);
    bench.nothing_is_left("a").await;
    assert!(since(world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_of_several_guards_is_released_with_the_last_of_them() {
    let bench = Bench::new();
    let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).lease(SECOND).await.unwrap();
    let inner = lock.lock_as(&owner).lease(SECOND).await.unwrap();
    inner.lost().await;
    world.forget_record();
    assert!(outer.unlock().await.unwrap_err().is_lost());
    drop(outer);
    turn().await;
    assert!(world.record().is_empty());
    stays_lost(&inner, LostCause::Expired).await;
    turn().await;
    assert_eq!(since(world), [Verb::Release]);
    drop(inner);
    bench.nothing_is_left("a").await;
    assert!(since(world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_hold_is_gone_loses_it_and_nothing_is_sent_for_it() {
    // A renewal, an extension, and a nested acquisition that finds the key free or somebody else's.
    for case in 0..4 {
        let bench = Bench::new();
        let (world, lock, owner) = (&bench.world, bench.lock("a"), Owner::new());
        let guard = lock.lock_as(&owner).await.unwrap();
        let old = number_of(world, "a");
        world.delete("a");
        let mut fresh = None;
        match case {
            0 => drop(guard.lost().await),
            1 => assert_eq!(cause(&guard.extend(LEASE).await.unwrap_err()), Some(LostCause::Gone)),
            2 => fresh = Some(lock.lock_as(&owner).await.unwrap()),
            _ => {
                world.other_takes("a", SECOND);
                fresh = Some(lock.lock_as(&owner).await.unwrap());
            }
        }
        if let Some(fresh) = fresh {
            assert!(fresh.is_held(), "it went on as a fresh acquisition");
            assert_ne!(number_of(world, "a"), old);
            assert_eq!(fresh.hold_count(), 1);
            assert_eq!(fresh.unlock().await.unwrap(), Released::Freed);
        }
        world.forget_record();
        stays_lost(&guard, LostCause::Gone).await;
        drop(guard);
        bench.nothing_is_left("a").await;
        assert!(since(world).is_empty(), "case {case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_on_the_channel_of_a_held_name_asks_the_server_at_once() {
    for lease in [None, Some(20 * SECOND)] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let acquire = lock.lock();
        let guard = match lease {
            Some(lease) => acquire.lease(lease).await.unwrap(),
            None => acquire.await.unwrap(),
        };
        world.other_takes("b", LEASE);
        // Somebody waits here, who subscribed while the lock was another's.
        let ttl = world.ttl("a");
        world.delete("a");
        world.other_takes("a", LEASE);
        drop(guard);
        let first = start(lock.lock()).await;
        let second = start(lock.lock()).await;
        world.other_frees("a");
        let guard = first.await.unwrap().unwrap();
        assert_eq!(world.subscriptions(), 1);
        world.forget_record();
        // A message without a loss changes nothing.
        world.server(|server| server.publish_only("a"));
        turn().await;
        assert_eq!(since(world), [Verb::Renew]);
        assert!(guard.is_held() && world.ttl("a") <= ttl.max(LEASE));
        // Freed from elsewhere.
        let told = Instant::now();
        world.other_frees("a");
        assert_eq!(cause(&guard.lost().await), Some(LostCause::Gone));
        assert_eq!(told.elapsed(), Duration::ZERO);
        // The message was kept for the waiter.
        assert!(second.await.unwrap().unwrap().is_held());
        assert_eq!(told.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_a_fixed_lease_asks_for_no_more_than_what_is_left() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let first = start(lock.lock().lease(20 * SECOND)).await;
    let second = start(lock.lock()).await;
    world.other_frees("a");
    let guard = first.await.unwrap().unwrap();
    sleep(8 * SECOND).await;
    let (left, ttl) = (guard.expires_in(), world.ttl("a"));
    world.server(|server| server.publish_only("a"));
    turn().await;
    assert_eq!(world.sent(Verb::Renew).len(), 1);
    assert_eq!((guard.expires_in(), world.ttl("a")), (left, ttl));
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_of_a_hold_here_loses_it_and_frees_the_key() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    assert!(lock.0.force_unlock().await.unwrap());
    assert_eq!(world.holder("a"), None);
    stays_lost(&guard, LostCause::Forced).await;
    assert!(!lock.0.force_unlock().await.unwrap(), "there is nothing to see");
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_lost_at_its_bound_and_released_there_and_renewals_never_reach_beyond_it() {
    let bench = Bench::new();
    let world = &bench.world;
    let (taken, bound) = (Instant::now(), 47 * SECOND + 300 * MS);
    let guard = bench.lock("a").lock().max_hold(bound).await.unwrap();
    assert_eq!(cause(&guard.lost().await), Some(LostCause::MaxHold));
    assert!(taken.elapsed() <= bound + MS && taken.elapsed() > bound - 200 * MS, "{:?}", taken.elapsed());
    turn().await;
    assert_eq!(world.holder("a"), None, "one release at the bound");
    for renewal in world.sent(Verb::Renew) {
        assert!(renewal.at + renewal.lease <= taken + bound);
    }
    assert_eq!(world.sent(Verb::Release).len(), 1);
    world.forget_record();
    stays_lost(&guard, LostCause::MaxHold).await;
    drop(guard);
    bench.nothing_is_left("a").await;
    assert!(since(world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_bound_shorter_than_the_lease_shortens_what_is_asked_for() {
    let bench = Bench::new();
    let taken = Instant::now();
    let guard = bench.lock("a").lock().max_hold(2 * SECOND).await.unwrap();
    assert_eq!(bench.world.record()[0].lease, 2 * SECOND);
    assert_eq!(cause(&guard.lost().await), Some(LostCause::MaxHold));
    assert!(taken.elapsed() <= 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_smallest_bound_of_the_live_tickets_rules() {
    let bench = Bench::new();
    let (lock, owner) = (bench.lock("a"), Owner::new());
    let outer = lock.lock_as(&owner).max_hold(60 * SECOND).await.unwrap();
    let inner = lock.lock_as(&owner).max_hold(20 * SECOND).await.unwrap();
    sleep(15 * SECOND).await;
    assert!(outer.is_held());
    inner.unlock().await.unwrap();
    sleep(40 * SECOND).await;
    assert!(outer.is_held(), "the bound went with its ticket");
    let _second = lock.lock_as(&owner).max_hold(SECOND).await.unwrap();
    sleep(SECOND + MS).await;
    assert_eq!(cause(&outer.lost().await), Some(LostCause::MaxHold));
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_loss_does_not_bring_the_hold_back() {
    let bench = Bench::with(|settings| settings.watchdog_timeout = 6 * SECOND);
    let world = &bench.world;
    let guard = bench.lock("a").lock().lease(2 * SECOND).await.unwrap();
    let gate = Gate::new();
    world.next(Verb::Renew, [Fate::Held(gate.clone())]);
    let guard = Arc::new(guard);
    let extending = Arc::clone(&guard);
    let extending = start(async move { extending.extend(60 * SECOND).await }).await;
    sleep(2 * SECOND).await;
    assert!(!guard.is_held());
    gate.open();
    assert_eq!(cause(&extending.await.unwrap().unwrap_err()), Some(LostCause::Expired));
    assert!(world.ttl("a") > 50 * SECOND);
    stays_lost(&guard, LostCause::Expired).await;
    // The server has it for a minute yet: the drop lets go of it.
    drop(guard);
    turn().await;
    assert_eq!(world.holder("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_finds_its_holds_lost_at_the_first_look_and_tells_within_a_second() {
    for age in [100 * MS, 3 * SECOND, 25 * SECOND] {
        let bench = Bench::new();
        let lock = bench.lock("a");
        let guard = lock.lock().await.unwrap();
        let other = bench.lock("b").lock().await.unwrap();
        let lost = start(async move { other.lost().await }).await;
        sleep(age).await;
        // A nap that the lease outlives changes nothing but the deadline.
        let before = guard.expires_in().unwrap();
        bench.sleeps.sleep(SECOND);
        assert_eq!(guard.expires_in().unwrap(), before - SECOND);
        bench.sleeps.sleep(LEASE);
        assert!(!guard.is_held());
        let woke = Instant::now();
        assert_eq!(cause(&lost.await.unwrap()), Some(LostCause::Expired));
        assert!(woke.elapsed() <= SECOND + MS, "held for {age:?}: {:?}", woke.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_sleep_made_old_gives_no_guard() {
    let bench = Bench::new();
    let world = &bench.world;
    let gate = Gate::new();
    world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
    let waiter = start(bench.lock("a").lock()).await;
    bench.sleeps.sleep(LEASE);
    gate.open();
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.is_held());
    assert_eq!(world.verbs(), [Verb::Acquire, Verb::Release, Verb::Acquire]);
}

#[tokio::test(start_paused = true)]
async fn protected_work_ends_with_the_hold_even_if_it_is_ready_too_late() {
    let bench = Bench::new();
    let guard = bench.lock("a").lock().lease(SECOND).await.unwrap();
    assert_eq!(guard.protect(std::future::ready(7)).await.unwrap(), 7);
    let asleep = guard.protect(sleep(2 * SECOND)).await;
    assert_eq!(cause(&asleep.unwrap_err()), Some(LostCause::Expired));

    let guard = bench.lock("b").lock().await.unwrap();
    let late = guard.protect(async { bench.sleeps.sleep(LEASE) }).await;
    assert_eq!(cause(&late.unwrap_err()), Some(LostCause::Expired), "finished, but after the loss");
}

#[tokio::test(start_paused = true)]
async fn a_lost_detached_hold_is_remembered_for_a_lease() {
    let bench = Bench::new();
    let (lock, owner) = (bench.lock("a"), Owner::new());
    for (later, remembered) in [(SECOND, true), (LEASE + SECOND, false)] {
        let _ = lock.lock_as(&owner).max_hold(LEASE).await.unwrap().detach();
        sleep(LEASE + later).await;
        let error = lock.unlock_as(&owner).await.unwrap_err();
        assert_eq!(cause(&error), remembered.then_some(LostCause::MaxHold), "{error:?}");
        assert!(remembered || matches!(error, Error::NotHeld { .. }));
        assert!(matches!(lock.unlock_as(&owner).await, Err(Error::NotHeld { .. })));
    }
    bench.nothing_is_left("a").await;
}

/// The first of three has the name for longer than a slice, until it is lost. Somebody elsewhere listens.
async fn three_in_turn(bench: &Bench) -> (LockGuard, [JoinHandle<Result<LockGuard>>; 2]) {
    bench.world.server(|server| server.others = 1);
    let lock = bench.lock("a");
    let first = lock.lock().lease(SLICE * 3).await.unwrap();
    (first, [start(lock.lock()).await, start(lock.lock()).await])
}

/// The second of them has it, and its slice was over before: the third comes after those elsewhere.
async fn begins_no_new_slice(bench: &Bench, second: LockGuard, third: JoinHandle<Result<LockGuard>>) {
    bench.world.forget_record();
    second.unlock().await.unwrap();
    assert_eq!(bench.world.verbs(), [Verb::Release]);
    drop(third.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

/// The try left while the slice was over and nobody had the name between: what took it goes on with that slice.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_that_is_let_go_of_behind_the_next_try_begins_no_new_slice_for_it() {
    let bench = Bench::new();
    let (first, [second, third]) = three_in_turn(&bench).await;
    // By then the server has ended the hold; on one link the release runs behind the try.
    bench.world.next(Verb::Acquire, [Fate::Delayed(2 * MS)]);
    bench.world.next(Verb::Release, [Fate::Delayed(3 * MS)]);
    assert_eq!(cause(&first.lost().await), Some(LostCause::Expired));
    turn().await;
    assert_eq!(bench.world.sent(Verb::Acquire).len(), 2, "the next one tries");
    drop(first);
    begins_no_new_slice(&bench, second.await.unwrap().unwrap(), third).await;
}

/// The server ended the hold by itself and told nobody, so nobody else came for the name.
#[tokio::test(start_paused = true)]
async fn a_lost_hold_that_is_over_when_it_is_let_go_of_begins_no_new_slice_for_the_next_try() {
    let bench = Bench::new();
    let (first, [second, third]) = three_in_turn(&bench).await;
    bench.world.next(Verb::Release, [Fate::Delayed(3 * MS)]);
    assert_eq!(cause(&first.lost().await), Some(LostCause::Expired));
    turn().await;
    drop(first);
    let freed = Instant::now();
    let second = second.await.unwrap().unwrap();
    assert_eq!(freed.elapsed(), 3 * MS, "nobody is let go first");
    begins_no_new_slice(&bench, second, third).await;
}
