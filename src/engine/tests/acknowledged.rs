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
    // What is looked for is answered at once from now on.
    world.heal();
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

/// Long after a watch for what may run late would have begun: one that goes on is seen by its releases.
async fn is_looked_for_no_more(bench: &Bench, releases: usize) {
    assert_eq!(bench.engine.old_copies(), 0);
    sleep(LEASE * 4).await;
    assert_eq!(bench.world.sent(Verb::Release).len(), releases, "{:?}", bench.world.verbs());
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_while_its_try_is_on_its_way_is_released_once_and_looked_for_no_more() {
    let bench = bench();
    let world = &bench.world;
    world.always(Verb::Acquire, Fate::Slow(50 * MS));
    let mut dropped = Vec::new();
    for n in 0..40 {
        dropped.push(start(bench.lock(&n.to_string()).lock().lease(LEASE * 100)).await);
    }
    dropped.iter().for_each(JoinHandle::abort);
    sleep(100 * MS).await;
    assert_eq!(world.sent(Verb::Acquire).len(), 40);
    is_looked_for_no_more(&bench, 40).await;
    bench.nothing_is_left("0").await;
}

/// Its answer is there, and nobody has looked at it.
#[tokio::test(start_paused = true)]
async fn what_is_dropped_after_its_answer_came_is_released_once_and_looked_for_no_more() {
    let bench = bench();
    let world = &bench.world;
    world.always(Verb::Acquire, Fate::Slow(50 * MS));
    let mut asked = bench.lock("a").lock().lease(LEASE * 100);
    assert!(polled(&mut asked, 1).await.is_none());
    sleep(60 * MS).await;
    drop(asked);
    turn().await;
    assert_eq!((world.verbs(), world.holder("a")), (vec![Verb::Acquire, Verb::Release], None));
    is_looked_for_no_more(&bench, 1).await;
    bench.nothing_is_left("a").await;
}

/// An answer that never came may stand for a script that runs late.
#[tokio::test(start_paused = true)]
async fn what_is_dropped_and_was_never_answered_is_looked_for_until_it_can_be_there_no_more() {
    let bench = bench();
    let world = &bench.world;
    world.next(Verb::Acquire, [Fate::Late(10 * SECOND)]);
    let asked = start(bench.lock("a").lock()).await;
    asked.abort();
    sleep(COMMAND_TIMEOUT + SECOND).await;
    assert_eq!((bench.engine.old_copies(), world.sent(Verb::Release).len()), (1, 1));
    sleep(7 * SECOND).await;
    assert!(world.holder("a").is_none(), "what ran late is released");
    sleep(2 * LEASE).await;
    assert_eq!(bench.engine.old_copies(), 0);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_is_parked_while_replicas_are_waited_for_costs_one_release_and_others_their_turn() {
    let bench = bench();
    let world = &bench.world;
    let mut parked = bench.lock("a").lock().lease(LEASE * 100);
    // Until it is granted, and replicas are waited for.
    assert!(timeout(MS, polled(&mut parked, 2)).await.ok().flatten().is_none());
    assert!(world.holder("a").is_some());
    world.server(|server| server.replicas = 1);
    let asked = Instant::now();
    let next = timeout(LEASE, bench.lock("a").lock()).await.expect("it is passed over").unwrap();
    assert!(asked.elapsed() < LEASE, "{:?}", asked.elapsed());
    assert_eq!(world.sent(Verb::Release).len(), 1);
    next.unlock().await.unwrap();
    assert_eq!(bench.engine.old_copies(), 0);
    // Polled again it starts over, and has nothing to let go of.
    parked.await.unwrap().unlock().await.unwrap();
    is_looked_for_no_more(&bench, 3).await;
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_forced_open_while_replicas_are_waited_for_is_never_believed_in() {
    let bench = bench();
    let world = &bench.world;
    world.server(|server| server.replicas = 1);
    let waiter = start(bench.lock("a").lock()).await;
    sleep(WITHIN / 2).await;
    let forced = number_of(world, "a");
    assert!(bench.lock("a").0.force_unlock().await.unwrap());
    assert_eq!(world.holder("a"), None);
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.is_held() && number_of(world, "a") != forced);
    drop(guard);
    bench.nothing_is_left("a").await;
}

/// The replicas that counted it are those of another server.
#[tokio::test(start_paused = true)]
async fn a_new_server_while_replicas_are_waited_for_is_asked_for_the_lock_under_another_number() {
    let bench = bench();
    let world = &bench.world;
    world.server(|server| server.replicas = 1);
    let waiter = start(bench.lock("a").lock()).await;
    sleep(WITHIN / 2).await;
    era::forget(world, ["a".to_owned()]);
    let guard = waiter.await.unwrap().unwrap();
    let tries = world.sent(Verb::Acquire);
    assert_eq!(tries.len(), 1, "since then: {:?}", world.record());
    assert_eq!(number_of(world, "a"), tries[0].numbers[0]);
    assert!(guard.is_held());
    drop(guard);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_answers_whoever_waits_for_replicas_and_leaves_nothing() {
    let bench = Bench::with(|settings| settings.replicas = Some(Replicas { wanted: 1, within: 5 * SECOND }));
    let waiter = start(bench.lock("a").lock()).await;
    let (engine, asked) = (Arc::clone(&bench.engine), Instant::now());
    let shutdown = ends(engine.shutdown(SECOND)).await;
    assert!(matches!(waiter.await.unwrap(), Err(Error::Closed)));
    assert!(shutdown.is_clean() && asked.elapsed() < SECOND, "{shutdown:?}, {:?}", asked.elapsed());
    assert_eq!(bench.world.holder("a"), None);
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dropped_in_line_leaves_no_task_and_nothing_to_release() {
    let bench = bench();
    let places = bench.engine.tries.at(0).free()[2].available_permits();
    bench.engine.tries.at(0).free()[2].forget_permits(places);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let waiting = start(bench.lock("a").lock()).await;
    assert_eq!(tasks(), before + 1);
    waiting.abort();
    turn().await;
    assert_eq!((tasks(), bench.world.record().len()), (before, 0));
    bench.engine.tries.at(0).free()[2].add_permits(places);
    bench.nothing_is_left("a").await;
}

/// However long the line is, a free lock is nobody else's.
#[tokio::test(start_paused = true)]
async fn whoever_asks_once_in_a_long_line_is_answered_while_the_server_answers_others() {
    let bench = bench();
    let world = &bench.world;
    world.server(|server| server.replicas = 1);
    world.always(Verb::Acquire, Fate::Slow(500 * MS));
    // Four at a time: as in a line of so many, and quicker.
    let places = bench.engine.tries.at(0).free()[2].available_permits();
    bench.engine.tries.at(0).free()[2].forget_permits(places - 4);
    let mut tries = Vec::new();
    for n in 0..80 {
        tries.push(start(bench.lock(&n.to_string()).try_lock()).await);
    }
    for answer in tries {
        let guard = answer.await.unwrap().expect("the server answers").expect("it is free");
        guard.unlock().await.unwrap();
    }
    bench.engine.tries.at(0).free()[2].add_permits(places - 4);
    sleep(SECOND).await; // the other names are remembered for a while
    bench.nothing_is_left("0").await;
}

/// Other commands are answered all the while.
#[tokio::test(start_paused = true)]
async fn where_only_the_link_to_ask_on_cannot_be_opened_whoever_waits_hears_of_it_as_where_no_link_can_be() {
    let bench = bench();
    let world = &bench.world;
    world.always(Verb::Acquire, Fate::Unopened);
    let answers = bench.lock("other");
    let answering = start(async move {
        loop {
            answers.0.sight().await.unwrap();
            sleep(100 * MS).await;
        }
    })
    .await;
    let asked = Instant::now();
    let endless = [start(bench.lock("a").lock()).await, start(bench.lock("a").lock()).await];
    let timed = start(bench.lock("a").try_lock().wait(5 * SECOND)).await;
    let once = bench.lock("a").try_lock().await;
    assert!(matches!(once, Ok(None)), "another one of this process waits for it: {once:?}");
    assert!(matches!(timed.await.unwrap(), Err(Error::Unreachable { may_have_run: false, .. })));
    assert_eq!(asked.elapsed(), 5 * SECOND);
    for waiter in endless {
        let answer = ends(timeout(5 * SECOND, waiter)).await.expect("not for ever").unwrap();
        assert!(matches!(answer, Err(Error::Unreachable { may_have_run: false, .. })), "{answer:?}");
        assert!((9 * SECOND..10 * SECOND).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    }
    answering.abort();
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_replicas_outlast_is_named_with_what_they_may_take() {
    let bench = bench();
    bench.world.server(|server| server.replicas = 1);
    for answer in
        [bench.lock("a").try_lock().lease(WITHIN / 2).await, bench.lock("a").lock().lease(WITHIN / 2).await.map(Some)]
    {
        let error = answer.expect_err("its lease is over by then");
        let why = std::error::Error::source(&error).expect("why").to_string();
        assert!(why.contains("replica_acks") && why.contains("50ms") && why.contains("100ms"), "{why}");
    }
    bench.nothing_is_left("a").await;
}
