//! What a Redis is, less its sockets: a keyspace, commands, scripts and channels. It knows no client, no link and no clock.
//!
//! The files stand in layers: each uses what stands below it in this list, or behind it in its row, and nothing above it.
//!
//! | file | job |
//! | --- | --- |
//! | `lua` | scripts, their cache and their sandbox |
//! | `runner` | one command after the other: known, complete, allowed to write |
//! | `commands` | which commands there are |
//! | `general`, `keys`, `strings`, `hashes`, `lists`, `sorted_sets` | what they do |
//! | `database` | all that a server has |
//! | `keyspace` | keys, what they hold, until when, and how much that weighs |
//! | `arguments`, `value`, `sorted_set` | how words are read; what a key can hold |
//! | `errors`, `reply`, `message` | what is answered and published |
//! | `numbers`, `sizes`, `sha1` | numbers as text; what keys weigh; names of scripts |

use std::time::Duration;

mod arguments;
mod commands;
mod database;
mod errors;
mod general;
mod hashes;
mod keys;
mod keyspace;
mod lists;
mod lua;
mod message;
mod numbers;
mod reply;
mod runner;
mod sha1;
mod sizes;
mod sorted_set;
mod sorted_sets;
mod strings;
mod value;

pub(super) use database::MAX_BYTES;
pub(super) use keyspace::Entry;
pub(super) use message::Published;
pub(super) use reply::Reply;

use self::{
    commands::Action,
    database::{Answer, Shared, lock},
    lua::Scripts,
    value::Hash,
};
use crate::script::Script;

/// One server. Everything runs at the time that the caller names, one command after the other.
#[derive(Debug, Default)]
pub(super) struct Server {
    db: Shared,
    /// Made for the first script.
    scripts: Option<Scripts>,
}

impl Server {
    /// Runs one command as a client writes it, scripts included, at `now` on the server's clock (any zero, never back but
    /// by a step of the clock).
    pub(super) fn execute(&mut self, now: Duration, words: &[&[u8]]) -> Reply {
        lock(&self.db).at(now);
        self.command(words).unwrap_or_else(|refusal| Reply::Error(refusal.into_owned()))
    }

    /// The same as EVAL of the script's source; compiled once.
    pub(super) fn run(&mut self, now: Duration, script: &'static Script, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
        lock(&self.db).at(now);
        let answer = self.scripts().and_then(|scripts| scripts.run(script, keys, args));
        answer.unwrap_or_else(|refusal| Reply::Error(refusal.into_owned()))
    }

    /// The fields of a hash and their values, as text; no command is run for it.
    pub(super) fn hash(&self, now: Duration, key: &[u8]) -> Vec<(String, String)> {
        let mut db = lock(&self.db);
        db.at(now);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Ok(Some(hash)) = db.keys.container::<Hash>(key) else { return Vec::new() };
        hash.iter().map(|(field, value)| (text(field), text(value))).collect()
    }

    /// What a string has, as text; no command is run for it.
    pub(super) fn string(&self, now: Duration, key: &[u8]) -> Option<String> {
        let mut db = lock(&self.db);
        db.at(now);
        let text = db.keys.text(key).ok()??;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Every key that lives, sorted.
    pub(super) fn keys(&self, now: Duration) -> Vec<Vec<u8>> {
        let mut db = lock(&self.db);
        db.at(now);
        db.keys.keys().into_iter().map(<[u8]>::to_vec).collect()
    }

    /// What a key has, to be put back some time.
    pub(super) fn copy_of(&self, key: &[u8]) -> Option<Entry> {
        lock(&self.db).keys.copy_of(key)
    }

    /// A key has what it had once, or nothing.
    pub(super) fn put_back(&mut self, key: &[u8], entry: Option<Entry>) {
        lock(&self.db).keys.put_back(key, entry);
    }

    /// Another server with the same keys, which nobody listens at.
    pub(super) fn replica(&self) -> Self {
        let keys = lock(&self.db).keys.clone();
        let replica = Self::default();
        lock(&replica.db).keys = keys;
        replica
    }

    /// How many listen on a channel, for the answer of PUBLISH. The listeners themselves are the caller's.
    pub(super) fn listen(&mut self, channel: &[u8], listeners: usize) {
        lock(&self.db).listen(channel, listeners);
    }

    /// What was published since it was last asked, in order. To be asked after each command: past some ten thousand
    /// messages that nobody took, further ones reach nobody.
    pub(super) fn take_published(&mut self) -> Vec<Published> {
        lock(&self.db).take_published()
    }

    /// How many bytes keys and values may take, about, before writes are refused.
    pub(super) fn limit(&mut self, max_bytes: usize) {
        lock(&self.db).max_bytes = max_bytes;
    }

    /// About how many bytes are in use, without what has expired.
    #[cfg(test)]
    fn used(&mut self) -> usize {
        lock(&self.db).keys.used(0)
    }

    fn command(&mut self, words: &[&[u8]]) -> Answer {
        let command =
            words.first().and_then(|name| commands::find(name)).ok_or_else(|| errors::unknown_command(words))?;
        if !command.takes(words.len()) {
            return Err(errors::arity(command.name));
        }
        match command.action {
            Action::Data(_) => runner::run(&mut lock(&self.db), command, words),
            Action::Eval => self.scripts()?.eval(words),
            Action::EvalSha => self.scripts()?.eval_sha(words),
            Action::Script => self.scripts()?.administer(words),
        }
    }

    fn scripts(&mut self) -> Result<&mut Scripts, errors::ErrorText> {
        let scripts = match self.scripts.take() {
            Some(scripts) => scripts,
            None => Scripts::new(&self.db).map_err(|error| format!("ERR no scripts: {error}"))?,
        };
        Ok(self.scripts.insert(scripts))
    }
}

#[cfg(test)]
mod tests;
