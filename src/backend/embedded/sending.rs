//! Commands as their client sends them: at once, or from their place in the line as soon as there is a link.

use std::sync::Arc;

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    client::{AnswerSlot, ClientState, Flight, Links},
    clock::after,
    conditions::{Arrival, CommandFaults, LinkEffect},
    connection::{Cause, Route, Stage},
    events::Event,
    executed::Road,
    failures::{closed, dropped},
    frame::{Answers, Frame, FrameOrder},
    network::Network,
    notices::Notice,
    trace::Purpose,
    transit::ToServer,
};
use crate::backend::dispatch::Dispatches;

/// What became of a command in the poll that sent it.
pub(super) enum Sent {
    Answered(Answers),
    /// It left, and is waited for.
    UnderWay(oneshot::Receiver<Answers>),
    /// There was no link; it has this place in the line.
    Queued(u64, oneshot::Receiver<Answers>),
}

/// A queued command whose turn it is.
pub(super) struct NextQueued {
    pub(super) frame: Frame,
    pub(super) dispatches: Arc<Dispatches>,
    pub(super) caller: oneshot::Sender<Answers>,
    pub(super) link: u64,
}

impl Network {
    /// Sends a command that was asked whether it may leave.
    pub(super) fn send(&mut self, client: Uuid, frame: &Frame, dispatches: &Dispatches, deadline: Instant) -> Sent {
        // Where a slot cannot move nobody is asked twice.
        let dispatches = (self.instances.nodes() > 1).then(|| Arc::new(dispatches.clone()));
        match self.transmit(client, frame, dispatches, deadline) {
            Ok(flight) => {
                let (answer, answered) = oneshot::channel();
                self.awaited(client, flight, answer);
                Sent::UnderWay(answered)
            }
            Err(answers) => Sent::Answered(answers),
        }
    }

    /// Gives a command a place in the line for a link.
    pub(super) fn queue(&mut self, route: Route, frame: Frame, dispatches: Arc<Dispatches>, deadline: Instant) -> Sent {
        let (answer, answered) = oneshot::channel();
        Sent::Queued(self.enqueue(route, frame, dispatches, deadline, answer), answered)
    }

    /// The first queued command, if there is a link for it. It keeps its place until [`Network::send_queued`].
    pub(super) fn next_queued(&mut self, route: Route) -> Option<NextQueued> {
        let links = self.links(route).filter(|links| links.commands.stage == Stage::Up)?;
        let link = self.number(route.client, &links.queued.front()?.frame);
        let first = self.links_mut(route)?.queued.front_mut()?;
        let caller = first.answer.take()?;
        Some(NextQueued { frame: first.frame.clone(), dispatches: Arc::clone(&first.dispatches), caller, link })
    }

    /// The first queued command goes, or hears why it does not.
    pub(super) fn send_queued(
        &mut self,
        route: Route,
        frame: &Frame,
        leaves: Result<(), Answers>,
        caller: oneshot::Sender<Answers>,
    ) {
        let first = self.links_mut(route).and_then(|links| links.queued.pop_front());
        let Some(first) = first else {
            // The client left while it was asked: told outside of the mutex, as everything.
            let never_sent = leaves.err().unwrap_or_else(|| frame.fails(&closed(false)));
            return self.notices.push_back(Notice::Answer(caller, never_sent));
        };
        self.cancel(first.due);
        let client = route.client;
        if let Err(answers) = leaves {
            return self.notices.push_back(Notice::Answer(caller, answers));
        }
        if self.instances.node_for(frame) != route.node {
            return self.requeue(client, first.frame, first.dispatches, first.deadline, caller);
        }
        let asked_again = (self.instances.nodes() > 1).then(|| Arc::clone(&first.dispatches));
        match self.transmit(client, frame, asked_again, first.deadline) {
            Ok(flight) => self.awaited(client, flight, caller),
            Err(answers) => self.notices.push_back(Notice::Answer(caller, answers)),
        }
    }

    pub(super) fn routes_with_queued(&self) -> Vec<Route> {
        let waits = |links: &Links| links.commands.stage == Stage::Up && !links.queued.is_empty();
        let routes = self.clients.values().flat_map(|state| {
            state.nodes().filter(|node| waits(&state.links[*node])).map(|node| Route { client: state.id, node })
        });
        routes.collect()
    }

    /// Sends it: an answer that came at once, or the number of the flight.
    fn transmit(
        &mut self,
        client: Uuid,
        frame: &Frame,
        dispatches: Option<Arc<Dispatches>>,
        deadline: Instant,
    ) -> Result<u64, Answers> {
        let route = Route { client, node: self.instances.node_for(frame) };
        if self.is_plain(route, frame.order) {
            return Err(self.exchange(route, frame));
        }
        let now = self.now();
        let flight = self.next_id();
        let faults = self.next_faults(client);
        let Some(state) = self.clients.get_mut(&client) else { return Err(frame.fails(&closed(true))) };
        let link = &state.links[route.node].commands;
        if link.stage != Stage::Up {
            // It broke between the question and the sending.
            return Err(frame.fails(&dropped()));
        }
        let (instance, answer) = (link.instance, AnswerSlot::Here(None));
        let sent = Flight { node: route.node, sent: now, answer, frame: frame.clone(), dispatches, due: None };
        state.flights.insert(flight, sent);
        match faults.request {
            Arrival::Arrives => {
                let what = ToServer::Run { flight, frame: frame.clone(), reply: faults.reply };
                self.send_to_server(route, what, faults.delay);
            }
            Arrival::Lost => self.note_lost(client, frame),
        }
        if let Some(later) = faults.copy {
            self.plan(after(now, later), Event::Copy { client, instance, frame: frame.clone() });
        }
        if faults.link == LinkEffect::Breaks {
            self.break_link(route, Purpose::Commands, Cause::Cut);
        }
        let Some(state) = self.clients.get_mut(&client) else { return Err(frame.fails(&closed(true))) };
        let Some(sent) = state.flights.get_mut(&flight) else { return Err(frame.fails(&closed(true))) };
        if let AnswerSlot::Here(answers) = &mut sent.answer
            && let Some(answers) = answers.take()
        {
            let over = state.flights.remove(&flight);
            self.notices.extend(over.and_then(|over| over.dispatches).map(Notice::Over));
            return Err(answers);
        }
        let due = self.plan(deadline.max(now), Event::Overdue { client, flight });
        if let Some(sent) = self.flight(client, flight) {
            sent.due = Some(due);
        }
        Ok(flight)
    }

    /// Whether nothing befalls this client's next command, which then need not be followed on its way: it is answered at once.
    fn is_plain(&self, route: Route, order: FrameOrder) -> bool {
        self.conditions_of(route.client).is_none()
            && self.clients.get(&route.client).is_some_and(|state| {
                let link = &state.links[route.node].commands;
                let is_free = link.stage == Stage::Up && link.is_clear(order);
                is_free && state.planned.is_nothing() && !self.blocks(route, link.instance)
            })
    }

    /// There and back.
    fn exchange(&mut self, route: Route, frame: &Frame) -> Answers {
        let Some(instance) = self.links(route).map(|links| links.commands.instance) else {
            return frame.fails(&closed(true));
        };
        let answers = self.execute(route.client, instance, frame, Road::Link);
        self.note_answer(route, self.now());
        answers
    }

    /// What befalls the next command of a client: what a test wants, and what the conditions bring.
    fn next_faults(&mut self, client: Uuid) -> CommandFaults {
        let mut faults =
            self.conditions_of(client).map(|conditions| conditions.draw_faults(&self.chance)).unwrap_or_default();
        let Some(ClientState { planned, .. }) = self.clients.get_mut(&client) else { return faults };
        if planned.requests > 0 {
            planned.requests -= 1;
            faults.request = Arrival::Lost;
        } else if planned.replies > 0 {
            planned.replies -= 1;
            faults.reply = Arrival::Lost;
        }
        faults.copy = planned.copies.pop_front().or(faults.copy);
        faults
    }
}
