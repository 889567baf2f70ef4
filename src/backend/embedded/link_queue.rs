//! Commands that wait for a link, each in its place in the line. What sends them is in `sending.rs`.

use std::sync::Arc;

use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::{
    client::QueuedCommand,
    connection::Route,
    events::Event,
    failures::no_link,
    frame::{Answers, Frame},
    network::Network,
    notices::Notice,
};
use crate::backend::dispatch::Dispatches;

impl Network {
    pub(super) fn enqueue(
        &mut self,
        route: Route,
        frame: Frame,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
        answer: oneshot::Sender<Answers>,
    ) -> u64 {
        let number = self.next_id();
        let due = self.plan(deadline, Event::QueueTimeout { client: route.client, queued: number });
        match self.links_mut(route) {
            Some(links) => {
                links.queued.push_back(QueuedCommand { number, frame, dispatches, deadline, answer: Some(answer), due })
            }
            None => self.notices.push_back(Notice::Over(dispatches)),
        }
        number
    }

    /// Another node has its slot by now: it ran nowhere, and stands in line for the link to that one.
    pub(super) fn requeue(
        &mut self,
        client: Uuid,
        frame: Frame,
        dispatches: Arc<Dispatches>,
        deadline: Instant,
        answer: oneshot::Sender<Answers>,
    ) {
        dispatches.came_back();
        let (now, route) = (self.now(), Route { client, node: self.instances.node_for(&frame) });
        self.enqueue(route, frame, dispatches, deadline, answer);
        self.plan(now, Event::CheckQueues);
    }

    /// The caller of a queued command left.
    pub(super) fn withdraw(&mut self, client: Uuid, queued: u64) -> Option<QueuedCommand> {
        let state = self.clients.get_mut(&client)?;
        let left = state.links.iter_mut().find_map(|links| {
            let at = links.queued.iter().position(|it| it.number == queued && it.answer.is_some())?;
            links.queued.remove(at)
        })?;
        self.cancel(left.due);
        Some(left)
    }

    /// A queued command has waited for long enough.
    pub(super) fn queue_timeout(&mut self, client: Uuid, queued: u64) {
        let Some(mut late) = self.withdraw(client, queued) else { return };
        if let Some(caller) = late.answer.take() {
            let answers = late.frame.fails(&no_link());
            self.notices.push_back(Notice::Answer(caller, answers));
        }
        self.notices.push_back(Notice::Over(late.dispatches));
    }
}
