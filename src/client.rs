//! The client: locks out. It decides nothing about them; its options are in `client/builder.rs`.

mod builder;

use std::{fmt, sync::Arc, time::Duration};

use uuid::Uuid;

pub use self::builder::ClientBuilder;
#[cfg(feature = "embedded")]
use crate::backend::embedded::EmbeddedStore;
pub use crate::backend::redis::{RespVersion, ShardedPubSub};
use crate::{
    acl::Acl,
    backend::Backend,
    chance::Chance,
    engine::{Clock, Engine, Settings, Shutdown},
    error::Result,
    locks::{FencedLock, MultiLock, Mutex, PeriodicJob, ReentrantLock, Scope, TokenLock},
};

/// A connection to one Redis, from which locks are made.
///
/// Clones are the same client. Two clients are two processes, wherever they live: a hold of one is somebody else's to
/// the other.
///
/// A client lives on the tokio runtime that connected it: its links, its timers and its watchdog are there. It may be used
/// from everywhere, from other runtimes and from none: a call that is awaited elsewhere runs at home, and costs a way there
/// and back. Where its runtime makes no progress for [`unreachable_after`](ClientBuilder::unreachable_after), such a call
/// answers [`Error::Unreachable`](crate::Error::Unreachable); where it ends, the client is closed. For a client in a `static`,
/// or in a program with many runtimes, there is [`own_thread`](ClientBuilder::own_thread).
///
/// Dropping the last clone lets the links go once no guard and no acquisition is left; [`Client::close`] is the way to
/// end in order.
#[derive(Clone)]
pub struct Client {
    engine: Arc<Engine>,
    scope: Arc<Scope>,
}

impl Client {
    /// Connects with the default options. `redis://`, `redis+unix://`, `redis-sentinel://` and, with a TLS feature, `rediss://` and
    /// `rediss-sentinel://`: see [`deployments`](crate::guide::deployments).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for a URL that is none, or whose scheme needs a feature, for a node of a cluster,
    /// for a sentinel that is taken for a server of locks, and the other way round, for a master that no sentinel knows, and on a
    /// runtime without timers or I/O (see `enable_all` of tokio's builder). Whether it has them is found out by trying: tokio
    /// panics where it has not, which is caught here, but not kept from a panic hook, nor where panics abort.
    /// [`Error::Unreachable`](crate::Error::Unreachable) if the server, or every sentinel, does not answer within the command timeout,
    /// or if nobody drives the runtime that the calling thread has entered,
    /// [`Error::Refused`](crate::Error::Refused) if it does not let us in, or if one side does not accept the other's
    /// certificate. Whether scripts may run there, and on which keys, is told by the first one.
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
    /// [`Error::Invalid`](crate::Error::Invalid).
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
        let settings =
            Settings { watchdog_timeout, command_timeout, unreachable_after, handover_slice, ..Settings::default() };
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
        let scope = Arc::new(Scope::new(id, prefix, settings.replicas.is_some(), Arc::clone(&backend), chance.clone()));
        Self { engine: Engine::start(id, backend, settings, clock, chance), scope }
    }

    /// What others of this crate go by.
    pub(crate) fn parts(&self) -> (&Arc<Engine>, &Arc<Scope>) {
        (&self.engine, &self.scope)
    }

    /// A reentrant lock: whoever holds it may take it again. No I/O, and cheap.
    ///
    /// The owner is the running task (see [`Owner`](crate::Owner)). Where nothing nests, and wherever the guard leaves
    /// the function that took it, take [`Client::mutex`]. A name has 1 to 65536 bytes; another one is an
    /// [`Error::Invalid`](crate::Error::Invalid) at its first use.
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

    /// The fenced lock of this name: a lock whose every holder has a greater token than all before. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.fenced_lock("account:17").lock().await?;
    /// println!("write with token {:?}", guard.fence());
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        FencedLock::new(&self.engine, &self.scope, name.as_ref())
    }

    /// The token lock of this name: a key that holds a random token, shared with the libraries of other languages. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.token_lock("report").lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn token_lock(&self, name: impl AsRef<str>) -> TokenLock {
        TokenLock::new(&self.engine, &self.scope, name.as_ref())
    }

    /// Several plain locks that are taken together. No I/O. For other kinds, and for locks of several clients, there is
    /// [`MultiLock::new`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.multi_lock(["account:3", "account:7"]).lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> MultiLock {
        MultiLock::new(names.into_iter().map(|name| self.lock(name)))
    }

    /// The periodic job of this name: work that one of many processes does once a period, of whole seconds, from 1 s to 365 days. No
    /// I/O; a bad name or period is an [`Error::Invalid`](crate::Error::Invalid) at the first use. It is no lock: one of the same name
    /// is something else.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// use std::{convert::Infallible, time::Duration};
    ///
    /// let job = client.periodic_job("report", Duration::from_secs(3600));
    /// let outcome = job.run(|ctx| async move { Ok::<_, Infallible>(ctx.period()) }).await?;
    /// println!("{outcome:?}");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn periodic_job(&self, name: impl AsRef<str>, period: Duration) -> PeriodicJob {
        PeriodicJob::new(&self.engine, &self.scope, name.as_ref(), period)
    }

    /// What a user of the servers must be allowed so that all works, and nothing else: for every primitive that there is, with keys of
    /// this pattern, on the servers that this client found. No I/O.
    ///
    /// The pattern is one of keys: the names with the client's [`name_prefix`](ClientBuilder::name_prefix), as in `app:*`, with `*`,
    /// `?`, `[…]` and `\` as the server has them. What the rights are depends on the deployment, and on the versions: an
    /// access list with a word that a server does not know is refused as a whole. Where a server has not said its version, words that
    /// not all versions know are left out; so ask again after an upgrade. See
    /// [`operating`](crate::guide::operating#rights).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for a pattern that is empty, that has spaces or control characters, which no
    /// access list takes, or that ends within a set or with a lone backslash.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// let client = relatch::Client::builder().url("redis://admin:secret@127.0.0.1/").name_prefix("app:").connect().await?;
    /// let acl = client.required_acl("app:*")?;
    /// println!("user locks on >a-long-random-secret {}", acl.data); // a line for the servers' ACL file
    /// # Ok(())
    /// # }
    /// ```
    pub fn required_acl(&self, pattern: impl AsRef<str>) -> Result<Acl> {
        self.scope.required_acl(pattern.as_ref())
    }

    /// The client's identity on the server, the first half of a hold's name there.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.engine.id()
    }

    /// Ends the client in order, as a service that is told to stop wants it: nobody gets a lock any more, holders are told to
    /// stop, and their locks are released as ever, for as long as `grace` allows. Then it closes as [`Client::close`] does.
    ///
    /// New acquisitions and waiters get [`Error::Closed`](crate::Error::Closed), but for nested ones of a holder. Every holder's
    /// [`cancellation`](crate::LockGuard::cancellation) fires. Its hold is held and renewed meanwhile: `is_held` says so, `lost`
    /// does not resolve, and `protect` goes on. It ends early when the last guard is gone and the last detached hold unlocked.
    ///
    /// A second call joins the first, whose grace counts. `close` cuts it short. After the client was closed there is nothing
    /// left to shut down, and the answer says so at once.
    ///
    /// # Cancel safety
    ///
    /// The shutdown begins with the first poll, and goes on if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: relatch::Client) {
    /// use std::time::Duration;
    ///
    /// // On SIGTERM, with less than what the platform waits before SIGKILL.
    /// let shutdown = client.shutdown(Duration::from_secs(20)).await;
    /// if !shutdown.is_clean() {
    ///     eprintln!("still held: {:?}", shutdown.still_held);
    /// }
    /// # }
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        Engine::shutdown(&self.engine, grace).await
    }

    /// Ends the client at once: new calls and waiters get [`Error::Closed`](crate::Error::Closed), live holds are told that they
    /// are lost, what was released is sent, within one command timeout. It does not wait for guards: [`Client::shutdown`] does.
    ///
    /// Holds that live are neither renewed nor released, since their work may still run; one that nobody has begun to work
    /// under is released. Calling it again does no harm. From another runtime it returns too where the client's own makes no
    /// progress: after one command timeout, with nothing sent.
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

    /// Whether [`Client::close`] was called, [`Client::shutdown`] is through with waiting, or the client's runtime ended.
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
