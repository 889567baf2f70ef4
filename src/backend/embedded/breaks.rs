//! Links that break, are given up and are replaced; ways on which nothing passes; clients that leave. It sends nothing by
//! itself.

use std::{collections::VecDeque, mem, sync::Arc};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    member::{Hearing, Lane, Member, Server, Split, Stage, Upward},
    packet::{Answers, Packet},
    trace::{Happening, Purpose},
    traffic::{closed, dropped, silent},
    world::{Event, News, World},
};
use crate::backend::{backoff, dispatch::Dispatches};

/// Why a link is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Cut,
    /// Nothing came over it any more.
    Silent,
}

/// A parked command whose turn it is.
pub(super) struct Next {
    pub(super) packet: Packet,
    pub(super) dispatches: Arc<Dispatches>,
    pub(super) caller: oneshot::Sender<Answers>,
    pub(super) link: u64,
}

impl World {
    /// A link is over at both ends. What is on its way to the store may still arrive; nothing comes back.
    pub(super) fn break_link(&mut self, client: Uuid, purpose: Purpose, cause: Cause) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        let link = member.link(purpose);
        if link.stage != Stage::Up {
            return;
        }
        if now.saturating_duration_since(link.opened) > backoff::CAP {
            link.backoff.reset();
        }
        link.stage = Stage::Waiting;
        (link.there, link.back) = (Lane::default(), Lane::default());
        member.path.held_back.retain(|(_, what)| what.purpose() != purpose);
        if member.path.split == Split::Parted {
            self.lose_held(client, purpose);
        }
        self.note(client, || Happening::Broke { link: purpose });
        match purpose {
            Purpose::Commands => self.fail_flights(client, cause),
            Purpose::Messages => self.interrupt(client),
        }
        self.plan_replacement(client, purpose);
    }

    /// What stands in front of a way on which nothing passes never will.
    fn lose_held(&mut self, client: Uuid, purpose: Purpose) {
        let Some(member) = self.members.get_mut(&client) else { return };
        let held = mem::take(&mut member.path.held_there);
        let (lost, kept): (VecDeque<_>, _) = held.into_iter().partition(|(_, what)| what.purpose() == purpose);
        member.path.held_there = kept;
        lost.iter().for_each(|(_, what)| self.lose(client, what));
    }

    fn lose(&mut self, client: Uuid, what: &Upward) {
        if let Upward::Run { packet, .. } = what {
            self.lost(client, packet);
        }
    }

    fn fail_flights(&mut self, client: Uuid, cause: Cause) {
        let fault = match cause {
            Cause::Cut => dropped(),
            Cause::Silent => silent(),
        };
        let Some(member) = self.members.get(&client) else { return };
        let flights: Vec<_> = member.flights.iter().map(|(number, it)| (*number, it.packet.fails(&fault))).collect();
        for (flight, answers) in flights {
            self.end_flight(client, flight, answers);
        }
    }

    fn interrupt(&mut self, client: Uuid) {
        let Some(member) = self.members.get_mut(&client) else { return };
        for channel in member.channels.values_mut() {
            if mem::replace(&mut channel.hearing, Hearing::Asked) == Hearing::Confirmed {
                self.news.extend(channel.listeners.iter().map(|(_, it)| News::Interrupted(Arc::clone(it))));
            }
        }
        self.forget_listener(client);
    }

    /// The server knows nothing of this client's subscriptions any more.
    fn forget_listener(&mut self, client: Uuid) {
        let heard = self.audience.iter().filter(|(_, audience)| audience.contains(&client));
        let heard: Vec<_> = heard.map(|(channel, _)| Arc::clone(channel)).collect();
        heard.iter().for_each(|channel| self.unlisten(client, channel));
    }

    /// After a pause, or once something can pass again.
    fn plan_replacement(&mut self, client: Uuid, purpose: Purpose) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        if member.path.is_blocked() || member.link(purpose).stage != Stage::Waiting {
            return;
        }
        let link = member.link(purpose);
        link.stage = Stage::Replacing;
        let pause = link.backoff.pause(&self.chance);
        self.plan(now + pause, Event::Replace { client, link: purpose });
    }

    /// A new link, if anything passes. Whether parked commands may go now.
    pub(super) fn replace(&mut self, client: Uuid, purpose: Purpose) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&client) else { return };
        let blocked = member.path.is_blocked();
        let link = member.link(purpose);
        if link.stage != Stage::Replacing {
            return;
        }
        if blocked {
            link.stage = Stage::Waiting;
            return;
        }
        link.stage = Stage::Up;
        link.number += 1;
        link.opened = now;
        let number = link.number;
        let eras = (purpose == Purpose::Commands).then(|| member.signals.eras.clone());
        self.note(client, || Happening::Replaced { link: purpose });
        match eras {
            Some(eras) => self.news.push_back(News::Linked(eras, number)),
            None => self.listen_anew(client),
        }
    }

    /// The first parked command, if there is a link for it. It keeps its place until [`World::send_parked`].
    pub(super) fn next_parked(&mut self, client: Uuid) -> Option<Next> {
        let member = self.members.get_mut(&client).filter(|member| member.commands.stage == Stage::Up)?;
        let link = member.commands.number;
        let first = member.parked.front_mut()?;
        let caller = first.answer.take()?;
        Some(Next { packet: first.packet.clone(), dispatches: Arc::clone(&first.dispatches), caller, link })
    }

    /// The number of a client's link for commands.
    pub(super) fn link_number(&self, client: Uuid) -> u64 {
        self.members.get(&client).map_or(0, |member| member.commands.number)
    }

    pub(super) fn members_with_parked(&self) -> Vec<Uuid> {
        let waits = |member: &&Member| member.commands.stage == Stage::Up && !member.parked.is_empty();
        self.members.values().filter(waits).map(|member| member.id).collect()
    }

    /// Nothing passes between this client and the store any more.
    pub(super) fn partition(&mut self, client: Uuid) {
        self.block(client, |member| member.path.split = Split::Parted);
    }

    pub(super) fn heal(&mut self, client: Uuid) {
        self.unblock(client, |member| member.path.split = Split::Whole);
    }

    /// The server takes what comes from this client, and does nothing with it.
    pub(super) fn freeze(&mut self, client: Uuid) {
        self.block(client, |member| member.path.server = Server::Frozen);
    }

    pub(super) fn thaw(&mut self, client: Uuid) {
        self.unblock(client, |member| member.path.server = Server::Runs);
    }

    fn block(&mut self, client: Uuid, how: impl FnOnce(&mut Member)) {
        let Some(member) = self.members.get_mut(&client) else { return };
        if !member.path.is_blocked() {
            member.path.block += 1;
            self.expect_silence(client);
        }
        if let Some(member) = self.members.get_mut(&client) {
            how(member);
        }
    }

    /// The beat of the subscriptions' link finds out: one that is not answered in time was sent a beat later at most.
    pub(super) fn expect_silence(&mut self, client: Uuid) {
        let now = self.now();
        let Some(member) = self.members.get(&client).filter(|member| !member.channels.is_empty()) else { return };
        let (found, block) = (now + member.command_timeout * 2, member.path.block);
        self.plan(found, Event::Silent { client, block });
    }

    pub(super) fn find_silent(&mut self, client: Uuid, block: u64) {
        let Some(member) = self.members.get(&client) else { return };
        if member.path.is_blocked() && member.path.block == block && !member.channels.is_empty() {
            self.break_link(client, Purpose::Messages, Cause::Silent);
        }
    }

    fn unblock(&mut self, client: Uuid, how: impl FnOnce(&mut Member)) {
        let Some(member) = self.members.get_mut(&client) else { return };
        how(member);
        if member.path.is_blocked() {
            return;
        }
        if mem::take(&mut member.path.severed) {
            for purpose in [Purpose::Commands, Purpose::Messages] {
                self.break_link(client, purpose, Cause::Cut);
                self.plan_replacement(client, purpose);
            }
            return;
        }
        let back = mem::take(&mut member.path.held_back);
        let there = mem::take(&mut member.path.held_there);
        for (link, what) in back {
            self.come_back(client, link, what);
        }
        for (link, what) in there {
            self.arrive(client, link, what);
        }
        for purpose in [Purpose::Commands, Purpose::Messages] {
            self.plan_replacement(client, purpose);
        }
    }

    /// Comes back without anything that it knew; what was on its way is lost with its links. A client to which nothing
    /// passes finds out when something does again.
    pub(super) fn restart(&mut self) {
        for event in self.take_planned(Event::is_on_its_way) {
            match event {
                Event::Arrives { client, what, .. } => self.lose(client, &what),
                Event::Copy { client, packet } => self.lost(client, &packet),
                _ => {}
            }
        }
        self.forget_everything();
        let clients: Vec<_> = self.members.keys().copied().collect();
        for client in clients {
            for purpose in [Purpose::Commands, Purpose::Messages] {
                self.lose_held(client, purpose);
            }
            let Some(member) = self.members.get_mut(&client) else { continue };
            member.path.held_back.clear();
            if member.path.split == Split::Parted {
                member.path.severed = true;
                continue;
            }
            for purpose in [Purpose::Commands, Purpose::Messages] {
                self.break_link(client, purpose, Cause::Cut);
            }
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
        for parked in &mut left.parked {
            self.cancel(parked.due);
            if let Some(caller) = parked.answer.take() {
                self.news.push_back(News::Answer(caller, parked.packet.fails(&closed(false))));
            }
        }
        self.forget_listener(client);
        self.take_planned(|event| !event.outlives(client));
        for (link, what) in mem::take(&mut left.path.held_there) {
            match left.path.split {
                // What a frozen server took runs all the same.
                Split::Whole => drop(self.plan(self.now(), Event::Arrives { client, link, what })),
                Split::Parted => self.lose(client, &what),
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
            Self::Arrives { .. } | Self::Copy { .. } => true,
            Self::Returns { client, .. }
            | Self::Overdue { client, .. }
            | Self::Unsent { client, .. }
            | Self::Replace { client, .. }
            | Self::Silent { client, .. } => *client != gone,
        }
    }
}
