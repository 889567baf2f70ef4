//! Subscriptions as clients ask for them. Whom a server tells is in `execution.rs`, what is heard in `to_client.rs`.

use std::{mem, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    client::{Channel, SubscriptionState},
    connection::{Route, Stage},
    network::Network,
    notices::Notice,
    transit::ToServer,
};
use crate::backend::{Listener, slot::slot as slot_of};

impl Network {
    /// Somebody of this client listens from now on; handed back where there is no client any more.
    pub(super) fn subscribe(
        &mut self,
        client: Uuid,
        key: &str,
        channel: Arc<str>,
        id: u64,
        listener: Arc<dyn Listener>,
    ) -> Option<Arc<dyn Listener>> {
        let generation = self.next_id();
        let (node, slot) = (self.instances.node_of(key), (self.instances.nodes() > 1).then(|| slot_of(key.as_bytes())));
        let Some(state) = self.clients.get_mut(&client) else { return Some(listener) };
        if let Some(known) = state.channels.get_mut(&channel) {
            if known.state == SubscriptionState::Confirmed {
                self.notices.push_back(Notice::Subscribed(Arc::clone(&listener)));
            }
            known.listeners.push((id, listener));
            return None;
        }
        let made = Channel { generation, listeners: vec![(id, listener)], state: SubscriptionState::Asked, node, slot };
        state.channels.insert(Arc::clone(&channel), made);
        let (route, instance) = (Route { client, node }, state.links[node].messages.instance);
        if self.blocks(route, instance) {
            self.expect_silence(route);
        }
        self.ask(route, channel, slot, generation);
        None
    }

    /// It listens no more; its listener is for the caller to drop.
    pub(super) fn unsubscribe(&mut self, client: Uuid, channel: &Arc<str>, id: u64) -> Option<Arc<dyn Listener>> {
        let state = self.clients.get_mut(&client)?;
        let known = state.channels.get_mut(channel)?;
        let at = known.listeners.iter().position(|(known, _)| *known == id)?;
        let (_, left) = known.listeners.remove(at);
        if known.listeners.is_empty() {
            let route = Route { client, node: known.node };
            state.channels.remove(channel);
            if state.links[route.node].messages.stage == Stage::Up {
                let delay = self.draw_request_delay(client);
                self.send_to_server(route, ToServer::Unsubscribe { channel: Arc::clone(channel) }, delay);
            }
        }
        Some(left)
    }

    /// A new link: every channel is asked for anew.
    pub(super) fn subscribe_anew(&mut self, route: Route) {
        self.ask_anew(route.client, |channel| channel.node == route.node);
    }

    fn ask_anew(&mut self, client: Uuid, which: impl Fn(&Channel) -> bool) {
        let Some(state) = self.clients.get(&client) else { return };
        let channels = state.channels.iter().filter(|(_, channel)| which(channel));
        let channels: Vec<_> = channels.map(|(channel, _)| Arc::clone(channel)).collect();
        for channel in channels {
            let generation = self.next_id();
            let Some(state) = self.clients.get_mut(&client) else { return };
            if let Some(known) = state.channels.get_mut(&channel) {
                known.generation = generation;
                let (node, slot) = (known.node, known.slot);
                self.ask(Route { client, node }, channel, slot, generation);
            }
        }
    }

    /// Asks for a subscription, unless its slot is on its way: then it is asked for where that goes, and when it is there.
    fn ask(&mut self, route: Route, channel: Arc<str>, slot: Option<u16>, generation: u64) {
        if slot.is_some_and(|slot| self.instances.is_moving(slot)) {
            return;
        }
        let delay = self.draw_request_delay(route.client);
        if self.links(route).is_some_and(|links| links.messages.stage == Stage::Up) {
            self.send_to_server(route, ToServer::Subscribe { channel, generation }, delay);
        }
    }

    /// A slot leaves its node: nobody hears of it until it has arrived.
    pub(super) fn interrupt_slot(&mut self, client: Uuid, slot: u16) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        let channels = state.channels.iter_mut().filter(|(_, channel)| channel.slot == Some(slot));
        let mut left = Vec::new();
        for (channel, known) in channels {
            if mem::replace(&mut known.state, SubscriptionState::Asked) == SubscriptionState::Confirmed {
                self.notices.extend(known.listeners.iter().map(|(_, it)| Notice::Interrupted(Arc::clone(it))));
            }
            // A confirmation that is on its way says nothing any more.
            known.generation = 0;
            left.push((Arc::clone(channel), known.node, state.links[known.node].messages.instance));
        }
        for (channel, node, instance) in left {
            self.remove_subscriber(Route { client, node }, instance, &channel);
        }
    }

    /// It has arrived: whoever listened listens there.
    pub(super) fn resume_slot(&mut self, client: Uuid, slot: u16, node: usize) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        for channel in state.channels.values_mut().filter(|channel| channel.slot == Some(slot)) {
            channel.node = node;
        }
        self.ask_anew(client, |channel| channel.slot == Some(slot));
    }

    fn draw_request_delay(&self, client: Uuid) -> Duration {
        self.conditions_of(client).map(|conditions| conditions.draw_request_delay(&self.chance)).unwrap_or_default()
    }
}
