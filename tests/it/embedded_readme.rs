//! A test as the README shows it: the same text stands there.

#[cfg(test)]
#[tokio::test(start_paused = true)]
async fn an_invoice_is_sent_by_one_replica() -> relatch::Result<()> {
    let store = relatch::EmbeddedStore::new();
    let replica = || relatch::Client::builder().embedded(&store).connect();
    let (one, other) = (replica().await?, replica().await?);
    let guard = one.lock("invoice:17").lock().await?;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await; // renewed all the while, in no time
    assert!(other.lock("invoice:17").try_lock().await?.is_none());
    guard.unlock().await?;
    Ok(())
}
