//! What a test may do to one client of a store: to its links, and to its next commands. The store's own keys and clock are
//! in `store.rs`.

use std::time::Duration;

use super::{client::ClientState, conditions::Weather, store::EmbeddedStore};
use crate::{
    client::Client,
    error::{Error, Result},
};

/// What befalls one client. Each answers [`Error::Invalid`] for a client that is not this store's, or was closed.
impl EmbeddedStore {
    /// Lets nothing pass between this client and the store, either way, until it is [healed](Self::heal). Its links stay
    /// silent: it finds out by its own deadlines.
    ///
    /// What it sends waits; what it sent on a link that it gave up meanwhile never arrives.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, Error, LostCause};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let ann = Client::builder().embedded(&store).connect().await?;
    /// let ben = Client::builder().embedded(&store).connect().await?;
    /// let guard = ann.lock("report").lock().await?;
    /// store.partition(&ann)?;
    /// // Nobody could tell ann: it counts, and stops in time.
    /// assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Expired, .. }));
    /// let theirs = ben.lock("report").lock().await?;
    /// store.heal(&ann)?;
    /// assert!(ann.lock("report").try_lock().await?.is_none());
    /// # theirs.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn partition(&self, client: &Client) -> Result<()> {
        self.known(client)?;
        self.store.with(|network| network.partition(client.id()));
        Ok(())
    }

    /// Ends a [`partition`](Self::partition).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    pub fn heal(&self, client: &Client) -> Result<()> {
        self.known(client)?;
        self.store.with(|network| network.heal(client.id()));
        Ok(())
    }

    /// Lets the store take what this client sends, and do nothing with it, until it is [thawed](Self::thaw). Then all of
    /// it runs, also what came over links that the client gave up meanwhile: old copies, for which nobody waits.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, Error};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// store.freeze(&client)?;
    /// let failed = client.lock("report").try_lock().await;
    /// assert!(matches!(failed, Err(Error::Unreachable { may_have_run: true, .. })));
    /// store.thaw(&client)?;
    /// // The late acquire is found and released.
    /// let guard = client.lock("report").lock().await?;
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn freeze(&self, client: &Client) -> Result<()> {
        self.known(client)?;
        self.store.with(|network| network.freeze(client.id()));
        Ok(())
    }

    /// Ends a [`freeze`](Self::freeze).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    pub fn thaw(&self, client: &Client) -> Result<()> {
        self.known(client)?;
        self.store.with(|network| network.thaw(client.id()));
        Ok(())
    }

    /// Breaks this client's links, for commands and for messages. They are replaced after a pause, which grows where it
    /// happens again and again. What was on its way to the store may still arrive.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let guard = client.lock("report").lock().await?;
    /// store.cut(&client)?;
    /// guard.unlock().await?; // over the next link
    /// # Ok(())
    /// # }
    /// ```
    pub fn cut(&self, client: &Client) -> Result<()> {
        self.known(client)?;
        self.store.with(|network| network.cut(client.id()));
        Ok(())
    }

    /// Loses the next command of this client that was not spoken for yet: it never runs.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, Error};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// store.drop_next_request(&client)?;
    /// let failed = client.lock("report").try_lock().await;
    /// assert!(matches!(failed, Err(Error::Unreachable { may_have_run: true, .. }))); // it cannot know
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_next_request(&self, client: &Client) -> Result<()> {
        self.plan_fault(client, |state| state.planned.requests += 1)
    }

    /// Loses the answer of this client's next command, which runs.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let guard = client.lock("report").lock().await?;
    /// store.drop_next_reply(&client)?;
    /// assert!(guard.unlock().await.is_err()); // the outcome is unknown
    /// assert!(store.is_empty()); // and it was released
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_next_reply(&self, client: &Client) -> Result<()> {
        self.plan_fault(client, |state| state.planned.replies += 1)
    }

    /// Runs this client's next command once more, so much later and by a road of its own: whatever becomes of the link
    /// meanwhile, and of the client.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let ann = Client::builder().embedded(&store).connect().await?;
    /// let ben = Client::builder().embedded(&store).connect().await?;
    /// let guard = ann.lock("report").lock().await?;
    /// store.duplicate_next(&ann, Duration::from_secs(1))?;
    /// guard.unlock().await?;
    /// let theirs = ben.lock("report").lock().await?;
    /// tokio::time::sleep(Duration::from_secs(2)).await;
    /// assert!(store.keys() == ["report"] && theirs.is_held()); // the late release was not for this hold
    /// # theirs.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn duplicate_next(&self, client: &Client, later: Duration) -> Result<()> {
        self.plan_fault(client, |state| state.planned.copies.push_back(later))
    }

    /// From now on this befalls the commands of one client, in place of what befalls all: so clients are at different
    /// distances from the store.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use relatch::{Client, EmbeddedStore, embedded::Weather};
    /// # use tokio::time::Instant;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let near = Client::builder().embedded(&store).connect().await?;
    /// let far = Client::builder().embedded(&store).connect().await?;
    /// let way = Duration::from_millis(100);
    /// store.set_weather_of(&far, Weather::fair().request_delay(way..=way).reply_delay(way..=way))?;
    /// let asked = Instant::now();
    /// near.lock("report").lock().await?.unlock().await?;
    /// assert_eq!(asked.elapsed(), Duration::ZERO);
    /// far.lock("report").lock().await?.unlock().await?;
    /// assert_eq!(asked.elapsed(), 4 * way);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_weather_of(&self, client: &Client, weather: Weather) -> Result<()> {
        let known = self.store.with(|network| network.set_conditions(Some(client.id()), weather));
        if known { Ok(()) } else { Err(not_a_client()) }
    }

    /// How many scripts of this client have run, second copies too.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a client of another store.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// client.lock("report").lock().await?.unlock().await?;
    /// assert_eq!(store.calls(&client)?, 2); // one to acquire, one to release
    /// # Ok(())
    /// # }
    /// ```
    pub fn calls(&self, client: &Client) -> Result<u64> {
        let calls = self.store.read(|network| network.clients.get(&client.id()).map(|state| state.calls));
        calls.ok_or_else(not_a_client)
    }

    fn plan_fault(&self, client: &Client, how: impl FnOnce(&mut ClientState)) -> Result<()> {
        self.store.with(|network| network.clients.get_mut(&client.id()).map(how).ok_or_else(not_a_client))
    }

    fn known(&self, client: &Client) -> Result<()> {
        let known = self.store.read(|network| network.clients.contains_key(&client.id()));
        if known { Ok(()) } else { Err(not_a_client()) }
    }
}

fn not_a_client() -> Error {
    Error::invalid("client", "it is not a client of this embedded store, or it was closed")
}
