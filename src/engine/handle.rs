//! A name of one client, as a primitive hands it out: what can be asked of it without waiting for the
//! lock. The requests that wait are in `request.rs` and `unlock_request.rs`, and the forced release in `force.rs`.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Protocol, Sight, guard::LockGuard, share::Share, shared::Engine, tenure::Tenure};
use crate::{
    backend::{Fault, Pending},
    error::{Error, Op, Result},
    owner::Owner,
    state::{self, Hold},
};

/// A name of one client, as a primitive hands it out. A bad one answers at its first use.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(super) engine: Arc<Engine>,
    pub(super) protocol: Result<Arc<dyn Protocol>>,
}

/// Why what was asked has no answer.
pub(super) struct AskFailed {
    pub(super) error: Error,
    pub(super) may_have_run: bool,
}

/// Whose an acquisition is unless it says so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// The current owner's: it may nest.
    Current,
    /// A fresh owner's, which nobody can be again.
    Never,
    /// That of an owner who was given it for several locks, which nobody can be again.
    NeverOfMany,
}

impl Handle {
    pub(crate) fn new(engine: &Arc<Engine>, protocol: Result<Arc<dyn Protocol>>) -> Self {
        Self { engine: Arc::clone(engine), protocol }
    }

    /// Of the same client, for another protocol.
    pub(crate) fn with(&self, protocol: Result<Arc<dyn Protocol>>) -> Self {
        Self::new(&self.engine, protocol)
    }

    /// How many guards and detached tickets the owner's live hold has, if it has one. No I/O.
    pub(crate) fn held(&self, owner: &Owner) -> Option<u32> {
        let place = self.engine.find(self.protocol.as_ref().ok()?.key())?;
        let owner = state::Owner(owner.number());
        place.look(|name, now| name.held_by(owner, now).map(Hold::granted))
    }

    /// Takes a detached ticket of the owner back, the newest first. No I/O.
    pub(crate) fn attach(&self, owner: &Owner) -> Option<LockGuard> {
        self.attached(owner).map(LockGuard::one)
    }

    pub(super) fn attached(&self, owner: &Owner) -> Option<Share> {
        let place = self.engine.find(self.protocol.as_ref().ok()?.key())?;
        let number = state::Owner(owner.number());
        let (id, tenure) = place.change(|name, _, _| name.attach(number))?;
        let waiter = Tenure::new(owner.clone(), None);
        Some(Share::new(place, tenure, waiter, id))
    }

    /// Who holds, as the server sees it.
    pub(crate) async fn sight(&self) -> Result<Option<Sight>> {
        self.asked(Op::Inspect, |protocol| protocol.inspect()).await.map_err(|failed| failed.error)
    }

    /// The answer to what is asked of the server with no entry's knowledge, wherever it is awaited.
    pub(super) async fn asked<T: Send + 'static>(
        &self,
        op: Op,
        ask: impl FnOnce(&Arc<dyn Protocol>) -> Pending<std::result::Result<T, Fault>>,
    ) -> std::result::Result<T, AskFailed> {
        let protocol = self.ready().map_err(|error| AskFailed { error, may_have_run: false })?;
        let answer = self.engine.anywhere(ask(protocol)).await;
        let answer =
            answer.map_err(|silence| AskFailed { error: silence.error(protocol.name(), op), may_have_run: true })?;
        answer.map_err(|fault| {
            let may_have_run = fault.may_have_run;
            AskFailed { error: Error::from_fault(fault, protocol.name(), op), may_have_run }
        })
    }

    /// The same, of what is no lock's: `ask` knows whom to ask.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        op: Op,
        ask: impl FnOnce() -> Pending<std::result::Result<T, Fault>>,
    ) -> Result<T> {
        self.asked(op, |_| ask()).await.map_err(|failed| failed.error)
    }

    /// Sleeps by the clock of home, wherever this is awaited, and for as long as the client lets anybody in.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] as soon as it does not.
    pub(crate) async fn sleep(&self, time: Duration) -> Result<()> {
        self.rest(Box::pin(async move { sleep(time).await })).await
    }

    /// The same until an instant of home's clock.
    pub(crate) async fn sleep_until(&self, at: Instant) -> Result<()> {
        self.rest(Box::pin(async move { sleep_until(at).await })).await
    }

    async fn rest(&self, sleep: Pending<()>) -> Result<()> {
        let slept = match select(pin!(self.engine.until_ending()), self.engine.anywhere(sleep)).await {
            Either::Left(((), _)) => return Err(Error::Closed),
            Either::Right((slept, _)) => slept,
        };
        slept.map_err(|silence| silence.error(&Arc::from(self.name()), Op::Acquire))
    }

    /// Evenly from nothing up to a bound.
    pub(crate) fn part_of(&self, longest: Duration) -> Duration {
        self.engine.chance().part_of(longest)
    }

    pub(super) fn ready(&self) -> Result<&Arc<dyn Protocol>> {
        let protocol = self.protocol.as_ref().map_err(Error::clone)?;
        self.engine.home().runtime()?;
        if self.engine.is_closed() {
            return Err(Error::Closed);
        }
        Ok(protocol)
    }

    /// The name as it was given; empty if it was refused.
    pub(crate) fn name(&self) -> &str {
        self.protocol.as_ref().map_or("", |protocol| protocol.name())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.protocol {
            Ok(protocol) => f.debug_tuple("Handle").field(protocol.name()).finish(),
            Err(error) => f.debug_tuple("Handle").field(error).finish(),
        }
    }
}
