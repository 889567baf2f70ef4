//! How fast a lock changes hands between the two sides, on a machine that nobody else uses. The figures are printed.

use std::time::Duration;

use super::{AWAKE, SOON, enter, entered, listening, site::Site};
use crate::{
    harness::{clock::monotonic, lag::Lag, process::Process, unique_name},
    kept::connected,
};

live!(
    NoneForLong:
    a_release_of_either_side_lets_the_other_in_at_once_in_two_hundred_rounds,
    java_gets_its_turn_within_a_few_slices_beside_a_rust_process_that_hands_over_to_itself,
    rust_gets_its_turn_beside_a_java_process_that_takes_the_lock_again_at_once;
);

clustered!(
    sharded, None:
    a_release_of_either_side_lets_the_other_in_at_once_in_two_hundred_rounds;
);
clustered!(
    classic, None:
    a_release_of_either_side_lets_the_other_in_at_once_in_two_hundred_rounds;
);

const ROUNDS: usize = 200;
/// So many slices a waiter elsewhere may have to wait.
const SLICES: u32 = 5;
/// A slice that no pause of the machine reaches: under it every single wait is held to its bound.
const LONG: Duration = Duration::from_millis(120);
/// What a slice is by default: under it all waits together are.
const DEFAULT: Duration = Duration::from_millis(10);
const ENTRIES: u32 = 12;

/// From the call of one side's unlock to the other side's lock in its hands. A lease is 30 s: nobody enters without a
/// message.
async fn a_release_of_either_side_lets_the_other_in_at_once_in_two_hundred_rounds(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let theirs = java.lock("one", &name);
    let (mut to_rust, mut to_java) = (Vec::new(), Vec::new());
    assert!(theirs.lock().await.yes());
    // The first one of each way finds cold code and no connections: it is not counted.
    for _ in 0..=ROUNDS {
        listening(site, &name, 0).await;
        let waiter = enter(&rust, &name);
        listening(site, &name, 1).await;
        let lag = Lag::watch();
        let released = theirs.unlock().await.began;
        let (guard, at) = entered(waiter).await;
        to_rust.push((at - released, lag.added_to(AWAKE)));

        listening(site, &name, 0).await;
        let waiting = theirs.lock();
        listening(site, &name, 1).await;
        let (lag, released) = (Lag::watch(), monotonic());
        guard.unlock().await.expect("it is held");
        to_java.push((waiting.within(SOON).await.ended - released, lag.added_to(AWAKE)));
    }
    assert!(theirs.unlock().await.yes());
    for (way, times) in [("java to rust", &mut to_rust), ("rust to java", &mut to_java)] {
        times.remove(0);
        times.sort();
        // The nearest rank: so many of a hundred are no longer than this.
        let at = |part: usize| times[(times.len() * part).div_ceil(100) - 1].0;
        let [half, nearly_all, longest] = [at(50), at(99), at(100)];
        println!("{way}, {ROUNDS} rounds: p50 {half:?}, p99 {nearly_all:?}, longest {longest:?}");
        // Each by the pauses of the machine in its own round.
        let late = times.iter().filter(|(took, bound)| took > bound).count();
        assert!(late <= times.len() / 100, "{way}, {late} late ones: {times:?}");
    }
}

async fn java_gets_its_turn_within_a_few_slices_beside_a_rust_process_that_hands_over_to_itself(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let theirs = java.lock("one", &name);
    for slice in [LONG, DEFAULT] {
        let slice_ms = slice.as_millis().to_string();
        let mut busy = Process::spawn("go_round", &[&site.url(), &name, &slice_ms, "FullQueue"]);
        busy.hear();
        let (mut waits, mut bounds) = (Vec::new(), Vec::new());
        for entry in 0..ENTRIES {
            // At other points of their slices every time.
            tokio::time::sleep(slice * (3 + 7 * entry % 20) / 10).await;
            let lag = Lag::watch();
            waits.push(theirs.lock().await.took());
            bounds.push(lag.added_to(SLICES * slice));
            assert!(theirs.unlock().await.yes());
        }
        busy.kill();
        // Whoever held it then, if somebody did, is gone, and nobody waits for its lease here.
        let _somebody_did = theirs.force_unlock().await.yes();
        let (longest, all): (_, Duration) = (waits.iter().max(), waits.iter().sum());
        println!("slices of {slice:?}: Java waited {:?} on average, {longest:?} at most", all / ENTRIES);
        if slice == LONG {
            assert!(waits.iter().zip(&bounds).all(|(wait, bound)| wait <= bound), "{waits:?} of {bounds:?}");
        }
        assert!(all <= bounds.iter().sum(), "{waits:?} of {bounds:?}");
    }
}

/// Redisson has no slices: each release is a race between its own threads and us, so that all that is asked is to win one.
async fn rust_gets_its_turn_beside_a_java_process_that_takes_the_lock_again_at_once(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let rust = connected(site.builder()).await;
    let busy = ["one", "two", "three", "four"].map(|thread| java.lock(thread, &name).again(u32::MAX, Duration::ZERO));
    let mut waits = Vec::new();
    for _ in 0..ENTRIES {
        let asked = monotonic();
        // Two of ours, so that it is handed over in here as well.
        let (one, other) = (enter(&rust, &name), enter(&rust, &name));
        for waiter in [one, other] {
            let (guard, at) = entered(waiter).await;
            waits.push(at - asked);
            guard.unlock().await.expect("it is held");
        }
    }
    java.kill();
    drop(busy);
    // The one that was in there is gone.
    rust.lock(&name).force_unlock().await.expect("the server answers");
    let all: Duration = waits.iter().sum();
    println!("Rust waited {:?} on average, {:?} at most", all / (2 * ENTRIES), waits.iter().max());
}
