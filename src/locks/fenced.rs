//! The fenced lock as a user sees it: the reentrant lock, with a number for each holder that only grows. How it waits, renews
//! and releases is the engine's; what it is on the server is in `fenced_hash.rs`.

use std::{sync::Arc, time::Duration};

use super::{Inspection, Scope};
use crate::{
    engine::{Acquire, Engine, Handle, LockGuard, Nesting, TryAcquire, Unlock},
    error::Result,
    owner::Owner,
};

/// A named lock like [`ReentrantLock`](crate::ReentrantLock), whose every holder has a token that is greater than all before:
/// [`LockGuard::fence`]. Made by [`Client::fenced_lock`](crate::Client::fenced_lock).
///
/// What the lock protects can refuse a holder that was paused past its lease by the token: [`fence`](crate::fence) has the rule,
/// and forms of it. Guards of one hold have one token. Shared with Redisson's `RFencedLock`. The token comes in the round trip of
/// the acquisition; between tasks of one process it takes one, too, where a plain lock is passed on without any.
///
/// On the server it is a plain lock with a counter beside it, which stays when the lock is free: whoever deletes that makes the
/// tokens begin anew. A plain lock of the same name excludes it and gives no token; within one client a name is one of both.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> relatch::Result<()> {
/// let lock = relatch::Client::embedded().fenced_lock("account:17");
/// let guard = lock.lock().await?;
/// let first = guard.fence();
/// guard.unlock().await?;
/// assert!(first.is_some() && first < lock.lock().await?.fence());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct FencedLock {
    handle: Handle,
}

impl FencedLock {
    pub(crate) fn new(engine: &Arc<Engine>, scope: &Arc<Scope>, name: &str) -> Self {
        Self { handle: Handle::new(engine, scope.fenced_lock(name)) }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Acquires, waiting for as long as the server answers: see [`Acquire`] for options, errors and cancel safety.
    #[doc(alias = "acquire")]
    #[doc(alias = "lockInterruptibly")]
    #[doc(alias = "lockAndGetToken")]
    pub fn lock(&self) -> Acquire {
        self.handle.lock(Nesting::Current)
    }

    /// Acquires if the lock is free, or becomes free within [`TryAcquire::wait`]: see [`TryAcquire`].
    #[doc(alias = "tryLock")]
    #[doc(alias = "tryLockAndGetToken")]
    pub fn try_lock(&self) -> TryAcquire {
        self.handle.try_lock(Nesting::Current)
    }

    /// Releases one of the current owner's detached holds; never a guard's. See [`Unlock`] and [`LockGuard::detach`].
    pub fn unlock(&self) -> Unlock {
        self.handle.unlock()
    }

    /// Takes a detached hold of this owner back as a guard, the newest first, with the token that it has. No I/O.
    ///
    /// A hold that was lost less than a lease ago comes back as a guard that says so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.fenced_lock("session:7");
    /// let owner = lock.lock().await?.detach();
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
    /// if it left before it could be freed. The counter stays.
    ///
    /// A holder of this client is told ([`LostCause::Forced`](crate::LostCause::Forced)) before the command is sent;
    /// one elsewhere finds out with its next renewal.
    ///
    /// # Errors
    ///
    /// As for [`FencedLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropped after the look, it may free that hold or not; it never frees a later one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// if client.fenced_lock("left-behind").force_unlock().await? {
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
    /// As for [`FencedLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let taken = client.fenced_lock("report").is_locked().await?;
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
    /// As for [`FencedLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let left = client.fenced_lock("report").remaining_lease().await?;
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
    /// let taken = client.fenced_lock("report").inspect().await?.is_some();
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
