//! The store as users hold it: its keys, its channels and its clock. What a test may do to a client's links is in
//! `client_faults.rs`.

use std::{fmt, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    backend::EmbeddedBackend, conditions::Weather, delivery::SharedStore, instances::Instances, network::Network,
    server::Reply, trace::Traced,
};
use crate::{chance::Chance, error::Result, lease as bounds};

/// A store in this process, on which the same scripts run as on a server: for tests without one, and for trying things out.
///
/// Clones are the same store. It is given to [`ClientBuilder::embedded`](crate::ClientBuilder::embedded); its clients
/// exclude each other as processes do on a server, and keep it alive. It lives on tokio's clock, so on a paused one
/// leases run out in no time. It belongs to the runtime of its first client; a client on another one is refused.
///
/// Nothing befalls its clients by itself. What befalls real ones can be brought about: see
/// [`partition`](Self::partition), [`cut`](Self::cut) and their neighbours.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use relatch::{Client, EmbeddedStore};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> relatch::Result<()> {
/// let store = EmbeddedStore::new();
/// let ann = Client::builder().embedded(&store).connect().await?;
/// let ben = Client::builder().embedded(&store).connect().await?;
///
/// let guard = ann.lock("report").lock().await?;
/// assert!(ben.lock("report").try_lock().await?.is_none());
/// tokio::time::sleep(Duration::from_secs(3600)).await; // renewed all the while, in virtual time
/// assert!(guard.is_held());
/// guard.unlock().await?;
/// assert!(ben.lock("report").try_lock().await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct EmbeddedStore {
    pub(super) store: Arc<SharedStore>,
    pub(super) chance: Chance,
}

impl EmbeddedStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_chance(Chance::default())
    }

    /// An empty store whose clients draw everything random from a seed: their ids, their jitter, and the weather.
    ///
    /// On a paused current-thread runtime the same program and the same seed give the same run: the same commands at the
    /// same times, and the same [trace](Self::take_trace).
    ///
    /// # Examples
    ///
    /// ```
    /// use relatch::{Client, EmbeddedStore, Uuid};
    ///
    /// async fn first_id(seed: u64) -> relatch::Result<Uuid> {
    ///     let store = EmbeddedStore::seeded(seed);
    ///     Ok(Client::builder().embedded(&store).connect().await?.id())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// assert_eq!(first_id(7).await?, first_id(7).await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::with_chance(Chance::seeded(seed))
    }

    fn with_chance(chance: Chance) -> Self {
        Self::of_nodes(chance, Instances::new(1, false))
    }

    pub(super) fn of_nodes(chance: Chance, instances: Instances) -> Self {
        Self { store: SharedStore::new(Network::new(chance.clone(), instances)), chance }
    }

    pub(crate) fn chance(&self) -> &Chance {
        &self.chance
    }

    pub(crate) fn open(&self, client: Uuid, command_timeout: Duration) -> Result<EmbeddedBackend> {
        EmbeddedBackend::open(&self.store, client, command_timeout)
    }

    /// The first client's, which nothing can refuse.
    pub(crate) fn open_first(self, client: Uuid, command_timeout: Duration) -> EmbeddedBackend {
        EmbeddedBackend::first(self.store, client, command_timeout)
    }

    /// Ends a lease now, as if its time had run out: the key is gone, and nobody is told. Whether there was one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, Error, LostCause};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let guard = client.lock("report").lock().await?;
    /// assert!(store.expire("report"));
    /// // The holder finds out with its next renewal.
    /// assert!(matches!(guard.lost().await, Error::Lost { cause: LostCause::Gone, .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn expire(&self, key: impl AsRef<str>) -> bool {
        self.ask(&["DEL", key.as_ref()]) == Reply::Int(1)
    }

    /// Gives a lock to somebody who is no client of this store, for a lease of this length (whole milliseconds, from one to
    /// a year's), whoever has it, and however full the store is.
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
    /// assert!(client.lock("report").try_lock().await?.is_none());
    /// let guard = client.lock("report").lock().await?; // a minute later
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn steal(&self, key: impl AsRef<str>, lease: Duration) {
        let key = key.as_ref();
        let thief = format!("{}:1", self.chance.uuid());
        let lease_ms = bounds::whole_ms(lease.min(bounds::LONGEST)).max(1).to_string();
        let write = |network: &mut Network| {
            for words in [&["DEL", key][..], &["HINCRBY", key, &thief, "1"], &["PEXPIRE", key, &lease_ms]] {
                let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
                network.command(&words);
            }
        };
        self.store.with(|network| network.unlimited(write));
    }

    /// Gives a [token lock](crate::TokenLock) to somebody who is no client of this store, whoever has it, and however full the store
    /// is: for a lease of this length (whole milliseconds, from one to a year's), or, without one, for good. Says under which token.
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
    /// store.steal_token("report", None); // by a program that ended between SETNX and EXPIRE
    /// let lock = client.token_lock("report").repair_orphans(Duration::from_secs(60));
    /// let guard = lock.lock().await?; // a minute later
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn steal_token(&self, key: impl AsRef<str>, lease: Option<Duration>) -> String {
        let token = self.chance.uuid().simple().to_string();
        let lease_ms = lease.map(|lease| bounds::whole_ms(lease.min(bounds::LONGEST)).max(1).to_string());
        let mut words = vec!["SET", key.as_ref(), &token];
        words.extend(lease_ms.iter().flat_map(|lease_ms| ["PX", lease_ms]));
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.store.with(|network| network.unlimited(|network| drop(network.command(&words))));
        token
    }

    /// Comes back empty, as a server without persistence does: keys, scripts and subscriptions are gone, links break and
    /// are replaced, and what was on its way is lost.
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
    /// store.restart();
    /// assert!(guard.lost().await.is_lost());
    /// assert!(client.lock("report").lock().await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn restart(&self) {
        self.store.with(Network::restart);
    }

    /// How many bytes keys and values may take, about, before the store refuses to write, as a server does whose memory is
    /// full. What frees something still runs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, Error, RefusedKind};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// let guard = client.lock("report").lock().await?;
    /// store.limit_memory(1);
    /// let refused = client.lock("other").lock().await;
    /// assert!(matches!(refused, Err(Error::Refused { kind: RefusedKind::OutOfMemory, .. })));
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit_memory(&self, bytes: usize) {
        self.store.with(|network| network.instances.limit_memory(bytes));
    }

    /// How many replicas acknowledge what is written, each at once; none to begin with. For clients with
    /// [`replica_acks`](crate::ClientBuilder::replica_acks). It is a number and no copy of anything: what
    /// [`fail_over`](Self::fail_over) forgets is forgotten, however many of them acknowledged it. A master that was replaced has
    /// none: they follow the next one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use relatch::{Client, EmbeddedStore, Error};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::new();
    /// let client = Client::builder().embedded(&store).replica_acks(1, Duration::from_millis(100)).connect().await?;
    /// let lock = client.lock("report");
    /// assert!(matches!(lock.try_lock().await, Err(Error::TooFewReplicas { acknowledged: 0, .. })));
    /// store.set_replicas(2);
    /// assert!(lock.try_lock().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_replicas(&self, count: u32) {
        self.store.replicas.send_replace(count);
    }

    /// Sets the store's clock forward, and only that: keys run out so much sooner than their holders expect.
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
    /// let guard = client.lock("report").lock().await?;
    /// store.set_clock_forward(Duration::from_secs(31));
    /// assert!(guard.is_held() && store.is_empty()); // what no client can notice
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_clock_forward(&self, by: Duration) {
        self.store.with(|network| network.clock.set_ahead(by));
    }

    /// Sets the store's clock back, and only that: keys live so much longer.
    pub fn set_clock_back(&self, by: Duration) {
        self.store.with(|network| network.clock.set_back(by));
    }

    /// From now on this befalls the commands of all clients that have no [weather of their own](Self::set_weather_of);
    /// [`Weather::fair`] ends it.
    ///
    /// Which commands it befalls is the seed's decision where the store [has one](Self::seeded).
    pub fn set_weather(&self, weather: Weather) {
        let _ = self.store.with(|network| network.set_conditions(None, weather));
    }

    /// From now on everything that happens is kept for [`take_trace`](Self::take_trace), without a bound; what was kept
    /// before is forgotten.
    pub fn start_trace(&self) {
        self.store.with(Network::start_trace);
    }

    /// What has happened since [`start_trace`](Self::start_trace), or since it was last taken.
    ///
    /// # Examples
    ///
    /// ```
    /// # use relatch::{Client, EmbeddedStore, embedded::Happening};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let store = EmbeddedStore::seeded(1);
    /// store.start_trace();
    /// let client = Client::builder().embedded(&store).connect().await?;
    /// client.lock("report").lock().await?.unlock().await?;
    /// let ran = store.take_trace().into_iter().filter_map(|traced| match traced.what {
    ///     Happening::Ran(ran) => Some(ran.script()),
    ///     _ => None,
    /// });
    /// assert_eq!(ran.collect::<Vec<_>>(), ["lua/reentrant/acquire.lua", "lua/reentrant/release.lua"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn take_trace(&self) -> Vec<Traced> {
        self.store.with(Network::take_trace)
    }

    /// Runs a command of the store's own.
    fn ask(&self, words: &[&str]) -> Reply {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.store.with(|network| network.command(&words))
    }
}

impl Default for EmbeddedStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedStore")
    }
}
