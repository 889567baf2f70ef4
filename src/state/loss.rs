//! The loss of a hold: whom it is told to, what it leaves to be released, and how long it is remembered.
//!
//! | lost by | sent at the loss | sent when the last guard drops |
//! | --- | --- | --- |
//! | its deadline | – (if nobody had taken it yet: one release) | one release |
//! | an answer | – | – |
//! | a forced release here | the forced release | one release |
//! | `max_hold` | one release | – |
//! | the end of the client | – | – |

use std::time::Duration;

use super::{
    cx::Cx,
    effect::{Cause, End, LogEvent, Share, Told},
    end::{ending_of, of_hold},
    env::Expired,
    id::{Id, Owner},
    name::Name,
    parts::{
        copies::Lost,
        gate::Gate,
        hold::Hold,
        loss::{Loss, Remains},
        origin::Origin,
        release::Why,
        slice::Turn,
        tenant::Tenant,
    },
};

impl<W, S: Share<W>> Name<W, S> {
    /// The live hold is lost, and stays so.
    pub(crate) fn lose(&mut self, cause: Cause, cx: &mut Cx<'_, '_, W, S>) {
        if self.tenant.hold().is_none() {
            return;
        }
        let Tenant::Hold(mut hold) = self.tenant.take() else { return };
        let now = cx.now();
        let turn = self.turn_of_lost(cx);
        cx.ended(hold.share.clone(), End::Lost(cause), self.said_of_loss(&hold, cause, now - hold.taken));
        if let Some(mut counting) = hold.take_counting() {
            counting.take_waiters().into_iter().for_each(|(waiter, _)| cx.tell(waiter, Told::Lost(cause)));
            self.outer_gone(counting.take_nested().collect(), cx);
        }
        hold.take_extensions().into_iter().for_each(|extension| cx.tell(extension.waiter, Told::Lost(cause)));
        let may_be_there = matches!(cause, Cause::Expired | Cause::Forced);
        // At its bound it ends for everybody. Under one that nobody took nobody works yet.
        let ends_now = cause == Cause::MaxHold || may_be_there && hold.is_offered();
        if may_be_there && hold.is_offered() {
            self.missed(cx);
        }
        if ends_now {
            self.release(Why { turn, ..of_hold(&hold, cx) }, cx);
        } else {
            self.slice.lost(now);
            self.old.reap(hold.number, hold.old, hold.may_last(now), cx.env.settings.watchdog, now);
            self.old.say(hold.number, hold.note());
        }
        let remains = if may_be_there && !ends_now { Remains::Field } else { Remains::Nothing };
        // Its last lease may have been a short rest that its bound left.
        let until = now + hold.lease().max(cx.env.settings.watchdog);
        hold.is_lost(Loss { cause, remains, until });
        let owner = hold.owner;
        if hold.granted() > 0 {
            self.lost.push(hold);
        } else {
            self.release_lost(&hold, cx);
        }
        // A nested acquisition of that owner goes on: what is left of the lost hold is not to keep it out.
        if self.queue.has(owner) {
            self.release_lost_of(owner, cx);
        }
    }

    /// One that was offered was nobody's yet, and a detached one may end as it was meant to.
    fn said_of_loss(&self, hold: &Hold<W, S>, cause: Cause, held: Duration) -> LogEvent {
        match cause {
            // Its lease was short, and it kept nobody out.
            Cause::Expired if hold.is_offered() && hold.origin != Origin::Given && self.queue.is_empty() => {
                LogEvent::TooLate
            }
            Cause::Expired if hold.is_offered() => LogEvent::Untaken,
            Cause::Expired if hold.was_to_end() => LogEvent::RanOut { held },
            cause => LogEvent::Ended { end: End::Lost(cause), held },
        }
    }

    /// A ticket of a lost hold is over.
    pub(crate) fn end_lost_ticket(&mut self, id: Id, waiter: Option<W>, cx: &mut Cx<'_, '_, W, S>) {
        let Some(hold) = self.lost.iter_mut().find(|hold| hold.has(id)) else { return };
        let last = hold.tickets.take_first(|ticket| ticket.id == id);
        let cause = hold.loss().map_or(Cause::Gone, |loss| loss.cause);
        let is_last = hold.granted() == 0;
        let answers = cx.env.shape.expired == Expired::IsReleased && cause == Cause::Expired && hold.is_to_release();
        let mut told = None;
        match waiter {
            // The answer to its release says whether it was there.
            Some(waiter) if is_last && answers => {
                if let Some(hold) = self.lost.take_first(|hold| hold.granted() == 0) {
                    let turn = self.turn_of_lost(cx);
                    let ending = ending_of(&hold, last.as_ref(), Some(waiter));
                    self.release(Why { turn, old: Lost::None, ending, ..of_hold(&hold, cx) }, cx);
                }
            }
            waiter => told = waiter,
        }
        // What is told comes after: whoever hears it may try at once.
        self.forget_lost(cx);
        told.into_iter().for_each(|waiter| cx.tell(waiter, Told::Lost(cause)));
    }

    /// Lost holds whose last ticket ended, or whose detached tickets were remembered for long enough, are forgotten.
    pub(crate) fn forget_lost(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let is_over = |hold: &Hold<W, S>| hold.remembered_until().is_some_and(|until| until <= now);
        while let Some(hold) = self.lost.take_first(|hold| hold.granted() == 0 || is_over(hold)) {
            self.release_lost(&hold, cx);
        }
    }

    /// An owner asks for a name of which it still has a lost hold: that one's field goes first.
    pub(crate) fn release_lost_of(&mut self, owner: Owner, cx: &mut Cx<'_, '_, W, S>) {
        for mut hold in self.lost.take() {
            if hold.owner == owner {
                self.release_lost(&hold, cx);
                hold.let_go();
            }
            self.lost.push(hold);
        }
    }

    fn release_lost(&mut self, hold: &Hold<W, S>, cx: &mut Cx<'_, '_, W, S>) {
        if hold.is_to_release() {
            let turn = self.turn_of_lost(cx);
            // Its old copies are watched for since the loss.
            self.release(Why { turn, old: Lost::None, ..of_hold(hold, cx) }, cx);
        }
    }

    /// Letting go of a lost hold frees the key like any end, unless this process has the name anew, or cools down anyhow.
    fn turn_of_lost(&self, cx: &Cx<'_, '_, W, S>) -> Turn {
        let anew = matches!(self.tenant, Tenant::Hold(_) | Tenant::HandingOver(_));
        if anew || !matches!(self.slice.gate(cx.now(), cx.env.settings), Gate::Open | Gate::After(_)) {
            return Turn::Keep;
        }
        self.slice.turn(cx.now(), cx.env.settings)
    }
}
