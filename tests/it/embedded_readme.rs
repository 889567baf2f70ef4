//! A service as the README tests it: the same text stands there.

use relatch::Client;

/// Sends an invoice, unless another replica is at it.
pub async fn send_invoice(client: &Client, number: u64) -> relatch::Result<bool> {
    let lock = client.lock(format!("invoice:{number}"));
    let Some(guard) = lock.try_lock().await? else { return Ok(false) };
    tokio::time::sleep(std::time::Duration::from_secs(600)).await; // the mail server is slow today
    guard.unlock().await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use relatch::{Client, EmbeddedStore, Result};

    use super::send_invoice;

    #[tokio::test(start_paused = true)]
    async fn an_invoice_is_sent_by_one_replica() -> Result<()> {
        let store = EmbeddedStore::new();
        let one = Client::builder().embedded(&store).connect().await?;
        let other = Client::builder().embedded(&store).connect().await?;

        let (first, second) = tokio::join!(send_invoice(&one, 17), send_invoice(&other, 17));
        assert!(first? && !second?);
        assert!(store.is_empty());
        Ok(())
    }
}
