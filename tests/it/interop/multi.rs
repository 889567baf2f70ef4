//! Several locks as one on both sides: they keep each other out, also those who take one of them alone, and whoever names them in
//! another order comes to its end.

use std::time::Duration;

use relatch::Released;

use super::{MS, SOON, site::Site};
use crate::{
    harness::unique_name,
    kept::{held, kept},
};

live!(
    Any:
    java_and_rust_keep_each_other_out_of_several_locks_as_one,
    a_waiter_of_either_side_is_in_when_the_last_of_them_is_free,
    java_and_rust_that_name_two_locks_in_two_orders_come_to_their_end;
);

clustered!(
    sharded, Any:
    java_and_rust_that_name_two_locks_in_two_orders_come_to_their_end;
);

const LEASE: Duration = Duration::from_secs(20);
/// What all rounds take at most.
const LONG: Duration = Duration::from_secs(60);

async fn java_and_rust_keep_each_other_out_of_several_locks_as_one(site: &Site) {
    let (java, rust, a, b) = (site.java().await, site.rust().await, unique_name(), unique_name());
    let (theirs, ours) = (java.multi_lock("one", &[&b, &a]), rust.multi_lock([&a, &b]));
    assert!(theirs.try_lock_within_for(Duration::ZERO, LEASE).await.yes());
    for name in [&a, &b] {
        assert!(held(site.server(), name).field.starts_with(java.client()));
        assert!(rust.lock(name).try_lock().await.expect("the server answers").is_none());
    }
    assert!(ours.try_lock().await.expect("the server answers").is_none());
    assert!(theirs.unlock().await.yes());
    let guard = ours.try_lock().wait(SOON).await.expect("the server answers").expect("both are free");
    assert!([&a, &b].iter().all(|name| held(site.server(), name).is_of(&rust)));
    assert!(!theirs.try_lock_within_for(100 * MS, LEASE).await.yes());
    assert!(!java.lock("one", &b).try_lock().await.yes());
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    // One of them is enough.
    let one = java.lock("one", &b);
    assert!(one.lock().await.yes());
    assert!(ours.try_lock().wait(100 * MS).await.expect("the server answers").is_none());
    assert!(kept(site.server(), &a).is_none());
    assert!(one.unlock().await.yes());
}

async fn a_waiter_of_either_side_is_in_when_the_last_of_them_is_free(site: &Site) {
    let (java, rust, a, b) = (site.java().await, site.rust().await, unique_name(), unique_name());
    let (theirs, ours) = (java.multi_lock("one", &[&a, &b]), rust.multi_lock([&a, &b]));
    assert!(theirs.lock().await.yes());
    let waiting = tokio::spawn(ours.lock());
    super::listening(site, if a < b { &a } else { &b }, 1).await;
    assert!(theirs.unlock().await.yes());
    let guard =
        tokio::time::timeout(SOON, waiting).await.expect("it is told").expect("no panic").expect("both are free");
    let waits = theirs.try_lock_within_for(SOON, LEASE);
    super::listening(site, &a, 1).await;
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    assert!(waits.await.yes());
    assert!(theirs.unlock().await.yes());
}

async fn java_and_rust_that_name_two_locks_in_two_orders_come_to_their_end(site: &Site) {
    let (java, rust, one, two) = (site.java().await, site.rust().await, unique_name(), unique_name());
    // Ours are taken in the order of their names, and Java's in the order in which it is told them.
    let (a, b) = if one < two { (one, two) } else { (two, one) };
    let theirs = java.multi_lock("one", &[&b, &a]);
    let java_in_turn = async {
        for _ in 0..5 {
            // It gives up where each side has what the other one waits for, and begins anew.
            while !theirs.try_lock_within_for(300 * MS, LEASE).await.yes() {}
            assert!(theirs.unlock().await.yes());
        }
    };
    let ours = rust.multi_lock([&b, &a]);
    let rust_in_turn = async {
        for _ in 0..20 {
            let guard = ours.lock().await.expect("its turn");
            assert!([&a, &b].iter().all(|name| held(site.server(), name).is_of(&rust)));
            assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
        }
    };
    let both = async { tokio::join!(java_in_turn, rust_in_turn) };
    tokio::time::timeout(LONG, both).await.expect("both come to their end");
}
