//! The one subscription of a name, shared by all who wait for it in this process, and its wake flag.
//!
//! The flag is set by a message, a confirmation and a re-subscription. It is cleared only by a try that is sent after it, and
//! by a cool-down, for which a timer stands. A contender sleeps only while it is clear: a confirmation between a try and its
//! busy answer would otherwise be slept through for a whole TTL. One flag, never a queue.

use super::{
    super::{command::Published, event::Heard},
    slice::Listeners,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Subscription {
    stage: Stage,
    flag: bool,
    /// Messages of our own commands that are still to come.
    own_to_come: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Stage {
    #[default]
    None,
    /// Asked for, or interrupted.
    Pending,
    /// Confirmed: whoever waits need not poll.
    Live,
    Refused,
}

/// Whose message it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    Own,
    Other,
}

/// What our own subscription has of a message that we are about to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnMessage {
    /// It hears it, and is one of those that it reaches.
    Expected,
    /// It is pending, and may be one of them.
    Perhaps,
    None,
}

impl Subscription {
    pub(crate) fn flag(&self) -> bool {
        self.flag
    }

    /// A try is about to be sent, or a cool-down begins.
    pub(crate) fn clear_flag(&mut self) {
        self.flag = false;
    }

    pub(crate) fn is_live(&self) -> bool {
        self.stage == Stage::Live
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.stage == Stage::None
    }

    /// Somebody waits: whether a subscription is to be asked for.
    pub(crate) fn open(&mut self) -> bool {
        let opens = self.is_closed();
        if opens {
            self.stage = Stage::Pending;
        }
        opens
    }

    /// Nobody waits any more: whether there was one to let go.
    pub(crate) fn close(&mut self) -> bool {
        let closes = !self.is_closed();
        *self = Self::default();
        closes
    }

    /// `Some` if it was a message. What comes after the subscription was let go counts for nothing.
    pub(crate) fn heard(&mut self, heard: Heard) -> Option<Voice> {
        if self.is_closed() {
            return None;
        }
        match heard {
            Heard::Subscribed => {
                (self.stage, self.own_to_come) = (Stage::Live, 0);
                self.flag = true;
                None
            }
            Heard::Interrupted => {
                self.stage = Stage::Pending;
                None
            }
            Heard::Refused => {
                self.stage = Stage::Refused;
                self.flag = true;
                None
            }
            Heard::Message => {
                self.flag = true;
                let voice = if self.own_to_come > 0 { Voice::Own } else { Voice::Other };
                self.own_to_come = self.own_to_come.saturating_sub(1);
                Some(voice)
            }
        }
    }

    /// A command of ours is about to publish, or may.
    pub(crate) fn expect_own(&mut self) -> OwnMessage {
        match self.stage {
            Stage::Live => {
                self.own_to_come = self.own_to_come.saturating_add(1);
                OwnMessage::Expected
            }
            Stage::Pending => OwnMessage::Perhaps,
            Stage::None | Stage::Refused => OwnMessage::None,
        }
    }

    /// It published nothing after all.
    pub(crate) fn unexpect(&mut self, own: OwnMessage) {
        if own == OwnMessage::Expected {
            self.own_to_come = self.own_to_come.saturating_sub(1);
        }
    }

    /// How many others a message reached, by the server's count.
    pub(crate) fn others(&self, published: Published, own: OwnMessage) -> Listeners {
        // A subscription that was asked for since may be one of those that were counted.
        let since = matches!(self.stage, Stage::Pending | Stage::Live);
        match (published, own) {
            (Published::No | Published::Uncounted, _) => Listeners::Unknown,
            (Published::To(0), _) => Listeners::None,
            (_, OwnMessage::Perhaps) => Listeners::Unknown,
            (_, OwnMessage::None) if since => Listeners::Unknown,
            (Published::To(1), OwnMessage::Expected) => Listeners::None,
            (Published::To(all), OwnMessage::Expected) => Listeners::Some(all - 1),
            (Published::To(others), OwnMessage::None) => Listeners::Some(others),
        }
    }
}
