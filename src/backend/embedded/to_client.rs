//! From a server to a client: answers, confirmations and messages, until whoever waits for them has them.

use std::{sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    client::{AnswerSlot, SubscriptionState},
    connection::{LinkId, Route},
    events::Event,
    frame::Answers,
    network::Network,
    notices::Notice,
    transit::ToClient,
};

impl Network {
    /// Sets out for the client, behind whatever is on its way there.
    pub(super) fn send_to_client(&mut self, route: Route, what: ToClient) {
        let now = self.now();
        let delay = self
            .conditions_of(route.client)
            .map_or(Duration::ZERO, |conditions| conditions.draw_reply_delay(&self.chance));
        let Some(links) = self.links_mut(route) else { return };
        let link = links.of(what.purpose());
        let (link_id, client) = (link.link_id(route.node), route.client);
        match link.streams(what.order()).to_client.enter(now, delay) {
            Some(at) => drop(self.plan(at, Event::Returns { client, link_id, what })),
            None => self.arrive_at_client(client, link_id, what),
        }
    }

    /// Reaches the client, if the way is free and the link is the one that it was sent on.
    pub(super) fn arrive_at_client(&mut self, client: Uuid, link_id: LinkId, what: ToClient) {
        let route = Route::of(client, link_id);
        let blocked = self.blocks(route, link_id.instance);
        let Some(links) = self.links_mut(route) else { return };
        if !links.of(what.purpose()).is(link_id.number) {
            return;
        }
        if blocked {
            return links.path.held_to_client.push_back((link_id, what));
        }
        match what {
            ToClient::Answer { flight, answers, .. } => self.settle(route, flight, answers),
            ToClient::Confirm { channel, generation } => self.confirm(client, &channel, generation),
            ToClient::Message { channel, bytes } => self.receive_message(client, &channel, &bytes),
        }
    }

    /// A command was answered.
    fn settle(&mut self, route: Route, flight: u64, answers: Answers) {
        let now = self.now();
        let sent = self.flight(route.client, flight).map(|flight| flight.sent);
        match sent {
            Some(sent) => self.note_answer(route, sent),
            None => self.links_mut(route).into_iter().for_each(|links| links.last_answer = now),
        }
        self.end_flight(route.client, flight, answers);
    }

    /// A script was answered that was sent then.
    pub(super) fn note_answer(&mut self, route: Route, sent: Instant) {
        let now = self.now();
        if let Some(state) = self.clients.get_mut(&route.client) {
            state.links[route.node].last_answer = now;
            state.signals.round_trips[route.node].note(now.saturating_duration_since(sent));
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
        let Some(state) = self.clients.get_mut(&client) else { return };
        let Some(known) = state.flights.get_mut(&flight) else { return };
        if let AnswerSlot::Here(here) = &mut known.answer {
            // Taken by whoever is sending it right now.
            *here = Some(answers);
            return;
        }
        let Some(over) = state.flights.remove(&flight) else { return };
        if let Some(due) = over.due {
            self.cancel(due);
        }
        if let AnswerSlot::Wanted(caller) = over.answer {
            self.notices.push_back(Notice::Answer(caller, answers));
        }
        self.notices.extend(over.dispatches.map(Notice::Over));
    }

    /// The client hears that its subscription stands.
    fn confirm(&mut self, client: Uuid, channel: &Arc<str>, generation: u64) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        let Some(known) = state.channels.get_mut(channel).filter(|known| known.generation == generation) else {
            return;
        };
        known.state = SubscriptionState::Confirmed;
        self.notices.extend(known.listeners.iter().map(|(_, it)| Notice::Subscribed(Arc::clone(it))));
    }

    /// The client hears a message.
    fn receive_message(&mut self, client: Uuid, channel: &Arc<str>, bytes: &Arc<[u8]>) {
        let Some(known) = self.clients.get(&client).and_then(|state| state.channels.get(channel)) else { return };
        self.notices.extend(known.listeners.iter().map(|(_, it)| Notice::Message(Arc::clone(it), Arc::clone(bytes))));
    }
}
