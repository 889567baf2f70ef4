//! Not waiting, waiting for a while, and a lease that ends by itself. Somebody else having the lock is no error.

use std::{env, error::Error, time::Duration};

use relatch::{Client, Uuid};
use tokio::time::{Instant, sleep};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::connect(&url).await?;
    let name = format!("printer:{}", Uuid::new_v4());

    // Another process, as far as the lock can tell.
    let other = Client::connect(&url).await?;
    let theirs = other.lock(&name).lock().await?;

    let lock = client.lock(&name);
    assert!(lock.try_lock().await?.is_none());
    println!("taken: one try, no wait");

    let asked = Instant::now();
    assert!(lock.try_lock().wait(Duration::from_millis(100)).await?.is_none());
    assert!(asked.elapsed() >= Duration::from_millis(100));
    println!("still taken after a wait of 100 ms");

    let soon = tokio::spawn(async move {
        sleep(Duration::from_millis(100)).await;
        theirs.unlock().await
    });
    // Redisson's tryLock(wait, lease). Nobody renews a fixed lease: it ends even if this process hangs.
    let attempt = lock.try_lock().wait(Duration::from_secs(5)).lease(Duration::from_secs(10));
    let Some(guard) = attempt.await? else { return Err("free, and not ours".into()) };
    println!("ours, for {:.0?}", guard.expires_in().unwrap_or_default());
    soon.await??;

    guard.unlock().await?;
    client.close().await;
    other.close().await;
    Ok(())
}
