//! Names of keys and channels as Redisson builds them. It checks no name and knows no cluster.

use std::sync::Arc;

/// How releases are published. Classic pub/sub: what every standalone server has, and what Redisson uses there.
pub(crate) const PUBLISH: &str = "PUBLISH";

/// The key of a lock: whatever else belongs to the lock is derived from it. Without a prefix it is the name itself.
pub(crate) fn lock_key(prefix: &str, name: &Arc<str>) -> Arc<str> {
    if prefix.is_empty() { Arc::clone(name) } else { [prefix, name].concat().into() }
}

/// Where the release of a lock is told.
pub(crate) fn lock_channel(key: &str) -> String {
    prefixed("redisson_lock__channel", key)
}

/// A key with any opening brace counts as tagged, even where a cluster sees no tag in it: a Java peer reckons so too, and
/// with another channel neither would wake the other.
fn prefixed(prefix: &str, key: &str) -> String {
    if key.contains('{') { [prefix, ":", key].concat() } else { [prefix, ":{", key, "}"].concat() }
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
            assert_eq!(&*lock_key(prefix, &Arc::from(name)), key);
            assert_eq!(&*lock_channel(key), channel);
        }
    }
}
