//! Commands at a server, and the messages that they publish. How they came there is not known here.

use std::{collections::BTreeMap, sync::Arc};

use uuid::Uuid;

use super::{
    conditions::{Passage, Then},
    connection::{Cause, Route},
    executed::{Ran, Road},
    failures::moved,
    frame::{self, Answers, Packet},
    network::World,
    server::{Published, Reply},
    trace::{Happening, Purpose},
    transit::Downward,
};
use crate::backend::{Fault, Value};

impl World {
    /// Runs what a packet holds where it came to, and sends what it published on its way.
    pub(super) fn execute(&mut self, client: Uuid, host: u64, packet: &Packet, road: Road) -> Answers {
        let answers: Answers =
            (0..packet.calls().len()).map(|place| self.run(client, host, packet, place, road)).collect();
        if let Some(member) = self.members.get_mut(&client) {
            member.calls += answers.len() as u64;
        }
        answers
    }

    fn run(&mut self, client: Uuid, host: u64, packet: &Packet, place: usize, road: Road) -> Result<Value, Fault> {
        let (now, time, words) = (self.now(), self.clock.server_time(), &packet.calls()[place]);
        let Some(node) = self.hosts.get(host).map(|host| host.node).filter(|_| self.hosts.has(host, words)) else {
            return Err(moved());
        };
        let rival = self.hosts.is_rival(host);
        self.hosts.note(host, now, words.keys.iter().map(String::as_str));
        let Some(at) = self.hosts.get_mut(host) else { return Err(moved()) };
        let reply = words.run(&mut at.server, time);
        self.note(client, || Happening::Ran(Ran::new(packet, place, &reply, road).at_rival(rival)));
        self.publish(node, host);
        frame::value(reply)
    }

    /// Runs a command of the store's own, on a key.
    pub(super) fn command(&mut self, words: &[&[u8]]) -> Reply {
        let (now, time) = (self.now(), self.clock.server_time());
        let key = words.get(1).and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
        let node = self.hosts.node_of(key);
        let host = self.hosts.master(node);
        self.hosts.note(host, now, [key]);
        let reply = self.hosts.get_mut(host).map_or(Reply::Nil, |host| host.server.execute(time, words));
        self.publish(node, host);
        reply
    }

    fn publish(&mut self, node: usize, host: u64) {
        let Some(at) = self.hosts.get_mut(host) else { return };
        for Published { channel, message, sharded } in at.server.take_published() {
            let Some(at) = self.hosts.get(host) else { return };
            let channel = std::str::from_utf8(&channel).ok().filter(|_| !sharded);
            let found = channel.and_then(|channel| at.audience.get_key_value(channel));
            let Some((channel, audience)) = found else { continue };
            let (channel, audience) = (Arc::clone(channel), audience.iter().copied().collect::<Vec<_>>());
            let bytes: Arc<[u8]> = message.into();
            for client in audience {
                self.send_message(Route { client, node }, &channel, &bytes);
            }
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
            at.listen(route.client, &channel);
        }
        self.note(route.client, || Happening::Listens { channel: String::from(&*channel) });
        self.send_back(route, Downward::Confirm { channel, ticket });
    }

    /// The server hears that nobody of this client listens any more.
    pub(super) fn unlisten(&mut self, route: Route, host: u64, channel: &str) {
        if let Some(at) = self.hosts.get_mut(host) {
            at.unlisten(route.client, channel);
        }
    }

    /// Every key that lives.
    pub(super) fn keys(&self) -> Vec<String> {
        self.step();
        let time = self.clock.server_time();
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        let keys = self.hosts.masters().flat_map(|host| {
            let its = |key: &String| self.hosts.node_of(key) == host.node;
            host.server.keys(time).into_iter().map(text).filter(its)
        });
        keys.collect()
    }

    /// What a hash has at this instant.
    pub(super) fn hash(&self, key: &str) -> Vec<(String, String)> {
        self.step();
        let host = self.hosts.get(self.hosts.master(self.hosts.node_of(key)));
        host.map_or_else(Vec::new, |host| host.server.hash(self.clock.server_time(), key.as_bytes()))
    }

    pub(super) fn string(&self, key: &str) -> Option<String> {
        self.step();
        let host = self.hosts.get(self.hosts.master(self.hosts.node_of(key)))?;
        host.server.string(self.clock.server_time(), key.as_bytes())
    }

    /// Every channel that somebody listens on, with how many do.
    pub(super) fn listeners(&self) -> Vec<(String, usize)> {
        let mut listeners = BTreeMap::<&str, usize>::new();
        for (channel, audience) in self.hosts.masters().flat_map(|host| &host.audience) {
            *listeners.entry(channel).or_default() += audience.len();
        }
        listeners.into_iter().map(|(channel, count)| (channel.to_owned(), count)).collect()
    }

    /// Lets the store itself write, however full it is.
    pub(super) fn unlimited<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        self.hosts.lift_limit(true);
        let written = write(self);
        self.hosts.lift_limit(false);
        written
    }
}
