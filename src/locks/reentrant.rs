//! The reentrant lock as a user sees it: the current owner may take it again, and again. How it waits, renews and
//! releases is the engine's; what it is on the server is in `hash.rs`.

use std::{sync::Arc, time::Duration};

use super::{Scope, VotedScope};
use crate::{
    engine::{Acquire, Engine, Handle, LockGuard, Nesting, Sight, TryAcquire, Unlock},
    error::Result,
    owner::Owner,
};

/// A named lock that its owner may take again while holding it. Made by [`Client::lock`](crate::Client::lock).
///
/// A handle: cheap to clone and to make, and without any state of its own. Whoever holds the lock elsewhere, with this
/// crate or with Redisson, excludes us and is excluded by us.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// let lock = client.lock("account:17");
/// let guard = lock.lock().await?;
/// let inner = lock.lock().await?; // the same task: it nests
/// assert_eq!(lock.hold_count(), 2);
/// inner.unlock().await?;
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReentrantLock {
    handle: Handle,
}

/// What the server says of a lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The holder's client: its UUID, as [`Client::id`](crate::Client::id) or Redisson gives it.
    pub client_id: String,
    /// The hold within that client: a number of ours, or Redisson's thread id.
    pub hold_id: String,
    /// How often it is held.
    pub hold_count: u32,
    /// The key's TTL; `None` where it has none and would never be free by itself.
    pub remaining_lease: Option<Duration>,
}

impl ReentrantLock {
    pub(crate) fn new(engine: &Arc<Engine>, scope: &Arc<Scope>, name: &str) -> Self {
        Self { handle: Handle::new(engine, scope.plain_lock(name)) }
    }

    /// The same, where several servers vote.
    pub(crate) fn voted(engine: &Arc<Engine>, scope: &Result<VotedScope>, name: &str) -> Self {
        let lock = scope.as_ref().map_err(Clone::clone).and_then(|scope| Ok(scope.plain_lock(name)? as _));
        Self { handle: Handle::new(engine, lock) }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Acquires, waiting for as long as the server answers: see [`Acquire`] for options, errors and cancel safety.
    #[doc(alias = "acquire")]
    #[doc(alias = "lockInterruptibly")]
    pub fn lock(&self) -> Acquire {
        self.handle.lock(Nesting::Current)
    }

    /// Acquires if the lock is free, or becomes free within [`TryAcquire::wait`]: see [`TryAcquire`].
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> TryAcquire {
        self.handle.try_lock(Nesting::Current)
    }

    /// Releases one of the current owner's detached holds; never a guard's. See [`Unlock`] and [`LockGuard::detach`].
    pub fn unlock(&self) -> Unlock {
        self.handle.unlock()
    }

    /// Takes a detached hold of this owner back as a guard, the newest first. No I/O.
    ///
    /// A hold that was lost less than a lease ago comes back as a guard that says so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.lock("session:7");
    /// let owner = lock.lock().await?.detach();
    /// // … later …
    /// if let Some(guard) = lock.attach(&owner) {
    ///     guard.unlock().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the lock is released when the guard is dropped"]
    pub fn attach(&self, owner: &Owner) -> Option<LockGuard> {
        self.handle.attach(owner)
    }

    /// Frees the lock whoever holds it: looks who that is, and frees exactly that hold. `true` if there was one, even
    /// if it left before it could be freed.
    ///
    /// A holder of this client is told ([`LostCause::Forced`](crate::LostCause::Forced)) before the command is sent;
    /// one elsewhere finds out with its next renewal.
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
    /// Dropped after the look, it may free that hold or not; it never frees a later one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// if client.lock("left-behind").force_unlock().await? {
    ///     println!("somebody held it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "forceUnlock")]
    pub async fn force_unlock(&self) -> Result<bool> {
        self.handle.force_unlock().await
    }

    /// Whether the current owner holds it through this client. No I/O.
    #[doc(alias = "isHeldByCurrentThread")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held_by(&Owner::current())
    }

    /// Whether this owner holds it through this client. No I/O.
    #[must_use]
    pub fn is_held_by(&self, owner: &Owner) -> bool {
        self.handle.held(owner).is_some()
    }

    /// How often the current owner holds it through this client, guards and detached holds together. No I/O.
    #[doc(alias = "getHoldCount")]
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.handle.held(&Owner::current()).unwrap_or(0)
    }

    /// Whether anybody holds it, by the server. The answer may be old when it arrives; to act on it, use `try_lock`.
    ///
    /// # Errors
    ///
    /// As for [`ReentrantLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// if client.lock("report").is_locked().await? {
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
    /// As for [`ReentrantLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let left = client.lock("report").remaining_lease().await?;
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
    /// if let Some(seen) = client.lock("report").inspect().await? {
    ///     println!("held {}x by {}", seen.hold_count, seen.client_id);
    /// }
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

impl Inspection {
    /// `None` where there are several, as in a vote in which no majority names the same one.
    pub(crate) fn of(sight: Sight) -> Option<Self> {
        let [(field, hold_count)] = <[_; 1]>::try_from(sight.holders).ok()?;
        let (client_id, hold_id) = field.split_once(':').unwrap_or((&field, ""));
        Some(Self {
            client_id: client_id.to_owned(),
            hold_id: hold_id.to_owned(),
            hold_count,
            remaining_lease: sight.remaining_lease,
        })
    }
}
