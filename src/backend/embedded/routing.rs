//! Which link a command takes, and what its client knows of that link. It sends nothing.

use tokio::time::Instant;
use uuid::Uuid;

use super::{connection::Route, frame::Packet, network::World};
use crate::backend::slot::slot as slot_of;

/// Whether a command can leave: at once, once there is a link, or never.
pub(super) enum LinkState {
    Open,
    Down,
    Closed,
}

impl World {
    /// Where a command goes, and how.
    pub(super) fn link_state(&self, client: Uuid, packet: &Packet) -> (Route, LinkState) {
        let route = Route { client, node: self.hosts.node_for(packet) };
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
        let Some(member) = self.members.get(&client) else { return 0 };
        let number = member.links[self.hosts.node_of(key)].commands.number;
        if member.ways.is_empty() {
            return number;
        }
        member.ways.get(&slot_of(key.as_bytes())).map_or(number, |moved| number.max(*moved))
    }

    /// The same for a command, which is for its first key.
    pub(super) fn number(&self, client: Uuid, packet: &Packet) -> u64 {
        self.link(client, packet.calls().first().and_then(|words| words.keys.first()).map_or("", String::as_str))
    }

    pub(super) fn last_answer(&self, client: Uuid, key: &str) -> Option<Instant> {
        self.links(Route { client, node: self.hosts.node_of(key) }).map(|links| links.last_answer)
    }

    /// Whether this client's next command for a key goes to a master that was replaced.
    pub(super) fn leads_to_rival(&self, client: Uuid, key: &str) -> bool {
        let member = self.members.get(&client);
        member.is_some_and(|member| self.hosts.is_rival(member.links[self.hosts.node_of(key)].commands.host))
    }

    pub(super) fn counts(&self, key: &str) -> bool {
        !self.hosts.is_moving(slot_of(key.as_bytes()))
    }
}
