//! How a name listens: its one subscription, shared by all who wait for it in this process, and the wake flag.
//!
//! The flag is set by a message, a confirmed subscription and a re-subscription, and cleared only by a try that is sent
//! after it (and by a cool-down, for which a timer stands). A contender sleeps only while it is clear: a confirmation
//! between a try and its busy answer would otherwise be slept through for a whole TTL. One flag, never a queue.

use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::{
    Moved, Published, Told,
    effects::Effects,
    registry::{Entry, Place, State},
    shared::Engine,
    slice::Listeners,
};
use crate::{
    backend::{Fault, Heard, Listener, Pending, Subscription},
    rules::{Rule, without},
};

/// What a name hears. Most names never listen: this is made when the first one waits, and stays from then on.
#[derive(Debug, Default)]
pub(crate) struct Listening(Option<Box<Channel>>);

#[derive(Debug, Default)]
struct Channel {
    /// Counts subscriptions, so that an old one's last words are not taken for the new one's.
    epoch: u64,
    subscription: Option<Subscription>,
    hearing: Hearing,
    flag: bool,
    /// Messages of our own releases that are still to come.
    own_to_come: u32,
}

/// How well a name hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// Not subscribed.
    #[default]
    Deaf,
    /// Asked for, not confirmed, or interrupted.
    Waiting,
    /// Confirmed: whoever waits need not poll.
    Live,
    /// The server will not let us: poll.
    Refused,
}

/// Who published what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    Own,
    Other,
}

/// What our own subscription has of a message that we are about to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnMessage {
    /// It hears it, and is one of those that it reaches.
    Expected,
    /// It is pending, and may be one of them.
    Perhaps,
    None,
}

impl OwnMessage {
    pub(crate) fn is_expected(self) -> bool {
        self == Self::Expected
    }
}

impl Listening {
    pub(crate) fn hearing(&self) -> Hearing {
        self.0.as_ref().map_or(Hearing::Deaf, |listening| listening.hearing)
    }

    pub(crate) fn flag(&self) -> bool {
        self.0.as_ref().is_some_and(|listening| listening.flag)
    }

    /// A try is about to be sent, or a cool-down begins.
    pub(crate) fn clear_flag(&mut self) {
        if let Some(listening) = &mut self.0 {
            listening.flag = false;
        }
    }

    /// Asks for a subscription if there is none.
    pub(crate) fn open(&mut self, fx: &mut Effects) {
        let listening = self.0.get_or_insert_default();
        if listening.hearing == Hearing::Deaf {
            listening.epoch += 1;
            listening.hearing = Hearing::Waiting;
            fx.listen(listening.epoch);
        }
    }

    /// The backend's subscription arrived; handed back if it came too late.
    fn opened(&mut self, epoch: u64, subscription: Subscription) -> Option<Subscription> {
        match &mut self.0 {
            Some(listening) if epoch == listening.epoch && listening.hearing != Hearing::Deaf => {
                listening.subscription.replace(subscription)
            }
            _ => Some(subscription),
        }
    }

    /// Nobody waits any more.
    pub(crate) fn close(&mut self, fx: &mut Effects) {
        let Some(listening) = &mut self.0 else { return };
        if listening.hearing != Hearing::Deaf && !without(Rule::SubscriptionEnds) {
            listening.epoch += 1;
            listening.hearing = Hearing::Deaf;
            listening.own_to_come = 0;
            listening.flag = false;
            if let Some(subscription) = listening.subscription.take() {
                fx.unlisten(subscription);
            }
        }
    }

    /// A release of ours is about to publish, or a hand-over may.
    pub(crate) fn expect_own(&mut self) -> OwnMessage {
        match &mut self.0 {
            Some(listening) if listening.hearing == Hearing::Live => {
                listening.own_to_come += 1;
                OwnMessage::Expected
            }
            Some(listening) if listening.hearing == Hearing::Waiting => OwnMessage::Perhaps,
            _ => OwnMessage::None,
        }
    }

    /// It published nothing after all.
    pub(crate) fn unexpect_own(&mut self) {
        if let Some(listening) = &mut self.0 {
            listening.own_to_come = listening.own_to_come.saturating_sub(1);
        }
    }

    /// How many others a message reached, by the server's count.
    pub(crate) fn others(&self, published: Published, own: OwnMessage) -> Listeners {
        // Our own subscription is counted once it is confirmed, and perhaps while it is pending, which it may have been only since.
        let since = matches!(self.hearing(), Hearing::Waiting | Hearing::Live);
        match (published, own) {
            (Published::No | Published::Uncounted, _) => Listeners::Unknown,
            (Published::To(0), _) => Listeners::None,
            (_, OwnMessage::Perhaps) => Listeners::Unknown,
            (_, OwnMessage::None) if since => Listeners::Unknown,
            (Published::To(1), OwnMessage::Expected) => Listeners::None,
            (Published::To(count), own) => Listeners::Some(count - u32::from(own.is_expected())),
        }
    }

    /// Something was heard on this subscription; `None` if it is an old one.
    fn hears(&mut self, epoch: u64) -> Option<&mut Channel> {
        self.0.as_deref_mut().filter(|listening| listening.epoch == epoch)
    }
}

impl Channel {
    /// `Some` if it was a message.
    fn heard(&mut self, heard: Heard<'_>) -> Option<Voice> {
        match heard {
            Heard::Subscribed => {
                self.hearing = Hearing::Live;
                self.own_to_come = 0;
                self.flag |= !without(Rule::ConfirmationWakes);
                None
            }
            Heard::Interrupted => {
                self.hearing = Hearing::Waiting;
                None
            }
            Heard::Refused => {
                self.hearing = Hearing::Refused;
                self.flag = true;
                None
            }
            Heard::Message(_) => {
                self.flag |= !without(Rule::MessageWakes);
                let own = self.own_to_come > 0;
                self.own_to_come = self.own_to_come.saturating_sub(1);
                Some(if own { Voice::Own } else { Voice::Other })
            }
        }
    }
}

impl State {
    /// Asks for a subscription if there is none, and anybody tells.
    pub(super) fn listens(&mut self, place: &Place, fx: &mut Effects) {
        if place.entry.protocol.told() != Told::Never {
            self.listening.open(fx);
        }
    }

    fn heard(&mut self, epoch: u64, heard: Heard<'_>, now: Instant, fx: &mut Effects) {
        let Some(listening) = self.listening.hears(epoch) else { return };
        let heard = listening.heard(heard);
        if heard == Some(Voice::Other) {
            self.slice.heard_other(now);
            // Somebody freed a key that we believe to hold: a forced release is noticed now, not at the next renewal.
            if let Some(hold) = &mut self.hold {
                hold.probe = true;
            }
        }
        fx.nudge();
    }
}

impl Place {
    /// The answer to a hand-over, and whether a message of it is counted as our own that may never come. One that comes, or
    /// may, is not to be taken for somebody else's release: that would end a cool-down at once.
    pub(super) async fn answer_that_may_tell(
        &self,
        answer: Pending<Result<Moved, Fault>>,
    ) -> (Result<Moved, Fault>, bool) {
        let own = self.entry.lock().listening.expect_own();
        let answer = answer.await;
        let comes = match &answer {
            Ok(Moved::Done { published, .. }) => *published != Published::No,
            Ok(Moved::Gone | Moved::Expired) => false,
            Err(fault) => fault.may_have_run,
        };
        if own.is_expected() && !comes {
            self.entry.lock().listening.unexpect_own();
        }
        let perhaps = own.is_expected() && comes && answer.is_err();
        (answer, perhaps)
    }

    /// Subscribes, outside the entry's mutex.
    pub(crate) fn listen(&self, epoch: u64) {
        let listener = EntryListener { engine: self.engine.downgrade(), entry: self.entry_weak(), epoch };
        let protocol = &self.entry.protocol;
        let subscription = self.engine.line().subscribe(protocol.key(), protocol.channel(), Arc::new(listener));
        let late = self.update(|state, _| state.listening.opened(epoch, subscription));
        drop(late);
    }
}

/// Carries what a backend hears to the entry, without keeping either alive.
#[derive(Debug)]
struct EntryListener {
    engine: Weak<Engine>,
    entry: Weak<Entry>,
    epoch: u64,
}

impl Listener for EntryListener {
    fn hear(&self, heard: Heard<'_>) {
        if let (Some(engine), Some(entry)) = (self.engine.upgrade(), self.entry.upgrade()) {
            if heard == Heard::Refused {
                engine.cannot_hear();
            }
            let now = engine.clock().now();
            Place { engine, entry }.update(|state, fx| state.heard(self.epoch, heard, now, fx));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_be_counted_is_not_taken_for_another_not_even_when_nobody_waits_any_more() {
        let (mut listening, mut fx) = (Listening::default(), Effects::default());
        assert_eq!(listening.others(Published::To(1), OwnMessage::None), Listeners::Some(1));
        listening.open(&mut fx);
        let pending = listening.expect_own();
        assert_eq!(listening.others(Published::To(1), pending), Listeners::Unknown);
        listening.close(&mut fx);
        assert_eq!(listening.others(Published::To(1), pending), Listeners::Unknown);
        assert_eq!(listening.others(Published::To(0), pending), Listeners::None);
        drop(fx);
    }
}
