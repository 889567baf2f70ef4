//! Several locks as one that are several clients': what one of these does, or does not, is borne by the others.

use std::time::Duration;

use relatch::{EmbeddedStore, Error, MultiLock, Released};
use tokio::time::{Instant, sleep, timeout};

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

#[tokio::test(start_paused = true)]
async fn a_wait_is_over_in_time_though_no_lease_can_be_set_when_all_are_there() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let (ours, theirs, other) = (client(&here).await, client(&there).await, client(&there).await);
    let b = other.mutex("b").lock().await.expect("it is free");
    let lock = MultiLock::new([ours.lock("a"), theirs.lock("b")]);
    let began = Instant::now();
    let waiting = tokio::spawn(lock.try_lock().wait(2 * SECOND).lease(100 * SECOND));
    sleep(SECOND).await;
    here.freeze(&ours).expect("it is of this store");
    sleep(SECOND / 2).await;
    b.unlock().await.expect("it is held");
    let error = waiting.await.expect("no panic").expect_err("one of them says nothing");
    assert!(matches!(error, Error::Unreachable { .. }) && error.lock_name() == Some("a"), "{error:?}");
    assert!(began.elapsed() <= 2 * SECOND + Duration::from_millis(400), "{:?}", began.elapsed());
    sleep(SECOND).await;
    assert!(there.is_empty());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_ever_does_so_though_no_lease_could_be_set_for_a_moment() {
    let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
    let (ours, theirs, other) = (client(&here).await, client(&there).await, client(&there).await);
    let b = other.mutex("b").lock().await.expect("it is free");
    let lock = MultiLock::new([ours.lock("a"), theirs.lock("b")]);
    let waiting = tokio::spawn(lock.lock().lease(100 * SECOND));
    sleep(SECOND).await;
    here.freeze(&ours).expect("it is of this store");
    b.unlock().await.expect("it is held");
    // Longer than one command may take.
    sleep(5 * SECOND).await;
    here.thaw(&ours).expect("it is of this store");
    let guard = timeout(60 * SECOND, waiting).await.expect("soon").expect("no panic").expect("all are free");
    assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_one_client_hears_at_once_that_another_ends() {
    for shuts_down in [true, false] {
        let (here, there) = (EmbeddedStore::new(), EmbeddedStore::new());
        let (ours, theirs, other) = (client(&here).await, client(&there).await, client(&there).await);
        let _b = other.mutex("b").lock().await.expect("it is free");
        let waiting = tokio::spawn(MultiLock::new([ours.lock("a"), theirs.lock("b")]).lock());
        sleep(SECOND).await;
        assert_eq!(here.keys(), ["a"]);
        if shuts_down {
            ours.shutdown(SECOND).await;
        } else {
            ours.close().await;
        }
        let answer = timeout(SECOND, waiting).await.expect("at once").expect("no panic");
        assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");
    }
}
