//! Several locks for one owner: all that are free at once, and the others one after the other, in one order for everybody.
//! Whoever waits has only such as come before, so nobody waits in a circle.
//!
//! It runs at home, whoever polls: what it has is not kept for long by somebody who does not go on.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    task,
    time::{Instant, sleep_until},
};
use tracing::Instrument;

use super::{
    ask::Patience,
    caller::Caller,
    elsewhere::{Away, Silence},
    handle::{Handle, Nesting},
    many::{Many, Shares},
    pause::{Pauses, bounded_by, unanswered},
    plan::{Options, Plan, Terms, Waits},
    progress::{Start, requested},
    several::Several,
    share::Share,
    shared::Engine,
    slot::{Wanted, endable},
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

/// An acquisition of several locks: nothing until its first poll.
pub(super) struct Gathering {
    several: Arc<Several>,
    options: Options,
    progress: Progress,
}

enum Progress {
    Planned,
    UnderWay(Begun),
    Done,
}

/// One that runs at home. Dropped, nothing of it is left: its owner may ask for the same locks again at once.
struct Begun {
    since: std::time::Instant,
    caller: Arc<Caller>,
    answer: Away<Option<Result<Option<Many>>>>,
    _wanted: Wanted<Result<Option<Many>>>,
}

impl Gathering {
    pub(super) fn new(several: Arc<Several>) -> Self {
        Self { several, options: Options::default(), progress: Progress::Planned }
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Options)) {
        if let Progress::Planned = self.progress {
            change(&mut self.options);
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, waits: Waits) -> Poll<Option<Result<Option<Many>>>> {
        if let Progress::Planned = self.progress {
            let begun = self.begin(waits);
            self.progress = Progress::Done;
            match begun {
                Ok(under_way) => self.progress = under_way,
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        loop {
            let Progress::UnderWay(begun) = &mut self.progress else { return Poll::Ready(None) };
            begun.caller.polls(cx);
            let answer = ready!(Pin::new(&mut begun.answer).poll(cx));
            let waited = begun.since.elapsed();
            self.progress = Progress::Done;
            let silent = |silence: Silence| Some(Err(silence.error(&self.several.name, Op::Acquire)));
            // Nobody else ends it.
            let answer = answer.unwrap_or_else(silent).unwrap_or(Err(Error::Closed));
            if let Ok(Some(many)) = &answer
                && !many.take()
            {
                // Nobody took it for as long as it lasted: that is nobody's fault, so start over.
                self.options.wait = self.options.wait.map(|wait| wait.saturating_sub(waited));
                match self.begin(waits) {
                    Ok(under_way) => self.progress = under_way,
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            } else {
                return Poll::Ready(Some(answer));
            }
        }
    }

    /// Checks everything that needs no server. Whoever polls first is the owner, of all of them.
    fn begin(&mut self, waits: Waits) -> Result<Progress> {
        let said = |error: Error| error.for_lock(&self.several.name);
        let home = &self.several.ready()?[0].engine;
        let terms = self.options.terms().map_err(said)?;
        let owner = self.options.whose(self.several.nesting).map_err(said)?;
        if self.several.nesting == Nesting::Current {
            self.options.owner = Some(owner.clone());
        }
        let task = task::try_id();
        let caller = Arc::new(Caller::default());
        let waits_for = Arc::clone(&caller);
        let (several, wait, lives) = (Arc::clone(&self.several), self.options.wait, Arc::clone(home));
        let gather = async move {
            let patience = waits.patience(wait, &lives);
            Gather { several, home: lives, caller: waits_for, owner, task, terms, patience }.all().await
        };
        let (wanted, worker) = endable(gather.in_current_span());
        let since = std::time::Instant::now();
        Ok(Progress::UnderWay(Begun { since, caller, answer: home.away(worker), _wanted: wanted }))
    }
}

/// One that was begun, at home.
struct Gather {
    several: Arc<Several>,
    home: Arc<Engine>,
    caller: Arc<Caller>,
    owner: Owner,
    /// The caller's.
    task: Option<task::Id>,
    terms: Terms,
    patience: Patience,
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
    async fn all(self) -> Result<Option<Many>> {
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
