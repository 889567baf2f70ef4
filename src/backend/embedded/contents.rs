//! What a store has, seen from outside: no look is a command, and nothing happens by it.

use super::{network::Network, store::EmbeddedStore};

impl EmbeddedStore {
    /// Every key that lives, in order. A lock that is held has one: its name, behind the client's prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).name_prefix("billing:").connect().await?;
    /// let guard = client.lock("invoice").lock().await?;
    /// assert_eq!(store.keys(), ["billing:invoice"]);
    /// guard.unlock().await?;
    /// assert!(store.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.store.read(Network::keys);
        keys.sort_unstable();
        keys
    }

    /// The fields of a hash and their values, in the order in which HGETALL has them; none where there is no such hash, or
    /// none any more. A lock that is held is one: its field is the hold, whose value is how often it is held.
    ///
    /// A look from outside: it is no command of any client, no weather befalls it, and nothing happens by it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let guard = client.lock("report").lock().await?;
    /// let [(holder, count)] = &store.hash("report")[..] else { panic!("one hold has it") };
    /// assert!(holder.starts_with(&client.id().to_string()) && count == "1");
    /// guard.unlock().await?;
    /// assert!(store.hash("report").is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hash(&self, key: impl AsRef<str>) -> Vec<(String, String)> {
        self.store.read(|network| network.hash(key.as_ref()))
    }

    /// What a string key has, as text; `None` where there is no such key, or none any more. The counter of a
    /// [fenced lock](crate::FencedLock) is one.
    ///
    /// A look from outside, as [`hash`](Self::hash).
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// client.fenced_lock("account").lock().await?.unlock().await?;
    /// assert_eq!(store.string("redisson_lock_token:{account}").as_deref(), Some("1"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn string(&self, key: impl AsRef<str>) -> Option<String> {
        self.store.read(|network| network.string(key.as_ref()))
    }

    /// Whether no key lives.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys().is_empty()
    }

    /// Every channel that somebody listens on, in order, with how many clients do. A lock that is waited for has one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// store.steal("report", Duration::from_secs(60));
    /// let waiting = tokio::spawn(client.lock("report").lock());
    /// tokio::task::yield_now().await;
    /// assert_eq!(store.listeners(), [("redisson_lock__channel:{report}".to_owned(), 1)]);
    /// waiting.abort();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn listeners(&self) -> Vec<(String, usize)> {
        self.store.read(Network::listeners)
    }
}
