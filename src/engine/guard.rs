//! The public face of what is held: one ticket, or one of each of several locks. Every decision is taken elsewhere.

use std::fmt;

use super::{many::Many, outcome::Released, share::Share};
use crate::{error::Result, owner::Owner, token::Token};

/// A lock that is held, once. The guard *is* the lock: keep it for as long as nobody else may enter.
///
/// Guards of one hold (an outer acquisition and the nested ones) are equal: they may be released in any order and from
/// any task, and each answers for the whole hold. Dropping a guard releases it in the background: it never blocks,
/// never panics and needs no runtime where it happens. A `main` that ends right after such a drop takes the runtime
/// away before the release is sent; end with [`LockGuard::unlock`].
///
/// Of a [`MultiLock`](crate::MultiLock) it is the guard of all its locks; each method says what that means.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// let guard = client.lock("invoice:17").lock().await?;
/// // … work …
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    pub(super) held: Held,
}

/// What a guard has.
pub(super) enum Held {
    One(Share),
    /// Boxed, so that the usual one has no room for it.
    Many(Box<Many>),
}

impl LockGuard {
    pub(super) fn one(share: Share) -> Self {
        Self { held: Held::One(share) }
    }

    /// The one share that it has, if it is not of several locks.
    pub(super) fn only(&self) -> Option<&Share> {
        match &self.held {
            Held::One(share) => Some(share),
            Held::Many(_) => None,
        }
    }

    pub(super) fn many(many: Many) -> Self {
        Self { held: Held::Many(Box::new(many)) }
    }

    /// Releases this guard's share of the hold and says what is left of it.
    ///
    /// The guard stops claiming the hold before anything is sent. After an `Ok` the same answer is repeated; after an
    /// error the call asks again, while the release itself is repeated in the background until it is answered or the
    /// lease is over.
    ///
    /// Of several locks all are let go of before any answer is waited for, the last one first, and each whatever becomes of the
    /// others: freed if all are, still held as often as the one of which most is left, and the first error that there is.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) if the hold was lost before, without asking the server;
    /// [`Error::Unreachable`](crate::Error::Unreachable) if the outcome is not known yet;
    /// [`Error::Refused`](crate::Error::Refused) if the server will not; [`Error::Closed`](crate::Error::Closed) where the
    /// client's runtime ended.
    ///
    /// # Cancel safety
    ///
    /// The release is decided at the first poll and final: dropping the future leaves it to the background.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// use relatch::Released;
    ///
    /// let outer = client.lock("ledger").lock().await?;
    /// let inner = client.lock("ledger").lock().await?;
    /// assert_eq!(inner.unlock().await?, Released::StillHeld(1));
    /// assert_eq!(outer.unlock().await?, Released::Freed);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "release")]
    pub async fn unlock(&self) -> Result<Released> {
        match &self.held {
            Held::One(share) => share.let_go().await,
            Held::Many(many) => Box::pin(many.let_go()).await,
        }
    }

    /// Whether the hold is still ours, by the local deadline and all that was heard; of several locks, whether all are. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: relatch::LockGuard) {
    /// if !guard.is_held() {
    ///     return;
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn is_held(&self) -> bool {
        match &self.held {
            Held::One(share) => share.is_held(),
            Held::Many(many) => many.is_held(),
        }
    }

    /// How often the owner holds the lock now, all its guards and detached holds counted; 0 once this one is over. Of several
    /// locks, the one that is held least often.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        match &self.held {
            Held::One(share) => share.hold_count(),
            Held::Many(many) => many.hold_count(),
        }
    }

    /// The fencing token, which is greater than those of all holders before, and the same for all guards of one hold. Only a
    /// [`FencedLock`](crate::FencedLock) gives one; elsewhere, and for several locks, it is `None`. [`fence`](crate::fence) says what
    /// to do with it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.fenced_lock("account:17").lock().await?;
    /// println!("write with token {:?}", guard.fence());
    /// # guard.unlock().await.map(drop)
    /// # }
    /// ```
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.only()?.fence()
    }

    /// The token of a [`TokenLock`](crate::TokenLock) that is held: whoever has it can extend and release the lock, here and
    /// elsewhere, see [`TokenLock::resume`](crate::TokenLock::resume). What was lost or released has none, nor have other locks.
    ///
    /// The next holder of this process gets another one: after this call the lock is not passed on without a round trip. To hand
    /// the lock itself on, take [`LockGuard::into_token`].
    ///
    /// Whoever reads one can build those of all other token locks of this client. At a server without scripts an extension by it
    /// that meets a renewal may be undone, see the [guide](crate::guide::token_lock#servers-without-eval).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let guard = client.token_lock("report").lock().await?;
    /// if let Some(token) = guard.token() {
    ///     println!("{}", token.as_ref()); // for a child process that extends the lock while it works
    /// }
    /// # guard.unlock().await.map(drop)
    /// # }
    /// ```
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.only()?.token()
    }

    /// Gives the lock to whoever gets the token: the guard is gone, nobody here renews the lock, and it stays locked for what is
    /// left of its lease, unless it is extended. No I/O.
    ///
    /// A renewal that was under way may still lengthen it, once. Where an answer to the acquisition was lost, a late copy of that
    /// may take the lock again after whoever has the token released it, for one lease at most. At a server without scripts a renewal
    /// that was under way may make shorter what whoever has the token asked for meanwhile.
    ///
    /// # Errors
    ///
    /// The guard itself, where there is no token to give: it is no [`TokenLock`](crate::TokenLock)'s, or what it stood for was
    /// lost or released.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.token_lock("report");
    /// let guard = lock.lock().lease(std::time::Duration::from_secs(600)).await?;
    /// match guard.into_token() {
    ///     Ok(token) => println!("{}", token.as_ref()), // for the queue that another service works off
    ///     Err(guard) => println!("not held any more: {guard:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_token(self) -> std::result::Result<Token, Self> {
        match self.held {
            Held::One(share) => share.into_token().map_err(Self::one),
            Held::Many(many) => Err(Self { held: Held::Many(many) }),
        }
    }

    /// Who holds, of several locks all of them. Nested acquisitions by this owner succeed at once.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        match &self.held {
            Held::One(share) => share.owner(),
            Held::Many(many) => many.owner(),
        }
    }

    /// The lock's name, as it was given; of several, all of them in their order, with commas between them.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.held {
            Held::One(share) => share.name(),
            Held::Many(many) => many.name(),
        }
    }

    /// Gives up the guard and keeps the hold, with its watchdog, for `unlock()` or `attach()` of the same owner; of several locks all
    /// of them, each for itself, too.
    ///
    /// Nothing ends such a hold by itself while the process lives: acquire it with `max_hold`. The owner is known in
    /// this process only; it is never sent anywhere.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.lock("capture:7");
    /// let hour = std::time::Duration::from_secs(3600);
    /// let owner = lock.lock().max_hold(hour).await?.detach();
    /// // … later, perhaps in another task …
    /// lock.unlock().owner(&owner).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(self) -> Owner {
        match self.held {
            Held::One(share) => share.detach(),
            Held::Many(many) => many.detach(),
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn owned<T: Send + Sync + Unpin + 'static>() {}
    owned::<LockGuard>();
};
