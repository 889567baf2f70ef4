//! Which commands there are, how many words each takes, and whether it writes. What they do is in the files of their types.

use self::{
    Arity::{AtLeast, Exactly},
    Effect::{Grows, Reads, Writes},
};
use super::{
    database::{Answer, Database},
    general, hashes, keys, lists, sorted_sets, strings,
};

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    /// In small letters.
    pub(super) name: &'static str,
    words: Arity,
    pub(super) effect: Effect,
    pub(super) action: Action,
}

/// How many words it takes, its name among them.
#[derive(Clone, Copy, Debug)]
enum Arity {
    Exactly(usize),
    AtLeast(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Writes,
    /// Writes what may take more memory: refused where there is none.
    Grows,
}

/// What runs it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Data(fn(&mut Database, &[&[u8]]) -> Answer),
    /// A script by its source.
    Eval,
    /// A script by its name.
    EvalSha,
    /// What has to do with the cache of scripts.
    Script,
}

impl Command {
    pub(super) fn takes(&self, words: usize) -> bool {
        match self.words {
            Exactly(count) => words == count,
            AtLeast(count) => words >= count,
        }
    }
}

/// The command of this name, whatever its letters.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; LONGEST];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    let mut slot = slot(small);
    loop {
        let command = COMMANDS.get(usize::from(SLOTS[slot]))?;
        if command.name.as_bytes() == small {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS.len();
    }
}

/// Where each command stands in the list, by a slot that its name has; the next free one where that is taken.
static SLOTS: [u8; 256] = {
    let mut slots = [u8::MAX; 256];
    let mut at = 0;
    while at < COMMANDS.len() {
        let mut slot = slot(COMMANDS[at].name.as_bytes());
        while slots[slot] != u8::MAX {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = at as u8;
        at += 1;
    }
    slots
};

const fn slot(name: &[u8]) -> usize {
    let mut sum = name.len();
    let mut at = 0;
    while at < name.len() {
        sum = sum.wrapping_mul(31).wrapping_add(name[at] as usize);
        at += 1;
    }
    sum % 256
}

/// No name is longer.
const LONGEST: usize = 16;

const fn data(
    name: &'static str,
    words: Arity,
    effect: Effect,
    action: fn(&mut Database, &[&[u8]]) -> Answer,
) -> Command {
    Command { name, words, effect, action: Action::Data(action) }
}

const fn script(name: &'static str, words: Arity, action: Action) -> Command {
    Command { name, words, effect: Reads, action }
}

/// Sorted by name.
const COMMANDS: &[Command] = &[
    data("append", Exactly(3), Grows, strings::append),
    data("dbsize", Exactly(1), Reads, general::dbsize),
    data("decr", Exactly(2), Grows, strings::decr),
    data("decrby", Exactly(3), Grows, strings::decrby),
    data("del", AtLeast(2), Writes, keys::del),
    data("echo", Exactly(2), Reads, general::echo),
    script("eval", AtLeast(3), Action::Eval),
    script("evalsha", AtLeast(3), Action::EvalSha),
    data("exists", AtLeast(2), Reads, keys::exists),
    data("expire", AtLeast(3), Writes, keys::expire),
    data("expireat", AtLeast(3), Writes, keys::expireat),
    data("flushall", AtLeast(1), Writes, general::flush),
    data("flushdb", AtLeast(1), Writes, general::flush),
    data("get", Exactly(2), Reads, strings::get),
    data("getdel", Exactly(2), Writes, strings::getdel),
    data("getset", Exactly(3), Grows, strings::getset),
    data("hdel", AtLeast(3), Writes, hashes::hdel),
    data("hexists", Exactly(3), Reads, hashes::hexists),
    data("hget", Exactly(3), Reads, hashes::hget),
    data("hgetall", Exactly(2), Reads, hashes::hgetall),
    data("hincrby", Exactly(4), Grows, hashes::hincrby),
    data("hkeys", Exactly(2), Reads, hashes::hkeys),
    data("hlen", Exactly(2), Reads, hashes::hlen),
    data("hmget", AtLeast(3), Reads, hashes::hmget),
    data("hmset", AtLeast(4), Grows, hashes::hmset),
    data("hset", AtLeast(4), Grows, hashes::hset),
    data("hsetnx", Exactly(4), Grows, hashes::hsetnx),
    data("hvals", Exactly(2), Reads, hashes::hvals),
    data("incr", Exactly(2), Grows, strings::incr),
    data("incrby", Exactly(3), Grows, strings::incrby),
    data("keys", Exactly(2), Reads, general::keys),
    data("lindex", Exactly(3), Reads, lists::lindex),
    data("llen", Exactly(2), Reads, lists::llen),
    data("lpop", AtLeast(2), Writes, lists::lpop),
    data("lpush", AtLeast(3), Grows, lists::lpush),
    data("lrange", Exactly(4), Reads, lists::lrange),
    data("lrem", Exactly(4), Writes, lists::lrem),
    data("lset", Exactly(4), Grows, lists::lset),
    data("ltrim", Exactly(4), Writes, lists::ltrim),
    data("persist", Exactly(2), Writes, keys::persist),
    data("pexpire", AtLeast(3), Writes, keys::pexpire),
    data("pexpireat", AtLeast(3), Writes, keys::pexpireat),
    data("ping", AtLeast(1), Reads, general::ping),
    data("pttl", Exactly(2), Reads, keys::pttl),
    data("publish", Exactly(3), Reads, general::publish),
    data("rename", Exactly(3), Writes, keys::rename),
    data("rpop", AtLeast(2), Writes, lists::rpop),
    data("rpush", AtLeast(3), Grows, lists::rpush),
    script("script", AtLeast(2), Action::Script),
    data("set", AtLeast(3), Grows, strings::set),
    data("setnx", Exactly(3), Grows, strings::setnx),
    data("spublish", Exactly(3), Reads, general::spublish),
    data("strlen", Exactly(2), Reads, strings::strlen),
    data("time", Exactly(1), Reads, general::time),
    data("ttl", Exactly(2), Reads, keys::ttl),
    data("type", Exactly(2), Reads, keys::kind),
    data("unlink", AtLeast(2), Writes, keys::del),
    data("zadd", AtLeast(4), Grows, sorted_sets::zadd),
    data("zcard", Exactly(2), Reads, sorted_sets::zcard),
    data("zcount", Exactly(4), Reads, sorted_sets::zcount),
    data("zincrby", Exactly(4), Grows, sorted_sets::zincrby),
    data("zpopmin", AtLeast(2), Writes, sorted_sets::zpopmin),
    data("zrange", AtLeast(4), Reads, sorted_sets::zrange),
    data("zrangebyscore", AtLeast(4), Reads, sorted_sets::zrangebyscore),
    data("zrank", Exactly(3), Reads, sorted_sets::zrank),
    data("zrem", AtLeast(3), Writes, sorted_sets::zrem),
    data("zremrangebyrank", Exactly(4), Writes, sorted_sets::zremrangebyrank),
    data("zremrangebyscore", Exactly(4), Writes, sorted_sets::zremrangebyscore),
    data("zscore", Exactly(3), Reads, sorted_sets::zscore),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_letters() {
        for command in COMMANDS {
            for name in [command.name.to_owned(), command.name.to_uppercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(command.name));
            }
        }
        for name in ["", "ge", "gett", "a name that is longer than any of them"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }
}
