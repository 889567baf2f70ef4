//! Subscriptions, at both ends: who of a client listens, and whom the server tells. Messages wait nowhere but on their way.

use std::{mem, sync::Arc, time::Duration};

use uuid::Uuid;

use super::{
    breaks::Cause,
    cargo::{Downward, Upward},
    member::{Channel, Hearing, Route, Stage},
    trace::{Happening, Purpose},
    weather::{Passage, Then},
    world::{News, World},
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

    /// The server hears of a subscription.
    pub(super) fn listen(&mut self, route: Route, channel: Arc<str>, ticket: u64) {
        let Some(host) = self.links(route).map(|links| links.messages.host) else { return };
        // Its slot may have left meanwhile, and who listened with it.
        let one = self.hosts.nodes() == 1;
        let known = self.members.get(&route.client).and_then(|member| member.channels.get(&channel));
        if !known.map_or(one, |known| one || known.ticket != 0 && known.node == route.node) {
            return;
        }
        if let Some(at) = self.hosts.get_mut(host) {
            at.audience.entry(Arc::clone(&channel)).or_default().insert(route.client);
            at.count_listeners(&channel);
        }
        self.note(route.client, || Happening::Listens { channel: String::from(&*channel) });
        self.send_back(route, Downward::Confirm { channel, ticket });
    }

    /// The server hears that nobody of this client listens any more.
    pub(super) fn unlisten(&mut self, route: Route, host: u64, channel: &Arc<str>) {
        let Some(at) = self.hosts.get_mut(host) else { return };
        if let Some(audience) = at.audience.get_mut(channel) {
            audience.remove(&route.client);
            at.count_listeners(channel);
        }
    }

    /// A message sets out to one client, unless it is lost or its link breaks.
    pub(super) fn send_message(&mut self, route: Route, channel: &Arc<str>, bytes: &Arc<[u8]>) {
        let weather = self.weather_of(route.client);
        let then = weather.map_or(Then::Stays, |weather| weather.then(&self.chance));
        let arrives = weather.is_none_or(|weather| weather.message(&self.chance) == Passage::Arrives);
        if then == Then::Breaks {
            return self.break_link(route, Purpose::Messages, Cause::Cut);
        }
        let channel_text = || String::from(&**channel);
        if !arrives {
            return self.note(route.client, || Happening::Missed { channel: channel_text() });
        }
        self.note(route.client, || Happening::Told {
            channel: channel_text(),
            message: String::from_utf8_lossy(bytes).into_owned(),
        });
        self.send_back(route, Downward::Message { channel: Arc::clone(channel), bytes: Arc::clone(bytes) });
    }

    /// The client hears that its subscription stands.
    pub(super) fn confirm(&mut self, client: Uuid, channel: &Arc<str>, ticket: u64) {
        let Some(member) = self.members.get_mut(&client) else { return };
        let Some(known) = member.channels.get_mut(channel).filter(|known| known.ticket == ticket) else { return };
        known.hearing = Hearing::Confirmed;
        self.news.extend(known.listeners.iter().map(|(_, it)| News::Subscribed(Arc::clone(it))));
    }

    /// The client hears a message.
    pub(super) fn hear(&mut self, client: Uuid, channel: &Arc<str>, bytes: &Arc<[u8]>) {
        let Some(known) = self.members.get(&client).and_then(|member| member.channels.get(channel)) else { return };
        self.news.extend(known.listeners.iter().map(|(_, it)| News::Message(Arc::clone(it), Arc::clone(bytes))));
    }
}
