//! The end of a hold. Its last ticket ends: the head of the local queue gets it without the key ever being free, by a
//! pass or by a hand-over, or it is released. Or it is lost, and what its loss asks for is done.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Semaphore, oneshot};

use super::{
    HoldNumber, Moved, Note,
    apart::GoesBehind,
    clock::Moment,
    commands::one_at_a_time,
    date::Date,
    effects::{Effects, LogEvent},
    era::ServersSeen,
    hold::{Hold, Term, Ticket},
    outcome::{Outcome, Released},
    queue::{Told, Waiter},
    reap::OldCopies,
    registry::{Place, State, Successor},
    release::{ReleaseJob, Why},
    share::Share,
    slice::Turn,
    tenure::{End, Loss, Tenure},
};
use crate::{
    error::{Error, LostCause, Op, Result},
    lease::Lease,
    rules::{Rule, without},
};

/// What the end of a ticket leaves to do.
#[must_use]
pub(crate) enum Ending {
    /// The hold was lost before.
    Lost(Error),
    /// There is no such ticket.
    NotHeld,
    /// Passed on: nothing is sent.
    Passed,
    /// Others remain: the server is to be told the count.
    StillHeld {
        left: u32,
    },
    Release(ReleaseJob),
    HandOver(HandOver),
}

impl Ending {
    /// How it goes, where that is not known yet.
    pub(super) fn outcome(&self) -> Option<&Arc<Outcome>> {
        match self {
            Self::Release(job) => Some(job.outcome()),
            Self::HandOver(hand_over) => Some(hand_over.outcome()),
            Self::Lost(_) | Self::NotHeld | Self::Passed | Self::StillHeld { .. } => None,
        }
    }
}

impl State {
    /// Ends one ticket of a tenure.
    /// `unused`: by the drop of a guard that was never asked for anything.
    pub(super) fn end_ticket(
        &mut self,
        place: &Place,
        tenure: &Arc<Tenure>,
        id: u64,
        unused: bool,
        fx: &mut Effects,
    ) -> Ending {
        let moment = place.engine.clock().moment();
        self.expire_at(place, moment, fx);
        let live = self.hold.as_ref().is_some_and(|hold| Arc::ptr_eq(&hold.tenure, tenure));
        let Some(hold) = self.hold_of(tenure) else { return ended(place, tenure) };
        let newer = hold.tickets.iter().rev().take_while(|ticket| ticket.id != id);
        let out_of_order = newer.filter(|ticket| !ticket.detached).count() > 0;
        let Some(ticket) = hold.tickets.remove(id) else { return ended(place, tenure) };
        let left = hold.count();
        if left > 0 && !ticket.untaken {
            hold.left_alone(moment.date);
        }
        if !live {
            return self.end_lost(place, tenure, fx);
        }
        if out_of_order && place.engine.first_time("order", place.name()) {
            fx.log(LogEvent::OutOfOrder { owner: tenure.owner.clone() });
        }
        if left > 0 {
            return Ending::StillHeld { left };
        }
        self.guard_ended(unused && !ticket.untaken, tenure, moment.now, place, fx);
        self.end_hold(place, Some(&ticket), moment, fx)
    }

    /// A nested acquisition came to nothing; it may have been all that kept the hold.
    pub(super) fn end_pending(&mut self, place: &Place, tenure: &Arc<Tenure>, fx: &mut Effects) -> Ending {
        let moment = place.engine.clock().moment();
        let live = self.hold.as_ref().is_some_and(|hold| Arc::ptr_eq(&hold.tenure, tenure));
        let Some(hold) = self.hold_of(tenure) else { return ended(place, tenure) };
        hold.counting.ends();
        hold.note_sleep(moment);
        let left = hold.count();
        match (live, left) {
            (false, _) => self.end_lost(place, tenure, fx),
            (true, 0) => self.end_hold(place, None, moment, fx),
            (true, left) => Ending::StillHeld { left },
        }
    }

    /// The live hold ends for good, with its last ticket or with a nested acquisition that came to nothing. Whoever decides
    /// that has noted how long the machine slept.
    pub(super) fn end_hold(
        &mut self,
        place: &Place,
        last: Option<&Ticket>,
        moment: Moment,
        fx: &mut Effects,
    ) -> Ending {
        let Moment { now, date, .. } = moment;
        let Some(hold) = &mut self.hold else { return Ending::NotHeld };
        fx.end(&hold.tenure, End::Over);
        fx.log_released(hold, date);
        let turn = self.slice.turn(date);
        let stays = turn == Turn::Keep && !place.engine.is_ending() && place.entry.protocol.hands_over();
        let mut next = if stays { self.queue.pop() } else { None };
        if let Some(waiter) = next.take_if(|waiter| passable(place, hold, last, waiter, date)) {
            hold.pass(place, last, waiter, date, fx);
            return Ending::Passed;
        }
        let Some(mut hold) = self.hold.take() else { return Ending::NotHeld };
        let Some(waiter) = next else {
            let (turn, outcome) = (self.slice.turn_of_last(turn), Arc::new(Outcome::default()));
            let mut job = self.release(place, Why::of(&hold, turn, now), outcome, now);
            job.behind = GoesBehind::commands(hold.counting.take_commands());
            self.promote(place, fx);
            return Ending::Release(job);
        };
        let outcome = Arc::new(Outcome::default());
        let owner = Some(waiter.owner.clone());
        self.handing =
            Some(Box::new(Successor { id: waiter.id, owner, to: None, forced: false, outcome: Arc::clone(&outcome) }));
        Ending::HandOver(HandOver {
            place: place.clone(),
            from: hold.number,
            to: None,
            lease: hold.may_last(now),
            late: hold.runs_late(),
            own: false,
            unclean: hold.unclean,
            commands: hold.counting.take_commands(),
            waiter: Some(waiter),
            outcome,
        })
    }
}

pub(super) fn ended(place: &Place, tenure: &Arc<Tenure>) -> Ending {
    tenure.loss(place.name()).map_or(Ending::NotHeld, Ending::Lost)
}

/// Whether the next owner may have the hold as it stands, without a word to the server.
fn passable(place: &Place, hold: &Hold, last: Option<&Ticket>, waiter: &Waiter, now: Date) -> bool {
    let watchdog = place.engine.settings().watchdog_timeout;
    let left = hold.known_deadline().saturating_duration_since(now);
    place.entry.protocol.passes()
        // Whoever was told its name could release the next owner's.
        && !hold.tenure.is_told()
        // Nothing of the old owner's is on its way, and the server counts as the next owner will.
        && hold.counting.told() == Some(1)
        && matches!((last.map(|last| last.watched), waiter.lease), (Some(true), Lease::Watchdog))
        // Less is too little to work with; more is what a longer lease inside left, and the next owner never asked for.
        && (watchdog / 2..=watchdog).contains(&left)
        && hold.kept_for(now) <= watchdog
}

impl Hold {
    /// It stays where it is, on the server and here.
    fn pass(&mut self, place: &Place, last: Option<&Ticket>, waiter: Waiter, now: Date, fx: &mut Effects) {
        let tenure = Tenure::new(waiter.owner, waiter.task);
        let ticket = place.engine.draw();
        let mut first = Ticket::new(ticket, waiter.lease, waiter.max_hold, now);
        if without(Rule::MaxHoldEndsWithTicket) {
            last.into_iter().for_each(|last| first.inherit(last));
        }
        self.pass_to(Arc::clone(&tenure), first, now);
        let guard = Share::new(place.clone(), tenure, ticket);
        fx.deliver(waiter.turn, Told::Granted(guard));
    }
}

/// A hold on its way to the head of the local queue. Dropped before it is answered, it is undone in order: the old
/// number first, since a late copy can move only what is still there.
#[must_use]
pub(crate) struct HandOver {
    place: Place,
    from: HoldNumber,
    /// Drawn, and from then on perhaps on the server.
    to: Option<HoldNumber>,
    lease: Duration,
    /// And by how much longer the server may keep it, if something that has no answer runs late.
    late: Duration,
    /// A message of it is counted as our own, that comes only if it ran.
    own: bool,
    /// An old copy of the acquire may run later.
    unclean: bool,
    commands: Option<Arc<Semaphore>>,
    waiter: Option<Waiter>,
    outcome: Arc<Outcome>,
}

impl HandOver {
    pub(super) fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    /// Sends it in the background, where nobody's pause holds the waiter up, and waits for what comes of it.
    pub(super) async fn once(self) -> Result<Released> {
        self.begin().await.unwrap_or(Err(Error::Closed))
    }

    /// Sends it in the background, and says there what comes of it.
    pub(super) fn begin(self) -> oneshot::Receiver<Result<Released>> {
        let (first, answer) = oneshot::channel();
        self.start(Some(first));
        answer
    }

    /// Sends it in the background.
    pub(super) fn start(self, first: Option<oneshot::Sender<Result<Released>>>) {
        Arc::clone(&self.place.engine).spawn(Box::pin(async move {
            let result = self.run().await;
            if let Some(first) = first {
                drop(first.send(result));
            }
        }));
    }

    /// Sends it once. Whatever comes of it, the waiter is told, if not here then by the drop.
    async fn run(mut self) -> Result<Released> {
        let _turn = one_at_a_time(&self.place, self.commands.clone()).await;
        let place = self.place.clone();
        let clock = place.engine.clock();
        let Some((lease, max_hold)) = self.waiter.as_ref().map(|waiter| (waiter.lease, waiter.max_hold)) else {
            return Ok(Released::Freed);
        };
        let term = Term::first(place.engine.lease(lease), max_hold, clock);
        let late = self.late;
        (self.lease, self.late) = (self.lease.max(term.lease), late + term.lease);
        let seen = place.servers_seen();
        let to = *self.to.insert(place.engine.draw_hold());
        place.update(|state, _| state.handing.iter_mut().for_each(|successor| successor.to = self.to));
        let answer = place.entry.protocol.hand_over(self.from, to, term.lease);
        let (answer, own) = place.answer_that_may_tell(answer).await;
        self.own = own;
        match answer {
            Ok(Moved::Done { fence, .. }) => {
                // For the one before it is over, whatever becomes of the rest.
                self.outcome.set(Ok(Released::Freed));
                // An answer that came too late is worth nothing to the waiter: undone by the drop.
                let moment = clock.moment();
                if term.holds(moment) {
                    self.granted(to, (term, seen), fence, moment);
                }
                Ok(Released::Freed)
            }
            Ok(gone @ (Moved::Gone | Moved::Expired)) => {
                self.contend_instead();
                let lost = || Loss { cause: LostCause::Gone, since: std::time::Instant::now() }.error(place.name());
                let result = if gone == Moved::Expired { Ok(Released::AlreadyExpired) } else { Err(lost()) };
                self.outcome.set(result.clone());
                result
            }
            Err(fault) => {
                if without(Rule::HandOverNeedsAnswer) && fault.may_have_run {
                    self.granted(to, (term, seen), None, clock.moment());
                }
                if !fault.may_have_run {
                    // Nothing is there to be undone.
                    (self.to, self.late) = (None, late);
                }
                Err(Error::from_fault(fault, place.name(), Op::HandOver))
            }
        }
    }

    fn granted(&mut self, to: HoldNumber, (term, seen): (Term, ServersSeen), fence: Option<u64>, moment: Moment) {
        let Some(waiter) = self.waiter.take() else { return };
        let place = &self.place;
        let ticket = place.engine.draw();
        self.waiter = place.update(|state, fx| {
            // As for an acquire: the end of the client looks for holds once, and what an earlier server did says nothing of
            // this one.
            if place.engine.is_ending() || place.is_over(seen) {
                return Some(waiter);
            }
            let tenure = Tenure::granted(waiter.owner, waiter.task, fence);
            let first = Ticket::new(ticket, waiter.lease, waiter.max_hold, term.sent);
            let guard = Share::new(place.clone(), Arc::clone(&tenure), ticket);
            let forced = state.handing.take().is_some_and(|successor| successor.forced);
            state.hold = Some(Hold::new(to, tenure, first.untaken(), term, moment));
            if forced {
                state.lose(place, LostCause::Forced, fx);
            }
            fx.deliver(waiter.turn, Told::Granted(guard));
            None
        });
    }

    /// The waiter is the name's contender now.
    fn contend_instead(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        self.place.update(|state, fx| {
            state.handing = None;
            state.slice.lost(self.place.engine.clock().now());
            state.promote_waiter(waiter, &self.place, fx);
        });
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        let place = &self.place;
        if self.unclean {
            // Not before: an early one would free what is to be handed over.
            place.update(|state, _| {
                state.reaps.add(self.from, Note::Unused, self.lease, place, place.engine.clock().now())
            });
        }
        let Some(waiter) = self.waiter.take() else { return };
        let (first, then) = match self.to {
            Some(to) if without(Rule::HandOverUndoneInOrder) => (to, Some(self.from)),
            to => (self.from, to),
        };
        let why = Why { then, own: self.own, late: self.late, ..Why::ended(first, self.lease, OldCopies::None) };
        let job = place.update(|state, fx| {
            let now = place.engine.clock().now();
            let mut job = state.release(place, why, Arc::clone(&self.outcome), now);
            job.behind = GoesBehind::commands(self.commands.take());
            // What an old acquire makes again, an old hand-over may move.
            if let Some(to) = self.to.filter(|_| self.unclean) {
                state.reaps.add(to, Note::Unused, self.lease, place, now);
            }
            state.handing = None;
            state.promote_waiter(waiter, place, fx);
            job
        });
        drop(job); // goes on in the background
    }
}
