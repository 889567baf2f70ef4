//! A token lock that is held by its token alone, as a user sees it.

use std::{sync::Arc, time::Duration};

use super::tokens::Tokens;
use crate::{
    engine::{Claim, Handle, Released},
    error::Result,
    token::Token,
};

/// A lock that is held by its token alone: handed on by somebody, here or elsewhere. Made by
/// [`TokenLock::resume`](crate::TokenLock::resume).
///
/// It is no guard. Nothing renews it, nobody is told when it is lost, and dropping it does nothing: whoever has the token extends and
/// releases it, for as long as it is the lock's. The first [`extend`](HeldToken::extend) shows whether it is.
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
/// let Ok(token) = lock.lock().await?.into_token() else { return Ok(()) };
/// // … in another process …
/// let held = lock.resume(token);
/// held.extend(Duration::from_secs(60)).await?;
/// assert_eq!(held.unlock().await?, Released::Freed);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct HeldToken {
    handle: Handle,
    lock: Result<Arc<dyn Tokens>>,
    token: Token,
    claim: Arc<Claim>,
}

impl HeldToken {
    pub(super) fn new(handle: Handle, lock: Result<Arc<dyn Tokens>>, token: Token) -> Self {
        Self { handle, lock, token, claim: Arc::default() }
    }

    /// Makes the lock last at least this long from now; never shorter. From 10 ms to 365 days.
    ///
    /// At a server without scripts this takes two round trips, one that asks for the TTL and one that sets it: of two who extend in the
    /// same moment, by one token or as its guard, the later may set the shorter time.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) for a lease out of bounds or a bad name, before anything is sent;
    /// [`Error::Lost`](crate::Error::Lost) if the lock is not this token's, whose time stays as it is then, and with
    /// [`LostCause::Expired`](crate::LostCause::Expired) if it was extended, and the answer came when the lease was over by the clock here;
    /// [`Error::NotHeld`](crate::Error::NotHeld) after a release; [`Error::Unreachable`](crate::Error::Unreachable) and
    /// [`Error::Refused`](crate::Error::Refused) if the server does not answer or will not; [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the lease extended on the server; [`HeldToken::expires_in`] goes by what was answered.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(held: relatch::HeldToken) -> relatch::Result<()> {
    /// held.extend(std::time::Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "renew")]
    pub async fn extend(&self, lease: Duration) -> Result<()> {
        let lock = self.lock.as_ref().map_err(Clone::clone)?;
        self.handle.extend_claim(&self.claim, lease, |lease| lock.extend_token(&self.token, lease)).await
    }

    /// Releases the lock, if it is this token's. After an `Ok` the same answer is repeated.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) if somebody else has the lock; where nobody has it the answer is
    /// [`Released::AlreadyExpired`]. [`Error::Unreachable`](crate::Error::Unreachable) if the outcome is not known: ask again, since
    /// nothing repeats it in the background. If nothing is there or somebody else has the lock by then, that is [`Released::Freed`]: the
    /// release that had no answer may have freed it, and a token that never had the lock is told the same.
    /// [`Error::Invalid`](crate::Error::Invalid) for a bad name,
    /// [`Error::Refused`](crate::Error::Refused) if the server will not; [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    ///
    /// Dropped once it was polled, the release goes on, as far as the client is not closed and its runtime not ended. Ask again for how
    /// it went.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(held: relatch::HeldToken) -> relatch::Result<()> {
    /// held.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "release")]
    pub async fn unlock(&self) -> Result<Released> {
        let lock = self.lock.as_ref().map_err(Clone::clone)?;
        let (lock, token) = (Arc::clone(lock), self.token.clone());
        self.handle.release_claim(&self.claim, move || lock.release_token(&token)).await
    }

    /// For how long the lock is this token's, by the last [`HeldToken::extend`] that was answered; `None` before that, and once that
    /// time or the lock is over. No I/O.
    #[must_use]
    pub fn expires_in(&self) -> Option<Duration> {
        self.handle.claimed_for(&self.claim)
    }

    /// The token, to be handed on once more.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The lock's name, as it was given; empty if it was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }
}
