//! Who listens where, and how far the server is with it. Knows no connection, only what it asks of one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Order,
    requests::{RequestAnswer, RequestOutcome, Requests, Verb},
    subscriber::Push,
};
use crate::{
    backend::{
        Fault, FaultKind, Heard, Listener,
        redis::{faults, link::Cause, said::SaidOnce, secrets::Secrets},
    },
    chance::Chance,
    name::Field,
};

/// Rights may be granted while a client lives: the first time that a refused channel is asked for again is this far off,
/// each later one twice as far, up to the longest.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const ASK_AGAIN_LONGEST: Duration = Duration::from_secs(30);

/// A channel that another node has by now is asked for here again after so long, unless whoever listened does so there by then;
/// later after twice as long each time, up to the longest.
const MOVED_AGAIN: Duration = Duration::from_millis(250);
const MOVED_AGAIN_LONGEST: Duration = Duration::from_secs(8);

/// Who listens where, and how far the server is with it.
pub(super) struct Channels {
    by_name: HashMap<Arc<str>, Channel>,
    /// The server refuses SUBSCRIBE as such: asking for another channel is pointless.
    forbidden: bool,
    /// Whether there may be refused channels.
    refused: bool,
    /// When one of them is asked for again, and how long after that the next one.
    ask_again: Instant,
    pause: Duration,
    asked_again: u64,
    /// When the channels are asked for again that another node has, and how long after that the next time.
    moved_again: Option<Instant>,
    moved_pause: Duration,
    /// Some more of them are another node's, which nobody was told yet.
    moved: bool,
    secrets: Secrets,
    said: Arc<SaidOnce>,
}

#[derive(Default)]
struct Channel {
    listeners: Vec<(u64, Arc<dyn Listener>)>,
    stage: Stage,
    /// Which of the repeated requests was the last for this one; none is zero.
    asked_again: u64,
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
    /// The server said no.
    Refused,
    /// It said no, and is asked once more.
    AskedAgain,
    /// Another node has it.
    Moved,
}

impl Channels {
    pub(super) fn new(secrets: Secrets, said: Arc<SaidOnce>) -> Self {
        Self {
            by_name: HashMap::new(),
            forbidden: false,
            refused: false,
            ask_again: Instant::now(),
            pause: ASK_AGAIN,
            asked_again: 0,
            moved_again: None,
            moved_pause: MOVED_AGAIN,
            moved: false,
            secrets,
            said,
        }
    }

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
                    Stage::Refused | Stage::AskedAgain => listener.hear(Heard::Refused),
                    Stage::Silent | Stage::Subscribing | Stage::Unsubscribing | Stage::Moved => {}
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
            Stage::Silent if self.forbidden => {
                channel.enter(Stage::Refused, Heard::Refused);
                self.refused();
            }
            Stage::Silent => {
                channel.stage = Stage::Subscribing;
                requests.send(Verb::Subscribe, Some(name));
            }
            Stage::Subscribed if channel.listeners.is_empty() => {
                channel.stage = Stage::Unsubscribing;
                requests.send(Verb::Unsubscribe, Some(name));
            }
            Stage::Subscribed
            | Stage::Subscribing
            | Stage::Unsubscribing
            | Stage::Refused
            | Stage::AskedAgain
            | Stage::Moved => {}
        }
    }

    /// When a refused channel is to be asked for again; `None` while there is none.
    pub(super) fn ask_again_at(&self) -> Option<Instant> {
        self.refused.then_some(self.ask_again)
    }

    /// Asks for one of the refused channels again, each in its turn: if that one is let through, so may the others be.
    pub(super) fn ask_again(&mut self, requests: &mut Requests) {
        self.pause = (self.pause * 2).min(ASK_AGAIN_LONGEST);
        let half = self.pause / 2;
        self.ask_again = Instant::now() + half + Chance::System.part_of(half);
        self.asked_again += 1;
        let refused = self.by_name.iter_mut().filter(|(_, channel)| channel.stage == Stage::Refused);
        if let Some((name, channel)) = refused.min_by_key(|(_, channel)| channel.asked_again) {
            channel.asked_again = self.asked_again;
            channel.stage = Stage::AskedAgain;
            requests.send(Verb::Subscribe, Some(name));
        } else {
            self.refused = false;
        }
    }

    /// Whether channels went to another node since the last time that this was asked.
    pub(super) fn moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// When those that did are to be asked for again; `None` while there are none.
    pub(super) fn moved_again_at(&self) -> Option<Instant> {
        self.moved_again
    }

    /// Asks for them again: they may have come back.
    pub(super) fn ask_for_moved(&mut self, requests: &mut Requests) {
        self.moved_again = None;
        self.moved_pause = (self.moved_pause * 2).min(MOVED_AGAIN_LONGEST);
        let moved = self.by_name.iter_mut().filter(|(_, channel)| channel.stage == Stage::Moved);
        for (name, channel) in moved {
            channel.stage = Stage::Subscribing;
            requests.send(Verb::Subscribe, Some(name));
        }
    }

    /// Another node has this channel.
    fn went(&mut self, name: &str) {
        let Some(channel) = self.by_name.get_mut(name) else { return };
        match channel.stage {
            Stage::Subscribed => channel.enter(Stage::Moved, Heard::Interrupted),
            _ => channel.stage = Stage::Moved,
        }
        self.moved = true;
        self.moved_again.get_or_insert_with(|| Instant::now() + self.moved_pause);
    }

    /// The server refuses a channel.
    fn refused(&mut self) {
        if !self.refused {
            self.refused = true;
            self.ask_again = self.ask_again.max(Instant::now() + ASK_AGAIN);
        }
    }

    /// One that was refused before was let through.
    fn granted(&mut self, requests: &mut Requests) {
        let refused = self.by_name.iter_mut().filter(|(_, channel)| channel.stage == Stage::Refused);
        for (name, channel) in refused {
            channel.stage = Stage::AskedAgain;
            requests.send(Verb::Subscribe, Some(name));
        }
        if self.pause > ASK_AGAIN {
            self.pause = ASK_AGAIN;
            self.ask_again = Instant::now() + ASK_AGAIN;
            tracing::info!("the server takes subscriptions that it refused before");
        }
    }

    /// What the server made of a request; an error ends the link.
    pub(super) fn answered(&mut self, answer: RequestAnswer, requests: &mut Requests) -> Result<(), Cause> {
        let refusal = match answer.outcome {
            RequestOutcome::Done => None,
            RequestOutcome::Refused(error) => Some(faults::failed(&error, false, &self.secrets)),
            RequestOutcome::Cut => return Err(Cause::Cut),
            RequestOutcome::Silent => return Err(Cause::Silent),
        };
        let Some(name) = answer.channel else {
            return Ok(());
        };
        let Some(channel) = self.by_name.get_mut(&name) else {
            return Ok(());
        };
        match (answer.verb, refusal) {
            (Verb::Ping, _) => {}
            (Verb::Subscribe, None) => {
                let was_refused = channel.stage == Stage::AskedAgain;
                channel.enter(Stage::Subscribed, Heard::Subscribed);
                self.forbidden = false;
                self.moved_pause = MOVED_AGAIN;
                if was_refused {
                    self.granted(requests);
                }
            }
            (Verb::Subscribe, Some(fault)) if fault.kind == FaultKind::Unready => {
                return Err(Cause::Unready);
            }
            (Verb::Subscribe, Some(fault)) if faults::is_of_a_cluster(&fault) => self.went(&name),
            (Verb::Subscribe, Some(fault)) => {
                denied(&self.said, &name, &fault);
                let words = fault.source.to_string().to_lowercase();
                self.forbidden |= ["'subscribe'", "`subscribe`", "'ssubscribe'", "`ssubscribe`"]
                    .iter()
                    .any(|verb| words.contains(verb));
                match channel.stage {
                    // They know.
                    Stage::AskedAgain => channel.stage = Stage::Refused,
                    _ => channel.enter(Stage::Refused, Heard::Refused),
                }
                self.refused();
            }
            // Refused or not, nobody here listens any more.
            (Verb::Unsubscribe, refusal) => {
                channel.stage = Stage::Silent;
                refusal.iter().for_each(|fault| denied(&self.said, &name, fault));
            }
        }
        self.reconcile(&name, requests);
        Ok(())
    }

    /// Whether the link is still in order: where the server ends a subscription by itself while it is asked for something, the
    /// one may be taken for the answer to the other. `asks`: it is.
    pub(super) fn hear(&mut self, push: &Push, asks: bool) -> bool {
        if let Push::Ended(name) = push {
            let stage = self.by_name.get(&**name).map(|channel| channel.stage);
            let ends = !matches!(stage, None | Some(Stage::Unsubscribing));
            if ends && !asks {
                self.went(name);
            }
            return !(ends && asks);
        }
        let message = push.message().and_then(|(channel, payload)| self.by_name.get(channel).zip(Some(payload)));
        if let Some((channel, payload)) = message {
            channel.tell(Heard::Message(payload));
        }
        true
    }

    /// The link is gone, and with it all that the server knew.
    pub(super) fn interrupt(&mut self) {
        self.moved_again = None;
        self.by_name.retain(|_, channel| {
            match channel.stage {
                Stage::Refused => {}
                Stage::AskedAgain => channel.stage = Stage::Refused,
                Stage::Subscribed => channel.enter(Stage::Silent, Heard::Interrupted),
                _ => channel.stage = Stage::Silent,
            }
            !channel.is_over()
        });
    }
}

/// Which right is missing, if that is why: said once.
fn denied(said: &SaidOnce, channel: &str, fault: &Fault) {
    if fault.kind == FaultKind::Permission && said.channel_is_denied() {
        tracing::warn!(channel = %Field(channel), error = %fault.source, "the server denies a right to a channel");
    }
}

impl Channel {
    fn is_over(&self) -> bool {
        self.listeners.is_empty() && matches!(self.stage, Stage::Silent | Stage::Refused | Stage::Moved)
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it was told that it hears nothing at present.
    #[derive(Default)]
    struct Interruptions(AtomicUsize);

    impl Listener for Interruptions {
        fn hear(&self, heard: Heard<'_>) {
            if matches!(heard, Heard::Interrupted) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Where a slot moves a server ends what is listened to there, and says so with the words of an answer.
    #[tokio::test]
    async fn a_server_that_ends_a_subscription_by_itself_is_left_only_where_that_may_be_taken_for_an_answer() {
        use Stage::{AskedAgain, Moved, Refused, Silent, Subscribed, Subscribing, Unsubscribing};
        let ended = Push::Ended("a".into());
        for stage in [Silent, Subscribing, Subscribed, Unsubscribing, Refused, AskedAgain, Moved] {
            for asks in [false, true] {
                let mut channels = Channels::new(Secrets::default(), Arc::default());
                let listener = Arc::new(Interruptions::default());
                let listeners = vec![(0, listener.clone() as Arc<dyn Listener>)];
                channels.by_name.insert("a".into(), Channel { listeners, stage, asked_again: 0 });
                let stays = channels.hear(&ended, asks);
                // It is what was asked for, and answers that.
                let is_answer = stage == Unsubscribing;
                assert_eq!(stays, is_answer || !asks, "{stage:?}, {asks}");
                let moves = !is_answer && !asks;
                assert_eq!(channels.by_name["a"].stage, if moves { Moved } else { stage }, "{stage:?}, {asks}");
                assert_eq!(channels.moved(), moves, "{stage:?}, {asks}");
                assert_eq!(channels.moved_again_at().is_some(), moves, "{stage:?}, {asks}");
                let interruptions = usize::from(moves && stage == Subscribed);
                assert_eq!(listener.0.load(Ordering::Relaxed), interruptions, "{stage:?}, {asks}");
            }
        }
        // Of a channel that nobody here listens to it says nothing new.
        let mut channels = Channels::new(Secrets::default(), Arc::default());
        assert!(channels.hear(&ended, true) && channels.hear(&ended, false) && !channels.moved());
    }
}
