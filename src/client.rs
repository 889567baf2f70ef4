//! The client: options in, locks out. It decides nothing about locks.

use std::{fmt, sync::Arc, time::Duration};

use uuid::Uuid;

#[cfg(feature = "embedded")]
use crate::backend::embedded::EmbeddedStore;
use crate::{
    backend::{Backend, FaultKind, redis as server},
    chance::Chance,
    engine::{Clock, Engine, Settings},
    error::{Error, Op, Result},
    keys, lease,
    locks::{Mutex, ReentrantLock, Scope},
    runtime,
};

pub use server::RespVersion;

/// A connection to one Redis, from which locks are made.
///
/// Clones are the same client. Two clients are two processes, wherever they live: a hold of one is somebody else's to
/// the other.
///
/// A client lives on the tokio runtime that connected it: its links, its timers and its watchdog are there. It may be used
/// from everywhere, from other runtimes and from none: a call that is awaited elsewhere runs at home, and costs a way there
/// and back. Where its runtime makes no progress for [`unreachable_after`](ClientBuilder::unreachable_after), such a call
/// answers [`Error::Unreachable`]; where it ends, the client is closed.
///
/// Dropping the last clone lets the links go once no guard and no acquisition is left; [`Client::close`] is the way to
/// end in order.
#[derive(Clone)]
pub struct Client {
    engine: Arc<Engine>,
    scope: Arc<Scope>,
}

impl Client {
    /// Connects with the default options. `redis://`, `redis+unix://` and, with a TLS feature, `rediss://`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a URL that is none, or whose scheme needs a feature, for one node of a cluster, and on a runtime
    /// without timers or I/O (see `enable_all` of tokio's builder); [`Error::Unreachable`] and [`Error::Refused`] if the
    /// server does not answer within the command timeout, or does not let us in. Whether scripts may run there, and on
    /// which keys, is told by the first one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// let client = relatch::Client::connect("redis://127.0.0.1/").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Self::builder().url(url).connect().await
    }

    /// Connects with options: see [`ClientBuilder`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client on a fresh store in this process, with the default options: the same scripts without a server. For tests
    /// with more than one client, or with faults, see [`EmbeddedStore`].
    ///
    /// It lives on the runtime in which it is made. Made outside of any, or on one without timers, it answers every call with
    /// [`Error::Invalid`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> relatch::Result<()> {
    /// let client = relatch::Client::embedded();
    /// let guard = client.lock("report").lock().await?;
    /// tokio::time::sleep(Duration::from_secs(3600)).await; // the watchdog renews, in virtual time
    /// assert!(guard.is_held());
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    #[cfg_attr(docsrs, doc(cfg(feature = "embedded")))]
    #[must_use]
    pub fn embedded() -> Self {
        let store = EmbeddedStore::new();
        let ClientBuilder { watchdog_timeout, command_timeout, unreachable_after, handover_slice, name_prefix, .. } =
            Self::builder();
        let settings = Settings { watchdog_timeout, command_timeout, unreachable_after, handover_slice };
        let id = store.chance().uuid();
        let (chance, link) = (store.chance().clone(), store.open_first(id, command_timeout));
        Self::start(id, Arc::new(link), settings, Clock::of_this_process(), chance, name_prefix)
    }

    fn start(
        id: Uuid,
        backend: Arc<dyn Backend>,
        settings: Settings,
        clock: Clock,
        chance: Chance,
        prefix: Arc<str>,
    ) -> Self {
        let scope = Arc::new(Scope::new(id, prefix, Arc::clone(&backend)));
        Self { engine: Engine::start(id, backend, settings, clock, chance), scope }
    }

    /// A reentrant lock: whoever holds it may take it again. No I/O, and cheap.
    ///
    /// The owner is the running task (see [`Owner`](crate::Owner)). Where nothing nests, and wherever the guard leaves
    /// the function that took it, take [`Client::mutex`]. A name has 1 to 65536 bytes; another one is an
    /// [`Error::Invalid`] at its first use.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.lock(format!("invoice:{}", 17)).lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock(&self, name: impl AsRef<str>) -> ReentrantLock {
        ReentrantLock::new(&self.engine, &self.scope, name.as_ref())
    }

    /// The same lock on the server, never re-entered: every acquisition has an owner of its own. No I/O, and cheap.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let desk = client.mutex("desk");
    /// let turn = async || desk.lock().await?.unlock().await;
    /// tokio::try_join!(turn(), turn())?; // one after the other, though both are one task
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(&self.engine, &self.scope, name.as_ref())
    }

    /// The client's identity on the server, the first half of a hold's name there.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.engine.id()
    }

    /// Ends the client: new calls and waiters get [`Error::Closed`], live holds are told that they are lost, what was
    /// released is sent, within one command timeout. It does not wait for guards: stop, join, then close.
    ///
    /// Holds that live are neither renewed nor released, since their work may still run. Calling it again does no harm. From
    /// another runtime it returns too where the client's own makes no progress: after one command timeout, with nothing sent.
    ///
    /// # Cancel safety
    ///
    /// The closing goes on if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: relatch::Client) {
    /// client.close().await;
    /// assert!(client.is_closed());
    /// # }
    /// ```
    pub async fn close(&self) {
        Engine::close(&self.engine).await;
    }

    /// Whether [`Client::close`] was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("id", &self.id()).field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

/// Options of a [`Client`]. Every one is checked by [`ClientBuilder::connect`], before any I/O.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> relatch::Result<()> {
/// use std::time::Duration;
///
/// let client = relatch::Client::builder()
///     .url("redis://127.0.0.1/")
///     .watchdog_timeout(Duration::from_secs(10))
///     .name_prefix("billing:")
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    target: Option<Result<Target>>,
    watchdog_timeout: Duration,
    command_timeout: Duration,
    unreachable_after: Duration,
    handover_slice: Duration,
    name_prefix: Arc<str>,
    protocol: RespVersion,
}

/// Where the locks are.
#[derive(Clone, Debug)]
enum Target {
    Server(Box<server::Target>),
    #[cfg(feature = "embedded")]
    Store(EmbeddedStore),
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            target: None,
            watchdog_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(3),
            unreachable_after: Duration::from_secs(9),
            handover_slice: Duration::from_millis(10),
            name_prefix: Arc::from(""),
            protocol: RespVersion::Auto,
        }
    }
}

impl ClientBuilder {
    /// Where the server is, with the credentials: `redis://user:password@host:port/database`,
    /// `redis+unix:///path?pass=password`, and with a TLS feature `rediss://`. Of several targets the last one counts.
    pub fn url(mut self, url: impl AsRef<str>) -> Self {
        self.target = Some(server::Target::parse(url.as_ref()).map(|target| Target::Server(Box::new(target))));
        self
    }

    /// Where the server is, as the driver's own client object: its TLS and credentials are used as they are. The time
    /// limits are this builder's.
    pub fn redis_client(mut self, client: server::DriverClient) -> Self {
        self.target = Some(Ok(Target::Server(Box::new(server::Target::from_client(&client)))));
        self
    }

    /// A store in this process instead of a server. Of several targets the last one counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> relatch::Result<()> {
    /// use relatch::{Client, EmbeddedStore};
    ///
    /// let store = EmbeddedStore::new();
    /// let (ann, ben) =
    ///     (Client::builder().embedded(&store).connect().await?, Client::builder().embedded(&store).connect().await?);
    /// let guard = ann.mutex("desk").lock().await?;
    /// assert!(ben.mutex("desk").try_lock().await?.is_none());
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    #[cfg_attr(docsrs, doc(cfg(feature = "embedded")))]
    pub fn embedded(mut self, store: &EmbeddedStore) -> Self {
        self.target = Some(Ok(Target::Store(store.clone())));
        self
    }

    /// The lease of a hold under the watchdog, renewed every third of it; 30 s by default, from 100 ms to
    /// 365 days.
    ///
    /// If the process dies, its locks are free within this time.
    pub fn watchdog_timeout(mut self, timeout: Duration) -> Self {
        self.watchdog_timeout = timeout;
        self
    }

    /// How long one command may take, connecting included; 3 s by default, from 1 ms to 365 days.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a `lock()` without a wait puts up with a server that does not answer; 9 s by default, from 1 ms to 365
    /// days.
    pub fn unreachable_after(mut self, after: Duration) -> Self {
        self.unreachable_after = after;
        self
    }

    /// How long this client may keep a lock among its own tasks while others wait; 10 ms by default, 60 s at most.
    ///
    /// The longer, the fewer round trips under contention, and the longer other processes wait. Zero: every release
    /// frees the lock.
    pub fn handover_slice(mut self, slice: Duration) -> Self {
        self.handover_slice = slice;
        self
    }

    /// Put before every name; nothing by default. Keys and channels derive from prefix and name together, as with
    /// Redisson's name mapper.
    pub fn name_prefix(mut self, prefix: impl AsRef<str>) -> Self {
        self.name_prefix = Arc::from(prefix.as_ref());
        self
    }

    /// Which version of the server's protocol is spoken on the link for commands; the newest that the server knows by
    /// default. What is asked for here goes before what the URL says.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: relatch::redis::Client) -> relatch::Result<()> {
    /// use relatch::RespVersion;
    ///
    /// // Behind a proxy that ends the connection where it does not know a command.
    /// let client = relatch::Client::builder().redis_client(client).protocol(RespVersion::Resp2).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn protocol(mut self, version: RespVersion) -> Self {
        self.protocol = version;
        self
    }

    /// Checks the options and connects.
    ///
    /// # Errors
    ///
    /// As for [`Client::connect`]; [`Error::Invalid`] names the option that is out of bounds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// // Two clients with the same options are two processes.
    /// let builder = relatch::Client::builder().url("redis://127.0.0.1/");
    /// let (first, second) = (builder.clone().connect().await?, builder.connect().await?);
    /// assert_ne!(first.id(), second.id());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<Client> {
        let settings = Settings {
            watchdog_timeout: lease::watchdog(self.watchdog_timeout)?,
            command_timeout: lease::timeout("command_timeout", self.command_timeout)?,
            unreachable_after: lease::timeout("unreachable_after", self.unreachable_after)?,
            handover_slice: lease::slice(self.handover_slice)?,
        };
        let Some(target) = self.target else {
            return Err(Error::invalid(
                "url",
                "no server was named: give a url(..), a redis_client(..) or an embedded(..) store",
            ));
        };
        match target? {
            Target::Server(target) => {
                runtime::with_sockets()?;
                let (command_timeout, version) = (settings.command_timeout, self.protocol);
                let probe_key = &keys::probe_key(&self.name_prefix);
                let options = server::Options { command_timeout, version, probe_key };
                let connected = server::connect(&target, options).await;
                let backend = connected.map_err(|fault| match fault.kind {
                    FaultKind::Invalid => Error::invalid(target.option(), fault.source.to_string()),
                    _ => Error::from_fault(fault, &Arc::from(""), Op::Connect),
                })?;
                let chance = Chance::default();
                Ok(Client::start(chance.uuid(), Arc::new(backend), settings, Clock::new(), chance, self.name_prefix))
            }
            #[cfg(feature = "embedded")]
            Target::Store(store) => {
                runtime::here()?;
                let (id, chance) = (store.chance().uuid(), store.chance().clone());
                let link = Arc::new(store.open(id, settings.command_timeout)?);
                Ok(Client::start(id, link, settings, Clock::of_this_process(), chance, self.name_prefix))
            }
        }
    }
}
