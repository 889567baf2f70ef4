//! From a client to a server: commands and subscriptions, on a link that keeps their order, until they have arrived.

use std::time::Duration;

use uuid::Uuid;

use super::{
    client::{AnswerSlot, Flight},
    conditions::Arrival,
    connection::{LinkId, Partition, Route},
    events::Event,
    executed::Road,
    frame::{Frame, FrameOrder},
    network::Network,
    notices::Notice,
    trace::Happening,
    transit::{ToClient, ToServer},
};

impl Network {
    /// Sets out for the store, behind whatever is on its way there.
    pub(super) fn send_to_server(&mut self, route: Route, what: ToServer, delay: Duration) {
        let now = self.now();
        let Some(links) = self.links_mut(route) else { return };
        let link = links.of(what.purpose());
        let (link_id, client) = (link.link_id(route.node), route.client);
        match link.streams(what.order()).to_server.enter(now, delay) {
            Some(at) => drop(self.plan(at, Event::Arrives { client, link_id, what })),
            None => self.arrive_at_server(client, link_id, what),
        }
    }

    /// Reaches the process that it was sent to, if the way is free.
    pub(super) fn arrive_at_server(&mut self, client: Uuid, link_id: LinkId, what: ToServer) {
        let (route, gone) = (Route::of(client, link_id), self.instances.get(link_id.instance).is_none());
        let Some(links) = self.links_mut(route).filter(|_| !gone) else {
            // What a client sent before it left runs all the same; what was sent to a process that is gone does not.
            match what {
                ToServer::Run { frame, .. } if gone => self.note_lost(client, &frame),
                ToServer::Run { frame, .. } => drop(self.execute(client, link_id.instance, &frame, Road::OldLink)),
                ToServer::Subscribe { .. } | ToServer::Unsubscribe { .. } => {}
            }
            return;
        };
        let is_current = links.of(what.purpose()).is(link_id.number);
        if links.path.partition == Partition::Partitioned && !is_current {
            if let ToServer::Run { frame, .. } = what {
                self.note_lost(client, &frame);
            }
            return;
        }
        if self.blocks(route, link_id.instance) {
            if let Some(links) = self.links_mut(route) {
                links.path.held_to_server.push_back((link_id, what));
            }
            return;
        }
        match what {
            ToServer::Run { flight, frame, reply } => {
                if is_current && frame.is_single() && !self.instances.has(link_id.instance, &frame.calls()[0]) {
                    return self.redirect(client, flight);
                }
                let waits = is_current && !self.is_given_up(client, flight, frame.order);
                let road = if waits { Road::Link } else { Road::OldLink };
                let answers = self.execute(client, link_id.instance, &frame, road);
                match reply {
                    Arrival::Arrives if waits => {
                        self.send_to_client(route, ToClient::Answer { flight, answers, order: frame.order });
                    }
                    Arrival::Arrives => {}
                    Arrival::Lost => self.note(client, || Happening::Unanswered),
                }
            }
            ToServer::Subscribe { channel, generation } if is_current => {
                self.add_subscriber(route, channel, generation)
            }
            ToServer::Unsubscribe { channel } if is_current => {
                self.remove_subscriber(route, link_id.instance, &channel)
            }
            ToServer::Subscribe { .. } | ToServer::Unsubscribe { .. } => {}
        }
    }

    /// What goes apart has a link of its own, which ends with whoever waits for it in vain.
    fn is_given_up(&self, client: Uuid, flight: u64, order: FrameOrder) -> bool {
        let flight = self.clients.get(&client).and_then(|state| state.flights.get(&flight));
        let late = flight.is_none_or(|flight| matches!(flight.answer, AnswerSlot::TooLate));
        order == FrameOrder::Apart && late
    }

    /// Its slot went to another node while it was on its way.
    fn redirect(&mut self, client: Uuid, flight: u64) {
        let known = self.clients.get_mut(&client).and_then(|state| state.flights.remove(&flight));
        let Some(Flight { answer, frame, dispatches, due, .. }) = known else { return };
        due.into_iter().for_each(|due| self.cancel(due));
        match (answer, dispatches, due) {
            (AnswerSlot::Wanted(answer), Some(dispatches), Some((deadline, _))) => {
                self.requeue(client, frame, dispatches, deadline, answer);
            }
            (_, dispatches, _) => {
                // Its caller was told that there is no answer.
                self.notices.extend(dispatches.map(Notice::Over));
                self.note_lost(client, &frame);
            }
        }
    }

    /// A second copy reaches the process that it was sent to, by a road of its own; nobody waits for its answer.
    pub(super) fn copy(&mut self, client: Uuid, instance: u64, frame: &Frame) {
        match self.instances.get(instance) {
            Some(_) => drop(self.execute(client, instance, frame, Road::Copy)),
            None => self.note_lost(client, frame),
        }
    }
}
