//! Branches of one task are one owner, so a reentrant lock does not keep them apart. Three ways to make them several.

use std::{cell::Cell, env, error::Error, time::Duration};

use relatch::{Client, LockGuard, Owner, Uuid};
use tokio::time::sleep;

/// What must not be used by two at a time.
#[derive(Default)]
struct Desk {
    taken: Cell<bool>,
}

impl Desk {
    async fn work(&self) {
        assert!(!self.taken.replace(true), "two at one desk");
        sleep(Duration::from_millis(20)).await;
        self.taken.set(false);
    }

    async fn work_and_leave(&self, guard: LockGuard) -> relatch::Result<()> {
        self.work().await;
        guard.unlock().await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::connect(url).await?;
    let name = format!("desk:{}", Uuid::new_v4());
    let desk = Desk::default();

    // What goes wrong: both branches are the same owner. Two acquisitions at once are refused, since one of them would
    // enter the other's section. (One after the other they nest, which is what a function's caller wants.)
    let lock = client.lock(&name);
    let (first, second) = tokio::join!(lock.lock(), lock.lock());
    for refused in [first.as_ref().err(), second.as_ref().err()].into_iter().flatten() {
        println!("one owner:  {refused}");
    }
    assert!(first.is_ok() != second.is_ok());
    for guard in [first, second].into_iter().flatten() {
        guard.unlock().await?;
    }

    // 1. A mutex, where nothing nests: every acquisition is an owner.
    let mutex = client.mutex(&name);
    let branch = async || desk.work_and_leave(mutex.lock().await?).await;
    tokio::try_join!(branch(), branch())?;
    println!("mutex:      one after the other");

    // 2. A scope, where the branch calls functions that lock again: they are all the scope's owner.
    let branch = async || {
        let outer = client.lock(&name).lock().await?;
        let inner = client.lock(&name).lock().await?;
        assert_eq!(inner.hold_count(), 2);
        inner.unlock().await?;
        desk.work_and_leave(outer).await
    };
    tokio::try_join!(Owner::new().scope(branch()), Owner::new().scope(branch()))?;
    println!("scope:      one after the other, each nested");

    // 3. An owner for a single acquisition.
    let branch = async || desk.work_and_leave(client.lock(&name).lock().owner(&Owner::new()).await?).await;
    tokio::try_join!(branch(), branch())?;
    println!("owner:      one after the other");

    client.close().await;
    Ok(())
}
