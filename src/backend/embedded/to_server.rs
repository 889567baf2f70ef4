//! From a client to a server: commands and subscriptions, on a link that keeps their order, until they have arrived.

use std::time::Duration;

use uuid::Uuid;

use super::{
    client::{AnswerSlot, Flight},
    conditions::Passage,
    connection::{Route, Split, Wire},
    events::Event,
    executed::Road,
    frame::{Packet, PacketOrder},
    network::World,
    notices::News,
    trace::Happening,
    transit::{Downward, Upward},
};

impl World {
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

    /// A second copy reaches the process that it was sent to, by a road of its own; nobody waits for its answer.
    pub(super) fn copy(&mut self, client: Uuid, host: u64, packet: &Packet) {
        match self.hosts.get(host) {
            Some(_) => drop(self.execute(client, host, packet, Road::Copy)),
            None => self.lost(client, packet),
        }
    }
}
