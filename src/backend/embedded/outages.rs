//! Ways on which nothing passes and on which something does again; links that are replaced; clients that leave.

use std::mem;

use uuid::Uuid;

use super::{
    client::{Links, Member},
    connection::{Cause, Route, ServerState, Split, Stage},
    events::Event,
    failures::closed,
    network::World,
    notices::News,
    trace::{Happening, Purpose},
};

impl World {
    /// Nothing passes between this client and the store any more.
    pub(super) fn partition(&mut self, client: Uuid) {
        self.routes(client).into_iter().for_each(|route| self.block(route, |links| links.path.split = Split::Parted));
    }

    pub(super) fn heal(&mut self, client: Uuid) {
        self.routes(client).into_iter().for_each(|route| self.unblock(route, |links| links.path.split = Split::Whole));
    }

    /// The servers take what comes from this client, and do nothing with it.
    pub(super) fn freeze(&mut self, client: Uuid) {
        self.routes(client)
            .into_iter()
            .for_each(|route| self.block(route, |links| links.path.server = ServerState::Frozen));
    }

    pub(super) fn thaw(&mut self, client: Uuid) {
        self.routes(client)
            .into_iter()
            .for_each(|route| self.unblock(route, |links| links.path.server = ServerState::Runs));
    }

    pub(super) fn block(&mut self, route: Route, how: impl FnOnce(&mut Links)) {
        let Some(host) = self.links(route).map(|links| links.messages.host) else { return };
        let blocked = self.blocks(route, host);
        if let Some(links) = self.links_mut(route).filter(|_| !blocked) {
            links.path.block += 1;
            self.expect_silence(route);
        }
        if let Some(links) = self.links_mut(route) {
            how(links);
        }
    }

    pub(super) fn unblock(&mut self, route: Route, how: impl FnOnce(&mut Links)) {
        let Some(links) = self.links_mut(route) else { return };
        how(links);
        if links.path.is_blocked() {
            return;
        }
        if mem::take(&mut links.path.severed) {
            for purpose in Purpose::BOTH {
                self.lose_held(route, purpose);
                self.break_link(route, purpose, Cause::Cut);
                self.plan_replacement(route, purpose);
            }
            return;
        }
        let back = mem::take(&mut links.path.held_back);
        let there = mem::take(&mut links.path.held_there);
        for (wire, what) in back {
            self.come_back(route.client, wire, what);
        }
        for (wire, what) in there {
            self.arrive(route.client, wire, what);
        }
        for purpose in Purpose::BOTH {
            self.plan_replacement(route, purpose);
        }
    }

    /// A new link to the master of that moment, if anything passes. Whether parked commands may go now.
    pub(super) fn replace(&mut self, route: Route, purpose: Purpose) {
        let (now, host) = (self.now(), self.hosts.master(route.node));
        let blocked = self.blocks(route, host);
        let Route { client, node } = route;
        let Some(member) = self.members.get_mut(&client) else { return };
        if member.links[node].of(purpose).stage != Stage::Replacing {
            return;
        }
        if blocked {
            member.links[node].of(purpose).stage = Stage::Waiting;
            return;
        }
        let number = member.next_number(node, purpose);
        let link = member.links[node].of(purpose);
        (link.stage, link.number, link.host, link.opened) = (Stage::Up, number, host, now);
        let eras = (purpose == Purpose::Commands).then(|| member.signals.eras.clone());
        self.note(client, || Happening::Replaced { link: purpose, node });
        match eras {
            Some(eras) => self.news.push_back(News::Linked(eras, number)),
            None => self.listen_anew(route),
        }
        self.leave_rivals(route);
    }

    /// Comes back without anything that it knew; what was on its way is lost with its links. A client to which nothing
    /// passes finds out when something does again.
    pub(super) fn restart(&mut self) {
        for event in self.take_planned(Event::is_on_its_way) {
            match event {
                Event::Arrives { client, what, .. } => self.lose(client, &what),
                Event::Copy { client, packet, .. } => self.lost(client, &packet),
                _ => {}
            }
        }
        self.hosts.forget_everything();
        let routes: Vec<_> = self.members.keys().flat_map(|client| self.routes(*client)).collect();
        for route in routes {
            self.sever(route, None);
        }
    }

    /// A client leaves for good: everybody is told, and nothing of it stays but what is on its way to the store.
    pub(super) fn leave(&mut self, client: Uuid) -> Option<Member> {
        let member = self.members.get(&client)?;
        let fault = closed(true);
        let flights: Vec<_> = member.flights.iter().map(|(number, it)| (*number, it.packet.fails(&fault))).collect();
        for (flight, answers) in flights {
            self.end_flight(client, flight, answers);
        }
        let mut left = self.members.remove(&client)?;
        for parked in left.links.iter_mut().flat_map(|links| &mut links.parked) {
            self.cancel(parked.due);
            if let Some(caller) = parked.answer.take() {
                self.news.push_back(News::Answer(caller, parked.packet.fails(&closed(false))));
            }
        }
        for node in left.nodes() {
            let host = left.links[node].messages.host;
            self.forget_listener(Route { client, node }, host);
        }
        self.take_planned(|event| !event.outlives(client));
        for links in &mut left.links {
            for (wire, what) in mem::take(&mut links.path.held_there) {
                match links.path.split {
                    // What a frozen server took runs all the same.
                    Split::Whole => drop(self.plan(self.now(), Event::Arrives { client, wire, what })),
                    Split::Parted => self.lose(client, &what),
                }
            }
        }
        self.note(client, || Happening::Left);
        Some(left)
    }
}
