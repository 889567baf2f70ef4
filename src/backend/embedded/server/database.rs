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
pub(super) const MAX_BYTES: usize = 256 << 20;

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
        if command.effect == Effect::Grows && self.is_full(1) {
            return Err(OUT_OF_MEMORY);
        }
        deed(self, words)
    }

    pub(super) fn begin_script(&mut self) {
        self.script = Some(Running { short: self.is_full(1), wrote: false });
    }

    pub(super) fn end_script(&mut self) {
        self.script = None;
    }

    /// Runs a command of the script that began last.
    pub(super) fn run_in_script(&mut self, words: &[&[u8]]) -> Answer {
        let Some(command) = words.first().and_then(|name| commands::find(name)) else {
            return Err("ERR Unknown Redis command called from script".into());
        };
        if !command.takes(words.len()) {
            return Err("ERR Wrong number of args calling Redis command from script".into());
        }
        let Deed::Data(deed) = command.deed else {
            return Err("ERR This Redis command is not allowed from script".into());
        };
        let running = self.script.unwrap_or(Running { short: false, wrote: false });
        // The server has no bound once a script wrote. Here there is one, for scripts that never end.
        let refused = if running.wrote { self.is_full(2) } else { running.short };
        if command.effect == Effect::Grows && refused {
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

    /// Whether more is in use than so many times what may be.
    fn is_full(&mut self, times: usize) -> bool {
        let most = self.max_bytes.saturating_mul(times);
        self.keys.used(most) > most
    }
}
