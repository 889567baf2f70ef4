//! Who may enter: an owner that holds nests, one task of this process tries at the server, everybody else stands in the
//! local queue. What they do then is in `nest.rs`, `acquire.rs` and `queue.rs`.

use tokio::{sync::oneshot, time::Instant};

use super::{
    HoldNumber,
    ask::{Ask, Patience},
    date::Date,
    effects::Effects,
    nest::Nest,
    parked::{PollDue, SentTry},
    queue::{QueuePlace, Told, Waiter},
    registry::{Place, State},
};
use crate::{
    error::Error,
    name::Shown,
    owner::Owner,
    rules::{Rule, without},
};

/// The task that tries at the server for this process.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    /// Since when it has been waiting for an answer of the server.
    pub(super) trying: Option<Date>,
    /// By when it is polled again, if it is polled at all; nothing where nobody knows.
    pub(super) due: Option<PollDue>,
    /// Its latest try.
    pub(super) asked: Option<SentTry>,
    /// A forced release was sent for what that may have got it: it is not believed in under this number.
    pub(super) forced: Option<HoldNumber>,
}

/// Being the contender of a name. Dropped, the next in the queue is.
#[derive(Debug)]
pub(crate) struct ContenderSlot {
    pub(super) place: Place,
    pub(super) id: u64,
}

/// What somebody who asks is to do.
pub(super) enum Admission {
    Nest(Nest),
    Contend(ContenderSlot),
    Queue(QueuePlace),
    Busy,
    Refused(Error),
}

impl State {
    /// `stood`: the number with which it stood in the queue before.
    pub(super) fn admit(&mut self, place: &Place, ask: &Ask, stood: Option<u64>, fx: &mut Effects) -> Admission {
        if place.engine.is_closed() {
            return Admission::Refused(Error::Closed);
        }
        self.expire(place, fx);
        self.pass_over_now(place, fx);
        if let Some(hold) = self.held_by(&ask.owner) {
            return Admission::Nest(Nest::begin(place, hold));
        }
        if place.engine.is_ending() {
            return Admission::Refused(Error::Closed);
        }
        if self.is_asked_by(&ask.owner) {
            return Admission::Refused(asked_twice(place));
        }
        if !without(Rule::LostReleasedBeforeTry) {
            self.release_lost_of(&ask.owner, place, fx);
        }
        let number = || stood.unwrap_or_else(|| place.engine.draw());
        if !self.is_taken() {
            return Admission::Contend(self.contend(place, number(), ask.owner.clone()));
        }
        if ask.patience.asks_once() {
            return Admission::Busy;
        }
        let (turn, told) = oneshot::channel();
        let id = number();
        self.queue.push(Waiter {
            id,
            owner: ask.owner.clone(),
            task: ask.task,
            lease: ask.lease,
            max_hold: ask.max_hold,
            for_ever: ask.patience == Patience::ForEver,
            turn,
        });
        place.engine.queued.note();
        let behind_itself = !ask.nests && self.is_taken_by(ask.task);
        Admission::Queue(QueuePlace::new(place.clone(), id, told, behind_itself))
    }

    fn contend(&mut self, place: &Place, id: u64, owner: Owner) -> ContenderSlot {
        self.contender = Some(Box::new(Contender { id, owner, trying: None, due: None, asked: None, forced: None }));
        ContenderSlot { place: place.clone(), id }
    }

    /// The contender waits for the server's answer to something that was sent before.
    pub(super) fn waits_for_an_answer(&mut self, now: Instant) {
        if let Some(contender) = &mut self.contender {
            contender.trying.get_or_insert(now.into());
        }
    }

    pub(super) fn trying(&mut self, since: Option<Instant>) {
        if let Some(contender) = &mut self.contender {
            contender.trying = since.map(Date::from);
        }
    }

    /// Since when the contender has been waiting for an answer of the server.
    pub(super) fn tries_since(&self) -> Option<Instant> {
        self.contender.as_ref()?.trying.map(Instant::from)
    }

    /// Nobody of this process holds or tries any more: the head of the queue does.
    pub(super) fn promote(&mut self, place: &Place, fx: &mut Effects) {
        let nobody = self.hold.is_none() && self.contender.is_none() && self.handing.is_none();
        if nobody && let Some(waiter) = self.queue.pop() {
            self.promote_waiter(waiter, place, fx);
        }
    }

    pub(super) fn promote_waiter(&mut self, waiter: Waiter, place: &Place, fx: &mut Effects) {
        let slot = self.contend(place, waiter.id, waiter.owner);
        self.polls_by(slot.id, Some(place.engine.clock().now().into()));
        fx.deliver(waiter.turn, Told::Contend(slot));
    }
}

fn asked_twice(place: &Place) -> Error {
    Error::invalid(
        "owner",
        format!(
            "this owner is already acquiring lock {}: branches of one task are one owner; use client.mutex(name), \
             wrap each branch in Owner::new().scope(..), or give each acquisition an .owner(..)",
            Shown(place.name())
        ),
    )
}

impl Drop for ContenderSlot {
    fn drop(&mut self) {
        let contends = |state: &State| state.contender.as_ref().is_some_and(|contender| contender.id == self.id);
        // Mostly it is over with the lock taken.
        if !contends(&self.place.entry.lock()) {
            return;
        }
        self.place.update(|state, fx| {
            if contends(state) {
                state.contender = None;
                if !without(Rule::DroppedContenderHasSuccessor) {
                    state.promote(&self.place, fx);
                }
            }
        });
    }
}
