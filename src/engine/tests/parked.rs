//! Acquisitions that were polled, and are neither polled again nor dropped when their turn comes.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hold_that_its_owner_has_not_looked_at_is_not_renewed_not_even_with_others() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("passed"));
    let held = lock.lock().await.unwrap();
    let number = number_of(world, "passed");
    let mut parked = lock.lock();
    assert!(polled(&mut parked, 1).await.is_none());
    let mut others = Vec::new();
    for n in 0..199 {
        others.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    drop(held);
    turn().await;
    // A message makes no difference.
    world.server(|server| server.publish_only("passed"));
    sleep(LEASE / 2 - MS).await;
    assert_eq!(number_of(world, "passed"), number, "it was passed on");
    let renewed = |number| world.sent(Verb::Renew).iter().filter(|sent| sent.numbers.contains(&number)).count();
    assert_eq!(renewed(number), 0);
    assert!(others.iter().all(|guard| renewed(number_of(world, guard.name())) >= 1));
    // Once it is taken it is due like any other.
    let guard = parked.await.unwrap();
    turn().await;
    assert_eq!((renewed(number), guard.is_held()), (1, true));
    sleep(LEASE * 3).await;
    assert!(guard.is_held());
    drop((guard, others));
}
