//! Commands at a server, and the messages that they publish. How they came there is not known here.

use std::{collections::BTreeMap, sync::Arc};

use uuid::Uuid;

use super::{
    conditions::{Arrival, LinkEffect},
    connection::{Cause, Route},
    executed::{Ran, Road},
    failures::moved,
    frame::{self, Answers, Frame},
    network::Network,
    server::{Published, Reply},
    trace::{Happening, Purpose},
    transit::ToClient,
};
use crate::backend::{Fault, Value};

impl Network {
    /// Runs what a frame holds where it came to, and sends what it published on its way.
    pub(super) fn execute(&mut self, client: Uuid, instance: u64, frame: &Frame, road: Road) -> Answers {
        let answers: Answers =
            (0..frame.calls().len()).map(|place| self.run(client, instance, frame, place, road)).collect();
        if let Some(state) = self.clients.get_mut(&client) {
            state.calls += answers.len() as u64;
        }
        answers
    }

    fn run(&mut self, client: Uuid, instance: u64, frame: &Frame, place: usize, road: Road) -> Result<Value, Fault> {
        let (now, time, words) = (self.now(), self.clock.server_time(), &frame.calls()[place]);
        let Some(node) =
            self.instances.get(instance).map(|instance| instance.node).filter(|_| self.instances.has(instance, words))
        else {
            return Err(moved());
        };
        let rival = self.instances.is_rival(instance);
        self.instances.note(instance, now, words.keys.iter().map(String::as_str));
        let Some(at) = self.instances.get_mut(instance) else { return Err(moved()) };
        let reply = words.run(&mut at.server, time);
        self.note(client, || Happening::Ran(Ran::new(frame, place, &reply, road).at_rival(rival)));
        self.publish(node, instance);
        frame::value(reply)
    }

    /// Runs a command of the store's own, on a key.
    pub(super) fn command(&mut self, words: &[&[u8]]) -> Reply {
        let (now, time) = (self.now(), self.clock.server_time());
        let key = words.get(1).and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
        let node = self.instances.node_of(key);
        let instance = self.instances.master(node);
        self.instances.note(instance, now, [key]);
        let reply =
            self.instances.get_mut(instance).map_or(Reply::Nil, |instance| instance.server.execute(time, words));
        self.publish(node, instance);
        reply
    }

    fn publish(&mut self, node: usize, instance: u64) {
        let Some(at) = self.instances.get_mut(instance) else { return };
        for Published { channel, message, sharded } in at.server.take_published() {
            let Some(at) = self.instances.get(instance) else { return };
            let channel = std::str::from_utf8(&channel).ok().filter(|_| !sharded);
            let found = channel.and_then(|channel| at.subscribers.get_key_value(channel));
            let Some((channel, subscribers)) = found else { continue };
            let (channel, subscribers) = (Arc::clone(channel), subscribers.iter().copied().collect::<Vec<_>>());
            let bytes: Arc<[u8]> = message.into();
            for client in subscribers {
                self.send_message(Route { client, node }, &channel, &bytes);
            }
        }
    }

    /// A message sets out to one client, unless it is lost or its link breaks.
    fn send_message(&mut self, route: Route, channel: &Arc<str>, bytes: &Arc<[u8]>) {
        let conditions = self.conditions_of(route.client);
        let effect = conditions.map_or(LinkEffect::Stays, |conditions| conditions.draw_link_effect(&self.chance));
        let arrives = conditions.is_none_or(|conditions| conditions.draw_message(&self.chance) == Arrival::Arrives);
        if effect == LinkEffect::Breaks {
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
        self.send_to_client(route, ToClient::Message { channel: Arc::clone(channel), bytes: Arc::clone(bytes) });
    }

    /// The server hears of a subscription.
    pub(super) fn add_subscriber(&mut self, route: Route, channel: Arc<str>, generation: u64) {
        let Some(instance) = self.links(route).map(|links| links.messages.instance) else { return };
        // Its slot may have left meanwhile, and who listened with it.
        let one = self.instances.nodes() == 1;
        let known = self.clients.get(&route.client).and_then(|state| state.channels.get(&channel));
        if !known.map_or(one, |known| one || known.generation != 0 && known.node == route.node) {
            return;
        }
        if let Some(at) = self.instances.get_mut(instance) {
            at.add_subscriber(route.client, &channel);
        }
        self.note(route.client, || Happening::Listens { channel: String::from(&*channel) });
        self.send_to_client(route, ToClient::Confirm { channel, generation });
    }

    /// The server hears that nobody of this client listens any more.
    pub(super) fn remove_subscriber(&mut self, route: Route, instance: u64, channel: &str) {
        if let Some(at) = self.instances.get_mut(instance) {
            at.remove_subscriber(route.client, channel);
        }
    }

    /// Every key that lives.
    pub(super) fn keys(&self) -> Vec<String> {
        self.step();
        let time = self.clock.server_time();
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        let keys = self.instances.masters().flat_map(|instance| {
            let its = |key: &String| self.instances.node_of(key) == instance.node;
            instance.server.keys(time).into_iter().map(text).filter(its)
        });
        keys.collect()
    }

    /// What a hash has at this instant.
    pub(super) fn hash(&self, key: &str) -> Vec<(String, String)> {
        self.step();
        let instance = self.instances.get(self.instances.master(self.instances.node_of(key)));
        instance.map_or_else(Vec::new, |instance| instance.server.hash(self.clock.server_time(), key.as_bytes()))
    }

    pub(super) fn string(&self, key: &str) -> Option<String> {
        self.step();
        let instance = self.instances.get(self.instances.master(self.instances.node_of(key)))?;
        instance.server.string(self.clock.server_time(), key.as_bytes())
    }

    /// Every channel that somebody listens on, with how many do.
    pub(super) fn listeners(&self) -> Vec<(String, usize)> {
        let mut listeners = BTreeMap::<&str, usize>::new();
        for (channel, subscribers) in self.instances.masters().flat_map(|instance| &instance.subscribers) {
            *listeners.entry(channel).or_default() += subscribers.len();
        }
        listeners.into_iter().map(|(channel, count)| (channel.to_owned(), count)).collect()
    }

    /// Lets the store itself write, however full it is.
    pub(super) fn unlimited<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.instances.lift_limit(true);
        let written = write(self);
        self.instances.lift_limit(false);
        written
    }
}
