//! The loss of a hold: when it is noticed, what that leaves to do, and how long it is remembered. What becomes of a hold that
//! ends otherwise is in `hand_over.rs`.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    clock::Moment,
    effects::{Effects, LogEvent},
    hand_over::{Ending, ended},
    hold::{Hold, Wake},
    outcome::Outcome,
    reap::OldCopies,
    registry::{Place, State},
    release::{ReleaseJob, Why},
    slice::{Gate, Turn},
    tenure::{End, Loss, Tenure},
};
use crate::{
    error::LostCause,
    owner::Owner,
    rules::{Rule, without},
};

impl State {
    /// Loses the live hold if its time is over.
    pub(super) fn expire(&mut self, place: &Place, fx: &mut Effects) {
        if self.hold.is_some() {
            self.expire_at(place, place.engine.clock().moment(), fx);
        }
    }

    pub(super) fn expire_at(&mut self, place: &Place, moment: Moment, fx: &mut Effects) {
        let Some(hold) = &mut self.hold else { return };
        let cause = hold.expires(moment);
        if let Some(cause) = cause.or_else(|| self.is_left(place, moment).then_some(LostCause::Expired)) {
            self.lose(place, cause, fx);
        }
    }

    /// The live hold is lost, and stays so.
    pub(super) fn lose(&mut self, place: &Place, cause: LostCause, fx: &mut Effects) {
        let Some(mut hold) = self.hold.take() else { return };
        let now = place.engine.clock().now();
        let held = hold.held_for(now);
        let untaken = hold.untaken_since().is_some();
        if untaken && cause == LostCause::Expired {
            self.turn_missed(hold.owner(), place, now, fx);
        } else if cause == LostCause::Expired && hold.was_to_end() {
            fx.log(LogEvent::Ended { owner: hold.owner().clone(), held });
        } else {
            fx.log(LogEvent::Lost { owner: hold.owner().clone(), cause, held });
        }
        fx.end(&hold.tenure, End::Lost(Loss { cause, since: std::time::Instant::now() }));
        let lease = hold.may_last(now);
        let turn = self.turn_of_lost(now);
        let forced = cause == LostCause::Forced && !without(Rule::ForcedIsReleased);
        let may_be_there = cause == LostCause::Expired || forced;
        let until = (now + hold.lease()).into();
        hold.leave(Wake { until, release: may_be_there && !untaken });
        // At its bound the hold ends for everybody: whoever still works was told so. Under an untaken one nobody works yet.
        if cause == LostCause::MaxHold || may_be_there && untaken {
            fx.release(self.release(place, Why::of(&hold, turn, now), Arc::new(Outcome::default()), now));
        } else {
            self.slice.lost(now);
            if hold.unclean {
                self.reaps.add(hold.number, hold.tenure.note_of_end(), lease, place, now);
            }
        }
        if hold.count() > 0 {
            self.lost.push(hold);
        }
        self.promote(place, fx);
    }

    /// A lost hold whose last ticket ended is forgotten; its field is ours alone, and is released if it may be there. Where one that
    /// ran out counts as released, the answer to that says whether it was.
    pub(super) fn end_lost(&mut self, place: &Place, tenure: &Arc<Tenure>, fx: &mut Effects) -> Ending {
        let over = |hold: &Hold| Arc::ptr_eq(&hold.tenure, tenure) && hold.count() == 0;
        let at = self.lost.iter().position(over);
        let lost = at.and_then(|at| self.lost.swap_remove(at));
        let expired = matches!(tenure.end(), Some(End::Lost(Loss { cause: LostCause::Expired, .. })));
        match lost.and_then(|hold| self.release_of_lost(&hold, place)) {
            Some(job) if expired && place.entry.protocol.expired_is_released() => return Ending::Release(job),
            job => job.into_iter().for_each(|job| fx.release(job)),
        }
        ended(place, tenure)
    }

    /// An owner asks for a name of which it still has a lost hold: that one's field goes first.
    pub(super) fn release_lost_of(&mut self, owner: &Owner, place: &Place, fx: &mut Effects) {
        for mut hold in self.lost.take() {
            if hold.owner() == owner {
                self.release_lost(&hold, place, fx);
                hold.let_go();
            }
            self.lost.push(hold);
        }
    }

    /// Detached tickets of lost holds are remembered for a lease.
    pub(super) fn forget_detached(&mut self, place: &Place, fx: &mut Effects) {
        let now = place.engine.clock().now();
        let over = self.lost.take_if(|hold| hold.remembered_until().is_some_and(|until| until <= now.into()));
        // By then nothing is left on the server, unless more was asked for than was ever answered.
        for hold in over.iter().filter(|hold| !hold.is_past(now)) {
            self.release_lost(hold, place, fx);
        }
    }

    fn release_lost(&mut self, hold: &Hold, place: &Place, fx: &mut Effects) {
        self.release_of_lost(hold, place).into_iter().for_each(|job| fx.release(job));
    }

    fn release_of_lost(&mut self, hold: &Hold, place: &Place) -> Option<ReleaseJob> {
        if !hold.is_to_release() || without(Rule::LostIsReleased) {
            return None;
        }
        let now = place.engine.clock().now();
        // Its old copies are watched for since the loss.
        let why = Why { old_copies: OldCopies::None, ..Why::of(hold, self.turn_of_lost(now), now) };
        Some(self.release(place, why, Arc::new(Outcome::default()), now))
    }
}

impl State {
    /// Letting go of a lost hold frees the key like any end, unless this process has the name anew, or cools down anyhow.
    fn turn_of_lost(&mut self, now: Instant) -> Turn {
        let over = self.hold.is_none()
            && self.handing.is_none()
            && matches!(self.slice.gate(now), Gate::Open | Gate::After(_));
        if over { self.slice.turn(now) } else { Turn::Keep }
    }

    /// The server may still have a hold of this process that its deadline or a forced release ended: here that comes first.
    pub(super) fn may_have_lost_one(&self, now: Instant) -> bool {
        self.lost.iter().any(|hold| hold.may_be_there() && !hold.is_past(now))
    }
}
