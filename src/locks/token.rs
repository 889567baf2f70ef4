//! The token lock as a user sees it: the lock that the libraries of many languages share, held by a random token. How it waits, renews
//! and releases is the engine's; what it is on the server is in `token_string.rs`.

use std::{sync::Arc, time::Duration};

use super::{HeldToken, Scope, VotedScope, token_string::Manner, tokens::Tokens};
use crate::{
    engine::{Acquire, Engine, Handle, LockGuard, Nesting, Protocol, Publishes, Sight, TryAcquire, Unlock},
    error::Result,
    lease,
    owner::Owner,
    token::Token,
};

/// A named lock whose key holds a random token, as redis-py, redsync, redislock and node-redlock have it: with these it is shared.
/// Made by [`Client::token_lock`](crate::Client::token_lock).
///
/// Nobody can re-enter it: every acquisition has an owner of its own, as with [`Mutex`](crate::Mutex). A hold that ran out counts as
/// released where nobody else has the lock: [`LockGuard::unlock`] answers
/// [`Released::AlreadyExpired`](crate::Released::AlreadyExpired), and is an error only where somebody has it. The guard's
/// [`token`](LockGuard::token) can be handed to another process, which goes on with [`TokenLock::resume`].
///
/// Others tell nobody when they release it. So whoever waits listens, and looks again every quarter of a second at most besides;
/// [`only_relatch`](TokenLock::only_relatch) and [`silent`](TokenLock::silent) say that it need not do the one, or the other. The guide
/// has a [page](crate::guide::token_lock) on it.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> relatch::Result<()> {
/// use std::time::Duration;
///
/// use relatch::{Client, Released};
///
/// let lock = Client::embedded().token_lock("report");
/// let guard = lock.lock().lease(Duration::from_secs(10)).await?;
/// tokio::time::sleep(Duration::from_secs(11)).await;
/// assert_eq!(guard.unlock().await?, Released::AlreadyExpired); // too slow, and nobody was harmed
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug)]
pub struct TokenLock {
    handle: Handle,
    lock: Result<Arc<dyn Tokens>>,
}

/// What the server says of a token lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenInspection {
    /// The holder's token. Whoever has it can release the lock.
    pub token: Token,
    /// The key's TTL; `None` where it has none and would never be free by itself.
    pub remaining_lease: Option<Duration>,
}

impl TokenLock {
    pub(crate) fn new(engine: &Arc<Engine>, scope: &Arc<Scope>, name: &str) -> Self {
        let lock = scope.token_lock(name, Self::MANNER);
        Self::of(engine, lock.map(|lock| Arc::new(lock) as Arc<dyn Tokens>))
    }

    /// The same, where several servers vote.
    pub(crate) fn voted(engine: &Arc<Engine>, scope: &Result<VotedScope>, name: &str) -> Self {
        Self::of(engine, scope.as_ref().map_err(Clone::clone).and_then(|scope| scope.token_lock(name, Self::MANNER)))
    }

    const MANNER: Manner = Manner { publishes: Publishes::Sometimes, orphans: None };

    fn of(engine: &Arc<Engine>, lock: Result<Arc<dyn Tokens>>) -> Self {
        Self { handle: Handle::new(engine, protocol(&lock)), lock }
    }

    /// The same lock in another manner.
    fn in_manner(self, change: impl FnOnce(Manner) -> Result<Manner>) -> Self {
        let lock = self.lock.and_then(|lock| Ok(lock.in_manner(change(lock.manner())?)));
        Self { handle: self.handle.with(protocol(&lock)), lock }
    }

    /// Only this crate's clients take it: whoever waits listens for releases, and does not look again every now and then.
    ///
    /// Within a client a name that is in use is taken in one manner; another one is [`Error::Invalid`](crate::Error::Invalid).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.token_lock("report").only_relatch().lock().await?;
    /// # guard.unlock().await.map(drop)
    /// # }
    /// ```
    #[must_use]
    pub fn only_relatch(self) -> Self {
        self.in_manner(|manner| Ok(Manner { publishes: Publishes::Always, ..manner }))
    }

    /// Tells nobody of a release, and does not listen: needs no right to a channel, and whoever waits looks again every now and then.
    ///
    /// Within a client a name that is in use is taken in one manner; another one is [`Error::Invalid`](crate::Error::Invalid).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.token_lock("report").silent().lock().await?;
    /// # guard.unlock().await.map(drop)
    /// # }
    /// ```
    #[must_use]
    pub fn silent(self) -> Self {
        self.in_manner(|manner| Ok(Manner { publishes: Publishes::Never, ..manner }))
    }

    /// Whoever waits gives a key without a TTL this one, once, and says so in a `warn` event: somebody died between `SETNX` and
    /// `EXPIRE`. From 1 s to 365 days; another one is [`Error::Invalid`](crate::Error::Invalid) at the first use.
    ///
    /// Not where others take the lock without a timeout, as redis-py does by default: they would lose it. A single
    /// [`try_lock`](TokenLock::try_lock) without a wait repairs nothing on one server, and does on a cluster and with
    /// [`replica_acks`](crate::ClientBuilder::replica_acks), where every try is a script. With `replica_acks` at a server without scripts
    /// nobody repairs anything.
    ///
    /// Within a client a name that is in use is repaired by one TTL; another one is [`Error::Invalid`](crate::Error::Invalid).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.token_lock("report").repair_orphans(std::time::Duration::from_secs(60));
    /// lock.lock().await?.unlock().await?; // after a minute, if nobody ever frees it
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn repair_orphans(self, ttl: Duration) -> Self {
        self.in_manner(|manner| Ok(Manner { orphans: Some(lease::orphan(ttl)?), ..manner }))
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

    /// Releases a detached hold of an owner, given by [`Unlock::owner`]: see [`LockGuard::detach`]. One that was handed on by its
    /// token is released with [`TokenLock::resume`].
    ///
    /// One that ran out is [`Released::AlreadyExpired`](crate::Released::AlreadyExpired), as with a guard, for as long as the client
    /// remembers it, about a lease; after that it is [`Error::NotHeld`](crate::Error::NotHeld), as what never was.
    pub fn unlock(&self) -> Unlock {
        self.handle.unlock()
    }

    /// Takes a detached hold of this owner back as a guard. No I/O.
    ///
    /// A hold that was lost less than a lease ago comes back as a guard that says so.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.token_lock("session:7");
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

    /// The lock as whoever has this token may extend and release it: by [`LockGuard::into_token`] of any process, or the text with
    /// which another library took it. No I/O; whether the token has the lock is shown by the first
    /// [`extend`](HeldToken::extend).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client, text: &str) -> relatch::Result<()> {
    /// let held = client.token_lock("report").resume(text.parse()?);
    /// held.extend(std::time::Duration::from_secs(60)).await?;
    /// // … work …
    /// held.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(&self, token: Token) -> HeldToken {
        HeldToken::new(self.handle.clone(), self.lock.clone(), token)
    }

    /// Frees the lock whoever holds it: looks who that is, and frees exactly that hold. `true` if there was one, even
    /// if it left before it could be freed.
    ///
    /// A holder of this client is told ([`LostCause::Forced`](crate::LostCause::Forced)) before the command is sent;
    /// one elsewhere finds out with its next renewal.
    ///
    /// # Errors
    ///
    /// As for [`TokenLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Dropped after the look, it may free that hold or not; it never frees a later one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// if client.token_lock("left-behind").force_unlock().await? {
    ///     println!("somebody held it");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "forceUnlock")]
    pub async fn force_unlock(&self) -> Result<bool> {
        self.handle.force_unlock().await
    }

    /// Whether anybody holds it, by the server. The answer may be old when it arrives; to act on it, use `try_lock`.
    ///
    /// # Errors
    ///
    /// As for [`TokenLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let taken = client.token_lock("report").is_locked().await?;
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
    /// As for [`TokenLock::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let left = client.token_lock("report").remaining_lease().await?;
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
    /// [`Error::Protocol`](crate::Error::Protocol) if the token is no text,
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
    /// if let Some(seen) = client.token_lock("report").inspect().await? {
    ///     println!("taken, for {:?} more", seen.remaining_lease);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self) -> Result<Option<TokenInspection>> {
        Ok(self.handle.sight().await?.and_then(TokenInspection::of))
    }

    /// The name, as it was given; empty if it was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }
}

impl TokenInspection {
    fn of(sight: Sight) -> Option<Self> {
        let (token, _) = sight.holders.into_iter().next()?;
        Some(Self { token: Token::of(&token), remaining_lease: sight.remaining_lease })
    }
}

fn protocol(lock: &Result<Arc<dyn Tokens>>) -> Result<Arc<dyn Protocol>> {
    lock.clone().map(Tokens::protocol)
}
