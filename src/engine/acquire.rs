//! The one way to wait for a lock: try, listen, try again, sleep. Who does so for this process is decided in `admit.rs`,
//! when to try in `pause.rs`.

use std::{future::poll_fn, ops::ControlFlow, pin::Pin, sync::Arc, task::Poll, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{
    Attempt,
    acquisition::Acquisition,
    admit::ContenderSlot,
    ask::{Ask, Patience},
    clock::Moment,
    distance::GRACE,
    half_built::HalfBuilt,
    hold::{Hold, Term, Ticket},
    parked::SentTry,
    pause::{Opened, Pauses, Releases, Slept, bounded_by},
    registry::Place,
    share::Share,
    tenure::Tenure,
    tried::{Contended, Next, Reached, SoFar, Tried, half_built},
};
use crate::{
    backend::{Dispatch, Fault, FaultKind},
    error::{Error, LostCause},
    rules::{Rule, without},
};

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

/// The contender's life. What it leaves half done is undone by [`HalfBuilt`] and [`ContenderSlot`], in that order.
pub(super) async fn contend(slot: ContenderSlot, acquisition: &Acquisition) -> Result<Contended, Error> {
    let (ask, place) = (&acquisition.ask, &slot.place);
    let chance = place.engine.chance();
    // Most are granted at once, and need none.
    let (mut pauses, mut polls) = (None, None);
    let mut so_far = SoFar::nothing(half_built(place, ask, None));
    loop {
        let asked = match slot.gate(ask, so_far.releases).await? {
            Opened::At(now) => now,
            Opened::Busy => return Ok(Contended::Over(None)),
            Opened::WaitOver => return slot.wait_over().map(Contended::Over),
        };
        // What somebody frees by force is not asked for again: its number would count as freed.
        if so_far.again && slot.is_forced(so_far.half.number()) {
            (so_far.half, so_far.again) = (half_built(place, ask, None), false);
            continue;
        }
        (so_far.again, so_far.releases) = (true, Releases::Sent);
        let tried = slot.attempt(ask, &mut so_far.half).await;
        // Decided apart from what is awaited next: else the future had room for what the try brought, at every await.
        let next = match so_far.after(tried, &slot, acquisition, asked)? {
            ControlFlow::Break(over) => return Ok(over),
            ControlFlow::Continue(next) => next,
        };
        match next {
            Next::Try => {}
            Next::Sleep(retry_in) => {
                let polls = polls.get_or_insert_with(|| Pauses::between_polls(chance));
                if Box::pin(slot.sleep(ask, retry_in, polls)).await? == Slept::WaitOver {
                    return Ok(Contended::Over(None));
                }
                pauses = None;
            }
            Next::Pause(trouble) => {
                let (fault, error) = *trouble;
                let pauses = pauses.get_or_insert_with(|| Pauses::after_faults(chance));
                Box::pin(slot.troubled(ask, fault, error, asked, pauses)).await?;
            }
        }
    }
}

/// A try as it leaves.
pub(super) struct Departure {
    pub(super) term: Term,
    pub(super) era: u64,
    /// A release of ours was not answered yet.
    behind: bool,
    /// What it finds may be a lost hold of ours, and nobody else's turn.
    may_find_own: bool,
    /// Since when earlier tries had no answer.
    troubled: Option<Instant>,
}

/// What was granted, and what is known at that moment.
pub(super) struct Granted {
    term: Term,
    pub(super) moment: Moment,
    round_trip: Duration,
    fence: Option<u64>,
}

impl Departure {
    /// `None` if another is the contender by now.
    pub(super) fn now(place: &Place, ask: &Ask, contender: u64, asked: SentTry) -> Option<Self> {
        let term = Term::first(place.engine.lease(ask.lease), ask.max_hold, place.engine.clock());
        place.update(|state, _| {
            let due = term.sent + place.engine.settings().longest_try() + GRACE;
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
async fn queued(place: Place, ask: Ask, contender: u64, asked: SentTry) -> Option<(Departure, Result<Attempt, Fault>)> {
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
        if let Some(replicas) = engine.settings().replicas {
            return Box::pin(self.attempt_acknowledged(ask, half, replicas)).await;
        }
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
                Box::pin(self.in_line(ask, queued)).await
            }
        };
        let Some((departure, answer)) = asked else { return self.unheard(half) };
        match self.heard(half, &departure, answer) {
            Ok(granted) => self.enter(ask, half, granted, (departure.era, &dispatch)),
            Err(tried) => tried,
        }
    }

    /// The wait ended before the answer.
    pub(super) fn unheard(&self, half: &mut HalfBuilt) -> Tried {
        Tried::CutOff(match (half.cut_off(), self.place.update(|state, _| state.tries_since())) {
            (true, _) => Reached::Server,
            // It may as well have stood behind a question for replicas.
            (false, Some(_)) if self.place.engine.settings().replicas.is_none() => Reached::NoLink,
            (false, _) => Reached::Line,
        })
    }

    /// What an answer means.
    pub(super) fn heard(
        &self,
        half: &mut HalfBuilt,
        departure: &Departure,
        answer: Result<Attempt, Fault>,
    ) -> Result<Granted, Tried> {
        let (place, engine, term) = (&self.place, &self.place.engine, departure.term);
        match answer {
            Err(Fault { kind: FaultKind::Withdrawn, .. }) => {
                half.unanswered(false);
                // It was not wanted any more.
                Err(if engine.is_ending() { Tried::Closed } else { Tried::PassedOver })
            }
            Err(fault) => {
                half.unanswered(fault.may_have_run);
                Err(Tried::Fault(fault))
            }
            Ok(Attempt::Granted { fence, .. }) => {
                half.granted();
                let (moment, distance) = (engine.clock().moment(), place.distance());
                let way = distance.at_most(moment.now.saturating_duration_since(term.sent));
                if way.is_too_far_for(term.lease) {
                    engine.lease_is_short(place.name(), term.lease, way.shortest());
                }
                Ok(Granted { term, moment, round_trip: distance.shortest(), fence })
            }
            Ok(Attempt::Busy { retry_in }) => {
                half.busy();
                Err(place.update(|state, _| {
                    state.trouble = None;
                    state.trying(None);
                    if departure.behind {
                        return Tried::Overtook;
                    }
                    if !departure.may_find_own {
                        state.slice.busy(term.sent);
                    }
                    Tried::Busy { retry_in }
                }))
            }
            Ok(Attempt::Settled) => {
                half.busy();
                Err(place.update(|state, _| {
                    state.trouble = None;
                    state.trying(None);
                    if departure.behind { Tried::Overtook } else { Tried::Settled }
                }))
            }
            // A fresh acquire cannot find its outer hold missing.
            Ok(Attempt::Gone) => {
                half.busy();
                Err(Tried::Fault(Fault::unexpected("acquire", &Attempt::Gone)))
            }
        }
    }

    /// For a try of this contender: while it is that, and the client lives.
    pub(super) fn dispatch(&self) -> Arc<Dispatch> {
        let (place, id) = (self.place.clone(), self.id);
        Dispatch::new(move || {
            let contends = place.entry.lock().contender.as_ref().is_some_and(|contender| contender.id == id);
            contends && !place.engine.is_ending()
        })
    }

    /// The output of a try that waits in line, unless the caller's wait is over first. Whoever asks once waits for its turn, and
    /// then as long as a try may take; it and whoever waits for ever wait for as long as the server answers anybody.
    pub(super) async fn in_line<T>(
        &self,
        ask: &Ask,
        mut queued: impl Future<Output = Option<Option<T>>> + Unpin,
    ) -> Option<T> {
        let engine = &self.place.engine;
        let started = engine.clock().now();
        loop {
            let (settings, distance) = (engine.settings(), self.place.distance());
            // It may have left meanwhile.
            let left = self.place.update(|state, _| state.tries_since());
            let asked = left.unwrap_or(started);
            let until = match ask.patience {
                Patience::Once => {
                    let heard = left.unwrap_or_else(|| started.max(self.place.last_answer()));
                    distance.cut_off(heard + settings.longest_try(), asked)
                }
                Patience::Until(until) | Patience::OnceBy(until) => distance.cut_off(until, asked) + settings.in_line(),
                Patience::ForEver => {
                    let heard = started.max(self.place.last_answer());
                    distance.cut_off(heard + settings.unreachable_after, asked) + settings.in_line()
                }
            };
            if until <= engine.clock().now() {
                return None;
            }
            if let Ok(answer) = timeout_at(until, &mut queued).await {
                return answer.flatten();
            }
        }
    }

    /// The key was free and is ours, if the answer came in time.
    pub(super) fn enter(
        &self,
        ask: &Ask,
        half: &mut HalfBuilt,
        granted: Granted,
        (era, dispatch): (u64, &Dispatch),
    ) -> Tried {
        let (place, Granted { term, moment, round_trip, fence }) = (&self.place, granted);
        if !term.holds(moment) {
            return Tried::Late;
        }
        let number = half.number();
        let tenure = Tenure::granted(ask.owner.clone(), ask.task, fence);
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
            Ok(()) => Tried::Granted(Share::new(place.clone(), tenure, ticket)),
            Err(not) => not,
        }
    }
}
