//! Names, keys and channels: both sides derive the same ones, whatever a name looks like, and what either side writes
//! besides belongs to it alone.

use std::{collections::BTreeSet, time::Duration};

use super::{MS, SOON, channel, enter, entered, listening, site::Site};
use crate::{
    harness::{
        asleep::asleep_by,
        clock::{monotonic, wall},
        eventually_async,
        monitor::Ran,
        unique_name,
    },
    kept::{connected, held},
};

live!(
    Any:
    a_lock_is_the_same_lock_on_both_sides_whatever_its_name_looks_like,
    a_prefix_of_ours_is_a_name_mapper_of_redissons,
    what_either_side_writes_beside_a_shared_lock_is_a_key_of_its_own,
    a_fair_lock_of_redissons_is_kept_out_by_ours_of_the_same_name_and_keeps_it_out;
);

const LEASE: Duration = Duration::from_millis(1500);

const NAMES: [&str; 9] =
    ["plain", "{tag}x", "a{b}c", "zażółć-鍵-🔒", "orders:17:eu", "with two spaces", " at the ends ", "a}b", "\"q\"\\"];

async fn a_lock_is_the_same_lock_on_both_sides_whatever_its_name_looks_like(site: &Site) {
    let (java, rust) = (site.java().await, site.rust().await);
    for name in NAMES {
        let (one, two, ours) = (java.lock("one", name), java.lock("two", name), rust.lock(name));
        assert!(one.lock().await.yes());
        assert_eq!(site.keys(), [name]);
        assert!(ours.try_lock().await.expect("the server answers").is_none(), "{name:?}");
        let waiter = enter(&rust, name);
        // A channel of another name would have another listener.
        listening(site, name, 1).await;
        assert!(one.unlock().await.yes());
        let (guard, _) = entered(waiter).await;
        assert_eq!(site.server().hash(name).len(), 1, "{name:?}");
        assert!(!two.try_lock().await.yes(), "{name:?}");
        listening(site, name, 0).await;
        let waiting = two.lock();
        listening(site, name, 1).await;
        guard.unlock().await.expect("it is held");
        assert!(waiting.within(SOON).await.yes());
        assert!(two.unlock().await.yes());
    }
}

async fn a_prefix_of_ours_is_a_name_mapper_of_redissons(site: &Site) {
    let java = site.java_with(&[("prefix", "app:")]).await;
    let rust = connected(site.builder().name_prefix("app:")).await;
    for name in ["job", "{job}x"] {
        let theirs = java.lock("one", name);
        assert!(theirs.lock().await.yes());
        assert_eq!(site.keys(), [format!("app:{name}")]);
        let waiter = enter(&rust, name);
        listening(site, &format!("app:{name}"), 1).await;
        assert!(theirs.unlock().await.yes());
        let (guard, _) = entered(waiter).await;
        assert!(!theirs.try_lock().await.yes());
        guard.unlock().await.expect("it is held");
    }
}

/// The keys that somebody wrote, besides this one; what writes, and which of its words are keys, the server knows.
fn written(site: &Site, ran: &[Ran], client: &str, besides: &str) -> BTreeSet<String> {
    let mut server = site.server().connection();
    let asked = redis::cmd("COMMAND").arg(&["LIST", "FILTERBY", "ACLCAT", "write"]).query(&mut server);
    let writes: BTreeSet<String> = asked.expect("the server knows its commands");
    let mut keys_of = |ran: &Ran| -> Vec<String> {
        redis::cmd("COMMAND").arg("GETKEYS").arg(&ran.words).query(&mut server).expect("what writes has keys")
    };
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
    let mut script_is_theirs = false;
    let mut keys = BTreeSet::new();
    for ran in ran {
        if !ran.by_script {
            // A script's own commands come after the command that ran it.
            script_is_theirs = ran.words.iter().any(|word| text(word).starts_with(client));
        }
        if writes.contains(&ran.name().to_lowercase()) && (script_is_theirs || !ran.by_script) {
            keys.extend(keys_of(ran).into_iter().filter(|key| key != besides));
        }
    }
    keys
}

async fn what_either_side_writes_beside_a_shared_lock_is_a_key_of_its_own(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (theirs, fair) = (java.lock("one", &name), format!("{name}:fair"));
    let monitor = site.server().monitor();
    let guard = rust.lock(&name).lock().await.expect("it is free");
    let nested = rust.lock(&name).lock().await.expect("it is ours");
    let waiting = theirs.lock();
    listening(site, &name, 1).await;
    nested.unlock().await.expect("it is held");
    guard.unlock().await.expect("it is held");
    assert!(waiting.await.yes());
    let ours = written(site, &monitor.take(), &rust.id().to_string(), &name);
    assert_eq!(ours, BTreeSet::new(), "we write the lock's key and no other");

    let waiter = enter(&rust, &name);
    listening(site, &name, 1).await;
    // A fair lock beside it, with a queue and deadlines.
    let (first, second) = (java.fair_lock("two", &fair), java.fair_lock("three", &fair));
    assert!(first.lock().await.yes());
    let queued = second.lock();
    let queue = format!("redisson_lock_queue:{{{fair}}}");
    eventually_async(SOON, async || site.server().keys().contains(&queue)).await;
    assert!(theirs.unlock().await.yes());
    assert!(first.unlock().await.yes());
    assert!(queued.await.yes());
    assert!(second.unlock().await.yes());
    drop(entered(waiter).await);
    let theirs = written(site, &monitor.take(), java.client(), &name);
    let known = [fair.clone(), queue, format!("redisson_lock_timeout:{{{fair}}}")];
    let latches = [&name, &fair].map(|name| format!("redisson_unlock_latch:{{{name}}}:"));
    for key in &theirs {
        let is_latch = latches.iter().any(|latch| key.starts_with(latch));
        assert!(is_latch || known.contains(key), "{key}");
        assert_ne!(*key, channel(&name));
    }
    assert!(known.iter().all(|key| theirs.contains(key)), "{theirs:?}");
}

/// One name, one kind of lock, is what users are told: with two it is safe, and nobody is woken before the TTL is over.
async fn a_fair_lock_of_redissons_is_kept_out_by_ours_of_the_same_name_and_keeps_it_out(site: &Site) {
    let (java, rust, name) = (site.java().await, site.rust().await, unique_name());
    let (fair, ours) = (java.fair_lock("one", &name), rust.lock(&name));
    // The server knows the script from here on.
    assert!(fair.lock().await.yes() && fair.unlock().await.yes());
    let guard = ours.lock().lease(LEASE).await.expect("it is free");
    let ends = monotonic() + held(site.server(), &name).expires.saturating_sub(wall());
    let refused = fair.try_lock().await;
    assert!(!refused.yes());
    let monitor = site.server().monitor();
    let mut waiting = fair.lock();
    // It asks, listens, and asks once more before it sleeps.
    let owner = format!("{}:{}", java.client(), refused.tid);
    let asks = |ran: &Ran| !ran.by_script && ran.name() == "EVALSHA" && ran.mentions(&owner);
    eventually_async(SOON, async || monitor.ran().iter().filter(|ran| asks(ran)).count() == 2).await;
    assert!(waiting.is_pending() && guard.is_held());
    guard.unlock().await.expect("it is held");
    assert!(waiting.within(SOON).await.ended + 2 * MS >= ends);
    assert!(ours.try_lock().await.expect("the server answers").is_none());
    assert!(fair.unlock().await.yes());

    assert!(fair.lock_for(3 * LEASE).await.yes());
    let ends = monotonic() + held(site.server(), &name).expires.saturating_sub(wall());
    let monitor = site.server().monitor();
    let waiter = enter(&rust, &name);
    asleep_by(&monitor, &channel(&name), |ran| !ran.by_script && ran.name() == "EVALSHA" && ran.mentions(&name)).await;
    assert!(fair.unlock().await.yes());
    let (guard, at) = entered(waiter).await;
    assert!(at + 2 * MS >= ends);
    guard.unlock().await.expect("it is held");
}
