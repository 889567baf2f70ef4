//! How long this process keeps a name to itself, and what it does after it gave the name up.

use super::*;

/// Sections of a millisecond, one after the other.
pub(super) async fn work(lock: Lock, sections: usize) {
    for _ in 0..sections {
        let guard = lock.lock().await.unwrap();
        sleep(MS).await;
        guard.unlock().await.unwrap();
    }
}

/// When each acquire left, in milliseconds.
fn acquired_at(world: &World, started: Instant) -> Vec<u64> {
    world.sent(Verb::Acquire).iter().map(|sent| (sent.at - started).as_millis() as u64).collect()
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_gives_the_name_up_after_a_slice_and_lets_listeners_go_first() {
    // Where those who listen do not come they are given more, and this process takes more.
    for (others, turns) in [(0, &[0, 10, 20, 30][..]), (1, &[0, 20, 44, 70])] {
        let bench = Bench::new();
        bench.world.server(|server| server.others = others);
        let started = Instant::now();
        let tasks: Vec<_> = (0..40).map(|_| tokio::spawn(work(bench.lock("a"), 1))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let acquires = acquired_at(&bench.world, started);
        assert_eq!(acquires, turns, "{others} listening: a section a millisecond of each slice");
        assert_eq!(bench.world.sent(Verb::Release).len(), turns.len());
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_in_a_loop_gives_the_name_up_after_a_slice_too() {
    let bench = Bench::new();
    bench.world.server(|server| server.others = 1);
    let started = Instant::now();
    work(bench.lock("a"), 40).await;
    let acquires = acquired_at(&bench.world, started);
    let expected: Vec<u64> = (0..10).chain(20..32).chain(44..57).chain(70..75).collect();
    assert_eq!(acquires, expected, "taking back one's own key does not start a slice");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_count_is_taken_to_have_listeners() {
    let bench = Bench::new();
    bench.world.server(|server| server.counts = false);
    let started = Instant::now();
    let tasks: Vec<_> = (0..20).map(|_| tokio::spawn(work(bench.lock("a"), 1))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(acquired_at(&bench.world, started), [0, 20]);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_message_ends_a_cool_down_and_our_own_does_not() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    // Both wait, so the name is subscribed to, and stays so while one of them still waits.
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    let third = start(lock.lock()).await;
    world.other_frees("a");
    let guard = first.await.unwrap().unwrap();
    sleep(2 * SLICE).await;
    // Its message reaches ourselves, after the answer, and the other listener does not come.
    world.server(|server| server.lag = 3 * MS);
    let ended = Instant::now();
    drop(guard);
    let guard = second.await.unwrap().unwrap();
    assert_eq!(ended.elapsed(), SLICE, "our own message was taken for somebody else's");
    world.server(|server| server.lag = Duration::ZERO);

    sleep(2 * SLICE).await;
    let ended = Instant::now();
    drop(guard);
    sleep(2 * MS).await;
    world.other_takes("a", LEASE);
    sleep(2 * MS).await;
    world.other_frees("a");
    drop(third.await.unwrap().unwrap());
    assert_eq!(ended.elapsed(), 4 * MS, "the other one had its turn");
    bench.nothing_is_left("a").await;
}

/// A process of which somebody waits for so long, and which has just given the name up while three others listened.
async fn one_of_four(bench: &Bench, wait: Duration) -> JoinHandle<Result<Option<LockGuard>>> {
    bench.world.server(|server| server.others = 3);
    let guard = bench.lock("a").lock().await.unwrap();
    sleep(SLICE).await;
    let waiter = start(bench.lock("a").try_lock().wait(wait)).await;
    drop(guard);
    turn().await;
    waiter
}

#[tokio::test(start_paused = true)]
async fn whoever_was_served_last_lets_all_who_listened_go_first_and_tries_a_step_earlier_each_time() {
    let bench = Bench::new();
    let world = &bench.world;
    let waiter = one_of_four(&bench, Duration::MAX).await;
    for steps in [2, 1, 0] {
        world.other_takes("a", LEASE);
        sleep(SLICE + MS).await;
        let freed = Instant::now();
        world.other_frees("a");
        if steps > 0 {
            // The next one is quicker.
            world.other_takes("a", LEASE);
        }
        sleep(steps * MS + MS / 2).await;
        let tries = world.sent(Verb::Acquire).into_iter().filter(|sent| freed <= sent.at);
        assert_eq!(tries.map(|sent| sent.at - freed).collect::<Vec<_>>(), [steps * MS]);
    }
    drop(waiter.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_before_a_wait_that_is_nearly_over() {
    let bench = Bench::new();
    let waiter = one_of_four(&bench, 18 * MS).await;
    sleep(5 * MS).await;
    bench.world.other_takes("a", LEASE);
    bench.world.other_frees("a");
    let told = Instant::now();
    drop(waiter.await.unwrap().unwrap().unwrap());
    assert_eq!(told.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_before_a_plain_try() {
    let bench = Bench::new();
    let waiter = one_of_four(&bench, Duration::MAX).await;
    bench.world.other_takes("a", LEASE);
    bench.world.other_frees("a");
    turn().await;
    // Nobody here waits any more, and the others are still to go first.
    waiter.abort();
    turn().await;
    let told = Instant::now();
    assert!(bench.lock("a").try_lock().await.unwrap().is_some());
    assert_eq!(told.elapsed(), Duration::ZERO);
}

/// A hold of a waiter with a fixed lease, taken when the two before it have had and left the lock.
async fn third_of_three(world: &World, lock: &Lock, leaves: impl AsyncFnOnce(LockGuard)) -> LockGuard {
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock().lease(LEASE)).await;
    let _third = start(lock.lock()).await;
    world.other_frees("a");
    leaves(first.await.unwrap().unwrap()).await;
    second.await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_message_of_an_abandoned_hand_over_s_first_half_is_our_own() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::HandOver, [Fate::Never]);
    let leaves = async |guard: LockGuard| {
        // It comes after the answers to both halves.
        world.server(|server| server.lag = 3 * MS);
        drop(guard);
    };
    let guard = third_of_three(world, &lock, leaves).await;
    assert_eq!(world.sent(Verb::Release).len(), 2);
    sleep(SLICE).await;
    assert!(guard.is_held() && world.sent(Verb::Renew).is_empty(), "somebody else was thought to have freed it");
}

#[tokio::test(start_paused = true)]
async fn the_message_of_a_release_whose_answer_was_lost_is_our_own() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.next(Verb::Release, [Fate::Lost]);
    let leaves = async |guard: LockGuard| {
        sleep(2 * SLICE).await;
        world.server(|server| server.lag = COMMAND_TIMEOUT + SECOND);
        drop(guard);
    };
    let guard = third_of_three(world, &lock, leaves).await;
    assert_eq!(world.sent(Verb::Release).len(), 2);
    sleep(2 * SECOND).await;
    assert!(guard.is_held() && world.sent(Verb::Renew).is_empty(), "somebody else was thought to have freed it");
}

#[tokio::test(start_paused = true)]
async fn our_own_subscription_is_nobody_to_wait_for() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    world.other_frees("a");
    let guard = first.await.unwrap().unwrap();
    assert_eq!(world.subscriptions(), 1);
    sleep(2 * SLICE).await;
    let ended = Instant::now();
    drop(guard);
    drop(second.await.unwrap().unwrap());
    assert_eq!(ended.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_subscription_does_not_end_a_cool_down() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    world.hearing(Hearing::ByHand);
    let guard = lock.lock().await.unwrap();
    let next = start(lock.lock()).await;
    sleep(2 * SLICE).await;
    let ended = Instant::now();
    drop(guard);
    turn().await;
    assert_eq!(world.subscriptions(), 1, "it listens while it waits");
    sleep(3 * MS).await;
    world.confirm();
    drop(next.await.unwrap().unwrap());
    assert_eq!(ended.elapsed(), SLICE);
}

#[tokio::test(start_paused = true)]
async fn a_plain_try_in_a_cool_down_waits_for_the_release_s_answer_and_yields_to_listeners() {
    for others in [0, 1] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = others);
        let guard = lock.lock().await.unwrap();
        sleep(2 * SLICE).await;
        world.next(Verb::Release, [Fate::Slow(5 * MS)]);
        world.forget_record();
        let ended = Instant::now();
        drop(guard);
        let tried = lock.try_lock().await.unwrap();
        assert_eq!(ended.elapsed(), 5 * MS);
        assert_eq!(tried.is_some(), others == 0);
        let expected: &[Verb] = if others == 0 { &[Verb::Release, Verb::Acquire] } else { &[Verb::Release] };
        assert_eq!(world.verbs(), expected);
        assert_eq!(world.subscriptions_made(), 0, "it waits for nobody, so it need not listen");
        // The slice over, it is a try like any other.
        drop(tried);
        sleep(SLICE).await;
        assert!(lock.try_lock().await.unwrap().is_some());
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_of_zero_never_keeps_the_name() {
    let bench = Bench::with(|settings| settings.handover_slice = Duration::ZERO);
    let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(work(bench.lock("a"), 1))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(bench.world.sent(Verb::Acquire).len(), 10);
    assert_eq!(bench.world.sent(Verb::Release).len(), 10);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_of_zero_lets_nobody_go_first() {
    let bench = Bench::with(|settings| settings.handover_slice = Duration::ZERO);
    bench.world.server(|server| server.others = 1);
    let started = Instant::now();
    for _ in 0..5 {
        bench.lock("a").lock().await.unwrap().unlock().await.unwrap();
        assert!(bench.lock("a").try_lock().await.unwrap().is_some());
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn busy_in_between_starts_a_new_slice() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    sleep(5 * MS).await;
    guard.unlock().await.unwrap();
    world.other_takes("a", LEASE);
    let first = start(lock.lock()).await;
    let second = start(lock.lock()).await;
    world.other_frees("a");
    let guard = first.await.unwrap().unwrap();
    sleep(8 * MS).await;
    world.forget_record();
    // 13 ms after the first slice began, 8 ms after the new one did.
    drop(guard);
    drop(second.await.unwrap().unwrap());
    assert!(!world.verbs().contains(&Verb::Acquire));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_a_cool_down_is_answered_busy_and_blames_no_server() {
    let bench = Bench::with(|settings| settings.handover_slice = SECOND);
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.others = 1);
    let guard = lock.lock().await.unwrap();
    sleep(2 * SECOND).await;
    let first = start(lock.lock()).await;
    let second = start(lock.try_lock().wait(500 * MS)).await;
    drop(guard);
    assert!(second.await.unwrap().unwrap().is_none());
    drop(first.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_while_our_own_release_is_unanswered_gets_a_try_s_grace_and_then_blames_the_server() {
    let grace = 15 * MS;
    for (under_way, wait, others, over, silent) in [
        // Answered within the grace: the wait is over, and nothing is sent that nobody would wait for.
        (5 * MS, 2 * MS, 0, 5 * MS, false),
        (5 * MS, 2 * MS, 1, 5 * MS, false),
        // Answered within the wait, which ends in the cool-down.
        (5 * MS, 7 * MS, 1, 7 * MS, false),
        (100 * MS, 2 * MS, 0, 2 * MS + grace, true),
    ] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = others);
        let guard = lock.lock().await.unwrap();
        sleep(2 * SLICE).await;
        world.next(Verb::Release, [Fate::Slow(under_way)]);
        world.forget_record();
        drop(guard);
        let ended = Instant::now();
        let waited = lock.try_lock().wait(wait).await;
        assert_eq!(ended.elapsed(), over, "{waited:?}");
        match waited {
            Ok(None) => assert!(!silent),
            Err(Error::Unreachable { may_have_run: false, .. }) => assert!(silent),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.verbs(), [Verb::Release]);
        sleep(SECOND).await;
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_stands_behind_a_contender_that_waits_for_our_own_release_hears_of_a_silent_server() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    let guard = lock.lock().await.unwrap();
    sleep(2 * SLICE).await;
    world.next(Verb::Release, [Fate::Slow(SECOND)]);
    drop(guard);
    turn().await;
    let first = start(lock.lock()).await;
    let (soon, late) = tokio::join!(lock.try_lock().wait(10 * MS), lock.try_lock().wait(50 * MS));
    assert!(soon.unwrap().is_none(), "it may be answered yet");
    assert!(matches!(late, Err(Error::Unreachable { .. })), "{late:?}");
    drop(first.await.unwrap().unwrap());
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_a_try_can_be_repeated_says_what_became_of_that_try() {
    for refused in [true, false] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        let lost = lock.lock().lease(SECOND).await.unwrap();
        bench.sleeps.sleep(LEASE);
        assert!(!lost.is_held());
        sleep(2 * SECOND).await;
        if refused {
            world.next(Verb::Acquire, [Fate::Refused(FaultKind::Unready)]);
        } else {
            world.other_takes("a", LEASE);
        }
        // No pause after the first fault is longer than 20 ms.
        let waiter = start(lock.try_lock().wait(25 * MS)).await;
        world.next(Verb::Release, [Fate::Slow(30 * MS)]);
        drop(lost);
        let waited = waiter.await.unwrap();
        assert_eq!(matches!(waited, Err(Error::Unreachable { .. })), refused, "{waited:?}");
        assert!(refused || waited.unwrap().is_none());
        world.delete("a");
        sleep(SECOND).await;
        bench.nothing_is_left("a").await;
    }
}
