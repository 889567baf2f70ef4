//! Who heard that a key is free, as far as the server's count tells.

use super::*;

/// While our own subscription is pending nobody knows whether it was counted: so many others are not let in first, who may
/// be fewer.
#[tokio::test(start_paused = true)]
async fn a_count_of_listeners_is_believed_only_while_our_own_subscription_is_confirmed() {
    for (confirmed, pause) in [(false, Duration::ZERO), (true, 2 * MS)] {
        let bench = Bench::new();
        let (world, lock) = (&bench.world, bench.lock("a"));
        world.server(|server| server.others = 3);
        world.hearing(if confirmed { Hearing::Prompt } else { Hearing::ByHand });
        world.other_takes("a", LEASE);
        let waiters = [start(lock.lock()).await, start(lock.lock()).await, start(lock.lock()).await];
        world.other_frees("a");
        let [first, second, third] = waiters;
        let guard = first.await.unwrap().unwrap();
        sleep(2 * SLICE).await;
        drop(guard);
        turn().await;
        world.confirm();
        sleep(3 * MS).await;
        assert!(!second.is_finished(), "others were told, and go first");
        // One of them had its turn.
        world.other_takes("a", LEASE);
        world.other_frees("a");
        let told = Instant::now();
        drop(second.await.unwrap().unwrap());
        assert_eq!(told.elapsed(), pause, "confirmed: {confirmed}");
        drop(third.await.unwrap().unwrap());
        bench.nothing_is_left("a").await;
    }
}
