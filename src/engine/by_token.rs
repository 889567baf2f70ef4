//! Holds that are known by their token alone. A guard tells it, or gives the hold away by it; whoever has it may extend and release
//! the hold, and no entry knows of that.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Letting, Renewal,
    entry::Event,
    handle::{AskFailed, Handle},
    outcome::Released,
    share::{Share, Stage},
};
use crate::{
    backend::{Fault, Pending},
    error::{Error, LostCause, Op, Result},
    state::{Instant, LeaseRequest},
    token::Token,
};

impl Share {
    /// The token of what is held, which whoever is told it may tell others.
    pub(super) fn token(&self) -> Option<Token> {
        self.touch();
        let number = self.place.change(|name, env, effects| {
            let number = name.held_under(self.id, env.now)?.number;
            name.on(Event::Shown { id: self.id }, env, effects);
            Some(number)
        })?;
        self.place.entry.protocol.token(number)
    }

    /// The token, instead of the share; the share itself where there is none to give.
    pub(super) fn into_token(self) -> std::result::Result<Token, Self> {
        self.touch();
        let mut stage = self.stage();
        let token = match *stage {
            Stage::Held => self.place.change(|name, env, effects| {
                let number = name.held_under(self.id, env.now)?.number;
                let token = self.place.entry.protocol.token(number)?;
                name.give_away(self.id, env, effects).map(|_| token)
            }),
            _ => None,
        };
        if token.is_some() {
            *stage = Stage::Over(Ok(Released::StillHeld(0)));
        }
        drop(stage);
        token.ok_or(self)
    }
}

/// What somebody has who knows a token, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    held: Mutex<Held>,
    /// One release at a time: what the answer to the second means depends on that to the first.
    releasing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Held {
    /// By the last extension that was answered.
    until: Option<Instant>,
    /// A release left, and its answer was not heard.
    may_be_released: bool,
    /// Nothing is claimed once a release was begun, whatever an extension is answered.
    let_go: bool,
    released: Option<Released>,
}

impl Held {
    fn let_go(&mut self) {
        (self.until, self.let_go) = (None, true);
    }
}

impl Claim {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// For how long a claim is good, by the last extension of it.
    pub(crate) fn claimed_for(&self, claim: &Claim) -> Option<Duration> {
        let left = claim.lock().until? - self.engine.now();
        Some(left).filter(|left| !left.is_zero())
    }

    /// Makes what is claimed last at least so long from now.
    pub(crate) async fn extend_claim(
        &self,
        claim: &Claim,
        lease: Duration,
        ask: impl FnOnce(Duration) -> Pending<std::result::Result<Renewal, Fault>>,
    ) -> Result<()> {
        let lease = self.engine.settings().fixed_lease(lease).map_err(|error| error.for_lock(self.name()))?;
        let name = Arc::clone(self.ready()?.name());
        if claim.lock().released.is_some() {
            return Err(Error::NotHeld { name, guards: 0 });
        }
        let until = LeaseRequest::first(lease, None, self.engine.now()).deadline(self.engine.settings().margin);
        let lost = |cause| Error::Lost { name, cause, since: std::time::Instant::now() };
        match self.asked(Op::Extend, |_| ask(lease)).await.map_err(|failed| failed.error)? {
            Renewal::Renewed => {
                if until <= self.engine.now() {
                    return Err(lost(LostCause::Expired));
                }
                let mut held = claim.lock();
                if !held.let_go {
                    held.until = held.until.max(Some(until));
                }
                Ok(())
            }
            Renewal::Gone => {
                claim.lock().until = None;
                Err(lost(LostCause::Gone))
            }
        }
    }

    /// Releases what is claimed. After an answer the same one is given again. Once it was begun it goes on whoever waits for it: what
    /// the next one is told depends on how it went.
    pub(crate) async fn release_claim(
        &self,
        claim: &Arc<Claim>,
        ask: impl FnOnce() -> Pending<std::result::Result<Letting, Fault>> + Send + 'static,
    ) -> Result<Released> {
        let name = Arc::clone(self.ready()?.name());
        claim.lock().let_go();
        let (handle, claim) = (self.clone(), Arc::clone(claim));
        let released = self.engine.away(async move { handle.release_in_turn(&claim, ask).await }).decided();
        released.await.map_err(|silence| silence.error(&name, Op::Release))?
    }

    async fn release_in_turn(
        &self,
        claim: &Claim,
        ask: impl FnOnce() -> Pending<std::result::Result<Letting, Fault>>,
    ) -> Result<Released> {
        let name = Arc::clone(self.ready()?.name());
        let _turn = claim.releasing.lock().await;
        let sent_before = {
            let mut held = claim.lock();
            if let Some(released) = held.released {
                return Ok(released);
            }
            std::mem::replace(&mut held.may_be_released, true)
        };
        let answer = self.asked(Op::Release, |_| ask()).await;
        let mut held = claim.lock();
        let released = match answer {
            Ok(Letting::Done { .. }) => Released::Freed,
            // By the one that had no answer, unless it ran out before.
            Ok(Letting::Expired | Letting::NotHeld) if sent_before => Released::Freed,
            Ok(Letting::Expired) => Released::AlreadyExpired,
            Ok(Letting::NotHeld) => {
                held.may_be_released = false;
                return Err(Error::Lost { name, cause: LostCause::Gone, since: std::time::Instant::now() });
            }
            Err(AskFailed { error, may_have_run }) => {
                held.may_be_released = sent_before || may_have_run;
                return Err(error);
            }
        };
        held.released = Some(released);
        Ok(released)
    }
}
