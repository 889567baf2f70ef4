//! Work that must not go on without its lock: `protect` for a future, the token for everything that a future cannot
//! stop.

use std::{env, error::Error, thread, time::Duration};

use relatch::{CancellationToken, Client, Error as LockError, LostCause, Uuid};
use tokio::{task::spawn_blocking, time::sleep};

/// Blocking code has no await at which it could be dropped, so it has to look.
fn crunch(stop: &CancellationToken) -> Option<u64> {
    let mut sum = 0;
    for part in 0..1_000 {
        if stop.is_cancelled() {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
        sum += part;
    }
    Some(sum)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::connect(url).await?;
    let lock = client.lock(format!("report:{}", Uuid::new_v4()));

    // In time: the result comes through.
    let guard = lock.lock().await?;
    let pages = guard
        .protect(async {
            sleep(Duration::from_millis(20)).await;
            17
        })
        .await?;
    println!("{pages} pages");
    guard.unlock().await?;

    // Never longer than this, renewals and all. Whatever comes later is not returned, since somebody else may be inside.
    let guard = lock.lock().max_hold(Duration::from_millis(200)).await?;
    let (stop, too_long) = (guard.cancellation(), sleep(Duration::from_secs(60)));
    let crunching = spawn_blocking(move || crunch(&stop));
    match guard.protect(too_long).await {
        Err(error @ LockError::Lost { cause: LostCause::MaxHold, .. }) => println!("stopped: {error}"),
        other => return Err(format!("not stopped: {other:?}").into()),
    }
    assert_eq!(crunching.await?, None);
    println!("the blocking part saw the token");

    client.close().await;
    Ok(())
}
