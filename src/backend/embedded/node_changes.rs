//! What happens to a store's nodes: masters that are replaced or silent, and slots that move.

use std::{collections::VecDeque, mem, time::Duration};

use super::{
    client::Parked, clock::after, connection::Route, events::Event, instances::LONGEST_PAST, network::World,
    notices::News, trace::Purpose,
};

/// What a new master lacks of what the old one had, for [`EmbeddedStore::fail_over`](crate::EmbeddedStore::fail_over).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forget {
    /// It has everything.
    Nothing,
    /// It has what the old one had so long ago, as a replica that lagged behind. No further back than ten seconds, and some
    /// ten thousand changes.
    Since(Duration),
}

/// What becomes of a master that was replaced, for [`EmbeddedStore::fail_over`](crate::EmbeddedStore::fail_over).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rival {
    /// It is gone, and its links are.
    Dead,
    /// It goes on for so long, and does what is asked over the links that it has. New ones lead to the new master: where a
    /// client is to hear of that sooner, its links are [cut](crate::EmbeddedStore::cut).
    Lives(Duration),
}

impl World {
    pub(super) fn fail_over(&mut self, node: usize, since: Option<Duration>, rival: Rival) {
        let now = self.now();
        let then = since.and_then(|since| now.checked_sub(since.min(LONGEST_PAST)));
        let old = self.hosts.replace_master(node, then);
        match rival {
            Rival::Dead => self.end_host(old),
            Rival::Lives(long) => drop(self.plan(after(now, long), Event::Gone { host: old })),
        }
        // What waited for the old one to answer need not any more.
        for route in self.routes_to(node) {
            for purpose in Purpose::BOTH {
                self.plan_replacement(route, purpose);
            }
        }
    }

    /// A process is gone, and all links to it.
    pub(super) fn end_host(&mut self, host: u64) {
        let Some(node) = self.hosts.get(host).map(|host| host.node) else { return };
        self.hosts.remove(host);
        for route in self.routes_to(node) {
            self.sever(route, Some(host));
        }
    }

    pub(super) fn migrate(&mut self, slot: u16, takes: Duration) -> usize {
        let (now, time) = (self.now(), self.clock.server_time());
        let from = self.hosts.node_of_slot(slot);
        let to = (from + 1) % self.nodes();
        self.hosts.begin_move(slot, to, now, time);
        let clients: Vec<_> = self.members.keys().copied().collect();
        for client in clients {
            self.reroute(Route { client, node: from }, slot, to);
            self.deafen(client, slot);
            // Whoever knows where the slot went knows who the master is there.
            self.leave_rivals(Route { client, node: to });
        }
        self.plan(now, Event::Look);
        self.plan(after(now, takes), Event::Settled { slot });
        to
    }

    /// A client's commands for a slot take another way from now on, those too that wait for a link.
    fn reroute(&mut self, from: Route, slot: u16, to: usize) {
        let Some(member) = self.members.get_mut(&from.client) else { return };
        let number = member.draw();
        member.ways.insert(slot, number);
        // One that is asked whether it may leave is sent on when that is known.
        let is_there = |parked: &Parked| self.hosts.node_for(&parked.packet) == to && parked.answer.is_some();
        let waiting = mem::take(&mut member.links[from.node].parked);
        let (mut moved, kept): (VecDeque<_>, _) = waiting.into_iter().partition(is_there);
        member.links[from.node].parked = kept;
        member.links[to].parked.append(&mut moved);
        self.news.push_back(News::Linked(member.signals.eras.clone(), number));
    }

    /// A slot is where it was to go.
    pub(super) fn settle_slot(&mut self, slot: u16) {
        if !self.hosts.end_move(slot) {
            return;
        }
        let node = self.hosts.node_of_slot(slot);
        let clients: Vec<_> = self.members.keys().copied().collect();
        clients.into_iter().for_each(|client| self.listen_there(client, slot, node));
    }

    pub(super) fn freeze_node(&mut self, node: usize) {
        let routes = self.routes_to(node);
        // As for a client to whom nothing passes: its beat finds out.
        routes.into_iter().for_each(|route| self.block(route, |_| {}));
        self.hosts.all_mut().filter(|host| host.node == node).for_each(|host| host.frozen = true);
    }

    pub(super) fn thaw_node(&mut self, node: usize) {
        self.hosts.all_mut().filter(|host| host.node == node).for_each(|host| host.frozen = false);
        let routes = self.routes_to(node);
        routes.into_iter().for_each(|route| self.unblock(route, |_| {}));
    }
}
