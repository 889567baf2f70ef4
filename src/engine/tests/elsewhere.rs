//! Keys at several places: what happens at one of them says nothing of the others.

use super::{era::handing_over, line::is_elsewhere, *};

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

/// The server that has the one kind of names is silent, whatever it is asked for.
fn silent_elsewhere(world: &World) {
    world.policy(|sent| if is_elsewhere(&sent.keys[0]) { Fate::Never } else { Fate::Prompt });
}

/// As many batches of one place as may be under way have no answer, and more stand behind them.
#[tokio::test(start_paused = true)]
async fn renewals_that_fill_the_line_of_a_silent_place_hold_up_none_of_another() {
    let bench = Bench::new();
    let (world, mut silent, began) = (&bench.world, Vec::new(), Instant::now());
    for n in 0..(UNDER_WAY + 2) * BATCH {
        silent.push(bench.on_shard(&format!("elsewhere {n}"), 1).lock().await.unwrap());
    }
    let here = bench.on_shard("here", 2).lock().await.unwrap();
    // All fall due before any can leave.
    world.unlink();
    sleep(LEASE / 3 + SECOND).await;
    silent_elsewhere(world);
    world.forget_record();
    world.relink();
    sleep(MS).await;
    let renewals = |wanted: bool| {
        let sent = world.sent(Verb::Renew).into_iter().filter(|sent| is_elsewhere(&sent.keys[0]) == wanted);
        sent.map(|sent| sent.at - began).collect::<Vec<_>>()
    };
    assert_eq!(renewals(true).len(), UNDER_WAY, "there is no place for more");
    assert_eq!(renewals(false), [LEASE / 3 + SECOND]);
    // Until they are over there is always one that waits for a place.
    sleep(LEASE / 3 * 5).await;
    assert!(!silent.iter().any(LockGuard::is_held));
    assert!(here.is_held());
    // That one left late makes no later one late.
    assert_eq!(renewals(false)[1..], [2, 3, 4, 5, 6].map(|thirds| LEASE / 3 * thirds));
}

/// Twice as many wait for an answer, or for their turn to ask, as may ask at a time.
#[tokio::test(start_paused = true)]
async fn tries_that_fill_all_places_of_a_silent_server_hold_up_none_at_another() {
    let bench = Bench::new();
    silent_elsewhere(&bench.world);
    let mut waiting = Vec::new();
    for n in 0..TRIES * 4 {
        waiting.push(start(bench.lock(&format!("elsewhere {n}")).lock().into_future()).await);
    }
    let [at_hand, queued, _] = bench.engine.tries.at(1).free().map(|places| places.available_permits());
    assert_eq!((at_hand, queued), (0, 0));
    let asked = Instant::now();
    bench.lock("here").lock().await.unwrap().unlock().await.unwrap();
    assert_eq!(asked.elapsed(), Duration::ZERO);
    waiting.iter().for_each(JoinHandle::abort);
    bench.world.heal();
    bench.nothing_is_left("elsewhere 0").await;
}

/// That others are answered elsewhere does not make it less silent, and that it is silent makes nobody else wait.
#[tokio::test(start_paused = true)]
async fn whoever_waits_at_a_silent_place_is_told_in_time_while_others_never_wait_for_an_answer() {
    let bench = Bench::new();
    silent_elsewhere(&bench.world);
    let asked = Instant::now();
    let waiting = start(bench.lock("elsewhere").lock().into_future()).await;
    while !waiting.is_finished() && asked.elapsed() < LEASE {
        let asked = Instant::now();
        bench.lock("here").lock().await.unwrap().unlock().await.unwrap();
        assert_eq!(asked.elapsed(), Duration::ZERO);
        sleep(100 * MS).await;
    }
    let told = asked.elapsed();
    let answer = waiting.await.unwrap();
    assert!(matches!(answer, Err(Error::Unreachable { .. })), "{answer:?}");
    assert!((9 * SECOND..12 * SECOND).contains(&told), "{told:?}");
    bench.world.heal();
    bench.nothing_is_left("elsewhere").await;
}
