//! Another server answers for the keys, or the same one has forgotten them: every hold is asked for, at once and once.

use super::*;

/// Every hold is asked for within this time.
pub(super) const ROUND: Duration = Duration::from_secs(1);

/// Which holds were asked for, and when, since the record was forgotten.
pub(super) fn asked(world: &World) -> Vec<(u64, Instant)> {
    let renewals = world.sent(Verb::Renew);
    renewals.iter().flat_map(|sent| sent.numbers.iter().map(|number| (*number, sent.at))).collect()
}

/// A server comes that knows of none of these.
pub(super) fn forget(world: &World, names: impl IntoIterator<Item = String>) {
    names.into_iter().for_each(|name| world.delete(&name));
    world.forget_record();
    world.eras.send_modify(|era| *era += 1);
}

/// Numbered ones: this many.
pub(super) fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| n.to_string())
}

pub(super) async fn holds(bench: &Bench, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for name in names(count) {
        guards.push(bench.lock(&name).lock().await.unwrap());
    }
    guards
}

/// Of fixed leases so many that one of theirs is asked for together with others: one alone is asked for what is left in any case.
async fn fixed_ones(bench: &Bench) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for name in names(60) {
        guards.push(bench.lock(&name).lock().lease(LEASE).await.unwrap());
    }
    guards
}

/// A server that missed what made the lease longer than that has, once it was asked, what is promised.
async fn is_made_good(bench: &Bench, guard: &LockGuard, first: Duration) {
    bench.world.server(|server| server.forgets_extensions("a", first));
    bench.world.eras.send_modify(|era| *era += 1);
    sleep(ROUND + 5 * MS).await;
    let left = guard.expires_in().expect("it is held");
    assert!(bench.world.ttl("a") >= left, "{:?} where {left:?} is promised", bench.world.ttl("a"));
}

/// A lock is handed over, which is under way until the gate opens: whoever is to have it, and whoever lets go of it.
pub(super) async fn handing_over(bench: &Bench) -> (Gate, JoinHandle<Result<LockGuard>>, JoinHandle<Result<Released>>) {
    let (world, gate, lock) = (&bench.world, Gate::new(), bench.unpassable("a"));
    let first = lock.lock().await.unwrap();
    world.next(Verb::HandOver, [Fate::Held(gate.clone())]);
    let waiter = start(lock.lock()).await;
    let unlocking = start(async move { first.unlock().await }).await;
    assert_eq!(world.sent(Verb::HandOver).len(), 1);
    (gate, waiter, unlocking)
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_new_server_does_not_know_is_lost_at_once_under_the_watchdog_and_with_a_fixed_lease() {
    let bench = Bench::new();
    let watched = bench.lock("watched").lock().await.unwrap();
    let fixed = bench.lock("fixed").lock().lease(LEASE * 100).await.unwrap();
    let bounded = bench.lock("bounded").lock().max_hold(LEASE * 100).await.unwrap();
    sleep(SECOND).await;
    let changed = Instant::now();
    forget(&bench.world, ["watched", "fixed", "bounded"].map(str::to_owned));
    for guard in [watched, fixed, bounded] {
        assert_eq!(cause(&guard.lost().await), Some(LostCause::Gone));
        assert!(changed.elapsed() < 5 * MS, "{:?}", changed.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_holds_are_asked_for_once_each_in_batches_and_not_all_in_one_moment() {
    for fixed in [false, true] {
        let bench = Bench::new();
        let mut guards = Vec::new();
        for n in 0..1000 {
            let lock = bench.lock(&format!("{n}"));
            // Leases that differ go together all the same.
            let lease = LEASE * 100 + MS * n;
            let acquire = if fixed { lock.lock().lease(lease) } else { lock.lock() };
            guards.push(acquire.await.unwrap());
        }
        sleep(SECOND).await;
        let promised: Vec<_> = guards.iter().map(|guard| guard.expires_in().unwrap()).collect();
        let changed = Instant::now();
        forget(&bench.world, []);
        sleep(ROUND + 5 * MS).await;
        let mut asked = asked(&bench.world);
        let last = asked.iter().map(|(_, at)| *at).max().unwrap();
        assert!(last > changed + 20 * MS && last <= changed + ROUND, "{:?}", last - changed);
        asked.sort_unstable();
        asked.dedup_by_key(|(number, _)| *number);
        let sent = bench.world.sent(Verb::Renew);
        assert_eq!((asked.len(), sent.len()), (1000, 40), "fixed: {fixed}");
        assert!(sent.iter().all(|sent| sent.lease == if fixed { Duration::ZERO } else { LEASE }));
        // Of fixed leases nothing grows: neither what is promised nor what the server has.
        let passed = changed.elapsed();
        for (n, (guard, promised)) in guards.iter().zip(promised).enumerate() {
            let now = guard.expires_in().unwrap();
            assert!(if fixed { now <= promised - passed } else { now > promised - passed }, "{n}");
            let ttl = bench.world.ttl(&n.to_string());
            assert!(!fixed || ttl <= LEASE * 100 + MS * u32::try_from(n).unwrap() - SECOND);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn however_many_holds_there_are_all_are_asked_for_within_a_second() {
    let bench = Bench::new();
    let guards = holds(&bench, 20_000).await;
    let changed = Instant::now();
    forget(&bench.world, names(20_000));
    sleep(ROUND + 10 * MS).await;
    assert!(guards.iter().all(|guard| !guard.is_held()));
    let asked = asked(&bench.world);
    assert_eq!(asked.len(), 20_000);
    // A tenth of them in a tenth of the time, more or less.
    let early = asked.iter().filter(|(_, at)| *at < changed + ROUND / 10).count();
    assert!((1_500..3_000).contains(&early), "{early}");
}

/// Answered by a server that answers no more.
#[tokio::test(start_paused = true)]
async fn a_grant_that_was_asked_of_an_earlier_server_counts_once_the_new_one_confirms_it() {
    let bench = Bench::new();
    let (world, gate, lock) = (&bench.world, Gate::new(), bench.lock("a"));
    world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
    let waiter = start(lock.lock()).await;
    forget(world, ["a".to_owned()]);
    // Long after every hold that there was has been asked for.
    sleep(ROUND * 2).await;
    assert!(asked(world).is_empty());
    gate.open();
    let guard = waiter.await.unwrap().unwrap();
    assert_eq!((world.verbs(), world.holder("a").is_some()), (vec![Verb::Acquire], true));
    // What is asked of the new server needs no second word.
    world.forget_record();
    sleep(SECOND).await;
    assert!(guard.is_held() && asked(world).is_empty());
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Somebody else has it there.
#[tokio::test(start_paused = true)]
async fn a_grant_of_an_earlier_server_is_busy_where_the_new_one_has_the_lock_for_another() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    for wait in [Duration::ZERO, SECOND * 2] {
        let gate = Gate::new();
        world.next(Verb::Acquire, [Fate::Held(gate.clone())]);
        let trying = lock.try_lock();
        let trying = start(async move { if wait.is_zero() { trying.await } else { trying.wait(wait).await } }).await;
        forget(world, ["a".to_owned()]);
        world.other_takes("a", LEASE);
        sleep(SECOND).await;
        gate.open();
        assert!(trying.await.unwrap().unwrap().is_none());
        world.delete("a");
    }
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_server_handed_over_is_taken_anew_where_the_new_one_knows_nothing_of_it() {
    let bench = Bench::new();
    let (world, (gate, waiter, unlocking)) = (&bench.world, handing_over(&bench).await);
    forget(world, ["a".to_owned()]);
    sleep(ROUND * 2).await;
    gate.open();
    assert_eq!(unlocking.await.unwrap().unwrap(), Released::Freed);
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.is_held() && world.holder("a").is_some());
    assert_eq!(world.verbs(), [Verb::Release, Verb::Release, Verb::Acquire]);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// Waits for what an earlier server is to answer, which knows of it, while the new one does not; and then for what there is.
async fn answered_late<T: Send + 'static>(bench: &Bench, asking: impl Future<Output = T> + Send + 'static) -> T {
    let (world, gate) = (&bench.world, Gate::new());
    for verb in [Verb::Renew, Verb::Acquire] {
        world.next(verb, [Fate::Held(gate.clone())]);
    }
    let asking = start(asking).await;
    assert!(bench.world.ttl("a") > 50 * SECOND, "it was asked for more");
    world.server(|server| server.forgets_extensions("a", 10 * SECOND));
    world.eras.send_modify(|era| *era += 1);
    world.heal();
    // The new one is asked for the hold, and has it.
    sleep(ROUND + 5 * MS).await;
    gate.open();
    let answer = asking.await.unwrap();
    turn().await;
    answer
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_an_earlier_server_granted_is_asked_of_the_new_one() {
    for watched in [false, true] {
        let bench = Bench::new();
        let acquire = bench.lock("a").lock();
        let guard = if watched { acquire } else { acquire.lease(10 * SECOND) }.await.unwrap();
        let (guard, extended) = answered_late(&bench, async move {
            let extended = guard.extend(60 * SECOND).await;
            (guard, extended)
        })
        .await;
        extended.unwrap();
        let left = guard.expires_in().unwrap();
        assert!(left > 50 * SECOND && left <= bench.world.ttl("a"), "{left:?} of {:?}", bench.world.ttl("a"));
        drop(guard);
        bench.nothing_is_left("a").await;
    }
}

/// The answer is there before the new server comes, and is only looked at then: right away, or once that one was asked.
async fn looked_at_late<T>(bench: &Bench, asked: bool, mut asking: impl Future<Output = T> + Unpin) -> T {
    let (world, gate) = (&bench.world, Gate::new());
    for verb in [Verb::Renew, Verb::Acquire] {
        world.next(verb, [Fate::Held(gate.clone())]);
    }
    assert!(polled(&mut asking, 1).await.is_none());
    turn().await;
    assert!(world.ttl("a") > 50 * SECOND, "it was asked for more");
    gate.open();
    world.heal();
    world.forget_record();
    world.server(|server| server.forgets_extensions("a", 10 * SECOND));
    world.eras.send_modify(|era| *era += 1);
    if asked {
        sleep(ROUND + 5 * MS).await;
        let mut sent = world.sent(Verb::Renew).into_iter().chain(world.sent(Verb::Acquire));
        assert!(sent.any(|sent| 50 * SECOND < sent.lease), "it was asked for again");
        assert!(world.ttl("a") >= 10 * SECOND);
    }
    let answer = asking.await;
    sleep(ROUND + 5 * MS).await;
    answer
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_server_granted_a_parked_caller_is_believed_for_no_longer_than_the_new_one_keeps_it() {
    for asked in [false, true] {
        for nested in [false, true] {
            let bench = Bench::new();
            let others = fixed_ones(&bench).await;
            let (owner, lock) = (Owner::new(), bench.lock("a"));
            let guard = lock.lock_as(&owner).lease(10 * SECOND).await.unwrap();
            let inner = if nested {
                Some(
                    looked_at_late(&bench, asked, lock.lock_as(&owner).lease(60 * SECOND).into_future()).await.unwrap(),
                )
            } else {
                looked_at_late(&bench, asked, Box::pin(guard.extend(60 * SECOND))).await.unwrap();
                None
            };
            let (left, ttl) = (guard.expires_in().unwrap(), bench.world.ttl("a"));
            assert!(left > 50 * SECOND && left <= ttl, "asked: {asked}, nested: {nested}: {left:?} of {ttl:?}");
            drop((inner, guard, others));
            bench.nothing_is_left("a").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_asked_twice_has_the_time_of_one_command() {
    let bench = Bench::new();
    let (world, gate) = (&bench.world, Gate::new());
    let guard = bench.lock("a").lock().await.unwrap();
    let started = Instant::now();
    world.next(Verb::Renew, [Fate::Held(gate.clone())]);
    let extending = start(async move { (guard.extend(60 * SECOND).await, guard, Instant::now()) }).await;
    world.eras.send_modify(|era| *era += 1);
    sleep(COMMAND_TIMEOUT / 2).await;
    world.always(Verb::Renew, Fate::Never);
    gate.open();
    let (extended, guard, over) = extending.await.unwrap();
    assert!(matches!(extended, Err(Error::Unreachable { may_have_run: true, .. })), "{extended:?}");
    assert_eq!(over - started, COMMAND_TIMEOUT);
    assert!(guard.expires_in().unwrap() <= LEASE);
    world.heal();
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_acquisition_that_an_earlier_server_granted_is_asked_of_the_new_one() {
    let bench = Bench::new();
    let (owner, lock) = (Owner::new(), bench.lock("a"));
    let outer = lock.lock_as(&owner).lease(10 * SECOND).await.unwrap();
    let inner = answered_late(&bench, lock.lock_as(&owner).lease(60 * SECOND)).await.unwrap();
    let left = inner.expires_in().unwrap();
    assert!(left > 50 * SECOND && left <= bench.world.ttl("a"), "{left:?} of {:?}", bench.world.ttl("a"));
    assert_eq!(inner.unlock().await.unwrap(), Released::StillHeld(1));
    assert!(outer.is_held());
    assert_eq!(outer.unlock().await.unwrap(), Released::Freed);
    bench.nothing_is_left("a").await;
}

/// They waited for the link that leads to it.
#[tokio::test(start_paused = true)]
async fn what_left_for_the_new_server_is_asked_once() {
    let bench = Bench::new();
    let (world, owner) = (&bench.world, Owner::new());
    let held = bench.lock("held").lock_as(&owner).await.unwrap();
    world.forget_record();
    world.unlink();
    let fresh = start(bench.lock("fresh").lock()).await;
    let nested = start(bench.lock("held").lock_as(&owner)).await;
    let extending = start(async move { (held.extend(60 * SECOND).await, held) }).await;
    sleep(SECOND).await;
    world.eras.send_modify(|era| *era += 1);
    world.relink();
    let (fresh, nested) = (fresh.await.unwrap().unwrap(), nested.await.unwrap().unwrap());
    let (extended, held) = extending.await.unwrap();
    extended.unwrap();
    turn().await;
    let asked = |verb| world.sent(verb).len();
    // The hold that there was is asked for by itself, too.
    assert_eq!((asked(Verb::Acquire), asked(Verb::Renew)), (2, 2));
    drop((fresh, nested, held));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_a_second_try_made_longer_is_made_good_where_a_new_server_missed_that() {
    let bench = Bench::new();
    let _others = fixed_ones(&bench).await;
    bench.world.next(Verb::Acquire, [Fate::Lost]);
    let guard = bench.lock("a").lock().lease(10 * SECOND).await.unwrap();
    assert_eq!(bench.world.sent(Verb::Acquire).len(), 62);
    is_made_good(&bench, &guard, 7 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_that_was_extended_is_made_good_where_a_new_server_missed_that() {
    let bench = Bench::new();
    let _others = fixed_ones(&bench).await;
    let guard = bench.lock("a").lock().lease(SECOND).await.unwrap();
    guard.extend(60 * SECOND).await.unwrap();
    is_made_good(&bench, &guard, SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_under_way_when_the_server_changes_is_followed_by_another() {
    let bench = Bench::new();
    let (world, gate) = (&bench.world, Gate::new());
    let guard = bench.lock("a").lock().await.unwrap();
    world.next(Verb::Renew, [Fate::Held(gate.clone())]);
    sleep(LEASE / 3 + MS).await;
    assert_eq!(world.sent(Verb::Renew).len(), 1);
    forget(world, ["a".to_owned()]);
    sleep(ROUND).await;
    assert!(guard.is_held());
    gate.open();
    turn().await;
    assert_eq!((asked(world).len(), guard.is_held()), (1, false));
    assert_eq!(cause(&guard.lost().await), Some(LostCause::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_rests_after_faults_is_asked_for_at_once() {
    let bench = Bench::new();
    let world = &bench.world;
    let guard = bench.lock("a").lock().await.unwrap();
    world.always(Verb::Renew, Fate::Refused(FaultKind::Unready));
    sleep(LEASE / 3 + 5 * SECOND).await;
    for _ in 0..20 {
        forget(world, []);
        turn().await;
        assert_eq!(asked(world).len(), 1);
    }
    world.heal();
    forget(world, []);
    turn().await;
    assert_eq!(guard.expires_in().unwrap(), LEASE - LEASE / 256 - MS);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_where_nothing_is_held() {
    let bench = Bench::new();
    let world = &bench.world;
    drop(bench.lock("a").lock().await.unwrap());
    turn().await;
    forget(world, []);
    sleep(LEASE).await;
    assert!(world.record().is_empty(), "{:?}", world.record());
    bench.nothing_is_left("a").await;
}
