//! The servers change again before every hold was asked for.

use super::{
    era::{ROUND, asked, forget, holds, names},
    *,
};

#[tokio::test(start_paused = true)]
async fn a_server_that_changes_again_before_all_were_asked_for_is_asked_for_all() {
    let bench = Bench::new();
    let world = &bench.world;
    let guards = holds(&bench, 1000).await;
    sleep(SECOND).await;
    forget(world, []);
    sleep(30 * MS).await;
    let first = asked(world).len();
    assert!((200..600).contains(&first), "{first}");
    forget(world, names(1000));
    sleep(ROUND).await;
    assert!(guards.iter().all(|guard| !guard.is_held()));
    assert_eq!(asked(world).len(), 1000);
}

/// As where the slots of a cluster move one after the other.
#[tokio::test(start_paused = true)]
async fn servers_that_change_again_and_again_are_asked_for_the_last_holds_too() {
    let bench = Bench::new();
    let world = &bench.world;
    let guards = holds(&bench, 2000).await;
    sleep(SECOND).await;
    forget(world, names(2000));
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
        let guards = holds(&bench, 1000).await;
        sleep(SECOND).await;
        for _ in 0..5 {
            world.eras.send_modify(|era| *era += 1);
            sleep(late * MS).await;
        }
        assert!(guards.iter().all(LockGuard::is_held));
        forget(world, names(1000));
        sleep(ROUND).await;
        assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), 0, "changes every {late} ms");
    }
}
