//! Who listens where, and how far the server is with it. Knows no connection, only what it asks of one.

use std::{collections::HashMap, sync::Arc};

use super::{
    Order,
    requests::{Answer, Outcome, Requests, Verb},
};
use crate::backend::{FaultKind, Heard, Listener, redis::faults};

/// Who listens where, and how far the server is with it.
#[derive(Default)]
pub(super) struct Channels {
    by_name: HashMap<Arc<str>, Channel>,
    /// The server refuses SUBSCRIBE as such: asking for another channel is pointless.
    forbidden: bool,
}

#[derive(Default)]
struct Channel {
    listeners: Vec<(u64, Arc<dyn Listener>)>,
    stage: Stage,
}

/// At most one command for a channel is under way, so that its answer says where the channel stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent over this link.
    #[default]
    Silent,
    Subscribing,
    Subscribed,
    Unsubscribing,
    /// The server said no; it is not asked again for as long as anybody listens.
    Refused,
}

impl Channels {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Notes who listens; [`Channels::reconcile`] does what follows from it.
    pub(super) fn apply(&mut self, order: Order) -> Arc<str> {
        match order {
            Order::Join { channel, id, listener } => {
                let entry = self.by_name.entry(channel.clone()).or_default();
                match entry.stage {
                    Stage::Subscribed => listener.hear(Heard::Subscribed),
                    Stage::Refused => listener.hear(Heard::Refused),
                    Stage::Silent | Stage::Subscribing | Stage::Unsubscribing => {}
                }
                entry.listeners.push((id, listener));
                channel
            }
            Order::Leave { channel, id } => {
                if let Some(entry) = self.by_name.get_mut(&channel) {
                    entry.listeners.retain(|(known, _)| *known != id);
                    if entry.is_over() {
                        self.by_name.remove(&channel);
                    }
                }
                channel
            }
        }
    }

    /// A new link: every channel is asked for anew.
    pub(super) fn connected(&mut self, requests: &mut Requests) {
        self.forbidden = false;
        let names: Vec<_> = self.by_name.keys().cloned().collect();
        for name in names {
            self.reconcile(&name, requests);
        }
    }

    /// Sends what the channel needs next, if anything.
    pub(super) fn reconcile(&mut self, name: &Arc<str>, requests: &mut Requests) {
        let Some(channel) = self.by_name.get_mut(name) else {
            return;
        };
        match channel.stage {
            _ if channel.is_over() => {
                self.by_name.remove(name);
            }
            Stage::Silent if self.forbidden => channel.enter(Stage::Refused, Heard::Refused),
            Stage::Silent => {
                channel.stage = Stage::Subscribing;
                requests.send(Verb::Subscribe, Some(name));
            }
            Stage::Subscribed if channel.listeners.is_empty() => {
                channel.stage = Stage::Unsubscribing;
                requests.send(Verb::Unsubscribe, Some(name));
            }
            Stage::Subscribed | Stage::Subscribing | Stage::Unsubscribing | Stage::Refused => {}
        }
    }

    /// What the server made of a request; an error ends the link.
    pub(super) fn answered(&mut self, answer: Answer, requests: &mut Requests) -> Result<(), &'static str> {
        let refusal = match answer.outcome {
            Outcome::Done => None,
            Outcome::Refused(error) => Some(faults::failed(&error, false)),
            Outcome::Cut => return Err("cut"),
            Outcome::Silent => return Err("silent"),
        };
        let Some(name) = answer.channel else {
            return Ok(());
        };
        let Some(channel) = self.by_name.get_mut(&name) else {
            return Ok(());
        };
        match (answer.verb, refusal) {
            (Verb::Ping, _) => {}
            (Verb::Subscribe, None) => channel.enter(Stage::Subscribed, Heard::Subscribed),
            (Verb::Subscribe, Some(fault)) if fault.kind == FaultKind::Unready => {
                return Err("not ready");
            }
            (Verb::Subscribe, Some(fault)) => {
                let words = fault.source.to_string().to_lowercase();
                self.forbidden |= words.contains("'subscribe'") || words.contains("`subscribe`");
                channel.enter(Stage::Refused, Heard::Refused);
            }
            // Refused or not, nobody here listens any more.
            (Verb::Unsubscribe, _) => channel.stage = Stage::Silent,
        }
        self.reconcile(&name, requests);
        Ok(())
    }

    pub(super) fn deliver(&self, message: &redis::Msg) {
        if let Some(channel) = self.by_name.get(message.get_channel_name()) {
            channel.tell(Heard::Message(message.get_payload_bytes()));
        }
    }

    /// The link is gone, and with it all that the server knew.
    pub(super) fn interrupt(&mut self) {
        self.by_name.retain(|_, channel| {
            match channel.stage {
                Stage::Refused => {}
                Stage::Subscribed => channel.enter(Stage::Silent, Heard::Interrupted),
                _ => channel.stage = Stage::Silent,
            }
            !channel.is_over()
        });
    }
}

impl Channel {
    fn is_over(&self) -> bool {
        self.listeners.is_empty() && matches!(self.stage, Stage::Silent | Stage::Refused)
    }

    fn enter(&mut self, stage: Stage, heard: Heard<'_>) {
        self.stage = stage;
        self.tell(heard);
    }

    fn tell(&self, heard: Heard<'_>) {
        for (_, listener) in &self.listeners {
            listener.hear(heard);
        }
    }
}
