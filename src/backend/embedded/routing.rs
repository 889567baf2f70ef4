//! Which link a command takes, and what its client knows of that link. It sends nothing.

use tokio::time::Instant;
use uuid::Uuid;

use super::{connection::Route, frame::Frame, network::Network};
use crate::backend::slot::slot as slot_of;

/// Whether a command can leave: at once, once there is a link, or never.
pub(super) enum LinkState {
    Open,
    Down,
    Closed,
}

impl Network {
    /// Where a command goes, and how.
    pub(super) fn link_state(&self, client: Uuid, frame: &Frame) -> (Route, LinkState) {
        let route = Route { client, node: self.instances.node_for(frame) };
        let state = match self.links(route) {
            None => LinkState::Closed,
            Some(links) if links.is_open() => LinkState::Open,
            Some(_) => LinkState::Down,
        };
        (route, state)
    }

    /// The number of the way that this client's next command for a key takes: of the link to its node, or of the last move of
    /// its slot, whichever is newer. It begins an era.
    pub(super) fn link(&self, client: Uuid, key: &str) -> u64 {
        let Some(state) = self.clients.get(&client) else { return 0 };
        let number = state.links[self.instances.node_of(key)].commands.number;
        if state.slot_links.is_empty() {
            return number;
        }
        state.slot_links.get(&slot_of(key.as_bytes())).map_or(number, |moved| number.max(*moved))
    }

    /// The same for a command, which is for its first key.
    pub(super) fn number(&self, client: Uuid, frame: &Frame) -> u64 {
        self.link(client, frame.calls().first().and_then(|words| words.keys.first()).map_or("", String::as_str))
    }

    pub(super) fn last_answer(&self, client: Uuid, key: &str) -> Option<Instant> {
        self.links(Route { client, node: self.instances.node_of(key) }).map(|links| links.last_answer)
    }

    /// Since when whoever answers this client for a key has everything: the process to which its link leads, or led last.
    pub(super) fn remembers_since(&self, client: Uuid, key: &str) -> Option<Instant> {
        let node = self.instances.node_of(key);
        let led = self.clients.get(&client)?.links[node].commands.instance;
        let there = self.instances.get(led).or_else(|| self.instances.get(self.instances.master(node)))?;
        let since = there.remembers_since.unwrap_or_else(|| self.clock.made());
        Some(self.instances.moved_at(key).map_or(since, |moved| since.max(moved)))
    }

    /// Whether this client's next command for a key goes to a master that was replaced.
    pub(super) fn leads_to_rival(&self, client: Uuid, key: &str) -> bool {
        let state = self.clients.get(&client);
        state.is_some_and(|state| self.instances.is_rival(state.links[self.instances.node_of(key)].commands.instance))
    }

    pub(super) fn counts(&self, key: &str) -> bool {
        !self.instances.is_moving(slot_of(key.as_bytes()))
    }
}
