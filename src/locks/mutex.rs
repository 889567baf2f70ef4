//! The mutex as a user sees it: the plain lock, never re-entered. It is the reentrant lock on the server, and excludes
//! it.

use std::{sync::Arc, time::Duration};

use super::{Inspection, Scope};
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

    /// Acquires, waiting for as long as the server answers. See [`Acquire`]; its `owner` is refused here.
    #[doc(alias = "acquire")]
    pub fn lock(&self) -> Acquire {
        self.handle.lock(Nesting::Never)
    }

    /// Acquires if the lock is free, or becomes free within [`TryAcquire::wait`].
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> TryAcquire {
        self.handle.try_lock(Nesting::Never)
    }

    /// Whether anybody holds it, by the server.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    #[doc(alias = "isLocked")]
    pub async fn is_locked(&self) -> Result<bool> {
        Ok(self.handle.sight().await?.is_some())
    }

    /// How long the holder still has, by the server; `None` if nobody holds it, or without an end.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn remaining_lease(&self) -> Result<Option<Duration>> {
        Ok(self.handle.sight().await?.and_then(|sight| sight.remaining_lease))
    }

    /// Who holds it, by the server.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`](crate::Error::Unreachable), [`Error::Refused`](crate::Error::Refused),
    /// [`Error::Invalid`](crate::Error::Invalid), [`Error::Closed`](crate::Error::Closed).
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
