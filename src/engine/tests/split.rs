//! A vote that found no majority, as a primitive answers it.

use super::*;
use crate::{engine::Attempt, state::KeptBy};

const SPLIT: Attempt = Attempt::Split { retry_in: None, kept_by: KeptBy::Contenders };

/// What was sent, in order, with its number.
fn sent(world: &World) -> Vec<(Verb, u64)> {
    world.record().iter().map(|sent| (sent.verb, sent.numbers[0])).collect()
}

#[tokio::test(start_paused = true)]
async fn what_it_got_is_released_before_the_next_vote_which_has_a_new_number() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.answers.extend([SPLIT]));
    let guard = lock.lock().await.unwrap();
    let sent = sent(world);
    let [(Verb::Acquire, first), (Verb::Release, released), (Verb::Acquire, second)] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(first, released);
    assert_ne!(first, second);
    assert_eq!(number_of(world, "a"), second);
    guard.unlock().await.unwrap();
    bench.nothing_is_left("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_single_try_has_nothing_and_leaves_nothing() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.server(|server| server.answers.extend([SPLIT]));
    assert!(lock.try_lock().await.unwrap().is_none());
    turn().await;
    let sent = sent(world);
    assert!(matches!(sent[..], [(Verb::Acquire, first), (Verb::Release, released)] if first == released), "{sent:?}");
    bench.nothing_is_left("a").await;
}

/// Many votes in a row, and messages all the while: the rests add up to many times what the tries take all the same.
#[tokio::test(start_paused = true)]
async fn messages_do_not_cut_the_rests_short() {
    let bench = Bench::new();
    let (world, lock) = (&bench.world, bench.lock("a"));
    world.other_takes("a", LEASE);
    let waiter = start(lock.lock()).await;
    world.server(|server| server.answers.extend([SPLIT; 14]));
    let freed = Instant::now();
    world.other_frees("a");
    while !waiter.is_finished() && freed.elapsed() < 3 * SECOND {
        world.server(|server| server.publish_only("a"));
        sleep(MS / 4).await;
    }
    let guard = waiter.await.unwrap().unwrap();
    assert!(freed.elapsed() > 50 * MS, "{:?}", freed.elapsed());
    guard.unlock().await.unwrap();
    bench.nothing_is_left("a").await;
}
