//! All that a server has: keys, who listens, and what a script that runs did. It knows no command and no Lua.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{errors::ErrorText, keyspace::Keyspace, message::Published, reply::Reply};

/// What a command comes to.
pub(super) type Answer = Result<Reply, ErrorText>;

/// Past this many bytes writes are refused, unless the caller says otherwise.
pub(in crate::backend::embedded) const MAX_BYTES: usize = 256 << 20;

/// Messages that nobody has taken yet. Past this a message reaches nobody.
const UNTAKEN: usize = 1 << 16;

/// The database, also for the functions of scripts. Only ever locked for one command.
pub(super) type Shared = Arc<Mutex<Database>>;

pub(super) fn lock(db: &Shared) -> MutexGuard<'_, Database> {
    db.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Database {
    pub(super) keys: Keyspace,
    pub(super) max_bytes: usize,
    /// Since the zero of the server's clock.
    pub(super) now: Duration,
    published: VecDeque<Published>,
    listeners: HashMap<Vec<u8>, usize>,
    script: Option<Running>,
}

/// What a running script has to know of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    /// Whether memory was short when it began.
    pub(super) short: bool,
    /// Whether it has called a command that writes. Then memory stops it no more.
    pub(super) wrote: bool,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            keys: Keyspace::default(),
            max_bytes: MAX_BYTES,
            now: Duration::ZERO,
            published: VecDeque::new(),
            listeners: HashMap::new(),
            script: None,
        }
    }
}

impl Database {
    pub(super) fn at(&mut self, now: Duration) {
        self.now = now;
        self.keys.at(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    }

    pub(super) fn begin_script(&mut self) {
        self.script = Some(Running { short: self.is_full(), wrote: false });
    }

    pub(super) fn end_script(&mut self) {
        self.script = None;
    }

    /// What the script that runs has to know of itself.
    pub(super) fn running(&self) -> Running {
        self.script.unwrap_or(Running { short: false, wrote: false })
    }

    /// The script that runs has called a command that writes.
    pub(super) fn script_wrote(&mut self, running: Running) {
        self.script = Some(Running { wrote: true, ..running });
    }

    pub(super) fn listen(&mut self, channel: &[u8], listeners: usize) {
        if listeners == 0 {
            self.listeners.remove(channel);
        } else {
            self.listeners.insert(channel.to_vec(), listeners);
        }
    }

    /// How many a message reaches.
    pub(super) fn publish(&mut self, channel: &[u8], message: &[u8], sharded: bool) -> usize {
        if self.published.len() >= UNTAKEN {
            return 0;
        }
        self.published.push_back(Published { channel: channel.to_vec(), message: message.to_vec(), sharded });
        // Nobody who listens by shard is ever told of.
        if sharded { 0 } else { self.listeners.get(channel).copied().unwrap_or_default() }
    }

    pub(super) fn take_published(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.published).into()
    }

    /// Whether more is in use than may be.
    pub(super) fn is_full(&mut self) -> bool {
        self.takes_more_than(self.max_bytes)
    }

    pub(super) fn takes_more_than(&mut self, most: usize) -> bool {
        self.keys.used(most) > most
    }
}
