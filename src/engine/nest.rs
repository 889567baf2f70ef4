//! Nested acquisitions of an owner that already holds. Each changes the hold's count: what the server was told of that is in
//! `counting.rs`, who tells it in `telling.rs`.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep_until},
};

use super::{
    Attempt, HoldNumber,
    ask::{Ask, Patience},
    commands::in_turn,
    hand_over::Ending,
    hold::{Hold, Term, Ticket},
    pause::{Pauses, bounded, unanswered},
    registry::{Place, State},
    share::Share,
    telling::retell,
    tenure::Tenure,
};
use crate::{
    backend::{Dispatch, Fault, FaultKind},
    error::{Error, LostCause, Op, Result},
    lease::Lease,
    name::Field,
    rules::{Rule, without},
    spare::{Boxes, Spare},
};

thread_local! {
    static ASKS: Boxes<()> = const { Spare::new() };
}

/// A nested acquisition under way: it counts, so the hold does not end while it lives.
#[derive(Debug)]
pub(crate) struct Nest {
    place: Place,
    tenure: Arc<Tenure>,
    number: HoldNumber,
    commands: Arc<Semaphore>,
    /// What is asked for now.
    asking: Option<NestedCommand>,
    /// A command was sent and its count is not certain.
    unanswered: bool,
    granted: bool,
    started: Instant,
    /// When the server was heard last before this asked first.
    since: Option<Instant>,
}

/// One command of it, which runs by itself.
#[derive(Debug)]
struct NestedCommand {
    dispatch: Arc<Dispatch>,
    /// What it asks for, once its turn has come; nothing if it was given up before.
    sent: Arc<OnceLock<Option<(Term, NestedRequest)>>>,
}

impl NestedCommand {
    fn sent(&self) -> Option<(Term, NestedRequest)> {
        self.sent.get().copied().flatten()
    }
}

/// How far a command had come when it was withdrawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Withdrawn {
    InLine,
    BeforeItLeft,
    /// It left, and its count is not certain.
    TooLate,
}

/// What a command brings; `None`: there is no outer hold to ask for.
type NestedAnswer = oneshot::Receiver<Option<std::result::Result<Attempt, Fault>>>;

/// What a nested acquire asks for, and what was known before.
#[derive(Clone, Copy, Debug)]
struct NestedRequest {
    told: Option<u32>,
    number: u64,
    holds: u32,
    era: u64,
    /// When the server was heard last.
    heard: Instant,
}

pub(crate) enum Nested {
    Granted(Share),
    /// The outer hold is gone: go on as a fresh acquisition.
    OuterLost,
}

impl State {
    /// The live hold of a tenure.
    pub(super) fn live(&mut self, tenure: &Arc<Tenure>) -> Option<&mut Hold> {
        self.hold.as_mut().filter(|hold| Arc::ptr_eq(&hold.tenure, tenure))
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
            asking: None,
            unanswered: false,
            granted: false,
            started: place.engine.clock().now(),
            since: None,
        }
    }

    pub(super) async fn acquire(mut self, ask: &Ask) -> Result<Nested> {
        let place = self.place.clone();
        let clock = place.engine.clock();
        let mut pauses = Pauses::after_faults(place.engine.chance());
        loop {
            let mut answer = self.asks(ask);
            let answer = self.heard(ask, &mut answer).await;
            let earlier = self.unanswered;
            let Some(answer) = answer else { return Err(self.give_up()) };
            let asking = self.asking.take();
            let Ok(answer) = answer else { return Err(Error::Closed) };
            let sent = asking.and_then(|asking| Some((asking.sent()?, asking.dispatch)));
            let (Some(answer), Some(((term, asked), dispatch))) = (answer, sent) else { return Ok(Nested::OuterLost) };
            self.unanswered = true;
            let fault = match answer {
                // The fence is that of the outer hold.
                Ok(Attempt::Granted { holds, .. }) => {
                    match self.enter(ask, (term, &dispatch), asked, holds) {
                        Some(nested) => return Ok(nested),
                        // The present server is asked, too.
                        None => continue,
                    }
                }
                Ok(_) if without(Rule::NestedNeedsOuter) => {
                    let nested = self.enter(ask, (term, &dispatch), asked, asked.holds);
                    return Ok(nested.unwrap_or(Nested::OuterLost));
                }
                Ok(Attempt::Gone | Attempt::Settled | Attempt::Busy { .. }) => {
                    self.unanswered = false;
                    self.outer_gone();
                    return Ok(Nested::OuterLost);
                }
                Err(fault) => fault,
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
            let too_late = self.end(ask, asked).is_none_or(|end| end <= resume);
            if !fault.heals() || too_late {
                return Err(error);
            }
            sleep_until(resume).await;
        }
    }

    /// Asks once, in its turn among the hold's commands.
    fn asks(&mut self, ask: &Ask) -> NestedAnswer {
        let (place, tenure, number) = (self.place.clone(), Arc::clone(&self.tenure), self.number);
        let sent = Arc::new(OnceLock::new());
        let asks_for = Arc::clone(&sent);
        let lease = move || {
            asks_for.get().copied().flatten().map_or(Duration::ZERO, |(term, _): (Term, NestedRequest)| term.lease)
        };
        let dispatch = place.while_held(&tenure, lease);
        self.asking = Some(NestedCommand { dispatch: Arc::clone(&dispatch), sent: Arc::clone(&sent) });
        let (lease, max_hold) = (ask.lease, ask.max_hold);
        in_turn(&self.place, &ASKS, Arc::clone(&self.commands), async move {
            let (term, asked) = next_term(&place, &tenure, lease, max_hold, &sent)?;
            Some(place.entry.protocol.acquire(number, term.lease, asked.holds, &dispatch).await)
        })
    }

    /// What comes of it, unless the caller's wait is over first.
    async fn heard(&mut self, ask: &Ask, answer: &mut NestedAnswer) -> Option<<NestedAnswer as Future>::Output> {
        loop {
            let sent = self.asking.as_ref().and_then(NestedCommand::sent);
            let until = self.until(ask, sent);
            if until.is_some_and(|until| until <= self.place.engine.clock().now()) {
                return None;
            }
            if let Some(answer) = bounded(until, &mut *answer).await {
                return Some(answer);
            }
        }
    }

    /// Until when an answer is waited for. In line that is for as long as the server answers: whoever stands there has the lock
    /// already. `sent`: it has left the line.
    fn until(&mut self, ask: &Ask, sent: Option<(Term, NestedRequest)>) -> Option<Instant> {
        let distance = self.place.distance();
        if let Some((term, asked)) = sent {
            return self.end(ask, asked).map(|end| distance.cut_off_nested(end, term.sent));
        }
        let heard = self.started.max(self.place.last_answer());
        match ask.patience {
            Patience::Once => None,
            Patience::Until(until) | Patience::OnceBy(until) => Some(distance.cut_off(until, heard)),
            Patience::ForEver => Some(heard + self.place.engine.settings().unreachable_after),
        }
    }

    /// From when on nothing is asked for again. The time in line does not count where somebody waits for ever.
    fn end(&mut self, ask: &Ask, asked: NestedRequest) -> Option<Instant> {
        match ask.patience {
            Patience::Once => None,
            Patience::Until(until) | Patience::OnceBy(until) => Some(until),
            Patience::ForEver => {
                let since = *self.since.get_or_insert(self.started.max(asked.heard));
                Some(since + self.place.engine.settings().unreachable_after)
            }
        }
    }

    /// The wait is over before there is an answer.
    fn give_up(&mut self) -> Error {
        let sent = self.asking.as_ref().and_then(NestedCommand::sent);
        let why = match self.withdraw() {
            Withdrawn::InLine => "an earlier command of this hold is not answered yet",
            Withdrawn::BeforeItLeft => "no answer before the wait was over",
            Withdrawn::TooLate => {
                self.unanswered = true;
                if let Some((term, _)) = sent {
                    self.place.unheard_since(term.sent);
                }
                return unanswered(&self.place, true, "no answer before the wait was over");
            }
        };
        unanswered(&self.place, false, why)
    }

    /// Nobody wants any more what was asked for.
    fn withdraw(&mut self) -> Withdrawn {
        let Some(NestedCommand { dispatch, sent }) = self.asking.take() else { return Withdrawn::InLine };
        // Under the entry's mutex, as `next_term`: it was asked, or never will be.
        let given_up = self.place.update(|_, _| sent.set(None).is_ok());
        let Some((_, asked)) = sent.get().copied().flatten().filter(|_| !given_up) else { return Withdrawn::InLine };
        if !dispatch.withdraw() {
            return Withdrawn::TooLate;
        }
        if !self.unanswered {
            self.not_asked(asked);
        }
        Withdrawn::BeforeItLeft
    }

    /// It was granted; `None`: by an earlier server.
    fn enter(
        &mut self,
        ask: &Ask,
        (term, dispatch): (Term, &Dispatch),
        asked: NestedRequest,
        holds: u32,
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
        Some(Nested::Granted(Share::new(place.clone(), Arc::clone(&self.tenure), ticket)))
    }

    /// What the server counts is what it counted before.
    fn not_asked(&self, asked: NestedRequest) {
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

/// What to ask for, as it leaves; `None` once the outer hold is lost, or where nobody wants it any more.
fn next_term(
    place: &Place,
    tenure: &Arc<Tenure>,
    lease: Lease,
    max_hold: Option<Duration>,
    sent: &OnceLock<Option<(Term, NestedRequest)>>,
) -> Option<(Term, NestedRequest)> {
    let (clock, heard) = (place.engine.clock(), place.last_answer());
    place.update(|state, fx| {
        if sent.get().is_some() {
            return None;
        }
        state.expire(place, fx);
        let hold = state.live(tenure)?;
        let moment = clock.moment();
        let own = max_hold.map(|max_hold| moment.now + max_hold);
        let bound = [hold.bound(), own].into_iter().flatten().min();
        // A key that somebody stripped of its TTL gets the lease: never less than what the hold was promised.
        let left = hold.deadline(moment).saturating_duration_since(moment.now);
        let Some(term) = Term::at(place.engine.lease(lease).max(left), bound, moment) else {
            // Less than a millisecond before its bound it is over: nothing can be asked for any more.
            state.lose(place, LostCause::MaxHold, fx);
            return None;
        };
        let (told, number, holds) = (hold.counting.told(), hold.counting.asks(), hold.count().max(2));
        let asked = NestedRequest { told, number, holds, era: place.engine.era.number(), heard };
        sent.set(Some((term, asked))).ok()?;
        Some((term, asked))
    })
}

impl Drop for Nest {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        self.unanswered |= self.withdraw() == Withdrawn::TooLate;
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
