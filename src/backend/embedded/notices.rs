//! What is told outside of the mutex: to callers, to listeners, and to whoever watches a client's links.

use std::{fmt, sync::Arc};

use tokio::sync::{oneshot, watch};

use super::frame::Answers;
use crate::backend::{Heard, Listener, dispatch::Dispatches};

/// What is told outside of the mutex.
pub(super) enum Notice {
    Subscribed(Arc<dyn Listener>),
    Interrupted(Arc<dyn Listener>),
    Message(Arc<dyn Listener>, Arc<[u8]>),
    Answer(oneshot::Sender<Answers>, Answers),
    /// There is a new link for commands, of this number.
    Linked(watch::Sender<u64>, u64),
    /// Nothing to deliver: only to be dropped. With the question whether a command may leave the last of its client may go.
    Over(Arc<Dispatches>),
}

impl Notice {
    pub(super) fn deliver(self) {
        match self {
            Self::Subscribed(listener) => listener.hear(Heard::Subscribed),
            Self::Interrupted(listener) => listener.hear(Heard::Interrupted),
            Self::Message(listener, bytes) => listener.hear(Heard::Message(&bytes)),
            // Nobody waits any more: so be it.
            Self::Answer(caller, answers) => drop(caller.send(answers)),
            Self::Linked(eras, number) => drop(eras.send_replace(number)),
            Self::Over(question) => drop(question),
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}
