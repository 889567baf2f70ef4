//! Subscriptions as clients ask for them. Whom a server tells is in `execution.rs`, what is heard in `to_client.rs`.

use std::{mem, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    client::{Channel, Hearing},
    connection::{Route, Stage},
    network::World,
    notices::News,
    transit::Upward,
};
use crate::backend::{Listener, slot::slot as slot_of};

impl World {
    /// Somebody of this client listens from now on; handed back where there is no client any more.
    pub(super) fn subscribe(
        &mut self,
        client: Uuid,
        key: &str,
        channel: Arc<str>,
        id: u64,
        listener: Arc<dyn Listener>,
    ) -> Option<Arc<dyn Listener>> {
        let ticket = self.draw();
        let (node, slot) = (self.hosts.node_of(key), (self.hosts.nodes() > 1).then(|| slot_of(key.as_bytes())));
        let Some(member) = self.members.get_mut(&client) else { return Some(listener) };
        if let Some(known) = member.channels.get_mut(&channel) {
            if known.hearing == Hearing::Confirmed {
                self.news.push_back(News::Subscribed(Arc::clone(&listener)));
            }
            known.listeners.push((id, listener));
            return None;
        }
        let made = Channel { ticket, listeners: vec![(id, listener)], hearing: Hearing::Asked, node, slot };
        member.channels.insert(Arc::clone(&channel), made);
        let (route, host) = (Route { client, node }, member.links[node].messages.host);
        if self.blocks(route, host) {
            self.expect_silence(route);
        }
        self.ask(route, channel, slot, ticket);
        None
    }

    /// It listens no more; its listener is for the caller to drop.
    pub(super) fn unsubscribe(&mut self, client: Uuid, channel: &Arc<str>, id: u64) -> Option<Arc<dyn Listener>> {
        let member = self.members.get_mut(&client)?;
        let known = member.channels.get_mut(channel)?;
        let at = known.listeners.iter().position(|(known, _)| *known == id)?;
        let (_, left) = known.listeners.remove(at);
        if known.listeners.is_empty() {
            let route = Route { client, node: known.node };
            member.channels.remove(channel);
            if member.links[route.node].messages.stage == Stage::Up {
                let delay = self.way_there(client);
                self.send_there(route, Upward::Unlisten { channel: Arc::clone(channel) }, delay);
            }
        }
        Some(left)
    }

    /// A new link: every channel is asked for anew.
    pub(super) fn listen_anew(&mut self, route: Route) {
        self.ask_anew(route.client, |channel| channel.node == route.node);
    }

    fn ask_anew(&mut self, client: Uuid, which: impl Fn(&Channel) -> bool) {
        let Some(member) = self.members.get(&client) else { return };
        let channels = member.channels.iter().filter(|(_, channel)| which(channel));
        let channels: Vec<_> = channels.map(|(channel, _)| Arc::clone(channel)).collect();
        for channel in channels {
            let ticket = self.draw();
            let Some(member) = self.members.get_mut(&client) else { return };
            if let Some(known) = member.channels.get_mut(&channel) {
                known.ticket = ticket;
                let (node, slot) = (known.node, known.slot);
                self.ask(Route { client, node }, channel, slot, ticket);
            }
        }
    }

    /// Asks for a subscription, unless its slot is on its way: then it is asked for where that goes, and when it is there.
    fn ask(&mut self, route: Route, channel: Arc<str>, slot: Option<u16>, ticket: u64) {
        if slot.is_some_and(|slot| self.hosts.is_moving(slot)) {
            return;
        }
        let delay = self.way_there(route.client);
        if self.links(route).is_some_and(|links| links.messages.stage == Stage::Up) {
            self.send_there(route, Upward::Listen { channel, ticket }, delay);
        }
    }

    /// A slot leaves its node: nobody hears of it until it has arrived.
    pub(super) fn deafen(&mut self, client: Uuid, slot: u16) {
        let Some(member) = self.members.get_mut(&client) else { return };
        let channels = member.channels.iter_mut().filter(|(_, channel)| channel.slot == Some(slot));
        let mut left = Vec::new();
        for (channel, known) in channels {
            if mem::replace(&mut known.hearing, Hearing::Asked) == Hearing::Confirmed {
                self.news.extend(known.listeners.iter().map(|(_, it)| News::Interrupted(Arc::clone(it))));
            }
            // A confirmation that is on its way says nothing any more.
            known.ticket = 0;
            left.push((Arc::clone(channel), known.node, member.links[known.node].messages.host));
        }
        for (channel, node, host) in left {
            self.unlisten(Route { client, node }, host, &channel);
        }
    }

    /// It has arrived: whoever listened listens there.
    pub(super) fn listen_there(&mut self, client: Uuid, slot: u16, node: usize) {
        let Some(member) = self.members.get_mut(&client) else { return };
        for channel in member.channels.values_mut().filter(|channel| channel.slot == Some(slot)) {
            channel.node = node;
        }
        self.ask_anew(client, |channel| channel.slot == Some(slot));
    }

    fn way_there(&self, client: Uuid) -> Duration {
        self.weather_of(client).map(|weather| weather.way_there(&self.chance)).unwrap_or_default()
    }
}
