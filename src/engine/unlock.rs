//! The end of a guard: what its first `unlock` decides, what a later one asks, what its drop leaves to the background.
//! How a hold ends is decided in `hand_over.rs`, and sent by `release.rs`.

use std::{
    pin::{Pin, pin},
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};

use tokio::sync::oneshot;

use super::{
    effects::Effects,
    elsewhere::Anywhere,
    hand_over::{Ending, HandOver},
    outcome::{Outcome, Released, not_yet},
    release::ReleaseJob,
    share::Share,
    telling,
};
use crate::{
    error::{Error, Op, Result},
    spare::{Boxes, Reused, Spare},
};

thread_local! {
    static TOLD: Boxes<Result<Released>> = const { Spare::new() };
}

/// How far a guard's release has come.
#[derive(Debug)]
pub(super) enum Stage {
    Held,
    /// The ticket ended, others remain, and the server may not know yet.
    Told {
        left: u32,
    },
    /// The hold ended and its release is on its way.
    UnderWay(Arc<Outcome>),
    /// Most end well, so none has room for more than that.
    Over(std::result::Result<Released, Box<Error>>),
}

/// What ends a guard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Unlock,
    UnlockDetached,
    Drop,
    /// It was never asked for anything.
    DropUnused,
}

/// What `unlock` has to do next.
enum Step {
    Answer(Result<Released>),
    Tell(u32),
    Release(ReleaseJob),
    HandOver(HandOver),
    Ask(Arc<Outcome>),
}

impl Stage {
    fn over(result: &Result<Released>) -> Self {
        Self::Over(result.as_ref().copied().map_err(|error| Box::new(error.clone())))
    }
}

impl Step {
    /// For good.
    fn answered(result: Result<Released>) -> (Stage, Self) {
        (Stage::over(&result), Self::Answer(result))
    }
}

/// What `unlock` waits for. Whoever awaits it has no room for what only led there.
enum LettingGo<F> {
    Told(Anywhere<Reused<Result<Released>>>),
    Released(Arc<Outcome>),
    HandedOver(oneshot::Receiver<Result<Released>>),
    Asked(Pin<Box<F>>),
}

impl Share {
    /// [`LockGuard::unlock`].
    pub(super) async fn let_go(&self) -> Result<Released> {
        let engine = &self.place.engine;
        let under_way = match self.step(Asks::Unlock) {
            Step::Answer(result) => return result,
            Step::Tell(left) => LettingGo::Told(engine.anywhere(self.tell(left))),
            Step::Release(job) => LettingGo::Released(job.begin()),
            Step::HandOver(hand_over) => LettingGo::HandedOver(hand_over.begin()),
            // Rare, and large.
            Step::Ask(outcome) => LettingGo::Asked(Box::pin(self.ask(outcome))),
        };
        let heard = match under_way {
            LettingGo::Told(told) => told.await,
            LettingGo::Released(outcome) => engine.heard(pin!(outcome.first())).await,
            LettingGo::HandedOver(mut answer) => {
                engine.heard(Pin::new(&mut answer)).await.map(|answer| answer.unwrap_or(Err(Error::Closed)))
            }
            LettingGo::Asked(asked) => Ok(asked.await),
        };
        let result = heard.unwrap_or_else(|silence| Err(silence.error(self.place.name(), Op::Release)));
        if result.as_ref().err().is_none_or(Error::is_lost) {
            *self.stage() = Stage::over(&result);
        }
        result
    }

    /// As [`LockGuard::unlock`], for a ticket without a guard: asked again, `unlock` finds it by its owner.
    pub(super) async fn unlock_detached(self) -> Result<Released> {
        match self.step(Asks::UnlockDetached) {
            Step::Tell(left) => told_of_detached(self.tell(left).await, left),
            Step::Release(job) => job.once().await,
            Step::HandOver(hand_over) => hand_over.once().await,
            Step::Ask(outcome) => self.ask(outcome).await,
            Step::Answer(result) => result,
        }
    }

    /// Owned, so that it can go on at home wherever this is awaited.
    fn tell(&self, left: u32) -> Reused<Result<Released>> {
        Reused::new(&TOLD, telling::tell(self.place.clone(), Arc::clone(&self.tenure), left))
    }

    /// Whether this guard's share was released, and not lost before.
    pub(super) fn is_let_go(&self) -> bool {
        !matches!(&*self.stage(), Stage::Held | Stage::Over(Err(_)))
    }

    pub(super) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the ticket, if it has not ended yet, and says what is to be done.
    fn step(&self, asks: Asks) -> Step {
        let mut stage = self.stage();
        match &*stage {
            Stage::Held => {}
            Stage::Told { left } => return Step::Tell(*left),
            Stage::UnderWay(outcome) => return Step::Ask(Arc::clone(outcome)),
            Stage::Over(result) => return Step::Answer(result.clone().map_err(|error| *error)),
        }
        let (place, mut fx) = (&self.place, Effects::default());
        let ending = place.change(&mut fx, |state, fx| {
            let ending = state.end_ticket(place, &self.tenure, self.ticket, asks == Asks::DropUnused, fx);
            // At once: a second `unlock` of it may look for its end.
            if asks == Asks::UnlockDetached {
                if let Ending::StillHeld { .. } = &ending
                    && let Some(hold) = state.live(&self.tenure)
                {
                    hold.counting.unlocks();
                }
                ending.outcome().into_iter().for_each(|outcome| outcome.of_detached(self.owner()));
            }
            ending
        });
        let (next, step) = match ending {
            Ending::Lost(error) => Step::answered(Err(error)),
            Ending::NotHeld => Step::answered(Err(Error::NotHeld { name: Arc::clone(self.place.name()), guards: 0 })),
            Ending::Passed => Step::answered(Ok(Released::Freed)),
            Ending::StillHeld { left } => (Stage::Told { left }, Step::Tell(left)),
            Ending::Release(job) => (Stage::UnderWay(Arc::clone(job.outcome())), Step::Release(job)),
            Ending::HandOver(hand_over) => {
                (Stage::UnderWay(Arc::clone(hand_over.outcome())), Step::HandOver(hand_over))
            }
        };
        *stage = next;
        drop(stage);
        // Wakers may ask this very guard.
        fx.run(&self.place);
        if let Some(released) = self.released.get() {
            released.notify_waiters();
        }
        step
    }

    /// The release was decided before: waits for what the background makes of it, or sends anew what that gave up.
    async fn ask(&self, outcome: Arc<Outcome>) -> Result<Released> {
        let place = &self.place;
        let (waits_for, within) = (Arc::clone(&outcome), place.engine.settings().command_timeout);
        let known = place.engine.anywhere(Box::pin(async move { waits_for.wait(within).await })).await;
        match known.map_err(|silence| silence.error(place.name(), Op::Release))? {
            None => Err(not_yet(place.name())),
            Some(Err(error)) if !error.is_lost() => match self.again(&outcome) {
                Some(job) => {
                    let answer = place.engine.heard(pin!(job.once())).await;
                    answer.unwrap_or_else(|silence| Err(silence.error(place.name(), Op::Release)))
                }
                None => Err(error),
            },
            Some(result) => result,
        }
    }

    /// A release of what another one left to do; once for each that was given up, whoever asks.
    fn again(&self, given_up: &Outcome) -> Option<ReleaseJob> {
        let now = self.place.engine.clock().now();
        let why = given_up.take_rest(now)?;
        let outcome = Arc::new(Outcome::default());
        *self.stage() = Stage::UnderWay(Arc::clone(&outcome));
        Some(self.place.update(|state, _| state.release(&self.place, why, outcome, now)))
    }

    fn step_if_held(&self) -> Option<Step> {
        let held = matches!(*self.stage(), Stage::Held);
        let touched = self.together || self.touched.load(Ordering::Relaxed);
        held.then(|| self.step(if touched { Asks::Drop } else { Asks::DropUnused }))
    }
}

/// What whoever unlocks a detached ticket hears where others stay. The count that an unreachable server still has heals by
/// itself, so it is no error: a second try must not end a second one.
pub(super) fn told_of_detached(told: Result<Released>, left: u32) -> Result<Released> {
    match told {
        Err(error) if error.is_transient() => Ok(Released::StillHeld(left)),
        result => result,
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Share {
    /// Releases what it still has, in the background.
    pub(super) fn abandon(&self) {
        match self.step_if_held() {
            Some(Step::HandOver(hand_over)) => hand_over.start(None),
            Some(Step::Release(job)) => job.start(),
            Some(Step::Tell(_)) => telling::retell(&self.place, &self.tenure),
            // The rest is done or under way.
            _ => {}
        }
    }
}
