//! What came of one try, and what a contender does next. It sends nothing and waits for nothing.

use std::{ops::ControlFlow, time::Duration};

use tokio::time::Instant;

use super::{
    HoldNumber,
    acquisition::Acquisition,
    admit::ContenderSlot,
    ask::Ask,
    half_built::HalfBuilt,
    pause::{Releases, unanswered},
    registry::Place,
    share::Share,
};
use crate::{
    backend::{Fault, FaultKind},
    error::{Error, Op},
    rules::{Rule, without},
};

/// So many answers in a row may come later than their own lease before the acquisition gives up. A single try has one.
const LATE_ANSWERS: u32 = 5;

/// How a contender's life ends.
pub(super) enum Contended {
    Over(Option<Share>),
    /// It was not polled for so long that others went first.
    PassedOver,
}

/// What came of one try.
pub(super) enum Tried {
    Granted(Share),
    Busy {
        retry_in: Option<Duration>,
    },
    /// There is nothing to wait for.
    Settled,
    /// Busy, but a release of ours was still unanswered when it left. Where the server does not know that release's
    /// script it is sent again, behind the try, and the lock that was busy is our own.
    Overtook,
    /// The answer came later than its own lease.
    Late,
    Fault(Fault),
    /// The wait ended before the answer.
    CutOff(Reached),
    /// The client was closed meanwhile.
    Closed,
    /// It came, or was not sent, and others had gone first meanwhile.
    PassedOver,
    /// An earlier server granted it, and the one that answers now may not know of that.
    Outdated,
}

/// How far a try had come when its wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// It waited until fewer of this client are under way: all that is known is what others of them hear.
    Line,
    /// There was no link all the time.
    NoLink,
    /// It left.
    Server,
}

impl Reached {
    fn why(self) -> &'static str {
        match self {
            Self::NoLink => "there was no link to the server until the wait was over",
            Self::Line | Self::Server => "no answer before the wait was over",
        }
    }
}

/// What follows a try that was not the last.
pub(super) enum Next {
    Try,
    Sleep(Option<Duration>),
    Pause(Box<(Fault, Error)>),
}

/// How far a contender has come.
pub(super) struct SoFar {
    pub(super) half: HalfBuilt,
    /// It tried before.
    pub(super) again: bool,
    /// What the next try waits for.
    pub(super) releases: Releases,
    /// Somebody else had it, the last time that the server was heard.
    was_busy: bool,
    /// So many answers in a row came too late.
    late: u32,
}

impl SoFar {
    pub(super) fn nothing(half: HalfBuilt) -> Self {
        Self { half, again: false, releases: Releases::Sent, was_busy: false, late: 0 }
    }

    /// What follows from what came of a try.
    pub(super) fn after(
        &mut self,
        tried: Tried,
        slot: &ContenderSlot,
        acquisition: &Acquisition,
        asked: Instant,
    ) -> Result<ControlFlow<Contended, Next>, Error> {
        let (ask, place) = (&acquisition.ask, &slot.place);
        match tried {
            Tried::Granted(guard) => return Ok(ControlFlow::Break(Contended::Over(Some(guard)))),
            Tried::Fault(_) | Tried::CutOff(Reached::Line | Reached::NoLink) if !slot.stands() => {
                return Ok(ControlFlow::Break(Contended::PassedOver));
            }
            Tried::PassedOver => return Ok(ControlFlow::Break(Contended::PassedOver)),
            Tried::Busy { retry_in } => {
                acquisition.say_contended();
                self.was_busy = true;
                if ask.patience.asks_once() {
                    return Ok(ControlFlow::Break(Contended::Over(None)));
                }
                return Ok(ControlFlow::Continue(Next::Sleep(self.half.may_sleep(retry_in))));
            }
            Tried::Settled => return Ok(ControlFlow::Break(Contended::Over(None))),
            Tried::Overtook => self.releases = Releases::Answered,
            // The present server is asked for the same hold.
            Tried::Outdated => self.ends_number(place, ask),
            Tried::Late => {
                self.late += 1;
                if self.late == LATE_ANSWERS || ask.patience.ends_by(place.engine.clock().now()) {
                    return Err(late_answer(place, ask));
                }
                // Finished: its release is on the way, and it is never asked for again.
                let again = without(Rule::LateAnswerEndsNumber).then(|| self.half.number());
                self.half = half_built(place, ask, again);
            }
            Tried::Closed => return Err(Error::Closed),
            Tried::CutOff(reached) => {
                // It asked nothing: what the server said to the try before it stands.
                if let Some(error) = slot.refused_before().filter(|_| reached != Reached::Server) {
                    return Err(slot.give_up(ask, error, asked));
                }
                // The server answers, only not this one yet: what it said before stands, and what waits in line asked nothing.
                let waits = ask.patience.until().is_some();
                if waits && (self.was_busy || reached == Reached::Line) && asked < place.last_answer() {
                    return Ok(ControlFlow::Break(Contended::Over(None)));
                }
                let error = unanswered(place, reached == Reached::Server, reached.why());
                return Err(slot.give_up(ask, error, asked));
            }
            Tried::Fault(fault) => {
                let error = Error::from_fault(fault.clone(), place.name(), Op::Acquire);
                if !fault.heals() || ask.patience.asks_once() {
                    return Err(error);
                }
                self.ends_number(place, ask);
                return Ok(ControlFlow::Continue(Next::Pause(Box::new((fault, error)))));
            }
        }
        Ok(ControlFlow::Continue(Next::Try))
    }
}

impl SoFar {
    /// Where replicas are to know of a grant, a server may count for a repetition those that know of nothing: a number is
    /// asked for once.
    fn ends_number(&mut self, place: &Place, ask: &Ask) {
        if place.engine.settings().replicas.is_some() && self.half.is_uncertain() {
            self.half = half_built(place, ask, None);
        }
    }
}

/// Its answers came later than its own lease.
fn late_answer(place: &Place, ask: &Ask) -> Error {
    let lease = place.engine.lease(ask.lease);
    let why = place.distance().of_late_answers(lease, place.engine.settings().replicas);
    let fault = Fault::of(FaultKind::Timeout, true, why);
    Error::from_fault(fault, place.name(), Op::Acquire)
}

pub(super) fn half_built(place: &Place, ask: &Ask, number: Option<HoldNumber>) -> HalfBuilt {
    let number = number.unwrap_or_else(|| place.engine.draw_hold());
    HalfBuilt::new(place.clone(), number, place.engine.lease(ask.lease))
}
