//! Holds of several locks behind one guard: what is asked of it is asked of each. How they are come by is in `gather.rs`.

use std::{pin::Pin, sync::Arc, task::Poll, time::Duration};

use futures_util::future;
use tokio_util::sync::CancellationToken;

use super::{outcome::Released, share::Share, tenure::Tenure, together::Together};
use crate::{
    error::{Error, Result},
    owner::Owner,
};

/// One share of each of several holds, in the order in which they were taken: never empty.
pub(super) struct Many {
    shares: Shares,
    owner: Owner,
    name: Arc<str>,
}

/// Dropped, the last one taken is let go of first.
#[derive(Default)]
pub(super) struct Shares(pub(super) Vec<Share>);

impl Many {
    pub(super) fn new(shares: Shares, owner: Owner, name: Arc<str>) -> Self {
        Self { shares, owner, name }
    }

    fn each(&self) -> impl DoubleEndedIterator<Item = &Share> {
        self.shares.0.iter()
    }

    /// All are told to go before any answer is waited for, the last one first.
    pub(super) async fn let_go(&self) -> Result<Released> {
        let released = Together::new(self.each().rev().map(|share| Box::pin(share.let_go()))).await;
        // Not in the poll that began it, however near the server is: whoever works under them sees first that they are gone.
        tokio::task::yield_now().await;
        left_of(released)
    }

    pub(super) fn is_held(&self) -> bool {
        self.each().all(Share::is_held)
    }

    pub(super) fn expires_in(&self) -> Option<Duration> {
        // One that is over says nothing, and so do all.
        let each: Option<Vec<_>> = self.each().map(Share::expires_in).collect();
        each?.into_iter().min()
    }

    pub(super) async fn lost(&self) -> Error {
        future::select_all(self.each().map(|share| Box::pin(share.lost()))).await.0
    }

    pub(super) fn cancellation(&self) -> CancellationToken {
        self.each().for_each(Share::check);
        let tenures: Vec<_> = self.each().map(|share| &share.tenure).collect();
        Tenure::token_of_all(&tenures, || self.each().any(|share| share.place.engine.is_ending())).child_token()
    }

    pub(super) async fn protect<F: Future>(&self, mut work: Pin<&mut F>) -> Result<F::Output> {
        let mut ends: Vec<_> = self.each().map(|share| Box::pin(share.ended())).collect();
        std::future::poll_fn(|cx| {
            let ended = ends.iter_mut().any(|end| end.as_mut().poll(cx).is_ready());
            if ended || !self.is_held() {
                return Poll::Ready(Err(self.why_not_held()));
            }
            match work.as_mut().poll(cx) {
                Poll::Ready(_) if !self.is_held() => Poll::Ready(Err(self.why_not_held())),
                polled => polled.map(Ok),
            }
        })
        .await
    }

    pub(super) async fn lengthen(&self, lease: Duration) -> Result<()> {
        for share in self.each() {
            let checked = share.place.engine.settings().fixed_lease(lease);
            checked.map_err(|error| error.for_lock(share.place.name()))?;
        }
        let extended = Together::new(self.each().map(|share| Box::pin(share.lengthen(lease)))).await;
        extended.into_iter().collect()
    }

    pub(super) fn hold_count(&self) -> u32 {
        self.each().map(Share::hold_count).min().unwrap_or(0)
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn detach(mut self) -> Owner {
        self.shares.detach();
        self.owner
    }

    /// It is there, and nobody has it until its owner takes it.
    pub(super) fn leave(&self) {
        self.each().for_each(Share::leave);
    }

    /// The owner it was given to takes it; false if one of its holds ran out meanwhile.
    pub(super) fn take(&self) -> bool {
        self.each().all(Share::take)
    }

    /// Of a loss rather than of a release.
    fn why_not_held(&self) -> Error {
        let over = self.each().filter(|share| !share.is_held()).map(Share::why_not_held);
        let over: Vec<_> = over.collect();
        let lost = over.iter().find(|error| error.is_lost()).or(over.first());
        lost.cloned().unwrap_or_else(|| Error::NotHeld { name: Arc::clone(&self.name), guards: 0 })
    }
}

/// What releases of several leave: as much as the one of which the most is left. The first error counts.
pub(super) fn left_of(released: Vec<Result<Released>>) -> Result<Released> {
    let released: Vec<_> = released.into_iter().collect::<Result<_>>()?;
    let still = |released: &Released| if let Released::StillHeld(left) = released { Some(*left) } else { None };
    match released.iter().filter_map(still).max() {
        Some(left) => Ok(Released::StillHeld(left)),
        None => Ok(released.into_iter().find(|released| *released != Released::Freed).unwrap_or(Released::Freed)),
    }
}

impl Shares {
    /// Gives all of them up, and keeps their holds.
    pub(super) fn detach(&mut self) {
        for share in std::mem::take(&mut self.0) {
            share.detach();
        }
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}
