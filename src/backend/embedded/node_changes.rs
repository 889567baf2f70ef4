//! What happens to a store's nodes: masters that are replaced or silent, and slots that move.

use std::{collections::VecDeque, mem, time::Duration};

use super::{
    client::QueuedCommand, clock::after, connection::Route, events::Event, instances::LONGEST_PAST, network::Network,
    notices::Notice, trace::Purpose,
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

impl Network {
    pub(super) fn fail_over(&mut self, node: usize, since: Option<Duration>, rival: Rival) {
        let now = self.now();
        let then = since.and_then(|since| now.checked_sub(since.min(LONGEST_PAST)));
        let old = self.instances.replace_master(node, then, now);
        match rival {
            Rival::Dead => self.end_instance(old),
            Rival::Lives(long) => drop(self.plan(after(now, long), Event::Gone { instance: old })),
        }
        // What waited for the old one to answer need not any more.
        for route in self.routes_to(node) {
            for purpose in Purpose::BOTH {
                self.plan_replacement(route, purpose);
            }
        }
    }

    /// A process is gone, and all links to it.
    pub(super) fn end_instance(&mut self, instance: u64) {
        let Some(node) = self.instances.get(instance).map(|instance| instance.node) else { return };
        self.instances.remove(instance);
        for route in self.routes_to(node) {
            self.sever(route, Some(instance));
        }
    }

    pub(super) fn migrate(&mut self, slot: u16, takes: Duration) -> usize {
        let (now, time) = (self.now(), self.clock.server_time());
        let from = self.instances.node_of_slot(slot);
        let to = (from + 1) % self.nodes();
        self.instances.begin_move(slot, to, now, time);
        let clients: Vec<_> = self.clients.keys().copied().collect();
        for client in clients {
            self.reroute(Route { client, node: from }, slot, to);
            self.interrupt_slot(client, slot);
            // Whoever knows where the slot went knows who the master is there.
            self.leave_rivals(Route { client, node: to });
        }
        self.plan(now, Event::CheckQueues);
        self.plan(after(now, takes), Event::Settled { slot });
        to
    }

    /// A client's commands for a slot take another way from now on, those too that wait for a link.
    fn reroute(&mut self, from: Route, slot: u16, to: usize) {
        let Some(state) = self.clients.get_mut(&from.client) else { return };
        let number = state.newer_number();
        state.slot_links.insert(slot, number);
        // One that is asked whether it may leave is sent on when that is known.
        let is_there = |queued: &QueuedCommand| self.instances.node_for(&queued.frame) == to && queued.answer.is_some();
        let waiting = mem::take(&mut state.links[from.node].queued);
        let (mut moved, kept): (VecDeque<_>, _) = waiting.into_iter().partition(is_there);
        state.links[from.node].queued = kept;
        state.links[to].queued.append(&mut moved);
        self.notices.push_back(Notice::Linked(state.signals.eras.clone(), number));
    }

    /// A slot is where it was to go.
    pub(super) fn settle_slot(&mut self, slot: u16) {
        if !self.instances.end_move(slot) {
            return;
        }
        let node = self.instances.node_of_slot(slot);
        let clients: Vec<_> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|client| self.resume_slot(client, slot, node));
    }

    pub(super) fn freeze_node(&mut self, node: usize) {
        let routes = self.routes_to(node);
        // As for a client to whom nothing passes: its beat finds out.
        routes.into_iter().for_each(|route| self.block(route, |_| {}));
        self.instances.all_mut().filter(|instance| instance.node == node).for_each(|instance| instance.frozen = true);
    }

    pub(super) fn thaw_node(&mut self, node: usize) {
        self.instances.all_mut().filter(|instance| instance.node == node).for_each(|instance| instance.frozen = false);
        let routes = self.routes_to(node);
        routes.into_iter().for_each(|route| self.unblock(route, |_| {}));
    }
}
