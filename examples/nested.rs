//! Functions that lock what they need, and may call each other: the reason for a reentrant lock.

use std::{env, error::Error};

use relatch::{Client, Released, Uuid};

/// Moves money, so it needs the account to itself.
async fn withdraw(client: &Client, account: &str, cents: u64) -> relatch::Result<()> {
    let guard = client.lock(account).lock().await?;
    println!("withdraw {cents}: held {} times", guard.hold_count());
    guard.unlock().await?;
    Ok(())
}

/// Needs it to itself for both steps. Were the lock not reentrant, the second `lock` would wait for ever.
async fn withdraw_with_fee(client: &Client, account: &str, cents: u64) -> relatch::Result<Released> {
    let guard = client.lock(account).lock().await?;
    withdraw(client, account, cents).await?;
    withdraw(client, account, 35).await?;
    // Nobody came in between: the inner releases left our hold in place.
    guard.unlock().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let client = Client::connect(url).await?;
    let account = format!("account:{}", Uuid::new_v4());

    let released = withdraw_with_fee(&client, &account, 10_000).await?;
    assert_eq!(released, Released::Freed);
    assert!(!client.lock(&account).is_locked().await?);
    println!("free again");

    client.close().await;
    Ok(())
}
