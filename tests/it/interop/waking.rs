//! How a lock changes hands between the two sides: by a message where there is one, else when the TTL that was seen is
//! over. How fast is in `speed.rs`.

use std::{task::Poll, time::Duration};

use relatch::Lease;

use super::{AWAKE, EXPIRED, SOON, STIRRED, assert_prompt, listening, site::Site};
use crate::{
    harness::{
        clock::{monotonic, wall},
        lag::Lag,
        monitor::Ran,
        unique_name,
    },
    kept::{connected, held, poll_once},
};

live!(
    None:
    a_lock_that_is_passed_on_inside_rust_stays_as_it_is_for_java_which_enters_at_the_release,
    a_hand_over_inside_rust_is_unseen_by_java_which_enters_at_the_next_message,
    a_hand_over_inside_rust_to_a_holder_that_lets_its_lease_run_out_lets_java_in_when_that_is_over;
);

clustered!(
    sharded, NoneForLong:
    a_lock_that_is_passed_on_inside_rust_stays_as_it_is_for_java_which_enters_at_the_release,
    a_hand_over_inside_rust_is_unseen_by_java_which_enters_at_the_next_message,
    a_hand_over_inside_rust_to_a_holder_that_lets_its_lease_run_out_lets_java_in_when_that_is_over;
);

clustered!(
    classic, NoneForLong:
    a_lock_that_is_passed_on_inside_rust_stays_as_it_is_for_java_which_enters_at_the_release,
    a_hand_over_inside_rust_is_unseen_by_java_which_enters_at_the_next_message,
    a_hand_over_inside_rust_to_a_holder_that_lets_its_lease_run_out_lets_java_in_when_that_is_over;
);

const LEASE: Duration = Duration::from_millis(1500);

/// From one watchdog to the next, which is the plain `lock()`: nothing is sent, and the hold is the same one.
async fn a_lock_that_is_passed_on_inside_rust_stays_as_it_is_for_java_which_enters_at_the_release(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let rust = connected(site.builder().handover_slice(Duration::from_secs(60))).await;
    let (theirs, ours) = (java.lock("one", &name), rust.mutex(&name));
    let first = ours.lock().await.expect("it is free");
    let mut successor = ours.lock();
    assert!(poll_once(&mut successor).await.is_pending(), "it waits inside of this process");
    let mut waiting = theirs.lock();
    listening(site, &name, 1).await;
    let before = held(site.server(), &name);
    assert!(before.is_of(&rust));
    let monitor = site.server().monitor();
    first.unlock().await.expect("it is held");
    let second = tokio::time::timeout(SOON, successor).await.expect("it is its turn").expect("it is passed on");
    let ran = monitor.ran();
    let id = rust.id().to_string();
    let ours = |ran: &&Ran| ran.words.iter().any(|word| word.starts_with(id.as_bytes())) || ran.name() == "PUBLISH";
    assert_eq!(ran.iter().find(ours), None, "nothing is sent");
    assert_eq!(held(site.server(), &name), before);
    assert!(waiting.is_pending() && second.is_held());
    let released = monotonic();
    second.unlock().await.expect("it is held");
    assert_prompt(released, waiting.within(SOON).await.ended, STIRRED);
    assert!(theirs.unlock().await.yes());
}

async fn a_hand_over_inside_rust_is_unseen_by_java_which_enters_at_the_next_message(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let rust = connected(site.builder().handover_slice(Duration::from_secs(60))).await;
    let (theirs, ours) = (java.lock("one", &name), rust.mutex(&name));
    let first = ours.lock().lease(LEASE).await.expect("it is free");
    let before = held(site.server(), &name);
    let mut successor = ours.lock().lease(2 * LEASE);
    assert!(poll_once(&mut successor).await.is_pending(), "it waits inside of this process");
    let mut waiting = theirs.lock();
    listening(site, &name, 1).await;
    let messages = site.server().count("publish");
    first.unlock().await.expect("it is held");
    let second = successor.await.expect("it is handed over");
    let after = held(site.server(), &name);
    assert!(after.field != before.field && after.is_of(&rust), "the owner is another one");
    assert_eq!(site.server().count("publish"), messages);
    // Java's timer for the first holder's TTL goes off, and finds the second.
    tokio::time::sleep(before.expires.saturating_sub(wall()) + EXPIRED).await;
    assert!(waiting.is_pending() && second.is_held());
    assert_eq!(held(site.server(), &name), after);
    let (lag, released) = (Lag::watch(), monotonic());
    second.unlock().await.expect("it is held");
    assert_prompt(released, waiting.await.ended, lag.added_to(AWAKE));
    assert!(theirs.unlock().await.yes());
}

async fn a_hand_over_inside_rust_to_a_holder_that_lets_its_lease_run_out_lets_java_in_when_that_is_over(site: &Site) {
    let (java, name) = (site.java().await, unique_name());
    let rust = connected(site.builder().handover_slice(Duration::from_secs(60))).await;
    let (theirs, ours) = (java.lock("one", &name), rust.mutex(&name));
    // The TTL that Java saw is the longer one, of which it is told, or the shorter one.
    for its_lease in [LEASE / 3, LEASE + LEASE / 3] {
        let first = ours.lock().lease(LEASE).await.expect("it is free");
        let mut successor = ours.lock().lease(Lease::Fixed(its_lease));
        assert!(matches!(poll_once(&mut successor).await, Poll::Pending));
        let mut waiting = theirs.lock();
        listening(site, &name, 1).await;
        first.unlock().await.expect("it is held");
        let second = successor.await.expect("it is handed over");
        let ends = held(site.server(), &name).expires;
        let (lag, now) = (Lag::watch(), (wall(), monotonic()));
        assert!(waiting.is_pending());
        let entered = waiting.await.ended;
        assert!(!second.is_held(), "nobody holds together with somebody else");
        let free = now.1 + ends.saturating_sub(now.0);
        assert_prompt(free, entered, lag.added_to(if its_lease < LEASE { AWAKE } else { EXPIRED }));
        assert!(theirs.unlock().await.yes());
    }
}
