//! Several locks as one that are several clients': what one of these does, or does not, is borne by the others.

use std::time::Duration;

use relatch::{EmbeddedStore, Error, MultiLock, Released};
use tokio::time::{sleep, timeout};

use crate::embedded::client;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn those_that_have_two_clients_each_never_wait_for_each_other() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let others = (client(&here).await, client(&there).await);
    for _ in 0..32 {
        let a = others.0.mutex("a").lock().await.expect("it is free");
        let b = others.1.mutex("b").lock().await.expect("it is free");
        // Of each what a process of its own would have.
        let mut waiting = Vec::new();
        for _ in 0..2 {
            let lock = MultiLock::new([client(&there).await.lock("b"), client(&here).await.lock("a")]);
            waiting.push(tokio::spawn(async move { lock.lock().await?.unlock().await }));
        }
        sleep(SECOND).await;
        let (a, b) = tokio::join!(a.unlock(), b.unlock());
        a.and(b).expect("they are held");
        for one in waiting {
            let released = timeout(3600 * SECOND, one).await.expect("it ends").expect("no panic");
            assert_eq!(released.expect("the stores answer"), Released::Freed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn locks_of_one_name_that_several_clients_have_are_taken_as_they_are_named() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let (ours, theirs) = (client(&here).await, client(&there).await);
    for turned in [false, true] {
        let (first, second) = if turned { (&theirs, &ours) } else { (&ours, &theirs) };
        let (busy, free) = if turned { (&here, &there) } else { (&there, &here) };
        let taken = client(busy).await.mutex("a").lock().await.expect("it is free");
        let waiting = tokio::spawn(MultiLock::new([first.lock("a"), second.lock("a")]).lock());
        sleep(SECOND).await;
        assert_eq!(free.keys(), ["a"], "the first is held while the second is waited for");
        taken.unlock().await.expect("it is held");
        let guard = waiting.await.expect("no panic").expect("both are free");
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_left_without_a_guard_is_released_though_one_of_the_clients_is_closed() {
    for closes_first in [true, false] {
        let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
        let (ours, theirs) = (client(&here).await, client(&there).await);
        let lock = MultiLock::new([ours.lock("a"), theirs.lock("b")]);
        let owner = lock.lock().await.expect("all are free").detach();
        let (closed, other) = if closes_first { (&ours, &there) } else { (&theirs, &here) };
        closed.close().await;
        let error = lock.unlock().owner(&owner).await.expect_err("one of them is closed");
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert!(other.is_empty());
    }
}
