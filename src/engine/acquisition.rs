//! One acquisition from its ask to the guard. It waits for nothing but what it is told: who holds, tries or waits, and for how
//! long, is decided by the name. Dropped, whatever it stands for by then is undone.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tracing::Span;

use super::{
    Protocol,
    ask::AcquireOptions,
    compact_instant::millis,
    entry::Event,
    entry_ref::EntryRef,
    failure::{answered_late, error_of},
    share::Share,
    shared::Engine,
    tenure::{Answered, Tenure},
};
use crate::{
    error::{Error, Op, Result},
    name::Field,
    state::{Failure, Id, Told},
};

/// Who waits for so long for a lock that its own task took may wait for itself. Branches of one task do no harm by that, and
/// mostly wait less.
const SELF_WAIT: Duration = Duration::from_secs(1);

/// One acquisition that was begun. `Ok(None)`: somebody else has it.
pub(super) enum Acquisition {
    Asked(Asked),
    /// It ended before it was asked for.
    Refused(Option<Error>),
}

pub(super) struct Asked {
    place: EntryRef,
    ask: AcquireOptions,
    id: Id,
    tenure: Arc<Tenure>,
    /// It is known what came of it.
    over: bool,
    /// The grant came in the poll that asked, and is for a later one.
    at_once: bool,
    span: Span,
    /// Where somebody hears of it.
    since: Option<Instant>,
}

impl Acquisition {
    pub(super) fn refused(error: Error) -> Self {
        Self::Refused(Some(error))
    }

    /// Asks at once.
    pub(super) fn start(engine: &Arc<Engine>, protocol: &Arc<dyn Protocol>, ask: AcquireOptions) -> Self {
        let span = tracing::debug_span!("acquire", lock = %Field(protocol.name()), owner = %ask.owner);
        // A clock is not read for what nobody hears.
        let heard = span.in_scope(|| tracing::enabled!(tracing::Level::DEBUG));
        let since = heard.then(|| engine.clock().now());
        let tenure = Tenure::new(ask.owner.clone(), ask.task);
        if heard {
            engine.is_heard();
            tenure.is_heard_in(span.clone());
        }
        let id = Id(engine.draw());
        match engine.at(protocol, ask.event(id, &tenure, engine)) {
            Ok(place) => {
                let at_once = tenure.has_own_hold();
                let asked = Asked { place, ask, id, tenure, over: false, at_once, span, since };
                asked.looks_behind();
                Self::Asked(asked)
            }
            Err(error) => Self::refused(error),
        }
    }
}

impl Future for Acquisition {
    type Output = Result<Option<Share>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Asked(asked) => asked.poll(cx),
            Self::Refused(error) => Poll::Ready(Err(error.take().unwrap_or(Error::Closed))),
        }
    }
}

impl Asked {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Share>>> {
        if mem::take(&mut self.at_once) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let Answered { told, fault } = ready!(self.tenure.poll_answer(cx));
            return Poll::Ready(match told {
                Told::Called => {
                    self.place.on(Event::Here { id: self.id });
                    continue;
                }
                Told::PassedOver => {
                    self.asks_again()?;
                    continue;
                }
                Told::Granted { id, share, fence } => {
                    if !self.place.take(id) {
                        // It had run out before it was taken: that is nobody's fault, so start over.
                        self.place.on(Event::Dropped { id: self.id });
                        let heard = self.tenure.unheard();
                        self.tenure = Tenure::new(self.ask.owner.clone(), self.ask.task);
                        heard.into_iter().for_each(|span| self.tenure.is_heard_in(span));
                        self.asks_again()?;
                        continue;
                    }
                    self.over = true;
                    drop(self.tenure.unheard());
                    share.set_fence(fence);
                    if self.ask.max_hold.is_some() {
                        // Whoever waits for the end of the outer one.
                        share.may_end_sooner();
                    }
                    let waiter = mem::replace(&mut self.tenure, Arc::clone(&share));
                    let share = Share::new(self.place.clone(), share, waiter, id);
                    self.acquired();
                    Ok(Some(share))
                }
                Told::Failed(Failure::AnsweredLate) => {
                    self.over = true;
                    Err(answered_late(self.ask.lease, &self.place))
                }
                Told::Failed(failure) => {
                    self.over = true;
                    Err(error_of(failure, fault, &self.place, Op::Acquire))
                }
                Told::Busy => {
                    self.over = true;
                    self.tenure.contended(self.place.name());
                    Ok(None)
                }
                // Nobody has it, and there is nothing to wait for.
                _ => {
                    self.over = true;
                    Ok(None)
                }
            });
        }
    }

    /// Under the id that it had, which stands for nothing by now: so it stands where it stood.
    fn asks_again(&mut self) -> Result<()> {
        let (engine, protocol) = (&self.place.engine, &self.place.entry.protocol);
        let event = self.ask.event(self.id, &self.tenure, engine);
        let asked = engine.at(&Arc::clone(protocol), event);
        if asked.is_err() {
            self.over = true;
        }
        self.place = asked?;
        Ok(())
    }

    fn acquired(&self) {
        let Some(since) = self.since else { return };
        let waited_ms = millis(self.place.engine.clock().now().saturating_duration_since(since));
        let (lock, owner) = (Field(self.place.name()), &self.ask.owner);
        self.span.in_scope(|| tracing::debug!(%lock, %owner, waited_ms, "acquired"));
    }

    /// Somebody may wait for what its own task took: that is said, once a name.
    fn looks_behind(&self) {
        // Nor does it wait for what it has itself.
        if self.ask.nests || self.at_once || !self.is_behind_itself() {
            return;
        }
        let (place, id, ask) = (self.place.clone(), self.id, self.ask.clone());
        self.place.engine.queued.note();
        self.place.engine.spawn(Box::pin(async move {
            sleep(SELF_WAIT).await;
            let still = place.look(|name, _| name.waits(id)) && place.is_taken_by(ask.task);
            if still && place.engine.first_time("self", place.name()) {
                tracing::warn!(
                    lock = %Field(place.name()),
                    owner = %ask.owner,
                    "the task that waits for this mutex took it: if it still has the guard, it waits for itself for ever; use \
                     that guard, or client.lock, which its own task may take again"
                );
            }
        }));
    }

    fn is_behind_itself(&self) -> bool {
        self.ask.task.is_some() && self.place.is_taken_by(self.ask.task)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.over {
            self.tenure.gone();
            drop(self.tenure.unheard());
            self.place.on(Event::Dropped { id: self.id });
        }
    }
}
