//! The futures that users hold. One does nothing before its first poll; how it goes on then is in `progress.rs`, and where it
//! is for several locks in `gathering.rs`.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    gathering::Gathering,
    guard::LockGuard,
    handle::{Handle, Nesting},
    plan::{Options, Plan, Waits},
    progress::{Request, polled_again},
    several::Several,
    share::Share,
};
use crate::{
    error::{Op, Result},
    lease::Lease,
    owner::Owner,
};

/// An acquisition, of one lock or of several.
#[allow(clippy::large_enum_variant, reason = "the usual one lies where its caller has it, in no box")]
enum Acquiring {
    One(Request<Option<Share>>),
    /// Boxed, so that the usual one has no room for it.
    Many(Box<Gathering>),
}

impl Acquiring {
    fn change(self, change: impl FnOnce(&mut Options)) -> Self {
        match self {
            Self::One(request) => Self::One(request.change(change)),
            Self::Many(mut gathering) => {
                gathering.change(change);
                Self::Many(gathering)
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, waits: Waits) -> Poll<Option<Result<Option<LockGuard>>>> {
        match self {
            Self::One(request) => {
                let start = match waits {
                    Waits::ForEver => |plan: &Plan| plan.acquire(Waits::ForEver),
                    Waits::AsTold | Waits::ForAnswer => |plan: &Plan| plan.acquire(Waits::AsTold),
                };
                let polled = request.poll(cx, Op::Acquire, start);
                polled.map(|answer| answer.map(|answer| answer.map(|share| share.map(LockGuard::one))))
            }
            Self::Many(gathering) => {
                let polled = gathering.poll(cx, waits);
                polled.map(|answer| answer.map(|answer| answer.map(|many| many.map(LockGuard::many))))
            }
        }
    }
}

/// Acquires a lock, waiting for as long as the server answers. Made by `lock()` of every primitive.
///
/// Owned and `'static`: it may be stored, spawned, joined, or awaited by reference in a `select!` loop. Whose it is is
/// settled at the first poll; nothing happens before.
///
/// # Errors
///
/// [`Error::Invalid`](crate::Error::Invalid) for a bad name, lease or bound, and where this owner already has such an
/// acquisition on its way; [`Error::Unreachable`](crate::Error::Unreachable) after `unreachable_after` without an answer, or in
/// which the client's own runtime made no progress; [`Error::Refused`](crate::Error::Refused) if the server will not;
/// [`Error::Closed`](crate::Error::Closed), where that runtime ended too.
///
/// # Cancel safety
///
/// Dropping it gives up the place in the queue. If the server had been asked already, the hold that may exist is
/// released in the background, before anything else is tried for that name.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// use std::time::Duration;
///
/// let lock = client.lock("invoice:17");
/// let guard = lock.lock().lease(Duration::from_secs(10)).await?;
/// guard.unlock().await?;
///
/// // Owned: it may be spawned before it is awaited.
/// let later = tokio::spawn(client.mutex("invoice:18").lock());
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquire(Acquiring);

impl Acquire {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Acquiring::One(Request::new(plan)))
    }

    pub(super) fn of_many(gathering: Gathering) -> Self {
        Self(Acquiring::Many(Box::new(gathering)))
    }

    /// How long the hold lasts on the server; the default is [`Lease::Watchdog`]. A fixed one has 10 ms to 365 days.
    pub fn lease(self, lease: impl Into<Lease>) -> Self {
        Self(self.0.change(|options| options.lease = lease.into()))
    }

    /// Acquires as this owner instead of the current one.
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.change(|options| options.owner = Some(owner.clone())))
    }

    /// Ends the hold this long after this acquisition, whatever happens: at the bound it is lost
    /// ([`LostCause::MaxHold`](crate::LostCause::MaxHold)) and released. From 10 ms to 365 days; of several in one
    /// hold, the one that ends first counts.
    pub fn max_hold(self, bound: Duration) -> Self {
        Self(self.0.change(|options| options.max_hold = Some(bound)))
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll(cx, Waits::ForEver);
        // Waiting for ever is never answered busy.
        polled.map(|answer| answer.unwrap_or_else(polled_again)?.map_or_else(polled_again, Ok))
    }
}

/// Acquires a lock if it is free, or becomes free within [`TryAcquire::wait`]. Made by `try_lock()` of every primitive.
///
/// Without a wait it never queues and never overtakes: where another owner of this client holds the lock or waits for
/// it, the answer is `None` without a command; otherwise it is one try. `Ok(None)` is the answer "somebody else has it".
/// Other processes that were listening when the turn of this one was over go first, for one
/// [`handover_slice`](crate::ClientBuilder::handover_slice) at most: until then the answer is `None` as well.
///
/// The guard inside *is* the lock. `if lock.try_lock().await?.is_some() { … }` drops it at once and protects nothing: write
/// `if let Some(guard) = lock.try_lock().await? { … }`.
///
/// # Errors
///
/// As for [`Acquire`]; with a wait, [`Error::Unreachable`](crate::Error::Unreachable) if that ended and the last try had no
/// answer.
///
/// # Cancel safety
///
/// As for [`Acquire`].
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// use std::time::Duration;
///
/// match client.lock("invoice:17").try_lock().wait(Duration::from_millis(200)).await? {
///     Some(guard) => println!("{:?}", guard.unlock().await?),
///     None => println!("somebody else is on it"),
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct TryAcquire(Acquiring);

impl TryAcquire {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Acquiring::One(Request::new(plan)))
    }

    pub(super) fn of_many(gathering: Gathering) -> Self {
        Self(Acquiring::Many(Box::new(gathering)))
    }

    /// Waits so long for the lock to become free. Zero is the same as no wait: one try, whose bound is the command
    /// timeout; [`Duration::MAX`] waits for ever.
    ///
    /// A try that is on its way when the wait ends is waited for, so that a free lock is taken by any wait, however far the
    /// server is. The answer may therefore come one round trip later than the wait's end. Where the server says nothing, it is
    /// given up after a few of the round trips that were measured before, or a few times as long as it has been silent by
    /// then, but not for more than 300 ms. `Ok(None)` says that somebody else had it, or that more acquisitions of this
    /// client are under way than are let through at a time, and the wait ended before its turn came.
    /// An owner that has the lock already is let in again by any wait: its acquisitions go one after the other.
    #[doc(alias = "timeout")]
    pub fn wait(self, wait: Duration) -> Self {
        Self(self.0.change(|options| options.wait = Some(wait)))
    }

    /// How long the hold lasts on the server; the default is [`Lease::Watchdog`]. A fixed one has 10 ms to 365 days.
    pub fn lease(self, lease: impl Into<Lease>) -> Self {
        Self(self.0.change(|options| options.lease = lease.into()))
    }

    /// Acquires as this owner instead of the current one.
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.change(|options| options.owner = Some(owner.clone())))
    }

    /// Ends the hold this long after this acquisition, whatever happens: at the bound it is lost
    /// ([`LostCause::MaxHold`](crate::LostCause::MaxHold)) and released. From 10 ms to 365 days; of several in one
    /// hold, the one that ends first counts.
    pub fn max_hold(self, bound: Duration) -> Self {
        Self(self.0.change(|options| options.max_hold = Some(bound)))
    }
}

impl Future for TryAcquire {
    type Output = Result<Option<LockGuard>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll(cx, Waits::AsTold);
        polled.map(|answer| answer.unwrap_or_else(polled_again))
    }
}

macro_rules! opaque_debug {
    ($($request:ident),*) => {
        $(impl fmt::Debug for $request {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($request)).finish_non_exhaustive()
            }
        })*
    };
}

opaque_debug!(Acquire, TryAcquire);

impl Handle {
    pub(crate) fn lock(&self, nesting: Nesting) -> Acquire {
        Acquire::new(Plan::new(self.clone(), nesting))
    }

    pub(crate) fn try_lock(&self, nesting: Nesting) -> TryAcquire {
        TryAcquire::new(Plan::new(self.clone(), nesting))
    }
}

impl Several {
    pub(crate) fn lock(self: &Arc<Self>) -> Acquire {
        Acquire::of_many(Gathering::new(Arc::clone(self)))
    }

    pub(crate) fn try_lock(self: &Arc<Self>) -> TryAcquire {
        TryAcquire::of_many(Gathering::new(Arc::clone(self)))
    }
}

const _: fn() = || {
    fn owned<T: Send + Unpin + 'static>() {}
    owned::<Acquire>();
    owned::<TryAcquire>();
};
