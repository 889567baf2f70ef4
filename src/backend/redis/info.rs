//! What a server says of itself, as far as it matters here. It asks nobody.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    codec::{pairs, text},
    memory::ServerMemory,
    rights::Version,
};
use crate::backend::Scripting;

/// What an answer to `INFO` tells; nothing, where it is a refusal.
#[derive(Debug, Default)]
pub(super) struct Info {
    pub(super) process: Option<Process>,
    pub(super) version: Option<Version>,
    /// The policy by which it drops keys that have a TTL when its memory is full.
    pub(super) evicts: Option<&'static str>,
    /// Whether it said anything about its memory.
    pub(super) tells_of_memory: bool,
}

/// One life of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    /// Another one after every restart.
    pub(super) run_id: Arc<str>,
    /// It has run for so long at least.
    pub(super) age: Option<Duration>,
}

/// What was found out of who is there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probed {
    pub(super) version: Option<Version>,
    pub(super) scripting: Scripting,
}

/// What is known of the server behind the present link.
#[derive(Debug, Default)]
pub(super) struct KnownServer {
    facts: Mutex<ServerFacts>,
    pub(super) memory: ServerMemory,
}

/// Whatever it told of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerFacts {
    pub(super) version: Option<Version>,
    pub(super) scripting: Scripting,
}

impl KnownServer {
    pub(super) fn now(&self) -> ServerFacts {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It was looked at, when the client connected.
    pub(super) fn probed(&self, Probed { version, scripting }: Probed, server: &str) {
        self.greeted(version);
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).scripting = scripting;
        if let Scripting::Compares(_) = scripting {
            tracing::warn!(server, "the server runs no scripts: token locks do without, and all others are refused");
        }
    }

    /// It was greeted. Who does not say his version there is asked otherwise.
    pub(super) fn greeted(&self, version: Option<Version>) {
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known.version = version.or(known.version);
    }

    /// It was asked.
    pub(super) fn heard(&self, info: &Info) {
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known.version = info.version.or(known.version);
    }
}

/// The policies that drop keys with a TTL. One that is not known is told by its family: whoever answers may repeat a
/// credential.
const EVICT: [&str; 11] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-lrm",
    "volatile-random",
    "volatile-ttl",
    "volatile-",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-lrm",
    "allkeys-random",
    "allkeys-",
];

impl Info {
    pub(super) fn of(reply: &redis::Value) -> Self {
        read(reply).map_or_else(Self::default, |text| Self::read(&text))
    }

    fn read(text: &str) -> Self {
        let field = |name: &str| field(text, name);
        let uptime = field("uptime_in_seconds").and_then(|seconds| seconds.parse().ok());
        // The difference of two times of which each was cut down to whole seconds.
        let age = uptime.map(|seconds: u64| Duration::from_secs(seconds.saturating_sub(1)));
        let process = field("run_id").map(|run_id| Process { run_id: Arc::from(run_id), age });
        let version = field("redis_version").and_then(Version::read);
        let (bytes, policy) = (field("maxmemory"), field("maxmemory_policy"));
        Self { process, version, evicts: evicts(bytes, policy), tells_of_memory: policy.is_some() }
    }
}

/// The same of an answer to `CONFIG GET`.
pub(super) fn evicts_by_configuration(reply: &redis::Value) -> Option<&'static str> {
    let value = |name| pairs(reply).find(|(what, _)| text(what) == Some(name)).and_then(|(_, value)| text(value));
    evicts(value("maxmemory"), value("maxmemory-policy"))
}

/// A server without a bound drops nothing, whatever its policy.
fn evicts(bytes: Option<&str>, policy: Option<&str>) -> Option<&'static str> {
    let policy = policy.filter(|_| bytes.is_some_and(|bytes| bytes != "0"))?;
    EVICT.into_iter().find(|known| policy.starts_with(known))
}

/// Whether the server is a node of a cluster; `None` where it does not say.
pub(super) fn is_of_a_cluster(reply: &redis::Value) -> Option<bool> {
    field(&read(reply)?, "cluster_enabled").map(|enabled| enabled == "1")
}

/// Whether it is a sentinel; `None` where it does not say.
pub(super) fn is_a_sentinel(reply: &redis::Value) -> Option<bool> {
    let text = read(reply)?;
    // The second word is Valkey's.
    field(&text, "redis_mode").or_else(|| field(&text, "server_mode")).map(|mode| mode == "sentinel")
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

fn read(reply: &redis::Value) -> Option<Cow<'_, str>> {
    match reply {
        redis::Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes)),
        redis::Value::VerbatimString { text, .. } | redis::Value::SimpleString(text) => Some(Cow::Borrowed(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(text: &str) -> Info {
        Info::of(&redis::Value::BulkString(text.as_bytes().to_vec()))
    }

    #[test]
    fn a_server_drops_locks_if_it_has_a_bound_and_a_policy_that_drops_keys_with_a_ttl() {
        for (bytes, policy, drops) in [
            ("100", "volatile-lru", Some("volatile-lru")),
            ("100", "volatile-ttl", Some("volatile-ttl")),
            ("100", "allkeys-random", Some("allkeys-random")),
            ("100", "volatile-s3cret", Some("volatile-")),
            ("100", "allkeys-lru-s3cret", Some("allkeys-lru")),
            ("100", "s3cret", None),
            ("100", "noeviction", None),
            ("0", "allkeys-lru", None),
        ] {
            let text = format!("# Memory\r\nmaxmemory:{bytes}\r\nmaxmemory_human:1M\r\nmaxmemory_policy:{policy}\r\n");
            assert_eq!(info(&text).evicts, drops, "{bytes} {policy}");
        }
        assert!(info("").evicts.is_none());
        let refused = redis::parse_redis_value(b"-NOPERM no\r\n").unwrap();
        assert!(Info::of(&refused).evicts.is_none() && evicts_by_configuration(&refused).is_none());
    }

    #[test]
    fn its_configuration_says_the_same_in_either_protocol() {
        let said = b"$9\r\nmaxmemory\r\n$3\r\n100\r\n$16\r\nmaxmemory-policy\r\n$12\r\nvolatile-lru\r\n";
        for header in [&b"*4\r\n"[..], b"%2\r\n"] {
            let reply = redis::parse_redis_value(&[header, said].concat()).unwrap();
            assert_eq!(evicts_by_configuration(&reply), Some("volatile-lru"));
        }
    }

    #[test]
    fn a_sentinel_says_so_in_the_words_of_either_kind_of_servers() {
        for word in ["redis_mode", "server_mode"] {
            for (mode, is_one) in [("sentinel", true), ("standalone", false)] {
                let text = format!("# Server\r\nredis_version:7.2.4\r\n{word}:{mode}\r\n");
                assert_eq!(is_a_sentinel(&redis::Value::BulkString(text.into_bytes())), Some(is_one), "{word}:{mode}");
            }
        }
        assert_eq!(is_a_sentinel(&redis::Value::BulkString(b"# Server\r\n".to_vec())), None);
    }

    #[test]
    fn a_process_is_never_taken_for_older_than_it_may_be() {
        for (uptime, age) in [("0", Some(0)), ("1", Some(0)), ("2", Some(1)), ("86400", Some(86_399)), ("x", None)] {
            let process = info(&format!("# Server\r\nrun_id:abc\r\nuptime_in_seconds:{uptime}\r\n")).process.unwrap();
            assert_eq!((&*process.run_id, process.age), ("abc", age.map(Duration::from_secs)), "{uptime}");
        }
        assert_eq!(info("run_id:abc\r\n").process.unwrap().age, None);
        assert_eq!(info("uptime_in_seconds:7\r\n").process, None);
    }
}
