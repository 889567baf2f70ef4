//! Who heard that a key is free, as far as the server's count tells.

use super::{slice::work, *};

/// While our own subscription is pending nobody knows whether it was counted, nor when it is confirmed before the count comes:
/// so many others are not let in first, who may be fewer.
#[tokio::test(start_paused = true)]
async fn a_count_of_listeners_is_believed_only_while_our_own_subscription_is_confirmed() {
    let when = [("before", 2 * MS), ("meanwhile", Duration::ZERO), ("after", Duration::ZERO)];
    for (confirmed, pause) in when {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = 3);
        world.hearing(if confirmed == "before" { Hearing::Prompt } else { Hearing::ByHand });
        world.other_takes("a", LEASE);
        let waiters = [start(lock.lock()).await, start(lock.lock()).await, start(lock.lock()).await];
        world.other_frees("a");
        let [first, second, third] = waiters;
        let guard = first.await.unwrap().unwrap();
        sleep(2 * SLICE).await;
        if confirmed == "meanwhile" {
            world.next(Verb::Release, [Fate::Slow(MS)]);
        }
        drop(guard);
        turn().await;
        world.confirm();
        sleep(3 * MS).await;
        assert!(!second.is_finished(), "others were told, and go first");
        // One of them had its turn.
        world.other_takes("a", LEASE);
        sleep(SLICE).await;
        world.other_frees("a");
        let told = Instant::now();
        drop(second.await.unwrap().unwrap());
        assert_eq!(told.elapsed(), pause, "confirmed {confirmed}");
        drop(third.await.unwrap().unwrap());
        bench.nothing_is_left("a").await;
    }
}

/// Whoever listens and does not come is given more and more, by those who wait for as long.
#[tokio::test(start_paused = true)]
async fn a_free_lock_is_held_up_for_no_more_than_a_slice_by_whoever_asks_once_or_waits_for_a_moment() {
    for (wait, cools) in [(None, true), (Some(50 * MS), true), (Some(SECOND), false)] {
        let bench = Bench::new();
        let lock = bench.lock("a");
        bench.world.server(|server| server.others = 1);
        // Nobody comes: what others are given grows to half a second.
        work(lock.clone(), 3000).await;
        let guard = lock.lock().await.unwrap();
        sleep(SECOND).await;
        let freed = Instant::now();
        guard.unlock().await.unwrap();
        match wait {
            None => {
                assert!(lock.try_lock().await.unwrap().is_none(), "others go first");
                sleep(SLICE).await;
                assert!(lock.try_lock().await.unwrap().is_some());
            }
            Some(wait) => drop(lock.try_lock().wait(wait).await.unwrap().unwrap()),
        }
        let held_up = if cools { SLICE } else { 500 * MS };
        assert_eq!(freed.elapsed(), held_up, "{wait:?}");
        sleep(SECOND).await;
        bench.nothing_is_left("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_hear_of_one_interruption_do_not_all_ask_in_that_moment() {
    let bench = Bench::new();
    let names: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    let mut waiters = Vec::new();
    for name in &names {
        bench.world.other_takes(name, LEASE);
        waiters.push(start(bench.lock(name).lock()).await);
    }
    sleep(SECOND).await;
    bench.world.forget_record();
    bench.world.interrupt();
    turn().await;
    assert_eq!(bench.world.sent(Verb::Acquire).len(), 0);
    sleep(25 * MS).await;
    assert!(bench.world.sent(Verb::Acquire).len() >= names.len());
    waiters.iter().for_each(JoinHandle::abort);
}
