//! Keys at several places: what happens at one of them says nothing of the others.

use super::{era::handing_over, *};

/// The way to one place has become longer, while another one answers all the time.
#[tokio::test(start_paused = true)]
async fn what_one_place_answers_says_nothing_of_the_way_to_another() {
    let bench = Bench::new();
    bench.world.set_round_trip(Some(10 * MS));
    bench.world.policy(|sent| Fate::Slow(if sent.keys[0].starts_with("elsewhere") { 60 * MS } else { MS }));
    let lock = bench.lock("elsewhere");
    let mut tries = 0;
    let guard = loop {
        tries += 1;
        match lock.try_lock().wait(MS).await {
            Ok(Some(guard)) => break guard,
            Ok(None) | Err(Error::Unreachable { .. }) => assert!(tries < 4, "a free lock is never taken"),
            Err(other) => panic!("{other:?}"),
        }
        drop(bench.lock("here").lock().await.unwrap());
    };
    drop(guard);
    bench.world.heal();
    sleep(SECOND).await; // the other name is remembered for a while
    bench.nothing_is_left("elsewhere").await;
}

/// A slot that moves elsewhere says nothing of what is handed over here.
#[tokio::test(start_paused = true)]
async fn what_is_handed_over_while_another_place_changes_its_server_is_not_undone() {
    let bench = Bench::new();
    let (world, (gate, waiter, unlocking)) = (&bench.world, handing_over(&bench).await);
    world.forget_record();
    world.changes_elsewhere();
    sleep(2 * SECOND).await;
    gate.open();
    assert_eq!(unlocking.await.unwrap().unwrap(), Released::Freed);
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.is_held() && world.record().is_empty(), "{:?}", world.verbs());
    drop(guard);
    bench.nothing_is_left("a").await;
}
