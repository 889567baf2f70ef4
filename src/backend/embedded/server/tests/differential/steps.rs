//! Random steps for two servers: commands from templates, scripts with arguments, and all of it from small pools.
//!
//! Times are far away or over, never near: what two clocks could see differently is not asked. A relative time is a whole
//! number of `FAR`, an absolute one lies halfway between two.

use std::fmt;

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
    sample::select,
    strategy::BoxedStrategy,
};

use super::super::super::Reply;
use crate::script::Script;

/// In milliseconds.
const FAR: i64 = 1_000_000;

/// One thing to do on both servers.
#[derive(Clone)]
pub(super) enum Step {
    Command(Vec<Word>),
    Script {
        script: &'static Script,
        keys: Vec<Word>,
        args: Vec<Word>,
    },
    /// The key is given one millisecond, and that passes.
    Expire(Vec<u8>),
}

/// A word; times become words once it is known when it is.
#[derive(Clone)]
pub(super) enum Word {
    Bytes(Vec<u8>),
    /// Milliseconds from the beginning, as milliseconds of the server's clock.
    Milliseconds(i64),
    /// The same as seconds.
    Seconds(i64),
}

impl Word {
    pub(super) fn bytes(&self, start: i64) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Milliseconds(after) => (start + after).to_string().into_bytes(),
            Self::Seconds(after) => ((start + after) / 1000).to_string().into_bytes(),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Self::Milliseconds(after) => write!(f, "start{after:+}ms"),
            Self::Seconds(after) => write!(f, "(start{after:+}ms)s"),
        }
    }
}

impl Step {
    /// Whether a number in its answer may be a time.
    pub(super) fn tells_times(&self, answer: &Reply) -> bool {
        match self {
            Self::Command(words) => matches!(&words[..], [Word::Bytes(name), ..] if name.ends_with(b"TTL")),
            // A token is exact; whoever is told one is told no time.
            Self::Script { script, .. } if script.path.ends_with("acquire.lua") => {
                matches!(answer, Reply::Array(parts) if parts.first() == Some(&Reply::Int(0)))
            }
            Self::Script { script, .. } => script.path.ends_with("inspect.lua"),
            Self::Expire(_) => false,
        }
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => write!(f, "{words:?}"),
            Self::Script { script, keys, args } => write!(f, "{} {keys:?} {args:?}", script.path),
            Self::Expire(key) => write!(f, "expire {:?}", String::from_utf8_lossy(key)),
        }
    }
}

/// Every key that a step can name.
pub(super) const KEYS: &[&str] = &["string", "hash", "list", "zset", "other"];
pub(super) const CHANNELS: &[&str] = &["one", "two"];

/// What a command looks like; a word in brackets stands for a pool. The first four are keys that mostly hold that type.
const TEMPLATES: &[&str] = &[
    "GET <s>",
    "SET <s> <v>",
    "SET <s> <v> <set>",
    "SET <s> <v> <set> <set>",
    "SET <s> <v> <set> <set> <set>",
    "SET <s> <i>",
    "SET <s> <v> PX <ms>",
    "SET <s> <v> EX <sec>",
    "SET <s> <v> PXAT <at>",
    "SET <s> <v> EXAT <at-sec> <set>",
    "SET <s> <v> <set> PX <end>",
    "SETNX <s> <v>",
    "GETSET <s> <v>",
    "GETDEL <s>",
    "APPEND <s> <v>",
    "STRLEN <s>",
    "INCR <s>",
    "DECR <s>",
    "INCRBY <s> <i>",
    "DECRBY <s> <i>",
    "DEL <k>",
    "DEL <k> <k>",
    "UNLINK <k>",
    "EXISTS <k> <k> <k>",
    "TYPE <k>",
    "RENAME <k> <k>",
    "EXPIRE <k> <sec>",
    "PEXPIRE <k> <ms>",
    "EXPIRE <k> <sec> <there>",
    "PEXPIRE <k> <ms> <there>",
    "PEXPIRE <k> <end> NX",
    "EXPIREAT <k> <at-sec>",
    "PEXPIREAT <k> <at>",
    "EXPIREAT <k> <at-sec> <cond>",
    "PEXPIREAT <k> <at> <cond>",
    "PEXPIREAT <k> <at> <cond> <cond>",
    "PEXPIREAT <k> <at> <v>",
    "TTL <k>",
    "PTTL <k>",
    "PERSIST <k>",
    "KEYS <pattern>",
    "HGET <h> <f>",
    "HSET <h> <f> <v>",
    "HSET <h> <f> <i>",
    "HSET <h> <f> <v> <f> <v>",
    "HSET <h> <f> <v> <f>",
    "HMSET <h> <f> <v> <f> <v>",
    "HMSET <h> <f> <v> <f>",
    "HSETNX <h> <f> <v>",
    "HMGET <h> <f> <f>",
    "HDEL <h> <f>",
    "HDEL <h> <f> <f>",
    "HEXISTS <h> <f>",
    "HINCRBY <h> <f> <i>",
    "HGETALL <h>",
    "HKEYS <h>",
    "HVALS <h>",
    "HLEN <h>",
    "LPUSH <l> <v>",
    "LPUSH <l> <f> <f>",
    "RPUSH <l> <f>",
    "RPUSH <l> <v> <f> <v>",
    "LPOP <l>",
    "RPOP <l>",
    "LPOP <l> <n>",
    "RPOP <l> <n>",
    "LPOP <l> <n> <n>",
    "LLEN <l>",
    "LINDEX <l> <n>",
    "LRANGE <l> <n> <n>",
    "LREM <l> <n> <f>",
    "LSET <l> <n> <v>",
    "LTRIM <l> <n> <n>",
    "ZADD <z> <score> <f>",
    "ZADD <z> <score> <f> <score> <f>",
    "ZADD <z> <zadd> <score> <f>",
    "ZADD <z> <zadd> <zadd> <score> <f>",
    "ZADD <z> <zadd> <zadd> <score> <f> <score> <f>",
    "ZADD <z> <zadd> <score>",
    "ZREM <z> <f> <f>",
    "ZSCORE <z> <f>",
    "ZRANK <z> <f>",
    "ZCARD <z>",
    "ZCOUNT <z> <bound> <bound>",
    "ZRANGE <z> <n> <n>",
    "ZRANGE <z> <n> <n> <range>",
    "ZRANGE <z> <n> <n> <range> <range>",
    "ZRANGE <z> <bound> <bound> BYSCORE <range>",
    "ZRANGE <z> <bound> <bound> BYSCORE LIMIT <n> <n>",
    "ZRANGE <z> <bound> <bound> BYSCORE REV LIMIT <n> <n> WITHSCORES",
    "ZRANGE <z> <n> <n> LIMIT <n> <n>",
    "ZRANGEBYSCORE <z> <bound> <bound>",
    "ZRANGEBYSCORE <z> <bound> <bound> WITHSCORES",
    "ZRANGEBYSCORE <z> <bound> <bound> LIMIT <n> <n>",
    "ZRANGEBYSCORE <z> <bound> <bound> WITHSCORES LIMIT <n> <n>",
    "ZRANGEBYSCORE <z> <bound> <bound> <range>",
    "ZREMRANGEBYSCORE <z> <bound> <bound>",
    "ZREMRANGEBYRANK <z> <n> <n>",
    "ZINCRBY <z> <score> <f>",
    "ZPOPMIN <z>",
    "ZPOPMIN <z> <n>",
    "ZPOPMIN <z> <n> <n>",
    "PUBLISH <channel> <v>",
    "SPUBLISH <channel> <v>",
    "PING",
    "PING <v>",
    "PING <v> <v>",
    "ECHO <v>",
    "FLUSHALL",
    "FLUSHDB <v>",
    "EVAL <v> 0",
    "EVAL return <n>",
    "EVALSHA <v> <n>",
    "SCRIPT <v>",
    "SCRIPT EXISTS <v> <v>",
    "SCRIPT LOAD",
    "SCRIPT FLUSH <v>",
    "NOSUCH <v> <v>",
    "<v> <v>",
    "GET",
    "SET <s>",
    "HSET <h> <f>",
    "TIME <v>",
    "DBSIZE <v>",
];

pub(super) fn commands() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![400 => templates(TEMPLATES), 1 => select(KEYS).prop_map(|key| Step::Expire(key.into()))];
    vec(step, 1..40)
}

pub(super) fn templates(templates: &'static [&'static str]) -> impl Strategy<Value = Step> {
    let words = |template: &'static str| template.split(' ').map(word).collect::<Vec<_>>();
    select(templates).prop_flat_map(words).prop_map(Step::Command)
}

/// The pool that a word of a template stands for.
pub(super) fn word(name: &'static str) -> BoxedStrategy<Word> {
    match name {
        "<s>" => key("string"),
        "<h>" => key("hash"),
        "<l>" => key("list"),
        "<z>" => key("zset"),
        "<k>" => texts(KEYS),
        "<v>" => value(),
        "<f>" => texts(&["f", "g", "", "me:1"]),
        "<i>" => integer(),
        "<n>" => prop_oneof![6 => (-4i64..6).prop_map(number), 1 => integer()].boxed(),
        "<score>" => texts(&[
            "0",
            "1",
            "2",
            "-1",
            "1.5",
            "0.1",
            "-0",
            "+5",
            "3e0",
            "1e300",
            "-1e300",
            "1e-300",
            "inf",
            "-inf",
            "nan",
            "9007199254740993",
            "12345678901234567890",
            "1e999",
            " 1",
            "abc",
            "",
        ]),
        "<bound>" => texts(&[
            "-inf", "+inf", "inf", "0", "1", "(1", "2", "(0.1", "(inf", "-1", "1.5", " 1", "", "(", "((1", "nan", "x",
        ]),
        "<ms>" => {
            prop_oneof![5 => (1i64..5).prop_map(|far| number(far * FAR)), 1 => (-1i64..1).prop_map(number)].boxed()
        }
        "<sec>" => {
            let far = (1i64..5).prop_map(|far| number(far * FAR / 1000));
            prop_oneof![5 => far, 1 => (-1i64..1).prop_map(number), 1 => Just(number(i64::MAX))].boxed()
        }
        "<at>" => (-1i64..5).prop_map(|far| Word::Milliseconds(far * FAR + FAR / 2)).boxed(),
        "<at-sec>" => (-1i64..5).prop_map(|far| Word::Seconds(far * FAR + FAR / 2)).boxed(),
        "<end>" => texts(ENDS),
        "<there>" => texts(&["NX", "xx"]),
        "<cond>" => texts(&["NX", "xx", "GT", "lt"]),
        "<set>" => texts(&["NX", "xx", "GET", "KEEPTTL", "PX", "EX", "1000000", "3000000"]),
        "<zadd>" => texts(&["NX", "xx", "GT", "LT", "CH", "INCR"]),
        "<range>" => texts(&["WITHSCORES", "withscores", "REV", "BYSCORE", "LIMIT", "x"]),
        "<pattern>" => texts(&["*", "?ash", "[hl]*", "*t*", "h\\ash", "[^h]*", "", "list", "[a-k]ash", "**h"]),
        "<channel>" => texts(CHANNELS),
        "<publish>" => texts(&["PUBLISH", "SPUBLISH", "NOSUCH", "GET"]),
        "<hold>" => texts(&["me:1", "me:2", "you:1"]),
        "<lease>" => prop_oneof![8 => (1i64..4).prop_map(|far| number(far * FAR)), 1 => texts(OVER)].boxed(),
        "<count>" => prop_oneof![8 => (0i64..4).prop_map(number), 1 => value()].boxed(),
        plain => Just(Word::Bytes(plain.into())).boxed(),
    }
}

fn key(usual: &'static str) -> BoxedStrategy<Word> {
    prop_oneof![6 => Just(Word::Bytes(usual.into())), 1 => texts(KEYS)].boxed()
}

fn texts(pool: &'static [&'static str]) -> BoxedStrategy<Word> {
    select(pool).prop_map(|text| Word::Bytes(text.into())).boxed()
}

fn number(number: i64) -> Word {
    Word::Bytes(number.to_string().into_bytes())
}

/// Where arithmetic ends, and what is no integer to the server.
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "10",
    "9007199254740992",
    "4611686018427387903",
    "9223372036854775806",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "",
    "-0",
    "01",
    "+1",
    " 1",
    "1.0",
    "a",
    "9223372036854775808",
];

fn integer() -> BoxedStrategy<Word> {
    texts(INTEGERS)
}

/// Durations that are over, that no clock could show, or none.
const ENDS: &[&str] =
    &["0", "-1", "4611686018427387903", "9223372036854775807", "-9223372036854775808", "", "01", " 1", "1.0", "a"];

/// Leases that are over, or none.
const OVER: &[&str] = &["0", "-1", "", "abc", "1e300", "-1e300", "nan", "inf"];

/// Short enough that the server keeps the order of a hash.
fn value() -> BoxedStrategy<Word> {
    let bytes = vec(any::<u8>(), 0..6).prop_map(Word::Bytes);
    let texts =
        texts(&["", "a", "abc", "1", "-1", "5", "1.5", "nan", "inf", "\r\n", "a\0b", "'", "nx", "get", "flush"]);
    prop_oneof![3 => texts, 1 => integer(), 1 => bytes].boxed()
}
