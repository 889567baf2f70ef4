//! What a server says of itself, as far as it matters here. It asks nobody.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::backend::Birth;

/// What an answer to `INFO` tells; nothing, where it is a refusal.
#[derive(Debug, Default)]
pub(super) struct Info {
    pub(super) birth: Option<Birth>,
    /// The policy by which it drops keys that have a TTL when its memory is full.
    pub(super) evicts: Option<&'static str>,
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
        match reply {
            redis::Value::BulkString(bytes) => Self::read(&String::from_utf8_lossy(bytes)),
            redis::Value::VerbatimString { text, .. } | redis::Value::SimpleString(text) => Self::read(text),
            _ => Self::default(),
        }
    }

    fn read(text: &str) -> Self {
        let field = |name: &str| text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        let uptime = || field("uptime_in_seconds")?.parse().ok().map(Duration::from_secs);
        let since = || Instant::now().checked_sub(uptime()?);
        let birth = field("run_id").and_then(|run_id| Some(Birth { run_id: Arc::from(run_id), since: since()? }));
        // A server without a bound drops nothing, whatever its policy.
        let bounded = field("maxmemory").is_some_and(|bytes| bytes != "0");
        let policy = field("maxmemory_policy").filter(|_| bounded);
        Self { birth, evicts: policy.and_then(|policy| EVICT.into_iter().find(|known| policy.starts_with(known))) }
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
        assert!(Info::of(&refused).evicts.is_none());
    }

    #[test]
    fn a_birth_is_told_where_both_of_its_halves_are() {
        let birth = info("# Server\r\nrun_id:abc\r\nuptime_in_seconds:0\r\n").birth.unwrap();
        assert_eq!(&*birth.run_id, "abc");
        assert!(birth.since <= Instant::now());
        assert!(info("run_id:abc\r\n").birth.is_none() && info("uptime_in_seconds:7\r\n").birth.is_none());
    }
}
