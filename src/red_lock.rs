//! One lock over masters that know nothing of each other, as a user sees it: locks out, and what each master says. How votes are asked
//! for and counted is in `quorum/`; the options are in `red_lock/builder.rs`.

mod builder;
mod survey;

use std::{fmt, sync::Arc, time::Duration};

use uuid::Uuid;

pub use self::{builder::RedLockBuilder, survey::MasterView};
use crate::{
    client::Client,
    engine::{Engine, Shutdown},
    error::Result,
    locks::{Mutex, ReentrantLock, TokenLock, VotedScope},
};

/// Masters that know nothing of each other, from which locks are made that a majority of them has to grant.
///
/// The handles and guards are the ordinary ones. A master that is down, or slow, or partitioned away holds nobody up, as long as a
/// majority is left. What it promises and what it cannot, and when one master with replicas and a fencing token is the better choice,
/// is told in the guide: [`red_lock`](crate::guide::red_lock).
///
/// Each client is one master: a standalone server, what sentinels watch over, a cluster, or an
/// `EmbeddedStore`. A `RedLock` is a holder of its own, with an [`id`](RedLock::id) of its own: to it a hold
/// that one of the clients has of the same name is somebody else's. The clients stay their owner's; one that is closed is a master
/// that cannot be reached.
///
/// Clones are the same `RedLock`. Dropping the last one ends it once no guard and no acquisition is left; [`RedLock::close`] is the way to
/// end in order.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> relatch::Result<()> {
/// use relatch::{Client, RedLock};
///
/// // Elsewhere: Client::connect("redis://10.0.0.1").await?, and so on.
/// let masters = [Client::embedded(), Client::embedded(), Client::embedded()];
/// # tokio::time::sleep(std::time::Duration::from_secs(31)).await; // they are older than a lease
/// let red = RedLock::new(masters);
/// let guard = red.lock("account:17").lock().await?;
/// assert!(guard.is_held());
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct RedLock {
    engine: Arc<Engine>,
    scope: Arc<Result<VotedScope>>,
}

impl RedLock {
    /// Over these masters, with the default options. No I/O. Clients that cannot be masters together are an
    /// [`Error::Invalid`](crate::Error::Invalid) at the first use: none, more than 64, one server twice, other prefixes, other
    /// runtimes, or with [`replica_acks`](crate::ClientBuilder::replica_acks).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> relatch::Result<()> {
    /// use relatch::{Client, RedLock};
    ///
    /// let urls = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let mut masters = Vec::new();
    /// for url in urls {
    ///     masters.push(Client::connect(url).await?);
    /// }
    /// let red = RedLock::new(masters);
    /// # drop(red);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Self {
        Self::builder(clients).build_or_say()
    }

    /// With options: see [`RedLockBuilder`].
    pub fn builder(clients: impl IntoIterator<Item = Client>) -> RedLockBuilder {
        RedLockBuilder::over(clients.into_iter().collect())
    }

    /// A reentrant lock: whoever holds it may take it again. No I/O, and cheap. It is shared with Redisson's `RedissonRedLock` of the same
    /// name over the same masters.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(red: &relatch::RedLock) -> relatch::Result<()> {
    /// let guard = red.lock("invoice:17").lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock(&self, name: impl AsRef<str>) -> ReentrantLock {
        ReentrantLock::voted(&self.engine, &self.scope, name.as_ref())
    }

    /// The same lock at the masters, never re-entered: every acquisition has an owner of its own. No I/O, and cheap.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(red: &relatch::RedLock) -> relatch::Result<()> {
    /// red.mutex("desk").lock().await?.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::voted(&self.engine, &self.scope, name.as_ref())
    }

    /// The classic Redlock: a key with a random token at each master, shared with redsync, node-redlock and others over the same
    /// masters. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(red: &relatch::RedLock) -> relatch::Result<()> {
    /// red.token_lock("report").lock().await?.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn token_lock(&self, name: impl AsRef<str>) -> TokenLock {
        TokenLock::voted(&self.engine, &self.scope, name.as_ref())
    }

    /// What each master says of the plain lock of this name: one view for each, in the order in which the clients were given; none where
    /// they cannot be masters together. Masters that do not agree are seen here; who holds is said by
    /// [`inspect`](ReentrantLock::inspect) of the lock, where a majority names the same one.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(red: &relatch::RedLock) {
    /// for view in red.survey("account:17").await {
    ///     println!("{}: {:?}", view.master, view.held);
    /// }
    /// # }
    /// ```
    pub async fn survey(&self, name: impl AsRef<str>) -> Vec<MasterView> {
        let Ok(scope) = &*self.scope else { return Vec::new() };
        survey::survey(&self.lock(name.as_ref()), scope, name.as_ref()).await
    }

    /// Its identity at the masters, the first half of a hold's name there.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.engine.id()
    }

    /// Ends it in order: nobody gets a lock any more, holders are told to stop, and their locks are released as ever, for as long as
    /// `grace` allows. See [`Client::shutdown`], which does the same; the clients stay.
    ///
    /// # Cancel safety
    ///
    /// The shutdown begins with the first poll, and goes on if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(red: relatch::RedLock) {
    /// let shutdown = red.shutdown(std::time::Duration::from_secs(20)).await;
    /// assert!(shutdown.is_clean());
    /// # }
    /// ```
    pub async fn shutdown(&self, grace: Duration) -> Shutdown {
        let shutdown = Engine::shutdown(&self.engine, grace).await;
        self.leave();
        shutdown
    }

    /// Ends it at once: new calls and waiters get [`Error::Closed`](crate::Error::Closed), live holds are told that they are lost, what
    /// was released is sent. See [`Client::close`], which does the same; the clients stay.
    ///
    /// # Cancel safety
    ///
    /// The closing goes on if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(red: relatch::RedLock) {
    /// red.close().await;
    /// assert!(red.is_closed());
    /// # }
    /// ```
    pub async fn close(&self) {
        Engine::close(&self.engine).await;
        self.leave();
    }

    /// Whether [`RedLock::close`] was called, [`RedLock::shutdown`] is through with waiting, or the runtime ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.engine.is_closed()
    }

    fn leave(&self) {
        if let Ok(scope) = &*self.scope {
            scope.fleet().close();
        }
    }
}

impl fmt::Debug for RedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RedLock");
        match &*self.scope {
            Ok(scope) => shown.field("id", &self.id()).field("masters", &scope.fleet().len()),
            Err(error) => shown.field("error", error),
        };
        shown.field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
