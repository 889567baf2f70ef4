//! What came by a proxy, for tests to look at.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{matching, resp::Frame, rule::Action};
use crate::harness::clock::monotonic;

/// One thing that came by, when it came.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The reading of the shared monotonic clock.
    pub(crate) at: Duration,
    /// Connections are counted from zero.
    pub(crate) connection: u64,
    pub(crate) event: Event,
}

/// What came by.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub(crate) enum Event {
    /// A client connected.
    Opened,
    /// A client was turned away.
    Refused,
    /// A request came, and this happened to it or will happen to its reply.
    Request { words: Vec<Vec<u8>>, action: Action },
    /// A copy of an earlier request went to the server, on a connection of its own.
    Copied { words: Vec<Vec<u8>> },
    /// The server answered a request.
    Reply { to: Vec<Vec<u8>>, frame: Frame },
    /// The server sent something that answers no request.
    Push { words: Vec<Vec<u8>>, action: Action },
    /// The client closed the connection.
    ClientClosed,
    /// The server closed the connection, or was not there.
    ServerClosed,
    /// A rule or the test cut the connection.
    Cut,
    /// Something that is no protocol came; the connection was cut.
    Malformed,
}

impl Entry {
    /// The words of a request or a push.
    pub(crate) fn words(&self) -> Option<&[Vec<u8>]> {
        match &self.event {
            Event::Request { words, .. } | Event::Push { words, .. } => Some(words),
            _ => None,
        }
    }

    /// The command of a request, in capitals.
    pub(crate) fn command(&self) -> Option<String> {
        match &self.event {
            Event::Request { words, .. } => words.first().map(|name| String::from_utf8_lossy(name).to_uppercase()),
            _ => None,
        }
    }

    /// The verb of the script that a request runs.
    pub(crate) fn script(&self) -> Option<String> {
        match &self.event {
            Event::Request { words, .. } => matching::verb(words),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Vec<Entry>>);

impl Log {
    pub(super) fn note(&self, connection: u64, event: Event) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the entries are in the clock's order.
        entries.push(Entry { at: monotonic(), connection, event });
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
