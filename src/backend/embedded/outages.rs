//! Ways on which nothing passes, and on which something does again; servers that come back without anything.

use std::mem;

use uuid::Uuid;

use super::{
    client::Links,
    connection::{Cause, Partition, Route, ServerState},
    events::Event,
    network::Network,
    trace::Purpose,
};

impl Network {
    /// Nothing passes between this client and the store any more.
    pub(super) fn partition(&mut self, client: Uuid) {
        self.routes(client)
            .into_iter()
            .for_each(|route| self.block(route, |links| links.path.partition = Partition::Partitioned));
    }

    pub(super) fn heal(&mut self, client: Uuid) {
        self.routes(client)
            .into_iter()
            .for_each(|route| self.unblock(route, |links| links.path.partition = Partition::Healed));
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
        let Some(instance) = self.links(route).map(|links| links.messages.instance) else { return };
        let blocked = self.blocks(route, instance);
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
        let back = mem::take(&mut links.path.held_to_client);
        let there = mem::take(&mut links.path.held_to_server);
        for (link_id, what) in back {
            self.arrive_at_client(route.client, link_id, what);
        }
        for (link_id, what) in there {
            self.arrive_at_server(route.client, link_id, what);
        }
        for purpose in Purpose::BOTH {
            self.plan_replacement(route, purpose);
        }
    }

    /// Comes back without anything that it knew; what was on its way is lost with its links. A client to which nothing
    /// passes finds out when something does again.
    pub(super) fn restart(&mut self) {
        for event in self.take_planned(Event::is_on_its_way) {
            match event {
                Event::Arrives { client, what, .. } => self.note_lost_on_way(client, &what),
                Event::Copy { client, frame, .. } => self.note_lost(client, &frame),
                _ => {}
            }
        }
        let now = self.now();
        self.instances.forget_everything(now);
        let routes: Vec<_> = self.clients.keys().flat_map(|client| self.routes(*client)).collect();
        for route in routes {
            self.sever(route, None);
        }
    }
}
