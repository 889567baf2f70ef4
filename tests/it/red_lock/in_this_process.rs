//! One lock over masters that know nothing of each other: stores in this process.

use std::time::Duration;

use relatch::{Client, EmbeddedStore, Error, RedLock, Released};
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

async fn masters(count: usize) -> (Vec<EmbeddedStore>, Vec<Client>) {
    let stores: Vec<_> = (0..count).map(|_| EmbeddedStore::new()).collect();
    let mut clients = Vec::new();
    for store in &stores {
        clients.push(Client::builder().embedded(store).connect().await.expect("it connects"));
    }
    sleep(LEASE + SECOND).await;
    (stores, clients)
}

#[tokio::test(start_paused = true)]
async fn two_of_them_exclude_each_other_and_the_end_of_one_s_turn_wakes_the_other() {
    let (_stores, clients) = masters(3).await;
    let (ann, ben) = (RedLock::new(clients.clone()), RedLock::new(clients));
    let guard = ann.lock("a").lock().await.expect("acquires");
    assert!(ben.lock("a").try_lock().await.expect("answers").is_none());
    let waits = tokio::spawn(async move {
        let guard = ben.lock("a").lock().await.expect("acquires");
        (guard, Instant::now())
    });
    sleep(SECOND).await;
    let released = Instant::now();
    assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);
    let (guard, entered) = waits.await.expect("no panic");
    assert!(entered - released < 50 * MS, "{:?}", entered - released);
    assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);
}

#[tokio::test(start_paused = true)]
async fn without_masters_it_says_so_at_the_first_use() {
    let red = RedLock::new([]);
    let refused = red.lock("a").lock().await;
    assert!(matches!(refused, Err(Error::Invalid { what: "clients", .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_given_twice_is_refused() {
    let store = EmbeddedStore::new();
    let (one, two) = (
        Client::builder().embedded(&store).connect().await.expect("it connects"),
        Client::builder().embedded(&store).connect().await.expect("it connects"),
    );
    let refused = RedLock::new([one.clone(), two]).lock("a").lock().await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let refused = RedLock::new([one.clone(), one]).lock("a").lock().await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_for_an_hour_and_nests() {
    let (_stores, clients) = masters(3).await;
    let red = RedLock::new(clients);
    let lock = red.lock("a");
    let guard = lock.lock().await.expect("acquires");
    sleep(Duration::from_secs(3600)).await;
    assert!(guard.is_held());
    let inner = lock.lock().await.expect("nests");
    assert_eq!(inner.unlock().await.expect("releases"), Released::StillHeld(1));
    assert!(lock.is_locked().await.expect("answers"));
    assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);
    assert!(!lock.is_locked().await.expect("answers"));
    for view in red.survey("a").await {
        assert!(view.held.expect("answers").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn young_masters_say_so() {
    let (_stores, clients) = {
        let stores: Vec<_> = (0..3).map(|_| EmbeddedStore::new()).collect();
        let mut clients = Vec::new();
        for store in &stores {
            clients.push(Client::builder().embedded(store).connect().await.expect("it connects"));
        }
        (stores, clients)
    };
    let red = RedLock::new(clients);
    let refused = red.lock("a").try_lock().await.expect_err("they are young");
    let votes = refused.votes().expect("each has its word");
    assert_eq!(votes.len(), 3, "{refused:?}");
    let guard = red.lock("a").lock().await;
    println!("{guard:?} {refused:#?}");
}
