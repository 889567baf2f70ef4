//! What a Redis is, less its sockets: a keyspace, commands, scripts and channels. It knows no client, no link and no clock.

use std::time::Duration;

mod reply;

pub(super) use reply::Reply;

use crate::script::Script;

/// One server. Everything runs at the time that the caller names, one command after the other.
#[derive(Debug, Default)]
pub(super) struct Server {
    published: Vec<Published>,
}

/// A message on its way to whoever listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) channel: Vec<u8>,
    pub(super) message: Vec<u8>,
    /// By SPUBLISH, which reaches other listeners than PUBLISH does.
    pub(super) sharded: bool,
}

impl Server {
    /// Runs one command as a client writes it, scripts included, at `now` on the server's clock (any zero, never back but
    /// by a step of the clock).
    pub(super) fn execute(&mut self, now: Duration, words: &[&[u8]]) -> Reply {
        let _ = (now, words);
        Reply::Error("ERR unknown command".to_owned())
    }

    /// The same as EVAL of the script's source; compiled once.
    pub(super) fn run(&mut self, now: Duration, script: &'static Script, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
        let _ = (now, script, keys, args);
        Reply::Error("ERR unknown command".to_owned())
    }

    /// How many listen on a channel, for the answer of PUBLISH. The listeners themselves are the caller's.
    pub(super) fn listen(&mut self, channel: &[u8], listeners: usize) {
        let _ = (channel, listeners);
    }

    /// What was published since it was last asked, in order.
    pub(super) fn take_published(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.published)
    }
}
