//! Commands of a name that were sent and not answered. They are the name's, and no caller's: each is polled once where it is
//! sent, and from then on by whatever wakes it. So nobody who stops polling keeps an answer from those who wait.
//!
//! What polls one runs in the middle of what woke it, and so do the wakers of those whom it tells. Where that is no place for it
//! (outside of every task, or of the client's runtime, whose timers it may need), and where it would be polled again at once
//! (it may wake itself until something else runs), it gets a task after all.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use smallvec::SmallVec;
use tokio::time::Instant;

use super::{
    convert::answer_of_attempt,
    distance::Distance,
    entry::{Client, Entry, Event},
    entry_ref::EntryRef,
    flights::{Flight, Landed, List, Sending, TryOver},
    replying::Replying,
    shared::Engine,
};
use crate::{
    backend::{Fault, FaultKind},
    state::{self, Answer, CommandId, Published},
};

impl EntryRef {
    /// Sends it: the first poll does that. Commands go in the order in which they come here. One that is answered at once is
    /// handed back with its answer.
    pub(super) fn fly(&self, sending: Sending, sent: Instant) -> Option<Landed> {
        let Sending { command, dispatch, mut reply, tried } = sending;
        let (flights, home) = (&self.entry.flights, self.engine.is_home());
        let begins = home && self.entry.polling.begin();
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
        let client = Arc::clone(&self.engine) as Arc<dyn Send + Sync>;
        let flight = Flight { command, dispatch, reply, sent, tried, given_up: false, client, next: List::default() };
        flights.lock().all.push(flight);
        if first {
            self.slept();
        } else if begins {
            self.poll_flights();
        } else if self.entry.polling.begin() {
            // Whoever polls just now looks again.
            if home { self.poll_flights() } else { self.poll_in_a_task() }
        }
        None
    }

    /// What was not sent is not sent any more.
    pub(super) fn withdraw(&self, command: CommandId) {
        let mut under_way = self.entry.flights.lock();
        let Some(flight) = under_way.all.find(|flight| flight.command == command) else {
            if !self.entry.polling.is_asleep() {
                under_way.withdrawn.push(command);
            }
            return;
        };
        let (sent, tried) = (flight.sent, flight.tried);
        if let Replying::Acknowledged { so_far, .. } = &flight.reply
            && let Some(attempt) = so_far.withdraw()
        {
            // It was answered, and nobody waits for replicas any more.
            let over = under_way.take(command);
            drop(under_way);
            drop(over);
            let answer = Ok(answer_of_attempt(attempt));
            return self.landed(Landed { command, answer, tried, sent });
        }
        if flight.dispatch.as_ref().is_some_and(|dispatch| dispatch.withdraw()) {
            let over = under_way.take(command);
            drop(under_way);
            drop(over);
            let fault = Fault::of(FaultKind::Withdrawn, false, "it was withdrawn before it was sent");
            return self.landed(Landed { command, answer: Err(fault), tried, sent });
        }
        if let Replying::Lengthen(_) = flight.reply {
            // Nobody asks what it left.
            let over = under_way.take(command);
            drop(under_way);
            return drop(over);
        }
        (flight.given_up, flight.tried) = (true, None);
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
        // Mostly one is answered at a time.
        let mut landed = SmallVec::<[Landed; 1]>::new();
        all.take_where(|flight| {
            let Poll::Ready(answer) = flight.reply.poll(cx) else { return false };
            landed.push(Landed { command: flight.command, answer, tried: flight.tried, sent: flight.sent });
            true
        });
        let withdrawn = {
            let mut under_way = flights.lock();
            all.append(mem::take(&mut under_way.all));
            under_way.all = all;
            under_way.withdrawn.take()
        };
        self.slept();
        withdrawn.into_iter().for_each(|command| self.withdraw(command));
        landed.into_iter().for_each(|landed| self.landed(landed));
    }

    /// Whoever polled is done; what was woken meanwhile has its turn when something else has run.
    fn slept(&self) {
        if self.entry.polling.end() {
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

impl Client for Engine {
    fn woken(self: Arc<Self>, entry: Arc<Entry>) {
        let place = EntryRef { engine: self, entry };
        if tokio::task::try_id().is_some() && place.engine.is_home() {
            place.poll_flights();
        } else {
            place.poll_in_a_task();
        }
    }

    #[cfg(test)]
    fn has_room(self: Arc<Self>, entry: Arc<Entry>) {
        EntryRef { engine: self, entry }.tried(0);
    }
}
