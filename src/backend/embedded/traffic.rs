//! Commands from their first poll to their answer, over links that keep their order. What breaks a link is in `breaks.rs`.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    breaks::Cause,
    cargo::{Downward, Upward},
    clock::after,
    member::{AnswerSlot, Flight, Links, Member, Route, Split, Stage, Wire},
    packet::{Answers, Packet, PacketOrder},
    trace::{Happening, Purpose, Road},
    weather::{Fate, Passage, Then},
    world::{Event, News, World},
};
use crate::backend::{Fault, FaultKind, dispatch::Dispatches};

/// What became of a command in the poll that sent it.
pub(super) enum Sent {
    Answered(Answers),
    /// It left, and is waited for.
    UnderWay(oneshot::Receiver<Answers>),
    /// There was no link; it has this place in the line.
    Parked(u64, oneshot::Receiver<Answers>),
}

/// Whether a command can leave: at once, once there is a link, or never.
pub(super) enum LinkState {
    Open,
    Down,
    Closed,
}

impl World {
    pub(super) fn links(&self, route: Route) -> Option<&Links> {
        self.members.get(&route.client).map(|member| &member.links[route.node])
    }

    pub(super) fn links_mut(&mut self, route: Route) -> Option<&mut Links> {
        self.members.get_mut(&route.client).map(|member| &mut member.links[route.node])
    }

    /// Whether nothing passes between this client and that process.
    pub(super) fn blocks(&self, route: Route, host: u64) -> bool {
        let frozen = self.hosts.get(host).is_some_and(|host| host.frozen);
        frozen || self.links(route).is_some_and(|links| links.path.is_blocked())
    }

    /// Where a command goes, and how.
    pub(super) fn link_state(&self, client: Uuid, packet: &Packet) -> (Route, LinkState) {
        let route = Route { client, node: self.hosts.node_for(packet) };
        let state = match self.links(route) {
            None => LinkState::Closed,
            Some(links) if links.is_open() => LinkState::Open,
            Some(_) => LinkState::Down,
        };
        (route, state)
    }

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

    /// Somebody waits for the answer of a flight.
    pub(super) fn awaited(&mut self, client: Uuid, flight: u64, answer: oneshot::Sender<Answers>) {
        if let Some(flight) = self.flight(client, flight) {
            flight.answer = AnswerSlot::Wanted(answer);
        }
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

    /// A script was answered that was sent then.
    fn heard(&mut self, route: Route, sent: Instant) {
        let now = self.now();
        if let Some(member) = self.members.get_mut(&route.client) {
            member.links[route.node].last_answer = now;
            member.signals.round_trips[route.node].note(now.saturating_duration_since(sent));
        }
    }

    /// A second copy reaches the process that it was sent to, by a road of its own; nobody waits for its answer.
    pub(super) fn copy(&mut self, client: Uuid, host: u64, packet: &Packet) {
        match self.hosts.get(host) {
            Some(_) => drop(self.execute(client, host, packet, Road::Copy)),
            None => self.lost(client, packet),
        }
    }

    pub(super) fn lost(&mut self, client: Uuid, packet: &Packet) {
        for words in packet.calls() {
            self.note(client, || Happening::Lost { script: words.script.path });
        }
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

    /// Sets out for the store, behind whatever is on its way there.
    pub(super) fn send_there(&mut self, route: Route, what: Upward, delay: Duration) {
        let now = self.now();
        let Some(links) = self.links_mut(route) else { return };
        let link = links.of(what.purpose());
        let (wire, client) = (link.wire(route.node), route.client);
        match link.lanes(what.order()).there.enter(now, delay) {
            Some(at) => drop(self.plan(at, Event::Arrives { client, wire, what })),
            None => self.arrive(client, wire, what),
        }
    }

    /// Reaches the process that it was sent to, if the way is free.
    pub(super) fn arrive(&mut self, client: Uuid, wire: Wire, what: Upward) {
        let (route, gone) = (Route::of(client, wire), self.hosts.get(wire.host).is_none());
        let Some(links) = self.links_mut(route).filter(|_| !gone) else {
            // What a client sent before it left runs all the same; what was sent to a process that is gone does not.
            match what {
                Upward::Run { packet, .. } if gone => self.lost(client, &packet),
                Upward::Run { packet, .. } => drop(self.execute(client, wire.host, &packet, Road::OldLink)),
                Upward::Listen { .. } | Upward::Unlisten { .. } => {}
            }
            return;
        };
        let is_current = links.of(what.purpose()).is(wire.number);
        if links.path.split == Split::Parted && !is_current {
            if let Upward::Run { packet, .. } = what {
                self.lost(client, &packet);
            }
            return;
        }
        if self.blocks(route, wire.host) {
            if let Some(links) = self.links_mut(route) {
                links.path.held_there.push_back((wire, what));
            }
            return;
        }
        match what {
            Upward::Run { flight, packet, reply } => {
                if is_current && packet.is_single() && !self.hosts.has(wire.host, &packet.calls()[0]) {
                    return self.redirect(client, flight);
                }
                let waits = is_current && !self.is_given_up(client, flight, packet.order);
                let road = if waits { Road::Link } else { Road::OldLink };
                let answers = self.execute(client, wire.host, &packet, road);
                match reply {
                    Passage::Arrives if waits => {
                        self.send_back(route, Downward::Answer { flight, answers, order: packet.order });
                    }
                    Passage::Arrives => {}
                    Passage::Lost => self.note(client, || Happening::Unanswered),
                }
            }
            Upward::Listen { channel, ticket } if is_current => self.listen(route, channel, ticket),
            Upward::Unlisten { channel } if is_current => self.unlisten(route, wire.host, &channel),
            Upward::Listen { .. } | Upward::Unlisten { .. } => {}
        }
    }

    /// What goes apart has a link of its own, which ends with whoever waits for it in vain.
    fn is_given_up(&self, client: Uuid, flight: u64, order: PacketOrder) -> bool {
        let flight = self.members.get(&client).and_then(|member| member.flights.get(&flight));
        let late = flight.is_none_or(|flight| matches!(flight.answer, AnswerSlot::TooLate));
        order == PacketOrder::Apart && late
    }

    /// Its slot went to another node while it was on its way.
    fn redirect(&mut self, client: Uuid, flight: u64) {
        let known = self.members.get_mut(&client).and_then(|member| member.flights.remove(&flight));
        let Some(Flight { answer, packet, dispatches, due, .. }) = known else { return };
        due.into_iter().for_each(|due| self.cancel(due));
        match (answer, dispatches, due) {
            (AnswerSlot::Wanted(answer), Some(dispatches), Some((deadline, _))) => {
                self.line_up_anew(client, packet, dispatches, deadline, answer);
            }
            (_, dispatches, _) => {
                // Its caller was told that there is no answer.
                self.news.extend(dispatches.map(News::Over));
                self.lost(client, &packet);
            }
        }
    }

    /// Sets out for the client, behind whatever is on its way there.
    pub(super) fn send_back(&mut self, route: Route, what: Downward) {
        let now = self.now();
        let delay = self.weather_of(route.client).map_or(Duration::ZERO, |weather| weather.way_back(&self.chance));
        let Some(links) = self.links_mut(route) else { return };
        let link = links.of(what.purpose());
        let (wire, client) = (link.wire(route.node), route.client);
        match link.lanes(what.order()).back.enter(now, delay) {
            Some(at) => drop(self.plan(at, Event::Returns { client, wire, what })),
            None => self.come_back(client, wire, what),
        }
    }

    /// Reaches the client, if the way is free and the link is the one that it was sent on.
    pub(super) fn come_back(&mut self, client: Uuid, wire: Wire, what: Downward) {
        let route = Route::of(client, wire);
        let blocked = self.blocks(route, wire.host);
        let Some(links) = self.links_mut(route) else { return };
        if !links.of(what.purpose()).is(wire.number) {
            return;
        }
        if blocked {
            return links.path.held_back.push_back((wire, what));
        }
        match what {
            Downward::Answer { flight, answers, .. } => self.settle(route, flight, answers),
            Downward::Confirm { channel, ticket } => self.confirm(client, &channel, ticket),
            Downward::Message { channel, bytes } => self.hear(client, &channel, &bytes),
        }
    }

    /// A command was answered.
    fn settle(&mut self, route: Route, flight: u64, answers: Answers) {
        let now = self.now();
        let sent = self.flight(route.client, flight).map(|flight| flight.sent);
        match sent {
            Some(sent) => self.heard(route, sent),
            None => self.links_mut(route).into_iter().for_each(|links| links.last_answer = now),
        }
        self.end_flight(route.client, flight, answers);
    }

    /// A command is over: its caller gets this.
    pub(super) fn end_flight(&mut self, client: Uuid, flight: u64, answers: Answers) {
        let Some(member) = self.members.get_mut(&client) else { return };
        let Some(known) = member.flights.get_mut(&flight) else { return };
        if let AnswerSlot::Here(here) = &mut known.answer {
            // Taken by whoever is sending it right now.
            *here = Some(answers);
            return;
        }
        let Some(over) = member.flights.remove(&flight) else { return };
        if let Some(due) = over.due {
            self.cancel(due);
        }
        if let AnswerSlot::Wanted(caller) = over.answer {
            self.news.push_back(News::Answer(caller, answers));
        }
        self.news.extend(over.dispatches.map(News::Over));
    }

    fn flight(&mut self, client: Uuid, flight: u64) -> Option<&mut Flight> {
        self.members.get_mut(&client)?.flights.get_mut(&flight)
    }

    /// A command has waited for long enough. A link on which nothing came for a whole command timeout is given up; one
    /// that a caller left sooner only if nothing passes.
    pub(super) fn overdue(&mut self, client: Uuid, flight: u64) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        let verdict = member.command_timeout;
        let Some(known) = member.flights.get_mut(&flight) else { return };
        let verdict = known.sent + verdict;
        let mut waited = false;
        if let AnswerSlot::Wanted(caller) = std::mem::replace(&mut known.answer, AnswerSlot::TooLate) {
            waited = !caller.is_closed();
            let fault = Fault::of(FaultKind::Timeout, true, "no answer in time");
            let answers = known.packet.fails(&fault);
            self.news.push_back(News::Answer(caller, answers));
        }
        if now < verdict {
            let due = self.plan(verdict, Event::Overdue { client, flight });
            if let Some(known) = self.flight(client, flight) {
                known.due = Some(due);
            }
        } else {
            let Some(known) = member.flights.remove(&flight) else { return };
            let (route, host) = (Route { client, node: known.node }, member.links[known.node].commands.host);
            self.news.extend(known.dispatches.map(News::Over));
            if waited || self.blocks(route, host) {
                self.break_link(route, Purpose::Commands, Cause::Silent);
            }
        }
    }
}

/// The client was closed.
pub(super) fn closed(may_have_run: bool) -> Fault {
    Fault::of(FaultKind::Closed, may_have_run, "the client was closed")
}

/// Its slot is elsewhere by now.
pub(super) fn moved() -> Fault {
    Fault::of(FaultKind::Unready, false, "its slot has moved")
}

/// The link went away under a command.
pub(super) fn dropped() -> Fault {
    Fault::of(FaultKind::Dropped, true, "the link was dropped")
}

/// The link was given up because nothing came over it any more.
pub(super) fn silent() -> Fault {
    Fault::of(FaultKind::Timeout, true, "the link went silent")
}
