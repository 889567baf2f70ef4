//! Subscriptions, at both ends: who of a client listens, and whom the server tells. Messages wait nowhere but on their way.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    breaks::Cause,
    member::{Channel, Downward, Hearing, Stage, Upward},
    trace::{Happening, Purpose},
    weather::Then,
    world::{News, World},
};
use crate::backend::Listener;

impl World {
    /// Somebody of this client listens from now on; handed back where there is no client any more.
    pub(super) fn subscribe(
        &mut self,
        client: Uuid,
        channel: Arc<str>,
        id: u64,
        listener: Arc<dyn Listener>,
    ) -> Option<Arc<dyn Listener>> {
        let ticket = self.draw();
        let Some(member) = self.members.get_mut(&client) else { return Some(listener) };
        if let Some(known) = member.channels.get_mut(&channel) {
            if known.hearing == Hearing::Confirmed {
                self.news.push_back(News::Subscribed(Arc::clone(&listener)));
            }
            known.listeners.push((id, listener));
            return None;
        }
        let made = Channel { ticket, listeners: vec![(id, listener)], hearing: Hearing::Asked };
        member.channels.insert(Arc::clone(&channel), made);
        if member.path.is_blocked() {
            self.expect_silence(client);
        }
        self.ask(client, channel, ticket);
        None
    }

    /// It listens no more; its listener is for the caller to drop.
    pub(super) fn unsubscribe(&mut self, client: Uuid, channel: &Arc<str>, id: u64) -> Option<Arc<dyn Listener>> {
        let member = self.members.get_mut(&client)?;
        let known = member.channels.get_mut(channel)?;
        let at = known.listeners.iter().position(|(known, _)| *known == id)?;
        let (_, left) = known.listeners.remove(at);
        if known.listeners.is_empty() {
            member.channels.remove(channel);
            if member.messages.stage == Stage::Up {
                let delay = self.way_there(client);
                self.send_there(client, Upward::Unlisten { channel: Arc::clone(channel) }, delay);
            }
        }
        Some(left)
    }

    /// A new link: every channel is asked for anew.
    pub(super) fn listen_anew(&mut self, client: Uuid) {
        let Some(member) = self.members.get(&client) else { return };
        let channels: Vec<_> = member.channels.keys().cloned().collect();
        for channel in channels {
            let ticket = self.draw();
            let Some(member) = self.members.get_mut(&client) else { return };
            if let Some(known) = member.channels.get_mut(&channel) {
                known.ticket = ticket;
                self.ask(client, channel, ticket);
            }
        }
    }

    fn ask(&mut self, client: Uuid, channel: Arc<str>, ticket: u64) {
        let delay = self.way_there(client);
        if self.members.get(&client).is_some_and(|member| member.messages.stage == Stage::Up) {
            self.send_there(client, Upward::Listen { channel, ticket }, delay);
        }
    }

    fn way_there(&self, client: Uuid) -> std::time::Duration {
        self.weather_of(client).map(|weather| weather.way_there(&self.chance)).unwrap_or_default()
    }

    /// The server hears of a subscription.
    pub(super) fn listen(&mut self, client: Uuid, channel: Arc<str>, ticket: u64) {
        self.audience.entry(Arc::clone(&channel)).or_default().insert(client);
        self.count_listeners(&channel);
        self.note(client, || Happening::Listens { channel: String::from(&*channel) });
        self.send_back(client, Downward::Confirm { channel, ticket });
    }

    /// The server hears that nobody of this client listens any more.
    pub(super) fn unlisten(&mut self, client: Uuid, channel: &Arc<str>) {
        if let Some(audience) = self.audience.get_mut(channel) {
            audience.remove(&client);
            self.count_listeners(channel);
        }
    }

    /// A message sets out to one client, unless its link breaks.
    pub(super) fn send_message(&mut self, client: Uuid, channel: &Arc<str>, bytes: &Arc<[u8]>) {
        let then = self.weather_of(client).map_or(Then::Stays, |weather| weather.then(&self.chance));
        if then == Then::Breaks {
            return self.break_link(client, Purpose::Messages, Cause::Cut);
        }
        self.note(client, || Happening::Told {
            channel: String::from(&**channel),
            message: String::from_utf8_lossy(bytes).into_owned(),
        });
        self.send_back(client, Downward::Message { channel: Arc::clone(channel), bytes: Arc::clone(bytes) });
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
