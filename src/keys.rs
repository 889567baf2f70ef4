//! Names of keys and channels as Redisson builds them. It checks no name and knows no cluster.

use std::sync::Arc;

/// How releases are published. Classic pub/sub: what every standalone server has, and what Redisson uses there.
pub(crate) const PUBLISH: &str = "PUBLISH";

/// The key of a lock: whatever else belongs to the lock is derived from it.
pub(crate) fn lock_key(prefix: &str, name: &str) -> Arc<str> {
    [prefix, name].concat().into()
}

/// Where the release of a lock is told.
pub(crate) fn lock_channel(key: &str) -> Arc<str> {
    prefixed("redisson_lock__channel", key)
}

/// A key with any opening brace counts as tagged, even where a cluster sees no tag in it: a Java peer reckons so too, and
/// with another channel neither would wake the other.
fn prefixed(prefix: &str, key: &str) -> Arc<str> {
    if key.contains('{') { format!("{prefix}:{key}").into() } else { format!("{prefix}:{{{key}}}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_derived_from_prefix_and_name() {
        let rows = [
            ("", "job", "job", "redisson_lock__channel:{job}"),
            ("app:", "job", "app:job", "redisson_lock__channel:{app:job}"),
            ("{app}:", "job", "{app}:job", "redisson_lock__channel:{app}:job"),
            ("app:", "{job}", "app:{job}", "redisson_lock__channel:app:{job}"),
            ("", "{a}k", "{a}k", "redisson_lock__channel:{a}k"),
            ("", "k{", "k{", "redisson_lock__channel:k{"),
            ("", "{}k", "{}k", "redisson_lock__channel:{}k"),
            ("", "a}b", "a}b", "redisson_lock__channel:{a}b}"),
            ("", "two words\n", "two words\n", "redisson_lock__channel:{two words\n}"),
            ("", "Schlüssel", "Schlüssel", "redisson_lock__channel:{Schlüssel}"),
        ];
        for (prefix, name, key, channel) in rows {
            assert_eq!(&*lock_key(prefix, name), key);
            assert_eq!(&*lock_channel(key), channel);
        }
    }
}
