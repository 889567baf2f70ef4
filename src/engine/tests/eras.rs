//! The servers change again before every hold was asked for.

use super::{
    era::{ROUND, asked, forget},
    *,
};

/// As where the slots of a cluster move one after the other.
#[tokio::test(start_paused = true)]
async fn servers_that_change_again_and_again_are_asked_for_the_last_holds_too() {
    let bench = Bench::new();
    let world = &bench.world;
    let mut guards = Vec::new();
    for n in 0..2000 {
        guards.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    sleep(SECOND).await;
    forget(world, (0..2000).map(|n| n.to_string()));
    let changed = Instant::now();
    while changed.elapsed() < ROUND {
        sleep(20 * MS).await;
        world.eras.send_modify(|era| *era += 1);
    }
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    assert_eq!((held, asked(world).len()), (0, 2000));
}

/// What was asked for before a change says nothing of what came after it.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_lost_in_a_change_after_its_turn_is_told_within_the_same_time() {
    for late in [5, 20, 79, 100] {
        let bench = Bench::new();
        let world = &bench.world;
        let mut guards = Vec::new();
        for n in 0..1000 {
            guards.push(bench.lock(&format!("{n}")).lock().await.unwrap());
        }
        sleep(SECOND).await;
        for _ in 0..5 {
            world.eras.send_modify(|era| *era += 1);
            sleep(late * MS).await;
        }
        assert!(guards.iter().all(LockGuard::is_held));
        forget(world, (0..1000).map(|n| n.to_string()));
        sleep(ROUND).await;
        assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), 0, "changes every {late} ms");
    }
}
