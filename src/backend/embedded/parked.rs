//! Commands that wait for a link, each in its place in the line, and how they go when there is one.

use std::sync::Arc;

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    member::{Links, Parked, Route, Stage},
    packet::{Answers, Packet},
    traffic::{Sent, closed},
    world::{Event, News, World},
};
use crate::backend::{Fault, FaultKind, dispatch::Dispatches};

/// A parked command whose turn it is.
pub(super) struct NextParked {
    pub(super) packet: Packet,
    pub(super) dispatches: Arc<Dispatches>,
    pub(super) caller: oneshot::Sender<Answers>,
    pub(super) link: u64,
}

impl World {
    /// Gives a command a place in the line for a link.
    pub(super) fn park(
        &mut self,
        route: Route,
        packet: Packet,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
    ) -> Sent {
        let (answer, answered) = oneshot::channel();
        Sent::Parked(self.line_up(route, packet, dispatches, deadline, answer), answered)
    }

    fn line_up(
        &mut self,
        route: Route,
        packet: Packet,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
        answer: oneshot::Sender<Answers>,
    ) -> u64 {
        let number = self.draw();
        let due = self.plan(deadline, Event::Unsent { client: route.client, parked: number });
        match self.links_mut(route) {
            Some(links) => {
                links.parked.push_back(Parked { number, packet, dispatches, deadline, answer: Some(answer), due })
            }
            None => self.news.push_back(News::Over(dispatches)),
        }
        number
    }

    /// Another node has its slot by now: it ran nowhere, and stands in line for the link to that one.
    pub(super) fn line_up_anew(
        &mut self,
        client: Uuid,
        packet: Packet,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
        answer: oneshot::Sender<Answers>,
    ) {
        dispatches.came_back();
        let (now, route) = (self.now(), Route { client, node: self.hosts.node_for(&packet) });
        self.line_up(route, packet, dispatches, deadline, answer);
        self.plan(now, Event::Look);
    }

    /// The caller of a parked command left.
    pub(super) fn withdraw(&mut self, client: Uuid, parked: u64) -> Option<Parked> {
        let member = self.members.get_mut(&client)?;
        let left = member.links.iter_mut().find_map(|links| {
            let at = links.parked.iter().position(|it| it.number == parked && it.answer.is_some())?;
            links.parked.remove(at)
        })?;
        self.cancel(left.due);
        Some(left)
    }

    /// The first parked command, if there is a link for it. It keeps its place until [`World::send_parked`].
    pub(super) fn next_parked(&mut self, route: Route) -> Option<NextParked> {
        let links = self.links(route).filter(|links| links.commands.stage == Stage::Up)?;
        let link = self.number(route.client, &links.parked.front()?.packet);
        let first = self.links_mut(route)?.parked.front_mut()?;
        let caller = first.answer.take()?;
        Some(NextParked { packet: first.packet.clone(), dispatches: Arc::clone(&first.dispatches), caller, link })
    }

    pub(super) fn routes_with_parked(&self) -> Vec<Route> {
        let waits = |links: &Links| links.commands.stage == Stage::Up && !links.parked.is_empty();
        let routes = self.members.values().flat_map(|member| {
            member.nodes().filter(|node| waits(&member.links[*node])).map(|node| Route { client: member.id, node })
        });
        routes.collect()
    }

    /// The first parked command goes, or hears why it does not.
    pub(super) fn send_parked(
        &mut self,
        route: Route,
        packet: &Packet,
        (leaves, link): (Result<(), Answers>, u64),
        caller: oneshot::Sender<Answers>,
    ) {
        let first = self.links_mut(route).and_then(|links| links.parked.pop_front());
        let Some(first) = first else {
            // The client left while it was asked: told outside of the mutex, as everything.
            let never_sent = leaves.err().unwrap_or_else(|| packet.fails(&closed(false)));
            return self.news.push_back(News::Answer(caller, never_sent));
        };
        self.cancel(first.due);
        let client = route.client;
        if let Err(answers) = leaves {
            return self.news.push_back(News::Answer(caller, answers));
        }
        if self.hosts.node_for(packet) != route.node {
            return self.line_up_anew(client, first.packet, first.dispatches, first.deadline, caller);
        }
        let asked_again = (self.hosts.nodes() > 1).then(|| Arc::clone(&first.dispatches));
        match self.transmit(client, packet, asked_again, first.deadline) {
            Ok(flight) => self.awaited(client, flight, caller),
            Err(answers) => self.news.push_back(News::Answer(caller, answers)),
        }
        packet.is_with(&first.dispatches, link);
    }

    /// A parked command has waited for long enough.
    pub(super) fn unsent(&mut self, client: Uuid, parked: u64) {
        let Some(mut late) = self.withdraw(client, parked) else { return };
        if let Some(caller) = late.answer.take() {
            let fault = Fault::of(FaultKind::Dropped, false, "no link in time");
            let answers = late.packet.fails(&fault);
            self.news.push_back(News::Answer(caller, answers));
        }
        self.news.push_back(News::Over(late.dispatches));
    }
}
