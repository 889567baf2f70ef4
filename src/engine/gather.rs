//! Several locks for one owner: all that are free at once, and the others one after the other, in one order for everybody.
//! Whoever waits has only such as come before, so nobody waits in a circle.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
    time::Duration,
};

use tokio::{
    task,
    time::{Instant, sleep_until},
};

use super::{
    ask::{Patience, Terms},
    caller::Caller,
    handle::Handle,
    many::{Many, Shares},
    pause::{Pauses, bounded_by, unanswered},
    plan::{Options, Plan, Waits},
    progress::{Start, requested},
    several::Several,
    share::Share,
    shared::Engine,
    sweep::{Missing, Sweep},
    together::Together,
};
use crate::{
    error::{Error, Op, Result},
    lease::Lease,
    owner::Owner,
};

/// Waits are of whole milliseconds.
const SHORTEST: Duration = Duration::from_millis(1);

/// One that was begun, at home.
pub(super) struct Gather {
    pub(super) several: Arc<Several>,
    pub(super) home: Arc<Engine>,
    pub(super) caller: Arc<Caller>,
    pub(super) owner: Owner,
    /// The caller's.
    pub(super) task: Option<task::Id>,
    pub(super) terms: Terms,
    pub(super) patience: Patience,
}

/// What became of it.
enum Gathered {
    All(Shares),
    Busy,
    /// One of those that it had was lost, or may be.
    Lost(Error),
}

/// How waiting for that ended.
enum Waited {
    Granted(Share),
    Busy,
    Lost(Error),
}

impl Gather {
    /// What it has is let go of when the caller does not poll, and taken anew when it polls again.
    pub(super) async fn all(self) -> Result<Option<Many>> {
        let handles = self.several.ready()?;
        let watchdogs = handles.iter().map(|handle| handle.engine.settings().watchdog_timeout);
        let patience = watchdogs.min().unwrap_or_default();
        let mut begins = true;
        let shares = loop {
            let attempts = self.attempts(std::mem::take(&mut begins));
            match self.caller.while_polled(patience, attempts).await {
                Some(shares) => break shares?,
                None => self.caller.next_poll().await,
            }
        };
        let Some(shares) = shares else { return Ok(None) };
        let many = Many::new(shares, self.owner, Arc::clone(&self.several.name));
        // Until the caller comes for it.
        many.leave();
        Ok(Some(many))
    }

    async fn attempts(&self, mut begins: bool) -> Result<Option<Shares>> {
        let mut pauses = Pauses::after_faults(self.home.chance());
        // A client that ends lets go of what it has got for this: what comes of that is not the caller's doing.
        let told = |error| self.several.ready().err().unwrap_or(error);
        loop {
            match self.once(std::mem::take(&mut begins)).await.map_err(told)? {
                Gathered::All(shares) => return Ok(Some(shares)),
                Gathered::Busy => return Ok(None),
                Gathered::Lost(error) if self.is_over() => return Err(told(error)),
                // All of it was let go of; there is time to begin anew.
                Gathered::Lost(_) => {
                    let pause = self.home.clock().now() + pauses.next();
                    sleep_until(self.patience.until().map_or(pause, |until| until.min(pause))).await;
                }
            }
        }
    }

    /// What was asked for is asked for at once where it `begins`: mostly all are free. While some are missing the watchdog looks
    /// after the others: nobody knows for how long.
    async fn once(&self, begins: bool) -> Result<Gathered> {
        let handles = self.several.ready()?;
        let mut held = Shares::default();
        let mut terms = if begins { self.terms } else { Terms::UNTIL_ALL };
        while let Some(missing) = self.sweep(handles, terms, &mut held).await? {
            if self.is_over() {
                return match missing {
                    Missing::Busy => Ok(Gathered::Busy),
                    Missing::Unanswered(error) => Err(error),
                };
            }
            let now = self.home.clock().now();
            if let Some(lost) = self.on_terms(&mut terms, Terms::UNTIL_ALL, now, &held) {
                return Ok(Gathered::Lost(lost));
            }
            match self.wait_for(&handles[held.0.len()], &held).await? {
                Waited::Granted(share) => held.0.push(share),
                Waited::Busy => return Ok(Gathered::Busy),
                Waited::Lost(error) => return Ok(Gathered::Lost(error)),
            }
        }
        self.settle(terms, held).await
    }

    /// Asks for all that are missing, all before any answer. What comes behind the first that is not granted is let go of again
    /// as its answer comes, and not when all have answered.
    async fn sweep(&self, handles: &[Handle], terms: Terms, held: &mut Shares) -> Result<Option<Missing>> {
        let asks = handles[held.0.len()..].iter();
        let mut sweep = Sweep::new(asks.map(|handle| self.asks(handle, terms, |plan| plan.acquire(Waits::ForAnswer))));
        (&mut sweep).await?;
        Ok(sweep.end(held))
    }

    /// Waits for one, as it waits itself; but no longer than what is held already lasts.
    async fn wait_for(&self, next: &Handle, held: &Shares) -> Result<Waited> {
        let mut request = match self.patience {
            Patience::ForEver => self.asks(next, Terms::UNTIL_ALL, |plan| plan.acquire(Waits::ForEver)),
            _ => self.asks(next, Terms::UNTIL_ALL, |plan| plan.acquire(Waits::AsTold)),
        };
        // Of a client that shuts down it is let go of, and not lost.
        let mut ends: Vec<_> = held.0.iter().map(|share| Box::pin(share.ended())).collect();
        poll_fn(|cx| {
            for (share, end) in held.0.iter().zip(&mut ends) {
                if end.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(Waited::Lost(share.why_not_held())));
                }
            }
            let answer = ready!(Pin::new(&mut request).poll(cx));
            Poll::Ready(answer.map(|granted| granted.map_or(Waited::Busy, Waited::Granted)))
        })
        .await
    }

    /// All are held: now the lease and the bound that were asked for begin.
    async fn settle(&self, mut terms: Terms, held: Shares) -> Result<Gathered> {
        let since = self.home.clock().now();
        if let Lease::Fixed(lease) = self.terms.lease
            && terms != self.terms
        {
            let lease = self.terms.max_hold.map_or(lease, |bound| bound.min(lease));
            // Mostly what the watchdog was promised is more than that.
            let short = held.0.iter().filter(|share| share.expires_in().is_none_or(|left| left < lease));
            let extended = Together::new(short.map(|share| Box::pin(self.lengthen(share, lease)))).await;
            match extended.into_iter().find_map(Result::err) {
                // Without an answer, too, it is begun anew while there is time.
                Some(error) if error.is_lost() || error.is_transient() => return Ok(Gathered::Lost(error)),
                Some(error) => return Err(error),
                None => {}
            }
        }
        let lost = self.on_terms(&mut terms, self.terms, since, &held);
        // The first may have run out before the last was there.
        let lost = lost.or_else(|| held.0.iter().find(|share| !share.is_held()).map(Share::why_not_held));
        Ok(lost.map_or_else(|| Gathered::All(held), Gathered::Lost))
    }

    /// For one of them, and for no longer than a try of somebody who waits so long.
    async fn lengthen(&self, share: &Share, lease: Duration) -> Result<()> {
        let asked = self.home.clock().now();
        let cut_off = || Some(share.place.distance().cut_off(self.patience.until()?, asked));
        let extended = bounded_by(cut_off, share.lengthen_within_bound(lease)).await;
        extended.unwrap_or_else(|| Err(unanswered(&share.place, true, "no answer before the wait was over")))
    }

    /// All that are held are from this instant on. Or why one of them is not any more.
    fn on_terms(&self, terms: &mut Terms, next: Terms, since: Instant, held: &Shares) -> Option<Error> {
        if std::mem::replace(terms, next) == next {
            return None;
        }
        held.0.iter().find(|share| !share.settle(next, since)).map(Share::why_not_held)
    }

    /// For one of them.
    fn asks(
        &self,
        handle: &Handle,
        terms: Terms,
        start: Start<Option<Share>>,
    ) -> impl Future<Output = Result<Option<Share>>> + Send + Unpin + use<> {
        let mut plan = Plan::of_many(handle.clone(), self.several.nesting, self.task);
        // Nothing at all would be no bound for its answer.
        let left = |until: Instant| until.saturating_duration_since(self.home.clock().now()).max(SHORTEST);
        let wait = self.patience.until().map(left);
        let Terms { lease, max_hold } = terms;
        plan.options = Options { owner: Some(self.owner.clone()), lease, max_hold, wait };
        let mut request = requested(plan, Op::Acquire, start);
        poll_fn(move |cx| {
            let mut answer = ready!(Pin::new(&mut request).poll(cx));
            if let Ok(Some(share)) = &mut answer {
                // Nobody works under it before all are there.
                share.gathered();
            }
            Poll::Ready(answer)
        })
    }

    /// Whether nobody waits any longer.
    fn is_over(&self) -> bool {
        self.patience.ends_by(self.home.clock().now())
    }
}
