//! From a server to a client: answers, confirmations and messages, until whoever waits for them has them.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    client::{AnswerSlot, Hearing},
    connection::{Route, Wire},
    events::Event,
    frame::Answers,
    network::World,
    notices::News,
    transit::Downward,
};

impl World {
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

    /// A script was answered that was sent then.
    pub(super) fn heard(&mut self, route: Route, sent: Instant) {
        let now = self.now();
        if let Some(member) = self.members.get_mut(&route.client) {
            member.links[route.node].last_answer = now;
            member.signals.round_trips[route.node].note(now.saturating_duration_since(sent));
        }
    }

    /// Somebody waits for the answer of a flight.
    pub(super) fn awaited(&mut self, client: Uuid, flight: u64, answer: oneshot::Sender<Answers>) {
        if let Some(flight) = self.flight(client, flight) {
            flight.answer = AnswerSlot::Wanted(answer);
        }
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

    /// The client hears that its subscription stands.
    pub(super) fn confirm(&mut self, client: Uuid, channel: &Arc<str>, ticket: u64) {
        let Some(member) = self.members.get_mut(&client) else { return };
        let Some(known) = member.channels.get_mut(channel).filter(|known| known.ticket == ticket) else { return };
        known.hearing = Hearing::Confirmed;
        self.news.extend(known.listeners.iter().map(|(_, it)| News::Subscribed(Arc::clone(it))));
    }

    /// The client hears a message.
    pub(super) fn hear(&mut self, client: Uuid, channel: &Arc<str>, bytes: &Arc<[u8]>) {
        let Some(known) = self.members.get(&client).and_then(|member| member.channels.get(channel)) else { return };
        self.news.extend(known.listeners.iter().map(|(_, it)| News::Message(Arc::clone(it), Arc::clone(bytes))));
    }
}
