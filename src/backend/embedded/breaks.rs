//! Links that break, are given up and are replaced; ways on which nothing passes; clients that leave. It sends nothing by
//! itself.

use std::{collections::VecDeque, mem, sync::Arc};

use uuid::Uuid;

use super::{
    cargo::Upward,
    member::{Hearing, Links, Member, Route, ServerState, Split, Stage},
    trace::{Happening, Purpose},
    traffic::{closed, dropped, silent},
    world::{Event, News, World},
};
use crate::backend::backoff;

/// Why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Cut,
    /// Nothing came over it any more.
    Silent,
}

impl World {
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
        let host = link.host;
        link.stage = Stage::Waiting;
        link.clear();
        links.path.held_back.retain(|(_, what)| what.purpose() != purpose);
        if links.path.split == Split::Parted {
            self.lose_held(route, purpose);
        }
        let Route { client, node } = route;
        self.note(client, || Happening::Broke { link: purpose, node });
        match purpose {
            Purpose::Commands => self.fail_flights(route, cause),
            Purpose::Messages => self.interrupt(route, host),
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

    /// What stands in front of a way on which nothing passes never will.
    fn lose_held(&mut self, route: Route, purpose: Purpose) {
        let Some(links) = self.links_mut(route) else { return };
        let held = mem::take(&mut links.path.held_there);
        let (lost, kept): (VecDeque<_>, _) = held.into_iter().partition(|(_, what)| what.purpose() == purpose);
        links.path.held_there = kept;
        lost.iter().for_each(|(_, what)| self.lose(route.client, what));
    }

    fn lose(&mut self, client: Uuid, what: &Upward) {
        if let Upward::Run { packet, .. } = what {
            self.lost(client, packet);
        }
    }

    fn fail_flights(&mut self, route: Route, cause: Cause) {
        let fault = match cause {
            Cause::Cut => dropped(),
            Cause::Silent => silent(),
        };
        let Some(member) = self.members.get(&route.client) else { return };
        let flights = member.flights.iter().filter(|(_, flight)| flight.node == route.node);
        let flights: Vec<_> = flights.map(|(number, it)| (*number, it.packet.fails(&fault))).collect();
        for (flight, answers) in flights {
            self.end_flight(route.client, flight, answers);
        }
    }

    fn interrupt(&mut self, route: Route, host: u64) {
        let Some(member) = self.members.get_mut(&route.client) else { return };
        for channel in member.channels.values_mut().filter(|channel| channel.node == route.node) {
            if mem::replace(&mut channel.hearing, Hearing::Asked) == Hearing::Confirmed {
                self.news.extend(channel.listeners.iter().map(|(_, it)| News::Interrupted(Arc::clone(it))));
            }
        }
        self.forget_listener(route, host);
    }

    /// The process knows nothing of this client's subscriptions any more.
    fn forget_listener(&mut self, route: Route, host: u64) {
        let Some(at) = self.hosts.get(host) else { return };
        let heard = at.audience.iter().filter(|(_, audience)| audience.contains(&route.client));
        let heard: Vec<_> = heard.map(|(channel, _)| Arc::clone(channel)).collect();
        heard.iter().for_each(|channel| self.unlisten(route, host, channel));
    }

    /// After a pause, or once something can pass again.
    pub(super) fn plan_replacement(&mut self, route: Route, purpose: Purpose) {
        let now = self.now();
        let blocked = self.blocks(route, self.hosts.master(route.node));
        let Some(member) = self.members.get_mut(&route.client) else { return };
        let link = member.links[route.node].of(purpose);
        if blocked || link.stage != Stage::Waiting {
            return;
        }
        link.stage = Stage::Replacing;
        let pause = link.backoff.pause(&self.chance);
        self.plan(now + pause, Event::Replace { route, link: purpose });
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

    /// Whoever knows of another master has nothing more to do with the old one.
    pub(super) fn leave_rivals(&mut self, route: Route) {
        let host = self.hosts.master(route.node);
        for purpose in Purpose::BOTH {
            if self.links_mut(route).is_some_and(|links| links.of(purpose).host != host) {
                self.break_link(route, purpose, Cause::Cut);
            }
        }
    }

    /// To every node.
    pub(super) fn routes(&self, client: Uuid) -> Vec<Route> {
        let member = self.members.get(&client);
        member.into_iter().flat_map(Member::nodes).map(|node| Route { client, node }).collect()
    }

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

    /// The beat of the subscriptions' link finds out: one that is not answered in time was sent a beat later at most.
    pub(super) fn expect_silence(&mut self, route: Route) {
        let now = self.now();
        let Some(member) = self.members.get(&route.client).filter(|member| member.listens_at(route.node)) else {
            return;
        };
        let (found, block) = (now + member.command_timeout * 2, member.links[route.node].path.block);
        self.plan(found, Event::Silent { route, block });
    }

    pub(super) fn find_silent(&mut self, route: Route, block: u64) {
        let Some(member) = self.members.get(&route.client).filter(|member| member.listens_at(route.node)) else {
            return;
        };
        let links = &member.links[route.node];
        if links.path.block == block && self.blocks(route, links.messages.host) {
            self.break_link(route, Purpose::Messages, Cause::Silent);
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

    /// The links of a client to a node end that lead to this process, or all of them, and what is on its way with them.
    pub(super) fn sever(&mut self, route: Route, host: Option<u64>) {
        let Some(links) = self.links_mut(route) else { return };
        let is_its = |of: u64| host.is_none_or(|host| host == of);
        let held = mem::take(&mut links.path.held_there);
        let (lost, kept): (VecDeque<_>, _) = held.into_iter().partition(|(wire, _)| is_its(wire.host));
        links.path.held_there = kept;
        links.path.held_back.retain(|(wire, _)| !is_its(wire.host));
        for purpose in Purpose::BOTH {
            lost.iter()
                .filter(|(_, what)| what.purpose() == purpose)
                .for_each(|(_, what)| self.lose(route.client, what));
        }
        let Some(links) = self.links_mut(route) else { return };
        let ends: Vec<_> = Purpose::BOTH.into_iter().filter(|purpose| is_its(links.of(*purpose).host)).collect();
        if links.path.split == Split::Parted {
            links.path.severed |= !ends.is_empty();
            return;
        }
        for purpose in ends {
            self.break_link(route, purpose, Cause::Cut);
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

impl Event {
    fn is_on_its_way(&self) -> bool {
        matches!(self, Self::Arrives { .. } | Self::Returns { .. } | Self::Copy { .. })
    }

    /// Whether it happens though this client is gone.
    fn outlives(&self, gone: Uuid) -> bool {
        match self {
            Self::Arrives { .. } | Self::Copy { .. } | Self::Gone { .. } | Self::Settled { .. } | Self::Look => true,
            Self::Returns { client, .. } | Self::Overdue { client, .. } | Self::Unsent { client, .. } => {
                *client != gone
            }
            Self::Replace { route, .. } | Self::Silent { route, .. } => route.client != gone,
        }
    }
}
