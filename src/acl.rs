//! The rights of a user of the servers, in the words of their access lists: what all scripts call, what the links send, and which
//! keys and channels that is about. It asks no server.

use std::fmt;

use crate::{
    backend::Rights,
    error::{Error, Result},
    glob::{self, Part},
    keys,
    name::Shown,
    script,
};

/// What a user must be allowed for all that a client does, and no more: [`Client::required_acl`](crate::Client::required_acl).
///
/// Each text is the rules alone, as `ACL SETUSER name` takes them and as they stand in a line `user name …` of an ACL file, without
/// `on` and a password. Shown, it is the first of them; where there are sentinels, both, each on a line that says whose it is.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> relatch::Result<()> {
/// let acl = relatch::Client::embedded().required_acl("app:*")?;
/// println!("ACL SETUSER locks on >a-long-random-secret {}", acl.data);
/// assert!(acl.data.starts_with("resetkeys ~app:* ") && acl.sentinel.is_none());
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "embedded"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acl {
    /// For the servers that have the locks: one, a master and its replicas, or all nodes of a cluster.
    pub data: String,
    /// For the sentinels, if there are any. They have users of their own.
    pub sentinel: Option<String>,
}

impl Acl {
    /// For these links, and all keys of this pattern, with this prefix before the names.
    pub(crate) fn of(links: &Rights, prefix: &str, pattern: &str) -> Result<Self> {
        let parts = checked(pattern)?;
        let mut keys = vec![format!("~{pattern}")];
        keys.extend(keys::made_keys(pattern, &parts).into_iter().map(|made| format!("~{made}")));
        let probe = keys::probe_key(prefix);
        let is_covered = |key: &str| glob::matches(pattern.as_bytes(), key.as_bytes());
        if links.probes && !(is_covered(&probe) && is_covered(&format!("{probe}:1"))) {
            keys.push(format!("~{}*", glob::escaped(&probe)));
        }
        let channels = keys::lock_channels(pattern, &parts).into_iter().map(|channel| format!("&{channel}"));
        let called = links.deletes.map_or_else(script::called, |deletes| script::compared(deletes.command()));
        let called = called.into_iter().map(|command| format!("+{}", command.to_lowercase()));
        let rules =
            [keys.join(" "), "resetchannels".to_owned()].into_iter().chain(channels).chain(["-@all".to_owned()]);
        let rules = rules.chain(called).chain(links.data.iter().map(|command| format!("+{command}")));
        let data = rules.fold("resetkeys".to_owned(), |all, rule| all + " " + &rule);
        Ok(Self { data, sentinel: links.sentinel.as_deref().map(of_a_sentinel) })
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sentinel {
            None => f.write_str(&self.data),
            Some(sentinel) => write!(f, "servers: {}\nsentinels: {sentinel}", self.data),
        }
    }
}

/// What is said there is heard on two channels, and no key is asked for.
fn of_a_sentinel(commands: &[&str]) -> String {
    let channels = "resetkeys resetchannels &+switch-master &+sentinel -@all".to_owned();
    commands.iter().fold(channels, |all, command| all + " +" + command)
}

/// The parts of a pattern that an access list takes, and that stays what it is with a brace around it.
fn checked(pattern: &str) -> Result<Vec<Part>> {
    let refused = |why: &str| Err(Error::invalid("pattern", format!("{why}, is {}", Shown(pattern))));
    if pattern.is_empty() {
        return refused("must not be empty: the keys of the locks with the prefix, such as app:*, or * for all");
    }
    if pattern.chars().any(|char| char.is_whitespace() || char.is_control()) {
        return refused("must have no spaces and no control characters: a ? stands for any one of them");
    }
    match glob::parts(pattern.as_bytes()) {
        Some(parts) => Ok(parts),
        None => refused("must not end within a [set] or with a lone \\"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_no_access_list_takes_is_refused_with_the_reason() {
        let rows = [
            ("", "empty"),
            ("a b", "spaces"),
            ("a\tb", "spaces"),
            ("a\u{a0}b", "spaces"),
            ("a\0", "control"),
            ("a\u{7f}", "control"),
            ("a\\", "lone"),
            ("a[b", "set"),
            ("a[b\\]", "set"),
        ];
        for (pattern, why) in rows {
            let Err(Error::Invalid { what: "pattern", why: said, .. }) = checked(pattern) else {
                panic!("{pattern:?}")
            };
            assert!(said.contains(why), "{pattern:?}: {said}");
        }
        for pattern in ["*", "app:*", "a\\*", "[^a-c]", "Schl\u{fc}ssel:?", "{app}:*"] {
            assert!(checked(pattern).is_ok(), "{pattern}");
        }
    }
}
