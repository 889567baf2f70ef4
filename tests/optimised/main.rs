//! What every user's build must do, however it is optimised: the other tests run as they are compiled for tests. `tests/run.sh`
//! compiles the library for this one as a program might.

use std::time::Duration;

use relatch::{Client, EmbeddedStore, Result};

const WATCHDOG: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_for_as_long_as_it_is_held() -> Result<()> {
    let store = EmbeddedStore::new();
    let client = || Client::builder().embedded(&store).watchdog_timeout(WATCHDOG).connect();
    let (holder, other) = (client().await?, client().await?);
    let guard = holder.lock("a").lock().await?;
    for _ in 0..100 {
        tokio::time::sleep(WATCHDOG / 2).await;
        assert!(guard.is_held());
        assert!(other.lock("a").try_lock().await?.is_none());
    }
    guard.unlock().await?;
    // What has an end of its own ends then, and wakes who waits.
    let bounded = holder.lock("a").lock().max_hold(WATCHDOG * 5).await?;
    let next = other.lock("a").lock().await?;
    assert!(bounded.unlock().await.is_err_and(|error| error.is_lost()));
    next.unlock().await?;
    Ok(())
}
