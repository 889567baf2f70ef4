//! Grants that replicas are to know of: the try goes another way than everything else, so its order is kept here.

use super::*;
use crate::backend::Replicas;

/// One replica is to know, and is waited for as long.
const WITHIN: Duration = Duration::from_millis(100);

fn bench() -> Bench {
    Bench::with(|settings| settings.replicas = Some(Replicas { wanted: 1, within: WITHIN }))
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_a_hold_once_a_replica_knows_of_it_and_is_released_where_none_does() {
    let bench = bench();
    let (world, asked) = (&bench.world, Instant::now());
    let answer = bench.lock("a").try_lock().await;
    assert!(matches!(answer, Err(Error::TooFewReplicas { acknowledged: 0, wanted: 1, .. })), "{answer:?}");
    assert_eq!(asked.elapsed(), WITHIN);
    turn().await;
    assert_eq!((world.verbs(), world.holder("a")), (vec![Verb::Acquire, Verb::Release], None));
    world.server(|server| server.replicas = 1);
    let asked = Instant::now();
    let guard = bench.lock("a").try_lock().await.unwrap().unwrap();
    assert_eq!(asked.elapsed(), WITHIN);
    assert!(guard.expires_in().unwrap() < LEASE - WITHIN, "it lasts from when it was asked for");
    assert_eq!(guard.unlock().await.unwrap(), Released::Freed);
    drop(guard);
    bench.nothing_is_left("a").await;
    assert_eq!(world.sent(Verb::Release).len(), 2, "nothing was in doubt");
}

#[tokio::test(start_paused = true)]
async fn each_try_has_a_number_of_its_own_and_waits_for_the_answer_to_the_release_of_the_last() {
    let bench = bench();
    let world = &bench.world;
    // Granted and not answered; granted, and no replica knows of it.
    world.next(Verb::Acquire, [Fate::Lost]);
    world.always(Verb::Release, Fate::Slow(50 * MS));
    let waiter = start(bench.lock("a").try_lock().wait(20 * SECOND)).await;
    sleep(COMMAND_TIMEOUT + SECOND).await;
    world.server(|server| server.replicas = 1);
    let guard = waiter.await.unwrap().unwrap().unwrap();
    let tries = world.sent(Verb::Acquire);
    assert!(tries.len() >= 3, "{tries:?}");
    let mut different = numbers(&tries);
    different.dedup();
    assert_eq!(different.len(), tries.len());
    for (before, next) in tries.iter().zip(&tries[1..]) {
        let released = world.sent(Verb::Release).into_iter().find(|release| release.numbers == before.numbers);
        assert!(released.unwrap().at + 50 * MS <= next.at, "{:?}", world.record());
    }
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn what_somebody_gives_up_is_released_when_it_is_answered_and_at_once_where_replicas_are_waited_for() {
    let bench = bench();
    let world = &bench.world;
    world.next(Verb::Acquire, [Fate::Slow(50 * MS)]);
    let (waiter, asked) = (start(bench.lock("a").lock()).await, Instant::now());
    waiter.abort();
    sleep(49 * MS).await;
    assert_eq!(world.verbs(), [Verb::Acquire], "a release that comes before it frees nothing");
    sleep(2 * MS).await;
    assert_eq!((world.verbs().len(), world.holder("a")), (2, None), "after {:?}", asked.elapsed());
    let waiter = start(bench.lock("a").lock()).await;
    sleep(WITHIN / 2).await;
    waiter.abort();
    turn().await;
    assert_eq!(world.holder("a"), None);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_would_wait_for_ever_hears_of_it_when_it_has_gone_on_for_too_long_and_so_do_those_behind() {
    let bench = bench();
    let asked = Instant::now();
    let waiters = [start(bench.lock("a").lock()).await, start(bench.lock("a").lock()).await];
    let timed = start(bench.lock("a").try_lock().wait(5 * SECOND)).await;
    assert!(matches!(timed.await.unwrap(), Err(Error::TooFewReplicas { .. })));
    assert_eq!(asked.elapsed(), 5 * SECOND);
    for waiter in waiters {
        let answer = waiter.await.unwrap();
        assert!(matches!(answer, Err(Error::TooFewReplicas { acknowledged: 0, wanted: 1, .. })), "{answer:?}");
        assert!((9 * SECOND..11 * SECOND).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    }
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_replicas_when_the_client_is_closed_hears_that_at_once_and_leaves_nothing() {
    let bench = Bench::with(|settings| settings.replicas = Some(Replicas { wanted: 1, within: 5 * SECOND }));
    let waiter = start(bench.lock("a").lock()).await;
    assert!(bench.world.holder("a").is_some());
    let asked = Instant::now();
    ends(Engine::close(&bench.engine)).await;
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    assert!(asked.elapsed() < SECOND, "{:?}", asked.elapsed());
    assert_eq!(bench.world.holder("a"), None);
}
