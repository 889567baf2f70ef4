//! The public face of a ticket: what a holder can ask, await and do. Every decision is taken elsewhere.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, atomic::AtomicBool},
    task::Poll,
    time::Duration,
};

use once_cell::race::OnceBox;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    effects::Effects,
    elsewhere::Minding,
    hold::Hold,
    outcome::Released,
    registry::Place,
    tenure::{End, Tenure},
    unlock::Stage,
};
use crate::{
    error::{Error, Result},
    lease,
    owner::Owner,
};

/// A lock that is held, once. The guard *is* the lock: keep it for as long as nobody else may enter.
///
/// Guards of one hold (an outer acquisition and the nested ones) are equal: they may be released in any order and from
/// any task, and each answers for the whole hold. Dropping a guard releases it in the background: it never blocks,
/// never panics and needs no runtime where it happens. A `main` that ends right after such a drop takes the runtime
/// away before the release is sent; end with [`LockGuard::unlock`].
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
    pub(super) place: Place,
    pub(super) tenure: Arc<Tenure>,
    pub(super) ticket: u64,
    /// It was asked for something.
    pub(super) touched: AtomicBool,
    pub(super) stage: Mutex<Stage>,
    /// This guard's share ended; the hold may go on without it.
    pub(super) released: OnceBox<Notify>,
}

impl LockGuard {
    pub(super) fn new(place: Place, tenure: Arc<Tenure>, ticket: u64) -> Self {
        Self {
            place,
            tenure,
            ticket,
            touched: AtomicBool::new(false),
            stage: Mutex::new(Stage::Held),
            released: OnceBox::new(),
        }
    }

    /// Releases this guard's share of the hold and says what is left of it.
    ///
    /// The guard stops claiming the hold before anything is sent. After an `Ok` the same answer is repeated; after an
    /// error the call asks again, while the release itself is repeated in the background until it is answered or the
    /// lease is over.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold was lost before, without asking the server; [`Error::Unreachable`] if the outcome is
    /// not known yet; [`Error::Refused`] if the server will not; [`Error::Closed`] where the client's runtime ended.
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
        self.let_go().await
    }

    /// Whether the hold is still ours, by the local deadline and all that was heard. No I/O.
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
        self.look(|_| ()).is_some()
    }

    /// How long the hold is good for unless it is renewed; `None` once it is over. No I/O.
    ///
    /// This is the local deadline, which is never later than the server's: it is counted from before the request was
    /// sent, less 0.4 % of the lease and 1 ms for clocks that drift.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: relatch::LockGuard) -> relatch::Result<()> {
    /// let enough = std::time::Duration::from_secs(5);
    /// if guard.expires_in().is_none_or(|left| left < enough) {
    ///     guard.extend(enough).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn expires_in(&self) -> Option<Duration> {
        let moment = self.place.engine.clock().moment();
        self.look(|hold| hold.deadline(moment).saturating_duration_since(moment.now))
    }

    /// Resolves when the hold is lost, with the reason; never if it is released. It may be awaited anywhere, with or
    /// without a runtime.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again. In a `select!` with work put it first and write `biased`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: relatch::LockGuard) {
    /// tokio::select! {
    ///     biased;
    ///     reason = guard.lost() => println!("stop: {reason}"),
    ///     () = tokio::time::sleep(std::time::Duration::from_secs(5)) => println!("done"),
    /// }
    /// # }
    /// ```
    pub async fn lost(&self) -> Error {
        self.check();
        let (mut over, mut minding) = (pin!(self.tenure.over()), Minding::default());
        poll_fn(|cx| {
            let polled = over.as_mut().poll(cx);
            if polled.is_pending() {
                self.minds_end(&mut minding, cx);
            }
            polled
        })
        .await;
        match self.tenure.loss(self.place.name()) {
            // The rest of the hold may be lost after this guard's share was released.
            Some(error) if !self.is_let_go() => error,
            _ => std::future::pending().await,
        }
    }

    /// A token that is cancelled when the hold ends for its owner, lost, released or passed on; and before that, when the
    /// client [shuts down](crate::Client::shutdown): then the hold goes on while its owner stops.
    ///
    /// It is a child: cancelling it does nothing to the hold. It belongs to the hold and not to this guard: releasing
    /// an inner guard does not cancel it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: relatch::LockGuard) -> relatch::Result<()> {
    /// let stop = guard.cancellation();
    /// tokio::task::spawn_blocking(move || {
    ///     while !stop.is_cancelled() {
    ///         // … one more step …
    ///     }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.check();
        self.tenure.token(|| self.place.engine.is_ending()).child_token()
    }

    /// Runs a future for as long as the hold lasts.
    ///
    /// The deadline is checked before every poll and after completion: a result that comes after the loss is not
    /// returned. On loss the future is dropped. It cannot stop blocking code between two awaits, nor tasks that the
    /// future spawned; give those [`LockGuard::cancellation`].
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost first, [`Error::NotHeld`] if this guard or the hold is released first.
    ///
    /// # Cancel safety
    ///
    /// As safe as the future: dropping this drops it. The hold stays.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: relatch::LockGuard) -> relatch::Result<()> {
    /// let pages = guard.protect(async { 17 }).await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn protect<F: IntoFuture>(&self, work: F) -> Result<F::Output> {
        let mut work = pin!(work.into_future());
        let mut over = pin!(self.tenure.over());
        let mut released = pin!(self.released.get_or_init(Box::default).notified());
        let mut minding = Minding::default();
        poll_fn(|cx| {
            let ended = over.as_mut().poll(cx).is_ready() || released.as_mut().poll(cx).is_ready();
            if ended || !self.is_held() {
                return Poll::Ready(Err(self.why_not_held()));
            }
            match work.as_mut().poll(cx) {
                Poll::Ready(_) if !self.is_held() => Poll::Ready(Err(self.why_not_held())),
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending => {
                    self.minds_end(&mut minding, cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Makes the whole hold last at least this long from now; never shorter. The watchdog goes on unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it was lost (nothing is sent then) or is found missing, [`Error::NotHeld`] after a release,
    /// [`Error::Invalid`] for a lease out of bounds or beyond `max_hold`, [`Error::Unreachable`] and
    /// [`Error::Refused`] if the server does not answer or will not; the hold keeps its old deadline then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the lease extended on the server; the guard goes by its old deadline.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(guard: relatch::LockGuard) -> relatch::Result<()> {
    /// guard.extend(std::time::Duration::from_secs(30)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "renew")]
    pub async fn extend(&self, lease: Duration) -> Result<()> {
        let lease = lease::fixed_lease("lease", lease).map_err(|error| error.for_lock(self.name()))?;
        self.lengthen(lease).await
    }

    /// How often the owner holds the lock now, all its guards and detached holds counted; 0 once this one is over.
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.look(Hold::granted).unwrap_or(0)
    }

    /// The fencing token, which is greater than those of all holders before, and the same for all guards of one hold. Only a
    /// [`FencedLock`](crate::FencedLock) gives one; elsewhere it is `None`. [`fence`](crate::fence) says what to do with it.
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
        self.touch();
        self.tenure.fence()
    }

    /// Who holds. Nested acquisitions by this owner succeed at once.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.touch();
        &self.tenure.owner
    }

    /// The lock's name, as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.touch();
        self.place.name()
    }

    /// Gives up the guard and keeps the hold, with its watchdog, for `unlock()` or `attach()` of the same owner.
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
        let mut stage = self.stage();
        let mut fx = Effects::default();
        if matches!(*stage, Stage::Held) {
            let detached = self.place.change(&mut fx, |state, _| {
                let hold = state.hold_of(&self.tenure)?;
                hold.tickets.iter_mut().find(|ticket| ticket.id == self.ticket)?.detached = true;
                Some(())
            });
            if detached.is_some() {
                *stage = Stage::Over(Ok(Released::StillHeld(0)));
            }
        }
        drop(stage);
        fx.run(&self.place);
        self.tenure.owner.clone()
    }

    /// Reads from the live hold, if this guard still has its share of it.
    fn look<R>(&self, read: impl FnOnce(&Hold) -> R) -> Option<R> {
        self.touch();
        self.place.look_at(&self.tenure, self.ticket, read)
    }

    /// Notices now what a timer would tell soon, or a withdrawn command noticed first.
    fn check(&self) {
        self.touch();
        self.place.update(|state, fx| state.expire(&self.place, fx));
    }

    fn why_not_held(&self) -> Error {
        self.place.why_not_held(&self.tenure)
    }
}

impl Place {
    /// Reads from the live hold, if the ticket still has its share of it.
    pub(super) fn look_at<R>(&self, tenure: &Arc<Tenure>, ticket: u64, read: impl FnOnce(&Hold) -> R) -> Option<R> {
        self.update(|state, fx| {
            state.expire(self, fx);
            let hold = state.live(tenure)?;
            hold.ticket(ticket)?;
            Some(read(hold))
        })
    }

    pub(super) fn why_not_held(&self, tenure: &Tenure) -> Error {
        self.update(|state, fx| state.expire(self, fx));
        match tenure.end() {
            Some(End::Lost(loss)) => loss.error(self.name()),
            _ => Error::NotHeld { name: Arc::clone(self.name()), guards: 0 },
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
