//! Several locks as one. How they are come by is the engine's.

use std::{fmt, sync::Arc};

use super::{FencedLock, Mutex, ReentrantLock, TokenLock};
use crate::{
    engine::{Acquire, Handle, LockGuard, Nesting, Several, TryAcquire, Unlock},
    error::Result,
    owner::Owner,
};

/// Several locks that are taken together: whoever has the guard has all of them. Made by
/// [`Client::multi_lock`](crate::Client::multi_lock), and by [`MultiLock::new`] from locks of any kind and of several clients.
///
/// The locks are the ordinary ones: whoever takes one of them alone is kept out, and keeps out. All that are free are asked for in
/// one round trip. Then it waits for the others one after the other, in one order that is the same for everybody, by their
/// names, however they were named: two who want the same locks never wait for each other. Only locks of one name that several
/// clients have are taken as they were named. A lock that is named twice is taken once. They are
/// *not* taken in one step: while some are missing, those that come before the first of these are held already, and what comes
/// behind it may be held for a moment.
///
/// [`LockGuard`] of several: `is_held` is true while all are held, `expires_in` says when the first one ends, a loss of one is a loss
/// of all for [`lost`](LockGuard::lost), [`cancellation`](LockGuard::cancellation) and [`protect`](LockGuard::protect), and names
/// that lock. The others stay held, and renewed, until the guard is unlocked or dropped. `unlock` releases all, the last one first. It has no [`fence`](LockGuard::fence): its owner may take a
/// [`FencedLock`] of it again, and has its token.
///
/// One owner takes all, and may enter again. If one of them is a [`Mutex`] or a [`TokenLock`], nobody enters again: every acquisition has an owner of
/// its own. The [guide](crate::guide::several_locks) says what it costs, and who it is shared with.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> relatch::Result<()> {
/// let client = relatch::Client::embedded();
/// let guard = client.multi_lock(["account:7", "account:3"]).lock().await?;
/// // … move money from one to the other …
/// assert!(client.mutex("account:3").try_lock().await?.is_none());
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct MultiLock {
    several: Arc<Several>,
}

/// One of the locks of a [`MultiLock`]: a lock of any kind, by value or by reference. A type of one's own that has such a lock
/// becomes one by `impl From<MyLock> for Part`.
///
/// # Examples
///
/// ```no_run
/// use relatch::{MultiLock, Part, ReentrantLock};
///
/// struct Desk {
///     lock: ReentrantLock,
/// }
///
/// impl From<&Desk> for Part {
///     fn from(desk: &Desk) -> Self {
///         Part::from(&desk.lock)
///     }
/// }
///
/// fn both(here: &Desk, there: &Desk) -> MultiLock {
///     MultiLock::new([here, there])
/// }
/// ```
#[derive(Clone)]
pub struct Part {
    handle: Handle,
    nesting: Nesting,
}

impl MultiLock {
    /// Of these locks. Those that are in it twice count once; a bad name, no lock at all, and one lock as two kinds are
    /// [`Error::Invalid`](crate::Error::Invalid) at its first use. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(here: &relatch::Client, there: &relatch::Client) -> relatch::Result<()> {
    /// use relatch::{MultiLock, Part};
    ///
    /// // Of several clients, and of several kinds.
    /// let both = MultiLock::new([Part::from(here.lock("stock")), Part::from(there.mutex("ledger"))]);
    /// let guard = both.lock().await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn new<P: Into<Part>>(parts: impl IntoIterator<Item = P>) -> Self {
        let parts = parts.into_iter().map(|part| {
            let Part { handle, nesting } = part.into();
            (handle, nesting)
        });
        Self { several: Several::new("multi_lock", parts) }
    }

    /// Acquires all, waiting for as long as the servers answer: see [`Acquire`] for options, errors and cancel safety.
    ///
    /// What was got is held under the watchdog until all are there, and is let go of with an error or a dropped future. If one of
    /// them is lost meanwhile, all are released and it starts over. So it is where the future is not polled, though it is woken, for
    /// about a watchdog's timeout: it goes on when it is polled again. A fixed lease and a `max_hold` begin when all are
    /// held; such a lease lasts *at least* so long, and the locks of a process that dies are free after it, or after the
    /// watchdog's timeout where that is longer. `owner` is refused if one of the locks is a [`Mutex`] or a [`TokenLock`].
    #[doc(alias = "acquire")]
    #[doc(alias = "lockInterruptibly")]
    pub fn lock(&self) -> Acquire {
        self.several.lock()
    }

    /// Acquires all if they are free, or become free within [`TryAcquire::wait`], which is one bound for all of them: see
    /// [`TryAcquire`]. What was got by then is released with `None`, and with an error.
    ///
    /// One that is lost when there is no time to start over is [`Error::Lost`](crate::Error::Lost).
    #[doc(alias = "tryLock")]
    pub fn try_lock(&self) -> TryAcquire {
        self.several.try_lock()
    }

    /// Releases a detached hold of each of the locks, the last one first; never a guard's. Each is tried, and the first error is
    /// the answer. See [`Unlock`] and [`LockGuard::detach`].
    pub fn unlock(&self) -> Unlock {
        self.several.unlock()
    }

    /// Takes a detached hold of each of the locks back as one guard; `None`, and nothing changes, where this owner has none of one
    /// of them. No I/O.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let lock = client.multi_lock(["session:7", "cart:7"]);
    /// let owner = lock.lock().await?.detach();
    /// if let Some(guard) = lock.attach(&owner) {
    ///     guard.unlock().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the locks are released when the guard is dropped"]
    pub fn attach(&self, owner: &Owner) -> Option<LockGuard> {
        self.several.attach(owner)
    }

    /// Whether the current owner holds all of them. No I/O.
    #[doc(alias = "isHeldByCurrentThread")]
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_held_by(&Owner::current())
    }

    /// Whether this owner holds all of them. No I/O.
    #[must_use]
    pub fn is_held_by(&self, owner: &Owner) -> bool {
        self.several.hold_count(owner) > 0
    }

    /// How often the current owner holds the one of them that it holds least often. No I/O.
    #[doc(alias = "getHoldCount")]
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.several.hold_count(&Owner::current())
    }

    /// Whether anybody holds one of them, by the servers. The answer may be old when it arrives; to act on it, use `try_lock`.
    ///
    /// # Errors
    ///
    /// As for [`ReentrantLock::inspect`], of the first lock of which there is no answer.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
    /// let taken = client.multi_lock(["account:3", "account:7"]).is_locked().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "isLocked")]
    pub async fn is_locked(&self) -> Result<bool> {
        self.several.is_locked().await
    }

    /// The names of the locks, each once, in the order in which they are taken; nothing if one of them was refused.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.several.names()
    }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiLock").field(&self.several.name()).finish()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.handle.name()).finish()
    }
}

/// What gives a guard of its own is a part of many.
macro_rules! parts {
    ($($lock:ty: $nesting:ident),* $(,)?) => {
        $(
            impl From<&$lock> for Part {
                fn from(lock: &$lock) -> Self {
                    Self { handle: lock.handle().clone(), nesting: Nesting::$nesting }
                }
            }

            impl From<$lock> for Part {
                fn from(lock: $lock) -> Self {
                    Self::from(&lock)
                }
            }
        )*
    };
}

parts! {
    ReentrantLock: Current,
    FencedLock: Current,
    Mutex: Never,
    TokenLock: Never,
}
