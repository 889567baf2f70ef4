//! Runs one command after the other on the keyspace: whether it is known, has its words, and may write now. It knows no
//! Lua.

use std::collections::{HashMap, VecDeque};

use super::{
    Published, Reply,
    commands::{self, Command, Deed, Effect},
    keyspace::Keyspace,
    words::{self, OUT_OF_MEMORY, Words},
};

/// What a command comes to.
pub(super) type Answer = Result<Reply, Words>;

/// Past this many bytes writes are refused, unless the caller says otherwise.
pub(in crate::backend::embedded) const MAX_BYTES: usize = 256 << 20;

/// Past so much more a script is stopped that wrote and does not end.
const RUNAWAY: usize = 2 * MAX_BYTES;

/// Messages that nobody has taken yet. Past this a message reaches nobody.
const UNTAKEN: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Database {
    pub(super) keys: Keyspace,
    pub(super) max_bytes: usize,
    /// Since the zero of the server's clock.
    pub(super) now: std::time::Duration,
    published: VecDeque<Published>,
    listeners: HashMap<Vec<u8>, usize>,
    script: Option<Running>,
}

/// What a running script has to know of itself.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Whether memory was short when it began.
    short: bool,
    /// Whether it has called a command that writes. Then memory stops it no more.
    wrote: bool,
}

impl Default for Database {
    fn default() -> Self {
        Self {
            keys: Keyspace::default(),
            max_bytes: MAX_BYTES,
            now: std::time::Duration::ZERO,
            published: VecDeque::new(),
            listeners: HashMap::new(),
            script: None,
        }
    }
}

impl Database {
    pub(super) fn at(&mut self, now: std::time::Duration) {
        self.now = now;
        self.keys.at(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    }

    /// Runs a command of a client.
    pub(super) fn run(&mut self, command: &Command, words: &[&[u8]]) -> Answer {
        let Deed::Data(deed) = command.deed else { return Err(words::unknown_command(words)) };
        if command.effect == Effect::Grows && self.is_full() {
            return Err(OUT_OF_MEMORY);
        }
        deed(self, words)
    }

    pub(super) fn begin_script(&mut self) {
        self.script = Some(Running { short: self.is_full(), wrote: false });
    }

    pub(super) fn end_script(&mut self) {
        self.script = None;
    }

    /// Runs a command of the script that began last.
    pub(super) fn run_in_script(&mut self, words: &[&[u8]]) -> Answer {
        let name = words.first().copied().unwrap_or_default();
        let Some(command) = commands::find(name) else {
            // The server's words, and which one: it may be one that only this store lacks.
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
            return Err(format!("ERR Unknown Redis command called from script: '{name}'").into());
        };
        if !command.takes(words.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        let Deed::Data(deed) = command.deed else {
            return Err("ERR This Redis command is not allowed from script".into());
        };
        let running = self.script.unwrap_or(Running { short: false, wrote: false });
        // As on the server, no script is refused memory once it wrote: half of it would be done. Only one that never ends is.
        if command.effect == Effect::Grows && running.wrote && self.takes_more_than(RUNAWAY) {
            return Err("ERR a script took all the memory that this store has for scripts".into());
        }
        if command.effect == Effect::Grows && !running.wrote && running.short {
            return Err(OUT_OF_MEMORY);
        }
        if command.effect != Effect::Reads {
            self.script = Some(Running { wrote: true, ..running });
        }
        deed(self, words)
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
    fn is_full(&mut self) -> bool {
        self.takes_more_than(self.max_bytes)
    }

    fn takes_more_than(&mut self, most: usize) -> bool {
        self.keys.used(most) > most
    }
}
