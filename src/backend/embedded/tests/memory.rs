//! Since when a store remembers, as tests have it forget.

use tokio::time::advance;

use super::*;
use crate::{
    backend::Memory,
    embedded::{EmbeddedStore, Forget, Rival},
};

const SECOND: Duration = Duration::from_secs(1);

fn client(store: &EmbeddedStore, id: u128) -> EmbeddedBackend {
    store.open(Uuid::from_u128(id), TIMEOUT).unwrap()
}

fn since(client: &EmbeddedBackend, key: &str) -> Instant {
    match client.remembers_since(key) {
        Some(Memory::Since(since)) => since,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_remembers_since_it_was_made_and_since_it_came_back_with_nothing() {
    let (store, made) = (EmbeddedStore::new(), Instant::now());
    advance(10 * SECOND).await;
    let clients = [client(&store, 1), client(&store, 2)];
    advance(10 * SECOND).await;
    clients[0].ask_memory().await;
    assert_eq!(clients.each_ref().map(|client| since(client, "k")), [made; 2]);
    store.restart();
    advance(10 * SECOND).await;
    assert_eq!(clients.each_ref().map(|client| since(client, "k")), [made + 20 * SECOND; 2]);
}

#[test]
fn a_store_that_was_made_outside_of_its_runtime_is_no_younger_than_its_first_client() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let began = runtime.block_on(async { Instant::now() });
    thread::sleep(MS);
    let store = EmbeddedStore::new();
    runtime.block_on(async {
        assert_eq!(since(&client(&store, 1), "k"), began);
    });
}

#[tokio::test(start_paused = true)]
async fn a_master_remembers_since_it_took_over_and_the_one_before_it_for_whoever_is_there_yet() {
    let (store, made) = (EmbeddedStore::new().with_nodes(2), Instant::now());
    let (here, there) = (client(&store, 1), client(&store, 2));
    let keys = [0, 1].map(|node| (0..).map(|n: u32| n.to_string()).find(|key| store.node_of(key) == node).unwrap());
    advance(10 * SECOND).await;
    store.fail_over(0, Forget::Nothing, Rival::Lives(60 * SECOND)).unwrap();
    store.store.with(|network| network.cut(Uuid::from_u128(2)));
    sleep(10 * SECOND).await;
    assert_eq!([&here, &there].map(|client| since(client, &keys[0])), [made, made + 10 * SECOND]);
    assert_eq!([&here, &there].map(|client| since(client, &keys[1])), [made; 2]);
    sleep(60 * SECOND).await;
    assert_eq!(since(&here, &keys[0]), made + 10 * SECOND);
    store.migrate(&keys[1], SECOND).unwrap();
    assert_eq!(since(&here, &keys[1]), made + 80 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_store_know_that_it_is_one() {
    let stores = [EmbeddedStore::new(), EmbeddedStore::new().with_nodes(2)];
    let identities = [(0, 1), (0, 2), (1, 1)].map(|(store, id)| client(&stores[store], id).identities());
    assert!(identities[0] == identities[1] && identities[0].len() == 1);
    assert!(identities[2].iter().all(|one| !identities[0].contains(one)) && identities[2].len() == 1);
}
