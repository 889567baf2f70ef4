//! What servers are asked by whoever looks at all of them, and how the answers are read. It sends nothing.

use std::time::Duration;

use super::{Fault, FaultKind, Publish, Value, servers::Question};
use crate::keys;

/// A type of keys that may be ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Hash,
    String,
}

impl Shape {
    fn word(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::String => "string",
        }
    }

    /// Of an answer to [`type_of`].
    pub(crate) fn of(answer: &Value) -> Option<Self> {
        [Self::Hash, Self::String].into_iter().find(|shape| text(answer) == Some(shape.word()))
    }
}

fn question<const N: usize>(words: [&[u8]; N]) -> Question {
    Question(words.map(<[u8]>::to_vec).into())
}

/// A part of all keys: `cursor` is 0, and then what the last answer said. Servers before 6.0 know no types there.
pub(crate) fn scan(cursor: u64, pattern: &[u8], count: u32, shape: Option<Shape>) -> Question {
    let (cursor, count) = (cursor.to_string(), count.to_string());
    let mut asked = question([b"SCAN", cursor.as_bytes(), b"MATCH", pattern, b"COUNT", count.as_bytes()]);
    asked.0.extend(shape.into_iter().flat_map(|shape| [b"TYPE".to_vec(), shape.word().into()]));
    asked
}

/// The next cursor, 0 at the end, and some keys.
pub(crate) fn scanned(answer: Value) -> Option<(u64, Vec<Vec<u8>>)> {
    let Value::Array(parts) = answer else { return None };
    let [cursor, keys] = <[Value; 2]>::try_from(parts).ok()?;
    let Value::Array(keys) = keys else { return None };
    let key = |key| if let Value::Bytes(key) = key { Some(key) } else { None };
    Some((text(&cursor)?.parse().ok()?, keys.into_iter().map(key).collect::<Option<_>>()?))
}

/// Whether a server did not know what was asked for, of a command that it knows.
pub(crate) fn is_syntax(fault: &Fault) -> bool {
    fault.kind == FaultKind::Other && fault.source.to_string().to_lowercase().contains("syntax")
}

/// Whether it is the key that the user may not touch, and not the command that may not be run.
pub(crate) fn is_of_a_key(fault: &Fault) -> bool {
    fault.kind == FaultKind::Permission && fault.source.to_string().to_lowercase().contains(" key")
}

/// Whether another node of the cluster has the key by now, or is about to.
pub(crate) fn is_elsewhere(fault: &Fault) -> bool {
    let words = fault.source.to_string();
    ["MOVED ", "ASK ", "TRYAGAIN "].iter().any(|word| words.starts_with(word))
}

/// Before a question to a node that has a key whose slot is not its own yet.
pub(crate) fn asking() -> Question {
    question([b"ASKING"])
}

pub(crate) fn type_of(key: &[u8]) -> Question {
    question([b"TYPE", key])
}

/// How many fields a hash has, or how many bytes a string.
pub(crate) fn size(shape: Shape, key: &[u8]) -> Question {
    question([if shape == Shape::Hash { b"HLEN" } else { b"STRLEN" }, key])
}

/// How many bytes a key takes, with its name and all that it has: of one that has more parts than these, about as many.
pub(crate) fn memory(key: &[u8], parts: i64) -> Question {
    question([b"MEMORY", b"USAGE", key, b"SAMPLES", parts.to_string().as_bytes()])
}

/// The fields of a hash, without their values.
pub(crate) fn fields(key: &[u8]) -> Question {
    question([b"HKEYS", key])
}

pub(crate) fn pairs(key: &[u8]) -> Question {
    question([b"HGETALL", key])
}

pub(crate) fn string(key: &[u8]) -> Question {
    question([b"GET", key])
}

pub(crate) fn ttl(key: &[u8]) -> Question {
    question([b"PTTL", key])
}

/// The server's time, in milliseconds since 1970.
pub(crate) fn time() -> Question {
    question([b"TIME"])
}

pub(crate) fn now_ms(answer: &Value) -> Option<i64> {
    let number = |part: &Value| match part {
        Value::Int(number) => Some(*number),
        other => text(other)?.parse().ok(),
    };
    let (secs, micros) = match answer {
        Value::Numbers(parts) => (*parts.first()?, *parts.get(1)?),
        Value::Array(parts) => (number(parts.first()?)?, number(parts.get(1)?)?),
        _ => return None,
    };
    Some(secs * 1000 + micros / 1000)
}

/// How many listen to each of these channels, at this server.
pub(crate) fn listeners<'a>(kind: Publish, channels: impl IntoIterator<Item = &'a str>) -> Question {
    let word: &[u8] = if kind == Publish::Sharded { b"SHARDNUMSUB" } else { b"NUMSUB" };
    let mut asked = question([b"PUBSUB", word]);
    asked.0.extend(channels.into_iter().map(|channel| channel.as_bytes().to_vec()));
    asked
}

/// In the order of the channels.
pub(crate) fn listening(answer: &Value) -> Option<Vec<u64>> {
    let Value::Array(parts) = answer else { return None };
    let count = |pair: &[Value]| if let [_, Value::Int(count)] = pair { u64::try_from(*count).ok() } else { None };
    parts.chunks(2).map(count).collect()
}

/// What a server says of itself in one of its sections.
pub(crate) fn info(section: &str) -> Question {
    question([b"INFO", section.as_bytes()])
}

/// A line of an answer to [`info`], or to [`cluster_info`].
pub(crate) fn field<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    text(answer)?.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// All connections. It takes the server as long as there are many.
pub(crate) fn clients() -> Question {
    question([b"CLIENT", b"LIST"])
}

/// What each connection is called, of those that are called anything.
pub(crate) fn client_names(answer: &Value) -> impl Iterator<Item = &str> {
    let lines = text(answer).unwrap_or_default().lines();
    lines
        .filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("name=")))
        .filter(|name| !name.is_empty())
}

pub(crate) fn ping() -> Question {
    question([b"PING"])
}

/// Settings of the server.
pub(crate) fn setting(name: &str) -> Question {
    question([b"CONFIG", b"GET", name.as_bytes()])
}

/// The value of the one that was asked for.
pub(crate) fn set_to(answer: &Value) -> Option<&str> {
    if let Value::Array(parts) = answer { text(parts.get(1)?) } else { None }
}

pub(crate) fn cluster_info() -> Question {
    question([b"CLUSTER", b"INFO"])
}

/// What the user of this connection is called.
pub(crate) fn whoami() -> Question {
    question([b"ACL", b"WHOAMI"])
}

/// Whether a user may do this, which is not done.
pub(crate) fn dry_run(user: &str, command: &Question) -> Question {
    let mut asked = question([b"ACL", b"DRYRUN", user.as_bytes()]);
    asked.0.extend(command.0.iter().cloned());
    asked
}

pub(crate) fn text(answer: &Value) -> Option<&str> {
    if let Value::Bytes(bytes) = answer { std::str::from_utf8(bytes).ok() } else { None }
}

/// What a TTL says: `None` for a key that is not there.
pub(crate) fn ttl_of(answer: &Value) -> Option<Option<Duration>> {
    let Value::Int(ttl_ms) = *answer else { return None };
    (ttl_ms != -2).then(|| u64::try_from(ttl_ms).ok().map(Duration::from_millis))
}

/// A call of a script that no server knows: whether it may be called is all that the answer says.
pub(crate) fn no_script(key: &str) -> Question {
    question([b"EVALSHA", b"0000000000000000000000000000000000000000", b"1", key.as_bytes()])
}

/// Whether that is what is said of it.
pub(crate) fn is_no_script(fault: &Fault) -> bool {
    fault.source.to_string().starts_with("NOSCRIPT")
}

/// All that locks do, in questions that are not to be asked, for a key that none has: which command that is, the question, and whether
/// to ask it would change nothing.
pub(crate) fn deeds(key: &str, kind: Publish) -> Vec<(&'static str, Question, bool)> {
    let (counter, record) = (keys::fence_counter(key), keys::job_record(key));
    let channels = [keys::lock_channel(key), keys::token_channel(key), keys::job_channel(key)];
    let [counter, record] = [counter.bytes(), record.bytes()];
    let (key, field) = (key.as_bytes(), &b"relatch"[..]);
    let listens: &[u8] = if kind == Publish::Sharded { b"SSUBSCRIBE" } else { b"SUBSCRIBE" };
    let (publish, subscribe) = match kind {
        Publish::Classic => ("publish", "subscribe"),
        Publish::Sharded => ("spublish", "ssubscribe"),
    };
    let mut deeds = vec![
        ("del", question([b"DEL", key]), false),
        ("get", question([b"GET", key]), true),
        ("hdel", question([b"HDEL", key, field]), false),
        ("hexists", question([b"HEXISTS", key, field]), true),
        ("hget", question([b"HGET", key, field]), true),
        ("hgetall", question([b"HGETALL", key]), true),
        ("hgetall", question([b"HGETALL", record]), true),
        ("hincrby", question([b"HINCRBY", key, field, b"1"]), false),
        ("hmget", question([b"HMGET", key, field]), true),
        ("hset", question([b"HSET", key, field, b"1"]), false),
        ("hset", question([b"HSET", record, field, b"1"]), false),
        ("incr", question([b"INCR", counter]), false),
        ("pexpire", question([b"PEXPIRE", key, b"1"]), false),
        ("pttl", question([b"PTTL", key]), true),
        ("set", question([b"SET", key, field]), false),
        ("time", question([b"TIME"]), true),
        ("type", question([b"TYPE", key]), true),
        ("eval", question([b"EVAL", b"return 1", b"1", key]), true),
        ("evalsha", question([b"EVALSHA", b"0000000000000000000000000000000000000000", b"1", key]), true),
    ];
    for channel in &channels {
        deeds.push((publish, question([kind.command().as_bytes(), channel.bytes(), b"0"]), true));
        deeds.push((subscribe, question([listens, channel.bytes()]), false));
    }
    deeds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script;

    #[test]
    fn all_that_scripts_call_is_tried() {
        for kind in [Publish::Classic, Publish::Sharded] {
            let tried: Vec<_> = deeds("x", kind).into_iter().map(|(name, ..)| name.to_uppercase()).collect();
            let missing: Vec<_> =
                script::called().into_iter().filter(|name| !tried.contains(&name.to_uppercase())).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }

    #[test]
    fn what_a_server_says_is_read_and_anything_else_is_nothing() {
        let (key, bytes) = (|text: &str| Value::Bytes(text.into()), |text: &str| Value::Bytes(text.into()));
        let page = Value::Array(vec![bytes("17"), Value::Array(vec![key("a"), key("b")])]);
        assert_eq!(scanned(page), Some((17, vec![b"a".to_vec(), b"b".to_vec()])));
        for strange in [Value::Nil, bytes("0"), Value::Array(vec![bytes("x"), Value::Array(vec![])])] {
            assert_eq!(scanned(strange), None);
        }
        let counts = Value::Array(vec![bytes("a"), Value::Int(2), bytes("b"), Value::Int(0)]);
        assert_eq!(listening(&counts), Some(vec![2, 0]));
        let list = bytes("id=1 addr=h:1 name=relatch:a:b:c db=0\nid=2 addr=h:2 name= db=0\n");
        assert_eq!(client_names(&list).collect::<Vec<_>>(), ["relatch:a:b:c"]);
        assert_eq!(now_ms(&Value::Array(vec![bytes("2"), bytes("1500")])), Some(2001));
        assert_eq!(field(&bytes("# Memory\r\nmaxmemory:7\r\nmaxmemory_policy:x\r\n"), "maxmemory"), Some("7"));
        assert_eq!((ttl_of(&Value::Int(-2)), ttl_of(&Value::Int(-1))), (None, Some(None)));
    }
}
