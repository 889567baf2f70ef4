//! What a vote leaves at single masters, and what one of them may say for the others: stores in this process, on a paused clock.

use std::time::Duration;

use relatch::{Client, EmbeddedStore, Error, RedLock, Released, embedded::Weather};
use tokio::time::{Instant, sleep};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

fn stores() -> Vec<EmbeddedStore> {
    (0..3).map(|_| EmbeddedStore::new()).collect()
}

async fn clients(stores: &[EmbeddedStore]) -> Vec<Client> {
    let mut clients = Vec::new();
    for store in stores {
        clients.push(Client::builder().embedded(store).connect().await.expect("it connects"));
    }
    clients
}

/// Three masters that are older than a lease.
async fn masters() -> (Vec<EmbeddedStore>, Vec<Client>) {
    let stores = stores();
    let clients = clients(&stores).await;
    sleep(LEASE + SECOND).await;
    (stores, clients)
}

#[tokio::test(start_paused = true)]
async fn a_master_that_is_always_the_slowest_gets_back_what_it_forgot() {
    let (stores, clients) = masters().await;
    stores[2].set_weather(Weather::fair().reply_delay(40 * MS..=40 * MS));
    let guard = RedLock::new(clients).lock("a").lock().await.expect("acquires");
    sleep(SECOND).await;
    stores[2].restart();
    sleep(LEASE / 2).await;
    assert!(!stores[2].is_empty(), "it knows of the hold again");
    assert_eq!(guard.unlock().await.expect("releases"), Released::Freed);
    sleep(SECOND).await;
    assert!(stores[2].is_empty(), "and lets go of it with the others");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_silent_master_does_not_answer_makes_nobody_wait_for_it_again() {
    let (stores, clients) = masters().await;
    let red = RedLock::new(clients.clone());
    stores[2].freeze(&clients[2]).expect("it is this store's");
    let _held = red.lock("a").lock().await.expect("acquires");
    stores[1].steal("b", 100 * LEASE);
    for _ in 0..10 {
        sleep(LEASE / 6).await;
        let asked = Instant::now();
        let taken = red.lock("b").try_lock().await.expect("two of them answer");
        assert!(taken.is_none() && asked.elapsed() < 100 * MS, "{:?}", asked.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_a_silent_master_may_know_of_is_not_said_to_be_free() {
    let (stores, own) = masters().await;
    let guard = RedLock::new(own).lock("a").lock().await.expect("acquires");
    let others = clients(&stores).await;
    let red = RedLock::new(others.clone());
    stores[1].restart();
    assert!(red.lock("a").is_locked().await.expect("two of them know"));
    stores[2].freeze(&others[2]).expect("it is this store's");
    let seen = red.lock("a").is_locked().await;
    assert!(matches!(seen, Err(Error::Unreachable { .. })), "{seen:?}");
    assert!(guard.is_held());
    let asked = Instant::now();
    assert!(!red.lock("b").is_locked().await.expect("two of them know"));
    assert!(asked.elapsed() < 10 * MS, "nobody can have it: {:?}", asked.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_most_masters_forgot_is_let_go_of_where_it_is_still_known() {
    for nests in [false, true] {
        let (stores, clients) = masters().await;
        let lock = RedLock::new(clients).lock("a");
        let guard = lock.lock().await.expect("acquires");
        stores[..2].iter().for_each(EmbeddedStore::restart);
        if nests {
            assert!(lock.try_lock().await.is_err(), "there is nothing to nest in");
        } else {
            assert!(matches!(guard.lost().await, Error::Lost { .. }));
        }
        sleep(SECOND).await;
        assert!(stores[2].is_empty(), "{nests}");
        drop(guard);
    }
}
