//! Nested acquisitions of an owner that already holds, and the telling of the count. What was told is in `counting.rs`.

use std::sync::Arc;

use tokio::{
    sync::Semaphore,
    time::{sleep, sleep_until},
};

use super::{
    Attempt, HoldNumber, Letting,
    ask::{Ask, Patience},
    guard::LockGuard,
    hand_over::Ending,
    hold::{Hold, Term, Ticket},
    outcome::Released,
    pause::{Pauses, bounded_by, one_at_a_time, unanswered},
    registry::{Place, State},
    tenure::Tenure,
};
use crate::{
    backend::{Dispatch, Fault, FaultKind},
    error::{Error, LostCause, Op, Result},
    name::Field,
    rules::{Rule, without},
};

/// A nested acquisition under way: it counts, so the hold does not end while it lives.
#[derive(Debug)]
pub(crate) struct Nest {
    place: Place,
    tenure: Arc<Tenure>,
    number: HoldNumber,
    commands: Arc<Semaphore>,
    /// A command was sent and its count is not certain.
    unanswered: bool,
    granted: bool,
}

/// What a nested acquire asks for, and what was known before.
#[derive(Clone, Copy)]
struct Asked {
    told: Option<u32>,
    number: u64,
    holds: u32,
    era: u64,
}

pub(crate) enum Nested {
    Granted(LockGuard),
    /// The outer hold is gone: go on as a fresh acquisition.
    OuterLost,
}

impl State {
    /// The live hold of a tenure.
    pub(super) fn live(&mut self, tenure: &Arc<Tenure>) -> Option<&mut Hold> {
        self.hold.as_mut().filter(|hold| Arc::ptr_eq(&hold.tenure, tenure))
    }

    /// The teller of a hold is through: whether it may go.
    fn is_told(&mut self, tenure: &Arc<Tenure>) -> bool {
        let Some(hold) = self.live(tenure) else { return true };
        hold.counting.teller_ends()
    }
}

impl Nest {
    /// Takes part in the hold. Under the entry's mutex.
    pub(super) fn begin(place: &Place, hold: &mut Hold) -> Self {
        hold.counting.begins();
        Self {
            place: place.clone(),
            tenure: Arc::clone(&hold.tenure),
            number: hold.number,
            commands: hold.counting.commands(),
            unanswered: false,
            granted: false,
        }
    }

    pub(super) async fn acquire(mut self, ask: &Ask) -> Result<Nested> {
        let place = self.place.clone();
        let settings = *place.engine.settings();
        let clock = place.engine.clock();
        let started = clock.now();
        let cut_off = |asked| match ask.patience {
            Patience::Once => None,
            Patience::Until(until) => Some(place.distance().cut_off(until, asked)),
            Patience::ForEver => Some(started + settings.unreachable_after),
        };
        let turn = one_at_a_time(&place, Some(Arc::clone(&self.commands)));
        let Some(_turn) = bounded_by(|| cut_off(started), turn).await else {
            return Err(unanswered(&place, false, "an earlier command of this hold is not answered yet"));
        };
        let mut pauses = Pauses::after_faults(place.engine.chance());
        loop {
            let Some((term, asked)) = self.next_term(ask) else { return Ok(Nested::OuterLost) };
            let earlier = std::mem::replace(&mut self.unanswered, true);
            let dispatch = place.while_held(&self.tenure, term.lease);
            let answer = place.entry.protocol.acquire(self.number, term.lease, asked.holds, &dispatch);
            let fault = match bounded_by(|| cut_off(term.sent), answer).await {
                None => {
                    let left = !dispatch.withdraw();
                    if left {
                        place.unheard_since(term.sent);
                    }
                    self.unanswered = earlier || left;
                    return Err(unanswered(&place, left, "no answer before the wait was over"));
                }
                Some(Ok(Attempt::Granted { holds, fence })) => {
                    match self.enter(ask, (term, &dispatch), asked, holds, fence) {
                        Some(nested) => return Ok(nested),
                        // The present server is asked, too.
                        None => continue,
                    }
                }
                Some(Ok(_)) if without(Rule::NestedNeedsOuter) => {
                    let nested = self.enter(ask, (term, &dispatch), asked, asked.holds, None);
                    return Ok(nested.unwrap_or(Nested::OuterLost));
                }
                Some(Ok(Attempt::Gone | Attempt::Busy { .. })) => {
                    self.unanswered = false;
                    self.outer_gone();
                    return Ok(Nested::OuterLost);
                }
                Some(Err(fault)) => fault,
            };
            // What did not run changed no count.
            self.unanswered = earlier || fault.may_have_run;
            if !self.unanswered {
                self.not_asked(asked);
            }
            // The outer hold was lost while this waited for a link.
            if fault.kind == FaultKind::Withdrawn {
                continue;
            }
            let error = Error::from_fault(fault.clone(), place.name(), Op::Acquire);
            let resume = clock.now() + pauses.next();
            let too_late = cut_off(term.sent).is_none_or(|cut_off| cut_off <= resume);
            if !fault.heals() || too_late {
                return Err(error);
            }
            sleep_until(resume).await;
        }
    }

    /// What to ask for; `None` once the outer hold is lost.
    fn next_term(&self, ask: &Ask) -> Option<(Term, Asked)> {
        let clock = self.place.engine.clock();
        self.place.update(|state, fx| {
            state.expire(&self.place, fx);
            let hold = state.live(&self.tenure)?;
            let own = ask.max_hold.map(|max_hold| clock.now() + max_hold);
            let bound = [hold.bound(), own].into_iter().flatten().min();
            // A key that somebody stripped of its TTL gets the lease: never less than what the hold was promised.
            let moment = clock.moment();
            let left = hold.deadline(moment).saturating_duration_since(moment.now);
            let Some(term) = Term::now(self.place.engine.lease(ask.lease).max(left), bound, clock) else {
                // Less than a millisecond before its bound it is over: nothing can be asked for any more.
                state.lose(&self.place, LostCause::MaxHold, fx);
                return None;
            };
            let (told, number, holds) = (hold.counting.told(), hold.counting.asks(), hold.count().max(2));
            Some((term, Asked { told, number, holds, era: self.place.engine.era.number() }))
        })
    }

    /// It was granted; `None`: by an earlier server.
    fn enter(
        &mut self,
        ask: &Ask,
        (term, dispatch): (Term, &Dispatch),
        asked: Asked,
        holds: u32,
        fence: Option<u64>,
    ) -> Option<Nested> {
        let place = &self.place;
        let ticket = place.engine.draw();
        let entered = place.update(|state, fx| {
            state.expire(place, fx);
            let Some(hold) = state.live(&self.tenure) else { return Some(false) };
            if place.is_outdated(asked.era, dispatch) {
                let moment = place.engine.clock().moment();
                hold.is_answered(term.raised(moment), moment);
                return None;
            }
            hold.counting.ends();
            hold.counting.answers(asked.number, holds);
            hold.entered(Ticket::new(ticket, ask.lease, ask.max_hold, term.sent), term, place.engine.clock());
            Some(true)
        });
        if !entered? {
            return Some(Nested::OuterLost);
        }
        (self.unanswered, self.granted) = (false, true);
        if ask.max_hold.is_some() {
            self.tenure.may_end_sooner();
        }
        tracing::debug!(lock = %Field(place.name()), owner = %ask.owner, holds, "nested");
        Some(Nested::Granted(LockGuard::new(place.clone(), Arc::clone(&self.tenure), ticket, fence)))
    }

    /// What the server counts is what it counted before.
    fn not_asked(&self, asked: Asked) {
        self.place.update(|state, _| {
            if let (Some(hold), Some(told)) = (state.live(&self.tenure), asked.told) {
                hold.counting.answers(asked.number, told);
            }
        });
    }

    fn outer_gone(&self) {
        self.place.update(|state, fx| {
            if state.live(&self.tenure).is_some() {
                state.lose(&self.place, LostCause::Gone, fx);
            }
        });
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        let place = &self.place;
        match place.update(|state, fx| state.end_pending(place, &self.tenure, fx)) {
            // The server may count one too many.
            Ending::StillHeld { .. } if self.unanswered => retell(place, &self.tenure),
            Ending::HandOver(hand_over) => hand_over.start(None),
            // A release goes on by itself when it is dropped.
            _ => {}
        }
    }
}

/// Tells the server the newest count of a hold, one of whose tickets ended with `left` remaining. Dropped, even before it
/// was polled, or after an error that may heal, it goes on in the background.
pub(super) fn tell(
    place: Place,
    tenure: Arc<Tenure>,
    left: u32,
) -> impl Future<Output = Result<Released>> + Send + 'static {
    let telling = Telling { place, tenure, told: false };
    async move {
        let mut telling = telling;
        let result = tell_once(&telling.place, &telling.tenure).await;
        telling.told = result.as_ref().err().is_none_or(|error| !error.is_transient());
        result.map(|()| Released::StillHeld(left))
    }
}

/// Goes on telling in the background, until it is answered or the hold is over. However many counts are left untold,
/// one task tells the newest.
pub(super) fn retell(place: &Place, tenure: &Arc<Tenure>) {
    let is_new = place.update(|state, _| {
        let hold = state.live(tenure)?;
        hold.counting.teller_begins().then_some(())
    });
    if is_new.is_none() {
        return;
    }
    let (place, tenure) = (place.clone(), Arc::clone(tenure));
    Arc::clone(&place.engine).spawn(Box::pin(async move {
        let mut pauses = Pauses::after_faults(place.engine.chance());
        loop {
            if tell_once(&place, &tenure).await.is_err_and(|error| error.is_transient()) {
                sleep(pauses.next()).await;
            } else if place.update(|state, _| state.is_told(&tenure)) {
                return;
            }
        }
    }));
}

/// A count that the server is being told.
struct Telling {
    place: Place,
    tenure: Arc<Tenure>,
    told: bool,
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.told {
            retell(&self.place, &self.tenure);
        }
    }
}

async fn tell_once(place: &Place, tenure: &Arc<Tenure>) -> Result<()> {
    let over = || tenure.loss(place.name()).map_or(Ok(()), Err);
    let Some(commands) = place.update(|state, _| state.live(tenure).map(|hold| hold.counting.commands())) else {
        return over();
    };
    let _turn = one_at_a_time(place, Some(commands)).await;
    let news = place.update(|state, fx| {
        state.expire(place, fx);
        let hold = state.live(tenure)?;
        let count = hold.count();
        if hold.counting.told() == Some(count) {
            hold.counting.is_right();
            return None;
        }
        Some((hold.number, count, hold.counting.asks()))
    });
    let Some((number, count, asked)) = news else { return over() };
    let answer = place.entry.protocol.release(number, count).await;
    // By its number: a hold that was passed on meanwhile is still the one that was asked about.
    place.update(|state, fx| match (&answer, state.hold.as_mut().filter(|hold| hold.number == number)) {
        (Ok(Letting::Done { holds, .. }), Some(hold)) => {
            hold.counting.answers(asked, *holds);
            if hold.counting.told() == Some(hold.count()) {
                hold.counting.is_right();
            }
        }
        (Ok(Letting::NotHeld), Some(_)) => state.lose(place, LostCause::Gone, fx),
        _ => {}
    });
    match answer {
        Ok(_) => over(),
        // Zero deletes whatever the count was, so one that is too high does no harm.
        Err(Fault { kind: FaultKind::OutOfMemory, .. }) => Ok(()),
        Err(fault) => Err(Error::from_fault(fault, place.name(), Op::Release)),
    }
}
