//! The futures that users hold. A request does nothing before its first poll; then it checks what it was told, settles
//! whose it is, and starts `acquisition.rs`.

use std::{
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{
    acquisition::{self, Acquiring, Acquisition},
    ask::{Ask, Patience},
    guard::LockGuard,
    handle::{Handle, Nesting},
    outcome::{Outcome, Released},
    pause::unanswered,
    registry::State,
    shared::Engine,
    tenure::Tenure,
};
use crate::{
    error::{Error, Result},
    lease::{self, Lease, Wait},
    owner::Owner,
    spare::{Boxes, Reused, Spare},
};

/// What was asked for, before the first poll.
pub(super) struct Plan {
    handle: Handle,
    nesting: Nesting,
    owner: Option<Owner>,
    lease: Lease,
    max_hold: Option<Duration>,
    wait: Option<Duration>,
}

impl Plan {
    pub(super) fn new(handle: Handle, nesting: Nesting) -> Self {
        Self { handle, nesting, owner: None, lease: Lease::Watchdog, max_hold: None, wait: None }
    }

    /// Checks everything that needs no server. The owner is whoever polls first.
    fn check(&self, waits: Waits) -> Result<Ask> {
        self.handle.ready()?;
        let lease = match self.lease {
            Lease::Watchdog => Lease::Watchdog,
            Lease::Fixed(lease) => Lease::Fixed(lease::fixed_lease("lease", lease).map_err(|error| self.said(error))?),
        };
        let max_hold = self.max_hold.map(lease::max_hold).transpose().map_err(|error| self.said(error))?;
        let patience = match (waits, lease::wait(self.wait.unwrap_or_default())) {
            (Waits::ForEver, _) | (Waits::AsTold, Wait::Forever) => Patience::ForEver,
            (Waits::AsTold, Wait::None) => Patience::Once,
            (Waits::AsTold, Wait::For(wait)) => Patience::Until(self.handle.engine.clock().now() + wait),
        };
        let owner = match (&self.owner, self.nesting) {
            (Some(_), Nesting::Never) => {
                let error = Error::invalid("owner", "a mutex gives every acquisition an owner of its own");
                return Err(self.said(error));
            }
            (Some(owner), Nesting::Current) => owner.clone(),
            (None, Nesting::Current) => Owner::current(),
            (None, Nesting::Never) => Owner::new(),
        };
        Ok(Ask { owner, lease, max_hold, patience })
    }

    /// What is wrong with an option, and of which lock.
    fn said(&self, error: Error) -> Error {
        error.for_lock(self.handle.name())
    }

    fn acquire(self, waits: Waits) -> Acquiring {
        let ask = match self.check(waits) {
            Ok(ask) => ask,
            Err(error) => return acquisition::refused(error),
        };
        let Handle { engine, protocol } = self.handle;
        let Ok(protocol) = protocol else { return acquisition::refused(Error::Closed) };
        Acquisition::start(engine, protocol, ask)
    }

    fn unlock(self) -> Reused<Result<Released>> {
        let owner = self.owner.clone().unwrap_or_else(Owner::current);
        let handle = self.handle;
        Reused::new(&UNLOCKS, async move {
            let protocol = handle.ready()?;
            let not_held = |guards| Error::NotHeld { name: Arc::clone(protocol.name()), guards };
            let Some(place) = handle.engine.find(protocol.key()) else { return Err(not_held(0)) };
            let found = place.update(|state, fx| {
                state.expire(&place, fx);
                match state.detached(&owner) {
                    // Taken in the same step, so that nobody else gets it too.
                    Some((tenure, id)) => {
                        if let Some(hold) = state.hold_of(&tenure) {
                            hold.tickets.iter_mut().filter(|it| it.id == id).for_each(|it| it.detached = false);
                        }
                        Found::Ticket(LockGuard::new(place.clone(), tenure, id, None))
                    }
                    None => match state.releases.iter().find(|release| release.outcome.is_detached_of(&owner)) {
                        Some(release) => Found::UnderWay(Arc::clone(&release.outcome)),
                        None => Found::Nothing { guards: state.held_by(&owner).map_or(0, |hold| hold.granted()) },
                    },
                }
            });
            match found {
                Found::Ticket(guard) => guard.unlock_detached().await,
                Found::Nothing { guards } => Err(not_held(guards)),
                Found::UnderWay(outcome) => {
                    let within = handle.engine.settings().command_timeout;
                    let why = "the release is not answered yet; it is repeated in the background";
                    outcome.wait(within).await.unwrap_or_else(|| Err(unanswered(&place, true, why)))
                }
            }
        })
    }
}

/// What an owner without a guard may still unlock.
enum Found {
    Ticket(LockGuard),
    /// An earlier `unlock` of it is not answered yet.
    UnderWay(Arc<Outcome>),
    Nothing {
        guards: u32,
    },
}

impl State {
    /// The newest detached ticket of an owner; of a live hold before a lost one.
    pub(super) fn detached(&self, owner: &Owner) -> Option<(Arc<Tenure>, u64)> {
        self.hold.iter().chain(self.lost.iter()).filter(|hold| hold.owner() == owner).find_map(|hold| {
            let ticket = hold.tickets.iter().rfind(|ticket| ticket.detached)?;
            Some((Arc::clone(&hold.tenure), ticket.id))
        })
    }
}

thread_local! {
    static UNLOCKS: Boxes<Result<Released>> = const { Spare::new() };
}

#[derive(Clone, Copy)]
enum Waits {
    ForEver,
    AsTold,
}

/// A plan until the first poll, a boxed future from then on.
enum Request<T: 'static> {
    Planned(Plan),
    Running(Arc<Engine>, Reused<Result<T>>),
    Done,
}

impl<T> Request<T> {
    fn new(plan: Plan) -> Self {
        Self::Planned(plan)
    }

    fn change(mut self, change: impl FnOnce(&mut Plan)) -> Self {
        if let Self::Planned(plan) = &mut self {
            change(plan);
        }
        self
    }

    fn poll(&mut self, cx: &mut Context<'_>, start: impl FnOnce(Plan) -> Reused<Result<T>>) -> Poll<Option<Result<T>>> {
        if let Self::Planned(_) = self
            && let Self::Planned(plan) = mem::replace(self, Self::Done)
        {
            *self = Self::Running(Arc::clone(&plan.handle.engine), start(plan));
        }
        let Self::Running(engine, running) = self else { return Poll::Ready(None) };
        // At every poll: an owned future may be carried elsewhere, where its timers would panic.
        let polled = match engine.on_own_runtime() {
            Ok(()) => Pin::new(running).poll(cx),
            Err(error) => Poll::Ready(Err(error)),
        };
        if polled.is_ready() {
            *self = Self::Done;
        }
        polled.map(Some)
    }
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
/// [`Error::Invalid`] for a bad name, lease or bound, on a foreign runtime, and where this owner already has such an
/// acquisition on its way; [`Error::Unreachable`] after `unreachable_after` without an answer; [`Error::Refused`] if
/// the server will not; [`Error::Closed`].
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
        let polled = self.0.poll(cx, |plan| plan.acquire(Waits::ForEver));
        // Waiting for ever is never answered busy.
        polled.map(|answer| answer.unwrap_or_else(polled_again)?.map_or_else(polled_again, Ok))
    }
}

/// Acquires a lock if it is free, or becomes free within [`TryAcquire::wait`]. Made by `try_lock()` of every primitive.
///
/// Without a wait it never queues and never overtakes: where another owner of this client holds the lock or waits for
/// it, the answer is `None` without a command; otherwise it is one try. `Ok(None)` is the answer "somebody else has it".
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
        self.0.poll(cx, |plan| plan.acquire(Waits::AsTold)).map(|answer| answer.unwrap_or_else(polled_again))
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
        self.0.poll(cx, Plan::unlock).map(|answer| answer.unwrap_or_else(polled_again))
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
