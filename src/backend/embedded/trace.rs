//! What happened at a store, as a list that can be compared with another run's. It is only kept where it was asked for.

use std::{fmt, time::Duration};

use uuid::Uuid;

use super::executed::Ran;

/// One thing that happened at an [`EmbeddedStore`](crate::EmbeddedStore), for
/// [`EmbeddedStore::take_trace`](crate::EmbeddedStore::take_trace). Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traced {
    /// When, counted from the store's first client, whatever was done to its clock.
    pub at: Duration,
    /// Whose link or command it was.
    pub client: Uuid,
    /// What it was.
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A command ran.
    Ran(Ran),
    /// A command was lost on its way and never ran.
    #[non_exhaustive]
    Lost {
        /// The script's file.
        script: &'static str,
    },
    /// An answer was lost on its way.
    Unanswered,
    /// A message set out to a subscriber.
    #[non_exhaustive]
    Told {
        /// The channel.
        channel: String,
        /// The message.
        message: String,
    },
    /// A message was lost on its way to a subscriber.
    #[non_exhaustive]
    Missed {
        /// The channel.
        channel: String,
    },
    /// A subscription was confirmed by the store.
    #[non_exhaustive]
    Listens {
        /// The channel.
        channel: String,
    },
    /// A link came to its end.
    #[non_exhaustive]
    Broke {
        /// What the link was for.
        link: Purpose,
        /// To which node it led.
        node: usize,
    },
    /// A link was replaced.
    #[non_exhaustive]
    Replaced {
        /// What the link is for.
        link: Purpose,
        /// To which node it leads.
        node: usize,
    },
    /// The client left.
    Left,
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Purpose {
    /// Commands.
    Commands,
    /// Subscriptions.
    Messages,
}

impl Purpose {
    pub(super) const BOTH: [Self; 2] = [Self::Commands, Self::Messages];
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} {} {}", self.at.as_secs_f64(), self.client, self.what)
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran(ran) => ran.fmt(f),
            Self::Lost { script } => write!(f, "{script} was lost"),
            Self::Unanswered => f.write_str("an answer was lost"),
            Self::Told { channel, message } => write!(f, "{message:?} on {channel:?}"),
            Self::Missed { channel } => write!(f, "a message on {channel:?} was lost"),
            Self::Listens { channel } => write!(f, "listens on {channel:?}"),
            Self::Broke { link, node: 0 } => write!(f, "the link for {link} broke"),
            Self::Broke { link, node } => write!(f, "the link for {link} to node {node} broke"),
            Self::Replaced { link, node: 0 } => write!(f, "the link for {link} was replaced"),
            Self::Replaced { link, node } => write!(f, "the link for {link} to node {node} was replaced"),
            Self::Left => f.write_str("left"),
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commands => "commands",
            Self::Messages => "messages",
        })
    }
}
