//! Commands that wait for a link, each in its place in the line. What sends them is in `sending.rs`.

use std::sync::Arc;

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    client::Parked,
    connection::Route,
    events::Event,
    failures::unsent,
    frame::{Answers, Packet},
    network::World,
    notices::News,
};
use crate::backend::dispatch::Dispatches;

impl World {
    pub(super) fn line_up(
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

    /// A parked command has waited for long enough.
    pub(super) fn unsent(&mut self, client: Uuid, parked: u64) {
        let Some(mut late) = self.withdraw(client, parked) else { return };
        if let Some(caller) = late.answer.take() {
            let answers = late.packet.fails(&unsent());
            self.news.push_back(News::Answer(caller, answers));
        }
        self.news.push_back(News::Over(late.dispatches));
    }
}
