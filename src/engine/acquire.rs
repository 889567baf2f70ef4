//! The one way to wait for a lock: try, listen, try again, sleep. Who does so for this process is decided in `admit.rs`,
//! when to try in `pause.rs`.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{
    Attempt, HoldNumber,
    acquisition::Acquisition,
    admit::ContenderSlot,
    ask::{Ask, Patience},
    clock::Moment,
    distance::GRACE,
    guard::LockGuard,
    half_built::HalfBuilt,
    hold::{Hold, Term, Ticket},
    home::Attended,
    parked::Asked,
    pause::{Opened, Pauses, Releases, Slept, bounded_by, unanswered},
    registry::Place,
    tenure::Tenure,
};
use crate::{
    backend::{Dispatch, Fault, FaultKind},
    error::{Error, LostCause, Op},
    rules::{Rule, without},
};

/// So many answers in a row may come later than their own lease before the acquisition gives up. A single try has one.
const LATE_ANSWERS: u32 = 5;

/// The answer, but never in the same poll as the question: two branches of one task that ask in one turn are to find each
/// other asking, however fast the server is.
fn later<F: Future + Unpin>(mut answer: F) -> impl Future<Output = F::Output> {
    let (mut asked, mut early) = (false, None);
    poll_fn(move |cx| {
        if let Some(early) = early.take() {
            return Poll::Ready(early);
        }
        match Pin::new(&mut answer).poll(cx) {
            Poll::Ready(at_once) if !asked => {
                early = Some(at_once);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            polled => {
                asked = true;
                polled
            }
        }
    })
}

/// What came of one try.
enum Tried {
    Granted(LockGuard),
    Busy {
        retry_in: Option<Duration>,
    },
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
enum Reached {
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

/// How a contender's life ends.
pub(super) enum Contended {
    Over(Option<LockGuard>),
    /// It was not polled for so long that others went first.
    PassedOver,
}

/// The contender's life. What it leaves half done is undone by [`HalfBuilt`] and [`ContenderSlot`], in that order.
pub(super) async fn contend(slot: ContenderSlot, acquisition: &Acquisition) -> Result<Contended, Error> {
    let ask = &acquisition.ask;
    let place = &slot.place;
    let mut half = half_built(place, ask, None);
    let chance = place.engine.chance();
    let (mut late, mut pauses, mut polls) = (0, Pauses::after_faults(chance), Pauses::between_polls(chance));
    // Somebody else had it, the last time that the server was heard.
    let mut was_busy = false;
    let (mut releases, mut again) = (Releases::Sent, false);
    loop {
        let asked = match slot.gate(ask, releases).await? {
            Opened::At(now) => now,
            Opened::Busy => return Ok(Contended::Over(None)),
            Opened::WaitOver => return slot.wait_over().map(Contended::Over),
        };
        // What somebody frees by force is not asked for again: its number would count as freed.
        if std::mem::replace(&mut again, true) && slot.is_forced(half.number()) {
            (half, again) = (half_built(place, ask, None), false);
            continue;
        }
        releases = Releases::Sent;
        match slot.attempt(ask, &mut half).await {
            Tried::Granted(guard) => return Ok(Contended::Over(Some(guard))),
            Tried::Fault(_) | Tried::CutOff(Reached::Line | Reached::NoLink) if !slot.stands() => {
                return Ok(Contended::PassedOver);
            }
            Tried::PassedOver => return Ok(Contended::PassedOver),
            Tried::Busy { retry_in } => {
                acquisition.say_contended();
                was_busy = true;
                pauses = Pauses::after_faults(chance);
                if ask.patience == Patience::Once
                    || Box::pin(slot.sleep(ask, half.may_sleep(retry_in), &mut polls)).await? == Slept::WaitOver
                {
                    return Ok(Contended::Over(None));
                }
            }
            Tried::Overtook => releases = Releases::Answered,
            // The present server is asked for the same hold.
            Tried::Outdated => {}
            Tried::Late => {
                late += 1;
                if late == LATE_ANSWERS || ask.patience.ends_by(place.engine.clock().now()) {
                    return Err(late_answer(place, ask));
                }
                // Finished: its release is on the way, and it is never asked for again.
                let again = without(Rule::LateAnswerEndsNumber).then(|| half.number());
                half = half_built(place, ask, again);
            }
            Tried::Closed => return Err(Error::Closed),
            Tried::CutOff(reached) => {
                // It asked nothing: what the server said to the try before it stands.
                if let Some(error) = slot.refused_before().filter(|_| reached != Reached::Server) {
                    return Err(slot.give_up(ask, error, asked));
                }
                // The server answers, only not this one yet: what it said before stands, and what waits in line asked nothing.
                let waits = matches!(ask.patience, Patience::Until(_));
                if waits && (was_busy || reached == Reached::Line) && asked < place.last_answer() {
                    return Ok(Contended::Over(None));
                }
                let error = unanswered(place, reached == Reached::Server, reached.why());
                return Err(slot.give_up(ask, error, asked));
            }
            Tried::Fault(fault) => {
                let error = Error::from_fault(fault.clone(), place.name(), Op::Acquire);
                if !fault.heals() || ask.patience == Patience::Once {
                    return Err(error);
                }
                Box::pin(slot.troubled(ask, &fault, error, asked, &mut pauses)).await?;
            }
        }
    }
}

/// Its answers came later than its own lease.
fn late_answer(place: &Place, ask: &Ask) -> Error {
    let lease = place.engine.lease(ask.lease);
    let fault = Fault::of(FaultKind::Timeout, true, place.distance().of_late_answers(lease));
    Error::from_fault(fault, place.name(), Op::Acquire)
}

fn half_built(place: &Place, ask: &Ask, number: Option<HoldNumber>) -> HalfBuilt {
    let number = number.unwrap_or_else(|| place.engine.draw_hold());
    HalfBuilt::new(place.clone(), number, place.engine.lease(ask.lease))
}

/// A try as it leaves.
struct Departure {
    term: Term,
    era: u64,
    /// A release of ours was not answered yet.
    behind: bool,
    /// What it finds may be a lost hold of ours, and nobody else's turn.
    may_find_own: bool,
    /// Since when earlier tries had no answer.
    troubled: Option<Instant>,
}

impl Departure {
    /// `None` if another is the contender by now.
    fn now(place: &Place, ask: &Ask, contender: u64, asked: Asked) -> Option<Self> {
        let term = Term::first(place.engine.lease(ask.lease), ask.max_hold, place.engine.clock());
        place.update(|state, _| {
            let due = term.sent + place.engine.settings().command_timeout + GRACE;
            state.tries(contender, asked, term.sent, due)?;
            state.listening.clear_flag();
            let behind = !state.releases.is_empty() && !without(Rule::ReleaseBeforeTry);
            let troubled = state.trouble.as_ref().map(|trouble| trouble.since);
            Some(Self {
                term,
                era: place.engine.era.number(),
                behind,
                may_find_own: state.may_have_lost_one(term.sent),
                troubled,
            })
        })
    }
}

/// A try that waits for its place, and leaves when it has one, whoever polls.
async fn queued(place: Place, ask: Ask, contender: u64, asked: Asked) -> Option<(Departure, Result<Attempt, Fault>)> {
    let tries = place.tries();
    let _place_in_line = tries.queued(place.distance().tries()).await?;
    let (number, dispatch) = (asked.number, Arc::clone(&asked.dispatch));
    let departure = Departure::now(&place, &ask, contender, asked)?;
    let answer = place.entry.protocol.acquire(number, departure.term.lease, 1, &dispatch).await;
    Some((departure, answer))
}

impl ContenderSlot {
    /// One try, from the clearing of the wake flag to the guard.
    async fn attempt(&self, ask: &Ask, half: &mut HalfBuilt) -> Tried {
        let place = &self.place;
        let engine = &place.engine;
        let dispatch = self.dispatch();
        let tries = place.tries();
        let asked = match tries.at_hand(|| place.distance().tries()) {
            Some(_place_at_hand) => {
                half.sent(engine.lease(ask.lease), &dispatch);
                let departure = Departure::now(place, ask, self.id, half.asked(&dispatch));
                let Some(departure) = departure else { return Tried::PassedOver };
                let cut_off = || self.cut_off(ask, departure.term.sent, departure.troubled);
                let answer = later(place.entry.protocol.acquire(half.number(), departure.term.lease, 1, &dispatch));
                bounded_by(cut_off, answer).await.map(|answer| (departure, answer))
            }
            None => {
                half.sent(engine.lease(ask.lease), &dispatch);
                self.polls_by(None);
                let queued = engine.attend(queued(place.clone(), ask.clone(), self.id, half.asked(&dispatch)));
                Box::pin(self.in_line(ask, queued)).await.flatten()
            }
        };
        let Some((Departure { term, era, behind, may_find_own, .. }, answer)) = asked else {
            return Tried::CutOff(match (half.cut_off(), place.update(|state, _| state.tries_since())) {
                (true, _) => Reached::Server,
                (false, Some(_)) => Reached::NoLink,
                (false, None) => Reached::Line,
            });
        };
        match answer {
            Err(Fault { kind: FaultKind::Withdrawn, .. }) => {
                half.unanswered(false);
                // It was not wanted any more.
                if engine.is_ending() { Tried::Closed } else { Tried::PassedOver }
            }
            Err(fault) => {
                half.unanswered(fault.may_have_run);
                Tried::Fault(fault)
            }
            Ok(Attempt::Granted { fence, .. }) => {
                half.granted();
                let (moment, distance) = (engine.clock().moment(), place.distance());
                let way = distance.at_most(moment.now.saturating_duration_since(term.sent));
                if way.is_too_far_for(term.lease) {
                    engine.lease_is_short(place.name(), term.lease, way.shortest());
                }
                if !term.holds(moment) {
                    return Tried::Late;
                }
                self.enter(ask, half, (term, moment), (era, &dispatch), distance.shortest(), fence)
            }
            Ok(Attempt::Busy { retry_in }) => {
                half.busy();
                place.update(|state, _| {
                    state.trouble = None;
                    state.trying(None);
                    if behind {
                        return Tried::Overtook;
                    }
                    if !may_find_own {
                        state.slice.busy();
                    }
                    Tried::Busy { retry_in }
                })
            }
            // A fresh acquire cannot find its outer hold missing.
            Ok(Attempt::Gone) => {
                half.busy();
                Tried::Fault(Fault::unexpected("acquire", &Attempt::Gone))
            }
        }
    }

    /// For a try of this contender: while it is that, and the client lives.
    fn dispatch(&self) -> Arc<Dispatch> {
        let (place, id) = (self.place.clone(), self.id);
        Dispatch::new(move || {
            let contends = place.entry.lock().contender.as_ref().is_some_and(|contender| contender.id == id);
            contends && !place.engine.is_ending()
        })
    }

    /// The output of a try that waits in line, unless the caller's wait is over first: for ever is as long as the server
    /// answers anybody.
    async fn in_line<T>(&self, ask: &Ask, mut queued: Attended<T>) -> Option<T> {
        let engine = &self.place.engine;
        let started = engine.clock().now();
        loop {
            let (settings, distance) = (engine.settings(), self.place.distance());
            // It may have left meanwhile.
            let asked = self.place.update(|state, _| state.tries_since()).unwrap_or(started);
            let until = match ask.patience {
                Patience::Once => distance.cut_off(started + settings.command_timeout, asked),
                Patience::Until(until) => distance.cut_off(until, asked),
                Patience::ForEver => {
                    let heard = started.max(self.place.last_answer());
                    distance.cut_off(heard + settings.unreachable_after, asked)
                }
            };
            if until <= engine.clock().now() {
                return None;
            }
            if let Ok(answer) = timeout_at(until, &mut queued).await {
                return answer;
            }
        }
    }

    /// The key was free and is ours.
    fn enter(
        &self,
        ask: &Ask,
        half: &mut HalfBuilt,
        (term, moment): (Term, Moment),
        (era, dispatch): (u64, &Dispatch),
        round_trip: Duration,
        fence: Option<u64>,
    ) -> Tried {
        let place = &self.place;
        let number = half.number();
        let tenure = Tenure::new(ask.owner.clone(), ask.task);
        let ticket = place.engine.draw();
        let entered = place.update(|state, fx| {
            // Asked under the entry's mutex: the end of the client looks for holds under it, and only once.
            if place.engine.is_ending() {
                return Err(Tried::Closed);
            }
            let outdated = place.is_outdated(era, dispatch);
            let contender = state.contender.take_if(|contender| contender.id == self.id && !outdated);
            let Some(contender) = contender else {
                return Err(if outdated { Tried::Outdated } else { Tried::PassedOver });
            };
            state.trouble = None;
            state.turn_taken();
            state.slice.taken(moment.now, round_trip);
            let first = Ticket::new(ticket, ask.lease, ask.max_hold, term.sent);
            let mut hold = Hold::new(number, Arc::clone(&tenure), first, term, moment);
            (hold.grown, hold.unclean) = (half.repeated(), half.built());
            state.hold = Some(hold);
            if contender.forced == Some(number) {
                state.lose(place, LostCause::Forced, fx);
            }
            Ok(())
        });
        match entered {
            Ok(()) => Tried::Granted(LockGuard::new(place.clone(), tenure, ticket, fence)),
            Err(not) => not,
        }
    }
}
