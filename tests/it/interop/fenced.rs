//! Fenced locks of both sides on one name: they keep each other out, and one counter gives all of them their tokens.

use super::{SOON, site::Site};
use crate::harness::unique_name;

live!(
    Any:
    java_and_rust_in_turn_have_growing_tokens,
    a_waiter_of_either_side_has_a_greater_token_than_the_holder_it_waited_for;
);

clustered!(
    sharded, Any:
    java_and_rust_in_turn_have_growing_tokens,
    a_waiter_of_either_side_has_a_greater_token_than_the_holder_it_waited_for;
);

/// It stays when the lock is free.
fn forget_tokens(site: &Site, name: &str) {
    site.server().delete(&format!("redisson_lock_token:{{{name}}}"));
}

async fn java_and_rust_in_turn_have_growing_tokens(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, ours) = (java.fenced_lock("one", &name), rust.fenced_lock(&name));
    for round in 0..10 {
        assert!(theirs.lock().await.yes());
        assert_eq!(theirs.token().await.number(), 2 * round + 1);
        assert!(ours.try_lock().await.expect("the server answers").is_none());
        assert!(theirs.unlock().await.yes());
        let guard = ours.lock().await.expect("it is free");
        assert_eq!(guard.fence().map(i64::try_from), Some(Ok(2 * round + 2)));
        assert!(!theirs.try_lock().await.yes());
        let inner = ours.lock().await.expect("it nests");
        assert_eq!(inner.fence(), guard.fence());
        inner.unlock().await.expect("it is held");
        guard.unlock().await.expect("it is held");
    }
    forget_tokens(site, &name);
}

async fn a_waiter_of_either_side_has_a_greater_token_than_the_holder_it_waited_for(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, ours) = (java.fenced_lock("one", &name), rust.fenced_lock(&name));
    assert!(theirs.lock().await.yes());
    let waiting = tokio::spawn(ours.lock());
    super::listening(site, &name, 1).await;
    assert!(theirs.unlock().await.yes());
    let guard = tokio::time::timeout(SOON, waiting).await.expect("it is told").expect("no panic").expect("it is free");
    assert_eq!(guard.fence(), Some(2));
    let waits = theirs.lock();
    super::listening(site, &name, 1).await;
    guard.unlock().await.expect("it is held");
    assert!(waits.within(SOON).await.yes());
    assert_eq!(theirs.token().await.number(), 3);
    assert!(theirs.unlock().await.yes());
    forget_tokens(site, &name);
}
