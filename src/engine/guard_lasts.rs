//! Whether what a guard has lasts: how long for, how its end is heard of, and what makes it longer.

use std::{pin::pin, time::Duration};

use tokio_util::sync::CancellationToken;

use super::guard::{Held, LockGuard};
use crate::{
    error::{Error, Result},
    lease,
};

impl LockGuard {
    /// How long the hold is good for unless it is renewed; `None` once it is over. Of several locks, the first that ends. No I/O.
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
        match &self.held {
            Held::One(share) => share.expires_in(),
            Held::Many(many) => many.expires_in(),
        }
    }

    /// Resolves when the hold is lost, with the reason; never if it is released. It may be awaited anywhere, with or
    /// without a runtime. Of several locks, when the first is lost, which the error names.
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
        match &self.held {
            Held::One(share) => share.lost().await,
            Held::Many(many) => Box::pin(many.lost()).await,
        }
    }

    /// A token that is cancelled when the hold ends for its owner, lost, released or passed on; and before that, when the
    /// client [shuts down](crate::Client::shutdown): then the hold goes on while its owner stops.
    ///
    /// It is a child: cancelling it does nothing to the hold. It belongs to the hold and not to this guard: releasing
    /// an inner guard does not cancel it. Of several locks it is cancelled with the first hold that ends.
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
        match &self.held {
            Held::One(share) => share.cancellation(),
            Held::Many(many) => many.cancellation(),
        }
    }

    /// Runs a future for as long as the hold lasts; of several locks, for as long as all do.
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
        let work = pin!(work.into_future());
        match &self.held {
            Held::One(share) => share.protect(work).await,
            Held::Many(many) => many.protect(work).await,
        }
    }

    /// Makes the whole hold last at least this long from now; never shorter. The watchdog goes on unchanged. Of several locks all
    /// are asked for together, and where one fails the others may be extended; its error is the answer.
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
        match &self.held {
            Held::One(share) => {
                let checked = share.place.engine.settings().fixed_lease(lease);
                share.lengthen(checked.map_err(|error| error.for_lock(self.name()))?).await
            }
            Held::Many(many) => Box::pin(many.lengthen(lease)).await,
        }
    }
}
