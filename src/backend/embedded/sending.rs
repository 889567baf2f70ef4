//! Commands as their client sends them: at once, or from their place in the line as soon as there is a link.

use std::sync::Arc;

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    client::{AnswerSlot, Flight, Links, Member},
    clock::after,
    conditions::{Fate, Passage, Then},
    connection::{Cause, Route, Stage},
    events::Event,
    executed::Road,
    failures::{closed, dropped},
    frame::{Answers, Packet, PacketOrder},
    network::World,
    notices::News,
    trace::Purpose,
    transit::Upward,
};
use crate::backend::dispatch::Dispatches;

/// What became of a command in the poll that sent it.
pub(super) enum Sent {
    Answered(Answers),
    /// It left, and is waited for.
    UnderWay(oneshot::Receiver<Answers>),
    /// There was no link; it has this place in the line.
    Parked(u64, oneshot::Receiver<Answers>),
}

/// A parked command whose turn it is.
pub(super) struct NextParked {
    pub(super) packet: Packet,
    pub(super) dispatches: Arc<Dispatches>,
    pub(super) caller: oneshot::Sender<Answers>,
    pub(super) link: u64,
}

impl World {
    /// Sends a command that was asked whether it may leave.
    pub(super) fn send(&mut self, client: Uuid, packet: &Packet, dispatches: &Dispatches, deadline: Instant) -> Sent {
        // Where a slot cannot move nobody is asked twice.
        let dispatches = (self.hosts.nodes() > 1).then(|| Arc::new(dispatches.clone()));
        match self.transmit(client, packet, dispatches, deadline) {
            Ok(flight) => {
                let (answer, answered) = oneshot::channel();
                self.awaited(client, flight, answer);
                Sent::UnderWay(answered)
            }
            Err(answers) => Sent::Answered(answers),
        }
    }

    /// Gives a command a place in the line for a link.
    pub(super) fn park(
        &mut self,
        route: Route,
        packet: Packet,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
    ) -> Sent {
        let (answer, answered) = oneshot::channel();
        Sent::Parked(self.line_up(route, packet, dispatches, deadline, answer), answered)
    }

    /// The first parked command, if there is a link for it. It keeps its place until [`World::send_parked`].
    pub(super) fn next_parked(&mut self, route: Route) -> Option<NextParked> {
        let links = self.links(route).filter(|links| links.commands.stage == Stage::Up)?;
        let link = self.number(route.client, &links.parked.front()?.packet);
        let first = self.links_mut(route)?.parked.front_mut()?;
        let caller = first.answer.take()?;
        Some(NextParked { packet: first.packet.clone(), dispatches: Arc::clone(&first.dispatches), caller, link })
    }

    /// The first parked command goes, or hears why it does not.
    pub(super) fn send_parked(
        &mut self,
        route: Route,
        packet: &Packet,
        (leaves, link): (Result<(), Answers>, u64),
        caller: oneshot::Sender<Answers>,
    ) {
        let first = self.links_mut(route).and_then(|links| links.parked.pop_front());
        let Some(first) = first else {
            // The client left while it was asked: told outside of the mutex, as everything.
            let never_sent = leaves.err().unwrap_or_else(|| packet.fails(&closed(false)));
            return self.news.push_back(News::Answer(caller, never_sent));
        };
        self.cancel(first.due);
        let client = route.client;
        if let Err(answers) = leaves {
            return self.news.push_back(News::Answer(caller, answers));
        }
        if self.hosts.node_for(packet) != route.node {
            return self.line_up_anew(client, first.packet, first.dispatches, first.deadline, caller);
        }
        let asked_again = (self.hosts.nodes() > 1).then(|| Arc::clone(&first.dispatches));
        match self.transmit(client, packet, asked_again, first.deadline) {
            Ok(flight) => self.awaited(client, flight, caller),
            Err(answers) => self.news.push_back(News::Answer(caller, answers)),
        }
        packet.is_with(&first.dispatches, link);
    }

    pub(super) fn routes_with_parked(&self) -> Vec<Route> {
        let waits = |links: &Links| links.commands.stage == Stage::Up && !links.parked.is_empty();
        let routes = self.members.values().flat_map(|member| {
            member.nodes().filter(|node| waits(&member.links[*node])).map(|node| Route { client: member.id, node })
        });
        routes.collect()
    }

    /// Sends it: an answer that came at once, or the number of the flight.
    pub(super) fn transmit(
        &mut self,
        client: Uuid,
        packet: &Packet,
        dispatches: Option<Arc<Dispatches>>,
        deadline: Instant,
    ) -> Result<u64, Answers> {
        let route = Route { client, node: self.hosts.node_for(packet) };
        if self.is_plain(route, packet.order) {
            return Err(self.exchange(route, packet));
        }
        let now = self.now();
        let flight = self.draw();
        let fate = self.fate(client);
        let Some(member) = self.members.get_mut(&client) else { return Err(packet.fails(&closed(true))) };
        let link = &member.links[route.node].commands;
        if link.stage != Stage::Up {
            // It broke between the question and the sending.
            return Err(packet.fails(&dropped()));
        }
        let (host, answer) = (link.host, AnswerSlot::Here(None));
        let sent = Flight { node: route.node, sent: now, answer, packet: packet.clone(), dispatches, due: None };
        member.flights.insert(flight, sent);
        match fate.request {
            Passage::Arrives => {
                let what = Upward::Run { flight, packet: packet.clone(), reply: fate.reply };
                self.send_there(route, what, fate.delay);
            }
            Passage::Lost => self.lost(client, packet),
        }
        if let Some(later) = fate.copy {
            self.plan(after(now, later), Event::Copy { client, host, packet: packet.clone() });
        }
        if fate.then == Then::Breaks {
            self.break_link(route, Purpose::Commands, Cause::Cut);
        }
        let Some(member) = self.members.get_mut(&client) else { return Err(packet.fails(&closed(true))) };
        let Some(sent) = member.flights.get_mut(&flight) else { return Err(packet.fails(&closed(true))) };
        if let AnswerSlot::Here(answers) = &mut sent.answer
            && let Some(answers) = answers.take()
        {
            let over = member.flights.remove(&flight);
            self.news.extend(over.and_then(|over| over.dispatches).map(News::Over));
            return Err(answers);
        }
        let due = self.plan(deadline.max(now), Event::Overdue { client, flight });
        if let Some(sent) = self.flight(client, flight) {
            sent.due = Some(due);
        }
        Ok(flight)
    }

    /// Whether nothing befalls this client's next command, which then need not be followed on its way: it is answered at once.
    fn is_plain(&self, route: Route, order: PacketOrder) -> bool {
        self.weather_of(route.client).is_none()
            && self.members.get(&route.client).is_some_and(|member| {
                let link = &member.links[route.node].commands;
                let is_free = link.stage == Stage::Up && link.is_clear(order);
                is_free && member.armed.is_nothing() && !self.blocks(route, link.host)
            })
    }

    /// There and back.
    fn exchange(&mut self, route: Route, packet: &Packet) -> Answers {
        let Some(host) = self.links(route).map(|links| links.commands.host) else {
            return packet.fails(&closed(true));
        };
        let answers = self.execute(route.client, host, packet, Road::Link);
        self.heard(route, self.now());
        answers
    }

    /// What befalls the next command of a client: what a test wants, and what the weather brings.
    fn fate(&mut self, client: Uuid) -> Fate {
        let mut fate = self.weather_of(client).map(|weather| weather.fate(&self.chance)).unwrap_or_default();
        let Some(Member { armed, .. }) = self.members.get_mut(&client) else { return fate };
        if armed.requests > 0 {
            armed.requests -= 1;
            fate.request = Passage::Lost;
        } else if armed.replies > 0 {
            armed.replies -= 1;
            fate.reply = Passage::Lost;
        }
        fate.copy = armed.copies.pop_front().or(fate.copy);
        fate
    }
}
