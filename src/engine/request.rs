//! The futures that users hold. A request does nothing before its first poll; then it settles whose it is, and does what
//! `plan.rs` says: here, if here is where the client lives, and else there.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tracing::Instrument;

use super::{
    elsewhere::{Away, HomeWatch},
    guard::LockGuard,
    outcome::Released,
    plan::{Plan, Waits},
};
use crate::{
    error::{Error, Op, Result},
    lease::Lease,
    owner::Owner,
    spare::Reused,
};

/// A plan, and how far it has come: it stays in its place, so that nothing is moved about.
struct Request<T: 'static> {
    plan: Plan,
    progress: Progress<T>,
    /// While it is polled at home, but by none of its workers.
    watch: HomeWatch,
}

/// Nothing until the first poll, a boxed future from then on: polled here while here is home, and else there.
enum Progress<T: 'static> {
    Planned,
    Running(Reused<Result<T>>),
    /// It runs at home, and is awaited elsewhere.
    Away(Box<Away<Result<T>>>),
    Done,
}

/// What a request answers with. From home to a caller elsewhere is a way on which it may be left lying.
trait Answer: Send + 'static {
    /// Whether the request is final from its first poll on.
    const FINAL: bool = false;

    fn leaves(&self) {}

    /// Whether it is still good for anything.
    fn arrives(&self) -> bool {
        true
    }
}

impl Answer for Released {
    const FINAL: bool = true;
}

impl Answer for Option<LockGuard> {
    fn leaves(&self) {
        self.iter().for_each(LockGuard::leave);
    }

    fn arrives(&self) -> bool {
        self.as_ref().is_none_or(LockGuard::take)
    }
}

/// How a request is begun, at home.
type Start<T> = fn(&Plan) -> Reused<Result<T>>;

impl<T: Answer> Request<T> {
    fn new(plan: Plan) -> Self {
        Self { plan, progress: Progress::Planned, watch: HomeWatch::default() }
    }

    fn change(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        if let Progress::Planned = self.progress {
            change(&mut self.plan);
        }
        self
    }

    fn poll(&mut self, cx: &mut Context<'_>, op: Op, start: Start<T>) -> Poll<Option<Result<T>>> {
        // At every poll: an owned future may be carried elsewhere, where its timers would panic.
        let home = self.plan.handle.engine.is_home();
        match &self.progress {
            Progress::Planned if home => {
                self.plan.begin();
                self.progress = Progress::Running(start(&self.plan));
            }
            Progress::Planned => {
                // What needs no server needs no home either.
                if let Err(error) = self.plan.handle.ready() {
                    self.progress = Progress::Done;
                    return Poll::Ready(Some(Err(error)));
                }
                self.plan.carry();
                self.begin_away(start);
            }
            Progress::Running(_) if !home => self.carry(),
            Progress::Running(_) | Progress::Away(_) | Progress::Done => {}
        }
        let polled = match &mut self.progress {
            Progress::Running(running) => {
                let engine = &self.plan.handle.engine;
                let polled = self.watch.poll_at_home(engine, cx, |cx| Pin::new(running).poll(cx));
                polled.map(|heard| heard.unwrap_or_else(|silence| Err(silence.error(&self.plan.full_name(), op))))
            }
            Progress::Away(_) => self.poll_away(cx, op, start),
            Progress::Planned | Progress::Done => return Poll::Ready(None),
        };
        if polled.is_ready() {
            self.progress = Progress::Done;
            self.watch = HomeWatch::default();
        }
        polled.map(Some)
    }

    fn begin_away(&mut self, start: Start<T>) {
        self.plan.begin();
        let begun = self.plan.clone();
        let call = async move { sent(start(&begun)).await };
        self.progress = self.away(call.in_current_span());
    }

    fn carry(&mut self) {
        if let Progress::Running(running) = mem::replace(&mut self.progress, Progress::Done) {
            self.plan.carry();
            self.watch = HomeWatch::default();
            self.progress = self.away(sent(running));
        }
    }

    fn away(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Progress<T> {
        let answer = self.plan.handle.engine.away(call);
        Progress::Away(Box::new(if T::FINAL { answer.decided() } else { answer }))
    }

    fn poll_away(&mut self, cx: &mut Context<'_>, op: Op, start: Start<T>) -> Poll<Result<T>> {
        while let Progress::Away(answer) = &mut self.progress {
            let answer = match ready!(Pin::new(answer).poll(cx)) {
                Ok(answer) => answer,
                Err(silence) => return Poll::Ready(Err(silence.error(&self.plan.full_name(), op))),
            };
            if answer.as_ref().is_ok_and(|answer| !answer.arrives()) {
                // It was left lying for longer than it lasts: that is nobody's fault, so start over.
                self.plan.waited();
                self.begin_away(start);
            } else {
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    }
}

/// At home, with its answer ready to leave.
async fn sent<T: Answer>(running: Reused<Result<T>>) -> Result<T> {
    let answer = running.await;
    answer.iter().for_each(T::leaves);
    answer
}

fn polled_again<T>() -> Result<T> {
    Err(Error::invalid("future", "it was polled again after it had answered"))
}

/// Acquires a lock, waiting for as long as the server answers. Made by `lock()` of every primitive.
///
/// Owned and `'static`: it may be stored, spawned, joined, or awaited by reference in a `select!` loop. Whose it is is
/// settled at the first poll; nothing happens before.
///
/// # Errors
///
/// [`Error::Invalid`] for a bad name, lease or bound, and where this owner already has such an acquisition on its way;
/// [`Error::Unreachable`] after `unreachable_after` without an answer, or in which the client's own runtime made no progress;
/// [`Error::Refused`] if the server will not; [`Error::Closed`], where that runtime ended too.
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
pub struct Acquire(Request<Option<LockGuard>>);

impl Acquire {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Request::new(plan))
    }

    /// How long the hold lasts on the server; the default is [`Lease::Watchdog`]. A fixed one has 10 ms to 365 days.
    pub fn lease(self, lease: impl Into<Lease>) -> Self {
        Self(self.0.change(|plan| plan.lease = lease.into()))
    }

    /// Acquires as this owner instead of the current one.
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.change(|plan| plan.owner = Some(owner.clone())))
    }

    /// Ends the hold this long after this acquisition, whatever happens: at the bound it is lost
    /// ([`LostCause::MaxHold`](crate::LostCause::MaxHold)) and released. From 10 ms to 365 days; of several in one
    /// hold, the one that ends first counts.
    pub fn max_hold(self, bound: Duration) -> Self {
        Self(self.0.change(|plan| plan.max_hold = Some(bound)))
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll(cx, Op::Acquire, |plan| plan.acquire(Waits::ForEver));
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
/// As for [`Acquire`]; with a wait, [`Error::Unreachable`] if that ended and the last try had no answer.
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
pub struct TryAcquire(Request<Option<LockGuard>>);

impl TryAcquire {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Request::new(plan))
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
        Self(self.0.change(|plan| plan.wait = Some(wait)))
    }

    /// How long the hold lasts on the server; the default is [`Lease::Watchdog`]. A fixed one has 10 ms to 365 days.
    pub fn lease(self, lease: impl Into<Lease>) -> Self {
        Self(self.0.change(|plan| plan.lease = lease.into()))
    }

    /// Acquires as this owner instead of the current one.
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.change(|plan| plan.owner = Some(owner.clone())))
    }

    /// Ends the hold this long after this acquisition, whatever happens: at the bound it is lost
    /// ([`LostCause::MaxHold`](crate::LostCause::MaxHold)) and released. From 10 ms to 365 days; of several in one
    /// hold, the one that ends first counts.
    pub fn max_hold(self, bound: Duration) -> Self {
        Self(self.0.change(|plan| plan.max_hold = Some(bound)))
    }
}

impl Future for TryAcquire {
    type Output = Result<Option<LockGuard>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.poll(cx, Op::Acquire, |plan| plan.acquire(Waits::AsTold));
        polled.map(|answer| answer.unwrap_or_else(polled_again))
    }
}

/// Releases a detached hold. Made by `unlock()` of every primitive.
///
/// # Errors
///
/// [`Error::NotHeld`] where the owner has no detached hold of that name, [`Error::Lost`] where it was lost less than a
/// lease ago, [`Error::Unreachable`] where the outcome is not known yet: the release goes on in the background. Asked
/// again meanwhile, it waits for what becomes of that; once that is over there is nothing left to release.
///
/// # Cancel safety
///
/// The release is decided at the first poll and final: dropping the future leaves it to the background.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: &relatch::Client) -> relatch::Result<()> {
/// let lock = client.lock("session:7");
/// let owner = lock.lock().await?.detach();
/// // … later, perhaps in another task of this process …
/// lock.unlock().owner(&owner).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless they are awaited"]
pub struct Unlock(Request<Released>);

impl Unlock {
    pub(super) fn new(plan: Plan) -> Self {
        Self(Request::new(plan))
    }

    /// Releases a hold of this owner instead of the current one.
    pub fn owner(self, owner: &Owner) -> Self {
        Self(self.0.change(|plan| plan.owner = Some(owner.clone())))
    }
}

impl Future for Unlock {
    type Output = Result<Released>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, Op::Release, Plan::unlock).map(|answer| answer.unwrap_or_else(polled_again))
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

opaque_debug!(Acquire, TryAcquire, Unlock);

const _: fn() = || {
    fn owned<T: Send + Unpin + 'static>() {}
    owned::<Acquire>();
    owned::<TryAcquire>();
    owned::<Unlock>();
};
