//! Old copies in random orders: whatever a client once sent about a name runs again, in any order and any number, while
//! the client holds it anew. The orders are drawn from a seed, so that a failure can be repeated.

use std::time::Duration;

use redis::Pipeline;
use relatch::{Client, Owner, Released};

use crate::{
    harness::{
        Server,
        proxy::{Event, Proxy, matching::verb},
        unique_name,
    },
    kept::{connected, held, kept, poll_once, teach},
    sent::assert_ends_are_final,
};

const ORDERS: u64 = 1_000;
/// So many of the newest commands are kept for copies, and so many copies run in each order at most.
const REMEMBERED: usize = 24;
const COPIES: usize = 16;
/// After so many orders newer commands take the place of older ones.
const REFRESH: u64 = 10;
/// The lease of the newest hold, and what copies ask for.
const SHORT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(120);

/// A sequence of numbers that depends on nothing but its seed.
struct Chance(u64);

impl Chance {
    /// Less than `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).expect("it is below a usize")
    }
}

/// Everything that was sent about the name since the log was cleared.
fn commands(proxy: &Proxy, name: &str) -> Vec<Vec<Vec<u8>>> {
    let words = |event: &Event| match event {
        Event::Request { words, .. } => Some(words.clone()),
        _ => None,
    };
    proxy.commands_of(name).iter().filter_map(|entry| words(&entry.event)).collect()
}

/// A hold with everything in its life that a client may send about it: a nested one, an extension, a hand-over to another
/// owner, and a forced release of what that one had.
async fn full_life(client: &Client, name: &str) {
    let (lock, one, two) = (client.lock(name), Owner::new(), Owner::new());
    let outer = lock.lock().owner(&one).lease(LONG).await.expect("it is free");
    let inner = lock.lock().owner(&one).lease(LONG).await.expect("it nests");
    inner.unlock().await.expect("it is held");
    outer.extend(LONG).await.expect("it is held");
    let mut waiter = lock.lock().owner(&two).lease(LONG);
    assert!(poll_once(&mut waiter).await.is_pending());
    outer.unlock().await.expect("it is held");
    let second = waiter.await.expect("it is its turn");
    assert!(lock.force_unlock().await.expect("the server answers"));
    assert!(second.unlock().await.is_err());
}

#[tokio::test]
async fn in_a_thousand_orders_no_old_copy_touches_the_hold_of_now() {
    let (server, name, seed) = (Server::shared(), unique_name(), 0x5EED_u64);
    teach(server);
    let proxy = Proxy::to(server);
    let client = connected(Client::builder().url(proxy.url()).handover_slice(Duration::from_secs(60))).await;
    let mut connection = server.async_connection().await;
    let (lock, owner, mut chance) = (client.lock(&name), Owner::new(), Chance(seed));
    full_life(&client, &name).await;
    let mut old = commands(&proxy, &name);
    let mut verbs: Vec<_> = old.iter().filter_map(|words| verb(words)).collect();
    verbs.sort();
    verbs.dedup();
    assert_eq!(verbs, ["acquire", "force_release", "hand_over", "inspect", "release", "renew"]);
    for order in 0..ORDERS {
        if order % 100 == 99 {
            full_life(&client, &name).await;
        }
        // On the free key too, but for acquires: those it is for reaping to deal with.
        let harmless: Vec<_> = old.iter().filter(|words| verb(words).as_deref() != Some("acquire")).collect();
        let mut copies = Pipeline::new();
        for _ in 0..=chance.below(COPIES) {
            add(&mut copies, harmless[chance.below(harmless.len())]);
        }
        copies.query_async::<()>(&mut connection).await.expect("the copies run");
        let guard = lock.try_lock().owner(&owner).lease(SHORT).await.expect("the server answers").expect("it is free");
        let now = held(server, &name);
        assert_eq!(now.count, 1);
        let mut copies = Pipeline::new();
        for _ in 0..=chance.below(COPIES) {
            add(&mut copies, &old[chance.below(old.len())]);
        }
        copies.query_async::<()>(&mut connection).await.expect("the copies run");
        assert_eq!(held(server, &name), now, "seed {seed:#x}, order {order}");
        assert!(guard.is_held());
        assert_eq!(guard.unlock().await.expect("it is held"), Released::Freed, "seed {seed:#x}, order {order}");
        if order % REFRESH == 0 {
            old.extend(commands(&proxy, &name));
            old.drain(..old.len().saturating_sub(REMEMBERED));
            assert_ends_are_final(&proxy);
            proxy.clear_log();
        }
    }
    assert_eq!(kept(server, &name), None);
}

fn add(copies: &mut Pipeline, words: &[Vec<u8>]) {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word);
    }
    copies.add_command(command).ignore();
}
