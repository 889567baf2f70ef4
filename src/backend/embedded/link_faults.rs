//! Links that break or are given up, and what that does to whatever was on them. A new link is only planned here.

use std::{collections::VecDeque, mem, sync::Arc};

use uuid::Uuid;

use super::{
    client::{AnswerSlot, SubscriptionState},
    connection::{Cause, Partition, Route, Stage},
    events::Event,
    failures::{dropped, no_answer, silent},
    network::Network,
    notices::Notice,
    trace::{Happening, Purpose},
};
use crate::backend::backoff;

impl Network {
    /// A link is over at both ends. What is on its way to the store may still arrive; nothing comes back.
    pub(super) fn break_link(&mut self, route: Route, purpose: Purpose, cause: Cause) {
        let now = self.now();
        let Some(links) = self.links_mut(route) else { return };
        let link = links.of(purpose);
        if link.stage != Stage::Up {
            return;
        }
        if now.saturating_duration_since(link.opened) > backoff::CAP {
            link.backoff.reset();
        }
        let instance = link.instance;
        link.stage = Stage::Waiting;
        link.clear();
        links.path.held_to_client.retain(|(_, what)| what.purpose() != purpose);
        if links.path.partition == Partition::Partitioned {
            self.lose_held(route, purpose);
        }
        let Route { client, node } = route;
        self.note(client, || Happening::Broke { link: purpose, node });
        match purpose {
            Purpose::Commands => self.fail_flights(route, cause),
            Purpose::Messages => self.interrupt(route, instance),
        }
        self.plan_replacement(route, purpose);
    }

    /// All links of a client break, to whichever node they lead.
    pub(super) fn cut(&mut self, client: Uuid) {
        for route in self.routes(client) {
            for purpose in Purpose::BOTH {
                self.break_link(route, purpose, Cause::Cut);
            }
        }
    }

    /// Whoever knows of another master has nothing more to do with the old one.
    pub(super) fn leave_rivals(&mut self, route: Route) {
        let instance = self.instances.master(route.node);
        for purpose in Purpose::BOTH {
            if self.links_mut(route).is_some_and(|links| links.of(purpose).instance != instance) {
                self.break_link(route, purpose, Cause::Cut);
            }
        }
    }

    /// The links of a client to a node end that lead to this process, or all of them, and what is on its way with them.
    pub(super) fn sever(&mut self, route: Route, instance: Option<u64>) {
        let Some(links) = self.links_mut(route) else { return };
        let is_its = |of: u64| instance.is_none_or(|instance| instance == of);
        let held = mem::take(&mut links.path.held_to_server);
        let (lost, kept): (VecDeque<_>, _) = held.into_iter().partition(|(link_id, _)| is_its(link_id.instance));
        links.path.held_to_server = kept;
        links.path.held_to_client.retain(|(link_id, _)| !is_its(link_id.instance));
        for purpose in Purpose::BOTH {
            lost.iter()
                .filter(|(_, what)| what.purpose() == purpose)
                .for_each(|(_, what)| self.note_lost_on_way(route.client, what));
        }
        let Some(links) = self.links_mut(route) else { return };
        let ends: Vec<_> = Purpose::BOTH.into_iter().filter(|purpose| is_its(links.of(*purpose).instance)).collect();
        if links.path.partition == Partition::Partitioned {
            links.path.severed |= !ends.is_empty();
            return;
        }
        for purpose in ends {
            self.break_link(route, purpose, Cause::Cut);
        }
    }

    /// What stands in front of a way on which nothing passes never will.
    pub(super) fn lose_held(&mut self, route: Route, purpose: Purpose) {
        let Some(links) = self.links_mut(route) else { return };
        let held = mem::take(&mut links.path.held_to_server);
        let (lost, kept): (VecDeque<_>, _) = held.into_iter().partition(|(_, what)| what.purpose() == purpose);
        links.path.held_to_server = kept;
        lost.iter().for_each(|(_, what)| self.note_lost_on_way(route.client, what));
    }

    fn fail_flights(&mut self, route: Route, cause: Cause) {
        let fault = match cause {
            Cause::Cut => dropped(),
            Cause::Silent => silent(),
        };
        let Some(state) = self.clients.get(&route.client) else { return };
        let flights = state.flights.iter().filter(|(_, flight)| flight.node == route.node);
        let flights: Vec<_> = flights.map(|(number, it)| (*number, it.frame.fails(&fault))).collect();
        for (flight, answers) in flights {
            self.end_flight(route.client, flight, answers);
        }
    }

    fn interrupt(&mut self, route: Route, instance: u64) {
        let Some(state) = self.clients.get_mut(&route.client) else { return };
        for channel in state.channels.values_mut().filter(|channel| channel.node == route.node) {
            if mem::replace(&mut channel.state, SubscriptionState::Asked) == SubscriptionState::Confirmed {
                self.notices.extend(channel.listeners.iter().map(|(_, it)| Notice::Interrupted(Arc::clone(it))));
            }
        }
        self.forget_subscriber(route, instance);
    }

    /// The process knows nothing of this client's subscriptions any more.
    pub(super) fn forget_subscriber(&mut self, route: Route, instance: u64) {
        if let Some(at) = self.instances.get_mut(instance) {
            at.forget_subscriber(route.client);
        }
    }

    /// After a pause, or once something can pass again.
    pub(super) fn plan_replacement(&mut self, route: Route, purpose: Purpose) {
        let now = self.now();
        let blocked = self.blocks(route, self.instances.master(route.node));
        let Some(state) = self.clients.get_mut(&route.client) else { return };
        let link = state.links[route.node].of(purpose);
        if blocked || link.stage != Stage::Waiting {
            return;
        }
        link.stage = Stage::Replacing;
        let pause = link.backoff.pause(&self.chance);
        self.plan(now + pause, Event::Replace { route, link: purpose });
    }

    /// The beat of the subscriptions' link finds out: one that is not answered in time was sent a beat later at most.
    pub(super) fn expect_silence(&mut self, route: Route) {
        let now = self.now();
        let Some(state) = self.clients.get(&route.client).filter(|state| state.listens_at(route.node)) else {
            return;
        };
        let (found, block) = (now + state.command_timeout * 2, state.links[route.node].path.block);
        self.plan(found, Event::Silent { route, block });
    }

    pub(super) fn find_silent(&mut self, route: Route, block: u64) {
        let Some(state) = self.clients.get(&route.client).filter(|state| state.listens_at(route.node)) else {
            return;
        };
        let links = &state.links[route.node];
        if links.path.block == block && self.blocks(route, links.messages.instance) {
            self.break_link(route, Purpose::Messages, Cause::Silent);
        }
    }

    /// A command has waited for long enough. A link on which nothing came for a whole command timeout is given up; one
    /// that a caller left sooner only if nothing passes.
    pub(super) fn overdue(&mut self, client: Uuid, flight: u64) {
        let now = self.now();
        let Some(state) = self.clients.get_mut(&client) else { return };
        let timeout = state.command_timeout;
        let Some(known) = state.flights.get_mut(&flight) else { return };
        let given_up = known.sent + timeout;
        let mut waited = false;
        if let AnswerSlot::Wanted(caller) = mem::replace(&mut known.answer, AnswerSlot::TooLate) {
            waited = !caller.is_closed();
            let answers = known.frame.fails(&no_answer());
            self.notices.push_back(Notice::Answer(caller, answers));
        }
        if now < given_up {
            let due = self.plan(given_up, Event::Overdue { client, flight });
            if let Some(known) = self.flight(client, flight) {
                known.due = Some(due);
            }
        } else {
            let Some(known) = state.flights.remove(&flight) else { return };
            let (route, instance) = (Route { client, node: known.node }, state.links[known.node].commands.instance);
            self.notices.extend(known.dispatches.map(Notice::Over));
            if waited || self.blocks(route, instance) {
                self.break_link(route, Purpose::Commands, Cause::Silent);
            }
        }
    }
}
