//! A forced release. It frees exactly the holds that it saw; one of this process is lost before it is sent, and counts for
//! the slice like any end. It is sent once: what a lost hold may leave is let go of in `hand_over.rs`.

use std::{future::poll_fn, sync::Arc, task::Poll};

use super::{
    Forced, HoldNumber, Published, Sight,
    admit::ContenderSlot,
    effects::Effects,
    handle::Handle,
    registry::{Place, State},
    slice::{Listeners, Turn},
    wake::OwnMessage,
};
use crate::{
    backend::Fault,
    error::{Error, LostCause, Op},
    name::Field,
};

impl Handle {
    /// Frees exactly what it saw; a holder of this client is told first.
    pub(crate) async fn force_unlock(&self) -> Result<bool, Error> {
        let (name, forced) = (self.ready()?.name(), self.clone().force());
        let forced = self.engine.anywhere(Box::pin(forced)).await;
        forced.unwrap_or_else(|silence| Err(silence.error(name, Op::ForceRelease)))
    }

    /// The same if the holder that it sees is the one who is meant; whether it ended that one.
    #[cfg(feature = "operate")]
    pub(crate) async fn force_unlock_held(&self, is_it: impl Fn(&str) -> bool + Send + 'static) -> Result<bool, Error> {
        let (name, handle) = (self.ready()?.name(), self.clone());
        let forced = async move {
            match handle.sight().await? {
                // No primitive has several.
                Some(sight) if matches!(&sight.holders[..], [(holder, _)] if is_it(holder)) => {
                    handle.force_seen(sight).await
                }
                _ => Ok(false),
            }
        };
        let forced = self.engine.anywhere(Box::pin(forced)).await;
        forced.unwrap_or_else(|silence| Err(silence.error(name, Op::ForceRelease)))
    }

    async fn force(self) -> Result<bool, Error> {
        let Some(sight) = self.sight().await? else { return Ok(false) };
        self.force_seen(sight).await?;
        Ok(true)
    }

    /// Whether it is free by this.
    async fn force_seen(self, sight: Sight) -> Result<bool, Error> {
        let protocol = Arc::clone(self.ready()?);
        let place = self.engine.find(protocol.key());
        let forcing = place.and_then(|place| place.update(|state, fx| state.force_out(&place, &sight, fx)));
        let answer = protocol.force_release(&sight);
        let mut forced = Box::pin(async move {
            let answer = answer.await;
            if let Some(forcing) = forcing {
                forcing.answered(&answer);
            }
            answer
        });
        // Polled here first, so that it mostly leaves before the try of whoever was just told that the hold is over; from
        // then on it is driven in the background: others wait for its answer, and this caller may stop polling.
        let forced = match poll_fn(|cx| Poll::Ready(forced.as_mut().poll(cx))).await {
            Poll::Ready(answer) => answer,
            Poll::Pending => self.engine.attend(forced).await.ok_or(Error::Closed)?,
        };
        let forced = forced.map_err(|fault| Error::from_fault(fault, protocol.name(), Op::ForceRelease))?;
        let freed = matches!(forced, Forced::Done { .. });
        tracing::debug!(lock = %Field(protocol.name()), freed, "forced release");
        Ok(freed)
    }
}

impl State {
    /// The live hold is lost if it is one of those that were seen. One whose grant is still on its way will be.
    fn force_out(&mut self, place: &Place, sight: &Sight, fx: &mut Effects) -> Option<Forcing> {
        if !self.hold.as_ref().is_some_and(|hold| sight.ours.contains(&hold.number)) {
            return self.force_out_later(sight).then(|| Forcing {
                place: place.clone(),
                turn: Turn::Keep,
                own: self.listening.expect_own(),
                over: false,
            });
        }
        let now = place.engine.clock().now();
        let turn = self.slice.turn(now);
        let own = self.listening.expect_own();
        self.slice.released(now, turn);
        if turn == Turn::Yield {
            self.listening.clear_flag();
        }
        self.lose(place, LostCause::Forced, fx);
        Some(Forcing { place: place.clone(), turn, own, over: false })
    }

    /// Whether what was seen is a hold that nobody here knows to have yet: it is lost as soon as somebody does.
    fn force_out_later(&mut self, sight: &Sight) -> bool {
        let seen = |number: Option<HoldNumber>| number.filter(|number| sight.ours.contains(number));
        if let Some(contender) = &mut self.contender
            && let Some(number) = seen(contender.asked.as_ref().map(|asked| asked.number))
        {
            contender.forced = Some(number);
            return true;
        }
        let handed = self.handing.as_mut().filter(|successor| seen(successor.to).is_some());
        handed.map(|successor| successor.forced = true).is_some()
    }
}

impl ContenderSlot {
    /// Whether what this contender asked for under this number was freed by force.
    pub(super) fn is_forced(&self, number: HoldNumber) -> bool {
        let state = self.place.entry.lock();
        state.contender.as_ref().is_some_and(|contender| contender.id == self.id && contender.forced == Some(number))
    }
}

/// A forced release of a hold of this process, on its way. Dropped without an answer, it may have run.
struct Forcing {
    place: Place,
    turn: Turn,
    own: OwnMessage,
    over: bool,
}

impl Forcing {
    fn answered(mut self, answer: &Result<Forced, Fault>) {
        match answer {
            Ok(Forced::Done { published }) => {
                self.end(*published != Published::No, |state, own| state.listening.others(*published, own))
            }
            Ok(Forced::Gone) => self.end(false, |_, _| Listeners::Untold),
            Err(fault) if !fault.may_have_run => self.end(false, |_, _| Listeners::Untold),
            Err(_) => self.end(false, |_, _| Listeners::Unknown),
        }
    }

    /// `published`: its message came, or comes yet. Where nobody knows it is not waited for: the next one may be another's.
    fn end(&mut self, published: bool, heard: impl FnOnce(&State, OwnMessage) -> Listeners) {
        self.over = true;
        self.place.update(|state, fx| {
            let heard = heard(state, self.own);
            if self.own.is_expected() && !published {
                state.listening.unexpect_own();
            }
            if self.turn == Turn::Yield {
                state.slice.answered(self.place.engine.clock().now(), heard);
                fx.nudge();
            }
        });
    }
}

impl Drop for Forcing {
    fn drop(&mut self) {
        if !self.over {
            self.end(false, |_, _| Listeners::Unknown);
        }
    }
}
