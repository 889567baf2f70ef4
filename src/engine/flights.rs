//! Commands of a name that were sent and not answered. They are the name's, and no caller's: each is polled once where it is
//! sent, and from then on by whatever wakes it. So nobody who stops polling keeps an answer from those who wait.
//!
//! What polls one runs in the middle of what woke it, and so do the wakers of those whom it tells. Where that is no place for it
//! (outside of every task, or of the client's runtime, whose timers it may need), and where it would be polled again at once
//! (it may wake itself until something else runs), it gets a task after all.

use std::{
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Forced, Renewal,
    convert::{answer_of_attempt, answer_of_force, answer_of_moved, answer_of_release, answer_of_renewal},
    distance::Distance,
    entry::{Entry, Event, Place},
    foreign::{panicked, unless_it_panics},
    protocol::{Attempt, Letting, Moved},
    replicas::Acknowledging,
    shared::Engine,
};
use crate::{
    backend::{Dispatch, Fault, FaultKind, Pending, Reply},
    state::{self, Answer, CommandId, Published, Seldom},
};

/// Nobody polls them, and none was woken.
const ASLEEP: u8 = 0;
/// Somebody polls them, or is about to.
const POLLED: u8 = 1;
/// The same, and one was woken meanwhile: they are polled again.
const WOKEN: u8 = 2;

/// So many that were given up are waited for. One more, and the first of them counts as lost.
const GIVEN_UP: usize = 64;

#[derive(Default)]
pub(super) struct Flights {
    stage: AtomicU8,
    under_way: Mutex<UnderWay>,
}

#[derive(Default)]
struct UnderWay {
    /// Mostly there is one, or none: a list has no room then.
    #[expect(clippy::vec_box, reason = "a flight is large, and few names have one at a time")]
    all: Vec<Box<Flight>>,
    /// They are out of the list while they are polled: these are to be withdrawn once they are back.
    withdrawn: Seldom<CommandId>,
}

/// One command that is about to be sent.
pub(super) struct Sending {
    pub(super) command: CommandId,
    /// Of those that can be withdrawn.
    pub(super) dispatch: Option<Arc<Dispatch>>,
    pub(super) reply: Replying,
    /// It is a try, of which so many are under way at a time.
    pub(super) tried: Option<Tried>,
}

/// One that was sent.
struct Flight {
    command: CommandId,
    dispatch: Option<Arc<Dispatch>>,
    reply: Replying,
    sent: Instant,
    tried: Option<Tried>,
    /// Nobody waits for it any more, but for the sake of what it may leave.
    given_up: bool,
    /// What was sent is waited for though the client was dropped.
    #[expect(dead_code, reason = "it is kept, and never looked at")]
    engine: Arc<Engine>,
}

/// A try that was sent.
#[derive(Clone, Copy)]
pub(super) struct Tried {
    /// Where it is counted.
    pub(super) at: u32,
    pub(super) lease: Duration,
}

/// The answer to one of the verbs.
pub(super) enum Replying {
    Acquire(Reply<Attempt>),
    /// Its grant counts once replicas know of it.
    Acknowledged {
        reply: Pending<Result<Attempt, Fault>>,
        so_far: Arc<Acknowledging>,
    },
    Release(Reply<Letting>),
    HandOver(Pending<Result<Moved, Fault>>),
    Force(Pending<Result<Forced, Fault>>),
    /// A longer lease of one hold.
    Lengthen(Pending<Vec<Result<Renewal, Fault>>>),
}

impl Replying {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Fault>> {
        unless_it_panics(|| self.read(cx)).unwrap_or_else(|| Poll::Ready(Err(panicked())))
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Fault>> {
        match self {
            Self::Acquire(reply) => Pin::new(reply).poll(cx).map(|answer| answer.map(answer_of_attempt)),
            Self::Acknowledged { reply, .. } => reply.as_mut().poll(cx).map(|answer| answer.map(answer_of_attempt)),
            Self::Release(reply) => Pin::new(reply).poll(cx).map(|answer| answer.map(answer_of_release)),
            Self::HandOver(reply) => reply.as_mut().poll(cx).map(|answer| answer.map(answer_of_moved)),
            Self::Lengthen(reply) => reply.as_mut().poll(cx).map(|mut answers| {
                let missing = || Err(Fault::unexpected("renew", &"no answer"));
                answers.pop().unwrap_or_else(missing).map(answer_of_renewal)
            }),
            Self::Force(reply) => reply.as_mut().poll(cx).map(|answer| answer.map(answer_of_force)),
        }
    }
}

impl UnderWay {
    /// The first of those that were given up, where there are too many to wait for them all.
    fn one_too_many(&mut self) -> Option<Flight> {
        let mut given_up = self.all.iter().enumerate().filter(|(_, flight)| flight.given_up).map(|(at, _)| at);
        let first = given_up.next()?;
        (GIVEN_UP <= given_up.count()).then(|| *self.all.remove(first))
    }
}

/// One that was answered, or will not be.
pub(super) struct Landed {
    pub(super) command: CommandId,
    pub(super) answer: Result<Answer, Fault>,
    tried: Option<Tried>,
    sent: Instant,
}

/// A try that was answered.
pub(super) struct TryOver {
    tried: Tried,
    granted: bool,
    sent: Instant,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is this caller who has to poll.
    fn begin(&self) -> bool {
        let next = |stage| Some(if stage == ASLEEP { POLLED } else { WOKEN });
        self.stage.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(ASLEEP)
    }

    /// Whether one was woken meanwhile: then whoever polled has to poll again.
    fn end(&self) -> bool {
        let woken = self.stage.compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err();
        if woken {
            self.stage.store(POLLED, Ordering::Release);
        }
        woken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }
}

impl Place {
    /// Sends it: the first poll does that. Commands go in the order in which they come here. One that is answered at once is
    /// handed back with its answer.
    pub(super) fn fly(&self, sending: Sending, sent: Instant) -> Option<Landed> {
        let Sending { command, dispatch, mut reply, tried } = sending;
        let (flights, home) = (&self.entry.flights, self.engine.is_home());
        let begins = home && flights.begin();
        // One that stands in the list unpolled goes first.
        let first = begins && flights.is_empty();
        if first {
            let waker = Waker::from(Arc::clone(&self.entry));
            if let Poll::Ready(answer) = reply.poll(&mut Context::from_waker(&waker)) {
                self.slept();
                let landed = Landed { command, answer, tried, sent };
                self.is_told(&landed);
                return Some(landed);
            }
        }
        let engine = Arc::clone(&self.engine);
        let flight = Flight { command, dispatch, reply, sent, tried, given_up: false, engine };
        flights.lock().all.push(Box::new(flight));
        if first {
            self.slept();
        } else if begins {
            self.poll_flights();
        } else if flights.begin() {
            // Whoever polls just now looks again.
            if home { self.poll_flights() } else { self.poll_in_a_task() }
        }
        None
    }

    /// What was not sent is not sent any more.
    pub(super) fn withdraw(&self, command: CommandId) {
        let mut under_way = self.entry.flights.lock();
        let Some(at) = under_way.all.iter().position(|flight| flight.command == command) else {
            if self.entry.flights.stage.load(Ordering::Acquire) != ASLEEP {
                under_way.withdrawn.push(command);
            }
            return;
        };
        let flight = &mut under_way.all[at];
        if let Replying::Acknowledged { so_far, .. } = &flight.reply
            && let Some(attempt) = so_far.withdraw()
        {
            // It was answered, and nobody waits for replicas any more.
            let Flight { tried, sent, .. } = *under_way.all.remove(at);
            drop(under_way);
            let answer = Ok(answer_of_attempt(attempt));
            return self.landed(Landed { command, answer, tried, sent });
        }
        if flight.dispatch.as_ref().is_some_and(|dispatch| dispatch.withdraw()) {
            let Flight { tried, sent, .. } = *under_way.all.remove(at);
            drop(under_way);
            let fault = Fault::of(FaultKind::Withdrawn, false, "it was withdrawn before it was sent");
            return self.landed(Landed { command, answer: Err(fault), tried, sent });
        }
        if let Replying::Lengthen(_) = flight.reply {
            // Nobody asks what it left.
            let flight = under_way.all.remove(at);
            drop(under_way);
            return drop(flight);
        }
        flight.given_up = true;
        let (sent, tried) = (flight.sent, flight.tried.take());
        let too_many = under_way.one_too_many();
        drop(under_way);
        // It left, and nobody waits for it any longer.
        self.unheard_since(sent);
        if let Some(tried) = tried {
            self.tried(tried.at);
        }
        if let Some(Flight { command, .. }) = too_many {
            self.on(Event::Answered { command, answer: Err(state::Fault::LOST) });
        }
    }

    /// For whoever made them `POLLED`, at home.
    fn poll_flights(&self) {
        let flights = &self.entry.flights;
        let waker = Waker::from(Arc::clone(&self.entry));
        let cx = &mut Context::from_waker(&waker);
        let mut all = mem::take(&mut flights.lock().all);
        let mut landed = Vec::new();
        all.retain_mut(|flight| match flight.reply.poll(cx) {
            Poll::Ready(answer) => {
                landed.push(Landed { command: flight.command, answer, tried: flight.tried, sent: flight.sent });
                false
            }
            Poll::Pending => true,
        });
        let withdrawn = {
            let mut under_way = flights.lock();
            let later = mem::take(&mut under_way.all);
            all.extend(later);
            under_way.all = all;
            under_way.withdrawn.take()
        };
        self.slept();
        withdrawn.into_iter().for_each(|command| self.withdraw(command));
        landed.into_iter().for_each(|landed| self.landed(landed));
    }

    /// Whoever polled is done; what was woken meanwhile has its turn when something else has run.
    fn slept(&self) {
        if self.entry.flights.end() {
            self.poll_in_a_task();
        }
    }

    fn poll_in_a_task(&self) {
        let place = self.clone();
        self.engine.spawn(Box::pin(async move { place.poll_flights() }));
    }

    pub(super) fn landed(&self, landed: Landed) {
        self.is_told(&landed);
        let over = landed.try_over();
        let Landed { command, answer, .. } = landed;
        self.perform_after(|state, env, effects| {
            let answer = answer.map_err(|fault| state.befalls(fault));
            state.name.on(Event::Answered { command, answer }, env, effects);
        });
        if let Some(over) = over {
            self.try_is_over(over, Instant::now());
        }
    }

    /// A release that the server would not let us publish is said to be, once a client.
    fn is_told(&self, landed: &Landed) {
        if let Ok(Answer::Released { holds: 0, published: Published::No }) = &landed.answer {
            self.engine.cannot_tell();
        }
    }

    /// Others have their turn. And a lease that is too short for the way is said to be, once a client.
    pub(super) fn try_is_over(&self, TryOver { tried, granted, sent }: TryOver, now: Instant) {
        let took = now - sent;
        // The way is no longer than this answer's was: mostly that is all there is to know.
        if granted && Distance::is_far_for(tried.lease, took) {
            let way = self.distance().at_most(took);
            if way.is_too_far_for(tried.lease) {
                self.engine.lease_is_short(self.name(), tried.lease, way.shortest());
            }
        }
        self.tried(tried.at);
    }
}

impl Landed {
    /// What is known of the try that this answers, if it is one.
    pub(super) fn try_over(&self) -> Option<TryOver> {
        let granted = matches!(self.answer, Ok(Answer::Granted { .. }));
        self.tried.map(|tried| TryOver { tried, granted, sent: self.sent })
    }
}

impl Wake for Entry {
    fn wake(self: Arc<Self>) {
        if !self.flights.begin() {
            return;
        }
        let Some(engine) = self.engine.upgrade() else { return };
        let place = Place { engine, entry: self };
        if tokio::task::try_id().is_some() && place.engine.is_home() {
            place.poll_flights();
        } else {
            place.poll_in_a_task();
        }
    }
}
