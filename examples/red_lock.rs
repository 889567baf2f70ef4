//! The three known ways in which a lock by majority fails, one after the other, and what helps against each. Everything happens in this
//! process and on a clock of its own:
//!
//! ```text
//! cargo run --example red_lock --features embedded
//! ```

use std::time::Duration;

use relatch::{Client, EmbeddedStore, LockGuard, RedLock};
use tokio::time::sleep;

const LEASE: Duration = Duration::from_secs(30);

/// Three masters, and two processes that know them all.
struct World {
    stores: [EmbeddedStore; 3],
    ann: RedLock,
    ben: RedLock,
    /// Ann's connections, which can be cut one by one.
    of_ann: Vec<Client>,
}

impl World {
    /// For so long a master counts for nothing once it has restarted.
    async fn new(quarantine: Duration) -> relatch::Result<Self> {
        let stores = [EmbeddedStore::new(), EmbeddedStore::new(), EmbeddedStore::new()];
        let (of_ann, of_ben) = (clients(&stores).await?, clients(&stores).await?);
        sleep(2 * LEASE).await; // they have been up for a while
        let red = |clients: &[Client]| RedLock::builder(clients.to_vec()).restart_quarantine(quarantine).build();
        Ok(Self { stores, ann: red(&of_ann)?, ben: red(&of_ben)?, of_ann })
    }

    /// Ann gets the lock from the first two alone: she does not reach the third one at that time.
    async fn ann_by_a_bare_majority(&self) -> relatch::Result<LockGuard> {
        let (third, way) = (&self.stores[2], &self.of_ann[2]);
        third.partition(way)?;
        let guard = self.ann.mutex("desk").lock().await?;
        sleep(Duration::from_secs(5)).await; // what she asked it for is given up by then
        third.heal(way)?;
        Ok(guard)
    }

    async fn ben_tries(&self) -> relatch::Result<Option<LockGuard>> {
        self.ben.mutex("desk").try_lock().await
    }
}

async fn clients(stores: &[EmbeddedStore]) -> relatch::Result<Vec<Client>> {
    let mut clients = Vec::new();
    for store in stores {
        clients.push(Client::builder().embedded(store).connect().await?);
    }
    Ok(clients)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> relatch::Result<()> {
    println!("1. A master restarts without its data.");
    for (quarantine, both) in [(Duration::ZERO, true), (LEASE, false)] {
        let world = World::new(quarantine).await?;
        let ann = world.ann_by_a_bare_majority().await?;
        world.stores[1].restart(); // and forgets that it gave Ann its vote
        let ben = world.ben_tries().await;
        let inside = ben.as_ref().is_ok_and(Option::is_some) && ann.is_held();
        println!("   restart_quarantine {quarantine:?}: {}", told(inside));
        if let Err(error) = &ben {
            let votes = error.votes().unwrap_or_default();
            votes.iter().for_each(|vote| println!("     {vote}"));
        }
        assert_eq!(inside, both);
    }

    println!("2. A process stands still while it holds the lock.");
    let world = World::new(LEASE).await?;
    let ann = world.ann.mutex("desk").lock().await?;
    // Nothing that Ann's process does reaches anybody for a while: what a pause looks like from outside.
    for (store, way) in world.stores.iter().zip(&world.of_ann) {
        store.partition(way)?;
    }
    sleep(2 * LEASE).await;
    let ben = world.ben_tries().await?;
    println!("   Ben has it: {}. Ann's guard says: held {}.", ben.is_some(), ann.is_held());
    println!("   What she writes without looking at it comes late. A fencing token refuses that, and a vote has none.");
    assert!(ben.is_some() && !ann.is_held());

    println!("3. The clock of a master jumps ahead by a lease.");
    for (bare, both) in [(true, true), (false, false)] {
        let world = World::new(LEASE).await?;
        let ann = if bare { world.ann_by_a_bare_majority().await? } else { world.ann.mutex("desk").lock().await? };
        world.stores[1].set_clock_forward(LEASE);
        let ben = world.ben_tries().await?;
        let inside = ben.is_some() && ann.is_held();
        println!("   a hold on {} of three masters: {}", if bare { "two" } else { "all" }, told(inside));
        assert_eq!(inside, both);
    }
    println!("   One jump under a bare majority remains: let clocks be slewed, never stepped.");
    Ok(())
}

fn told(inside: bool) -> &'static str {
    if inside { "both believe that they hold it" } else { "one holds it" }
}
