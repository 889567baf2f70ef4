//! The mutex as a user sees it: the plain lock, never re-entered. It is the reentrant lock on the server, and excludes
//! it.

use std::{sync::Arc, time::Duration};

use super::{Inspection, Scope, VotedScope};
use crate::{
    engine::{Acquire, Engine, Handle, Nesting, TryAcquire},
    error::Result,
};

/// A named lock that nobody can re-enter: every acquisition has an owner of its own. Made by
/// [`Client::mutex`](crate::Client::mutex).
///
/// The right one for branches of one task (`join!`, `buffer_unordered`), for requests that share a task, and wherever
/// the guard leaves the function that took it. [`ReentrantLock`](crate::ReentrantLock) of the same name is the same
/// lock on the server. A task that acquires it twice waits for itself.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// let guard = client.mutex("export:acme").lock().await?;
/// tokio::spawn(async move {
///     // … work …
///     guard.unlock().await
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    handle: Handle,
}

impl Mutex {
    pub(crate) fn new(engine: &Arc<Engine>, scope: &Arc<Scope>, name: &str) -> Self {
        Self { handle: Handle::new(engine, scope.plain_lock(name)) }
    }

    /// The same, where several servers vote.
    pub(crate) fn voted(engine: &Arc<Engine>, scope: &Result<VotedScope>, name: &str) -> Self {
        let lock = scope.as_ref().map_err(Clone::clone).and_then(|scope| Ok(scope.plain_lock(name)? as _));
        Self { handle: Handle::new(engine, lock) }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Acquires, waiting for as long as the server answers: see [`Acquire`] for options, errors and cancel safety. Its
    /// `owner` is refused here.
    #[doc(alias = "acquire")]
    pub fn lock(&self) -> Acquire {
        self.handle.lock(Nesting::Never)
    }

    /// Acquires if the lock is free, or becomes free within [`TryAcquire::wait`]: see [`TryAcquire`]. Its `owner` is
    /// refused here.
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> TryAcquire {
        self.handle.try_lock(Nesting::Never)
    }

    /// Whether anybody holds it, by the server. The answer may be old when it arrives; to act on it, use `try_lock`.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// if client.mutex("report").is_locked().await? {
    ///     println!("somebody is on it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "isLocked")]
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.handle.sight().await?.is_some())
    }

    /// How long the holder still has, by the server; `None` if nobody holds it, or without an end. A holder under the
    /// watchdog goes on renewing.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let left = client.mutex("report").remaining_lease().await?;
    /// println!("free in {:?} at the latest, unless it is renewed", left.unwrap_or_default());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "remainTimeToLive")]
    pub async fn remaining_lease(&self) -> Result<Option<Duration>> {
        Ok(self.handle.sight().await?.and_then(|sight| sight.remaining_lease))
    }

    /// Who holds it, by the server.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`](crate::Error::Unreachable) without an answer within the command timeout,
    /// [`Error::Refused`](crate::Error::Refused) if the server will not,
    /// [`Error::Invalid`](crate::Error::Invalid) for a bad name,
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let taken = client.mutex("export:acme").inspect().await?.is_some();
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self) -> Result<Option<Inspection>> {
        Ok(self.handle.sight().await?.and_then(Inspection::of))
    }

    /// The name, as it was given; empty if it was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }
}
