//! Clients that leave, and what stays of them.

use std::mem;

use uuid::Uuid;

use super::{
    client::ClientState,
    connection::{Partition, Route},
    events::Event,
    failures::closed,
    network::Network,
    notices::Notice,
    trace::Happening,
};

impl Network {
    /// A client leaves for good: everybody is told, and nothing of it stays but what is on its way to the store.
    pub(super) fn leave(&mut self, client: Uuid) -> Option<ClientState> {
        let state = self.clients.get(&client)?;
        let fault = closed(true);
        let flights: Vec<_> = state.flights.iter().map(|(number, it)| (*number, it.frame.fails(&fault))).collect();
        for (flight, answers) in flights {
            self.end_flight(client, flight, answers);
        }
        let mut left = self.clients.remove(&client)?;
        for queued in left.links.iter_mut().flat_map(|links| &mut links.queued) {
            self.cancel(queued.due);
            if let Some(caller) = queued.answer.take() {
                self.notices.push_back(Notice::Answer(caller, queued.frame.fails(&closed(false))));
            }
        }
        for node in left.nodes() {
            let instance = left.links[node].messages.instance;
            self.forget_subscriber(Route { client, node }, instance);
        }
        self.take_planned(|event| !event.outlives(client));
        for links in &mut left.links {
            for (link_id, what) in mem::take(&mut links.path.held_to_server) {
                match links.path.partition {
                    // What a frozen server took runs all the same.
                    Partition::Healed => drop(self.plan(self.now(), Event::Arrives { client, link_id, what })),
                    Partition::Partitioned => self.note_lost_on_way(client, &what),
                }
            }
        }
        self.note(client, || Happening::Left);
        Some(left)
    }
}
