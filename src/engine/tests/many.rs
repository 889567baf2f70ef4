//! Renewals of many holds: what leaves together, what waits, and in which order.

use super::{
    super::{inside::Entry, tenure::Tenure},
    *,
};

/// Many holds that were taken in one moment, and all their renewals go through.
async fn many(bench: &Bench, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::with_capacity(count);
    for n in 0..count {
        guards.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    guards
}

/// The server does one call after the other, each for so long, those too that nobody waits for any more: so renewals that
/// leave all at once are given up, and their repetitions stand behind what was given up.
fn one_by_one(world: &World, each: Duration) {
    let mut free = Instant::now();
    world.policy(move |_| {
        let now = Instant::now();
        free = free.max(now) + each;
        Fate::Slow(free - now)
    });
}

/// As many of each as there are holds, which may be very many.
#[test]
fn what_stands_for_a_hold_has_no_room_for_what_is_rare() {
    for (what, room, most) in [
        ("the name's entry", size_of::<Entry>(), 512),
        ("its owner's time with it", size_of::<Tenure>(), 88),
        ("the guard", size_of::<LockGuard>(), 80),
        ("one that there may be", size_of::<Option<LockGuard>>(), 80),
        ("a request for one lock, beside those for several", size_of::<Acquire>(), 328),
        ("a release of one lock, beside those of several", size_of::<Unlock>(), 224),
    ] {
        assert!(room <= most, "{what}: {room} bytes, {most} are enough");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_can_just_do_it_loses_no_hold_of_many_that_are_due_at_once() {
    let bench = Bench::new();
    let guards = many(&bench, 10_000).await;
    // Nine tenths of its time. It was away when they fell due, so none of them could leave early.
    bench.world.unlink();
    sleep(LEASE / 3).await;
    one_by_one(&bench.world, 90 * MS);
    bench.world.relink();
    sleep(LEASE * 10).await;
    assert_eq!(guards.iter().filter(|guard| !guard.is_held()).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_those_are_renewed_first_that_would_be_lost_first() {
    let bench = Bench::new();
    let (world, count) = (&bench.world, 10_000);
    let mut guards = many(&bench, count / 2).await;
    sleep(2 * SECOND).await;
    for n in count / 2..count {
        guards.push(bench.lock(&format!("{n}")).lock().await.unwrap());
    }
    world.unlink();
    // Four seconds before the first half is over: not enough for all.
    sleep(LEASE - 6 * SECOND).await;
    one_by_one(world, 42 * MS);
    world.relink();
    sleep(LEASE / 3).await;
    assert_eq!(guards.iter().filter(|guard| !guard.is_held()).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn batches_are_full_and_holds_of_one_moment_are_renewed_one_batch_after_the_other() {
    let bench = Bench::new();
    let world = &bench.world;
    let guards = many(&bench, 10_000).await;
    sleep(LEASE * 2).await;
    world.forget_record();
    sleep(LEASE / 3).await;
    let sent = world.sent(Verb::Renew);
    assert!(sent.iter().all(|sent| sent.numbers.len() == 100));
    assert!((99..=101).contains(&sent.len()), "{}", sent.len());
    // A tenth of the time for a tenth of the holds, but for those that just fell on its other side.
    for start in 0..10 {
        let (from, part) = (sent[0].at + LEASE / 30 * start, LEASE / 30);
        let renewed = sent.iter().filter(|sent| from <= sent.at && sent.at < from + part).count();
        assert!((8..=12).contains(&renewed), "{renewed} batches in the {start}th part");
    }
    assert!(guards.iter().all(LockGuard::is_held));
}
