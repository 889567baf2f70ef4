//! Which names keys have: those of a pattern, and what they may be. It asks nobody.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    glob, keys,
    name::Shown,
};

/// The names that are looked for.
pub(super) struct Names {
    prefix: Arc<str>,
    pattern: Vec<u8>,
}

/// A key that may be of a name that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: String,
    /// Its name, if it is the key of a lock.
    pub(super) lock: Option<Arc<str>>,
    /// Its name and what a lock of that name would have, if it is the record of a job.
    pub(super) job: Option<(Arc<str>, String)>,
}

impl Names {
    /// Those of this pattern, behind this prefix.
    pub(super) fn of(prefix: &str, pattern: &str) -> Result<Self> {
        let refused = |why: &str| Err(Error::invalid("pattern", format!("{why}, is {}", Shown(pattern))));
        if pattern.is_empty() {
            return refused("must not be empty: names such as orders:*, or * for all");
        }
        if glob::parts(pattern.as_bytes()).is_none() {
            return refused("must not end within a [set] or with a lone \\");
        }
        Ok(Self { prefix: prefix.into(), pattern: pattern.into() })
    }

    /// A pattern of keys that all of them are of, and maybe others: what jobs have stands around the names.
    pub(super) fn of_keys(&self) -> Vec<u8> {
        [b"*", glob::escaped(&self.prefix).as_bytes(), &self.pattern, b"*"].concat()
    }

    /// What this key may be; nothing where it is none of theirs. Names are text, so a key that is none is nobody's.
    pub(super) fn candidate(&self, key: Vec<u8>) -> Option<Candidate> {
        let key = String::from_utf8(key).ok()?;
        let lock = self.name(&key).map(Arc::from);
        let job = keys::of_job_record(&key).find_map(|of| Some((Arc::from(self.name(of)?), of.to_owned())));
        (lock.is_some() || job.is_some()).then_some(Candidate { key, lock, job })
    }

    fn name<'a>(&self, key: &'a str) -> Option<&'a str> {
        let name = key.strip_prefix(&*self.prefix).filter(|name| !name.is_empty())?;
        glob::matches(&self.pattern, name.as_bytes()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(prefix: &str, pattern: &str, key: &str) -> Option<(Option<String>, Option<String>)> {
        let names = Names::of(prefix, pattern).unwrap();
        // What a server would not even tell of.
        assert!(glob::matches(&names.of_keys(), key.as_bytes()) || names.candidate(key.into()).is_none(), "{key}");
        let Candidate { lock, job, .. } = names.candidate(key.into())?;
        Some((lock.map(|it| it.to_string()), job.map(|(it, _)| it.to_string())))
    }

    #[test]
    fn a_key_is_that_of_a_lock_or_of_a_job_behind_the_prefix() {
        let lock = |name: &str| Some((Some(name.to_owned()), None));
        let job = |name: &str| Some((None, Some(name.to_owned())));
        for (prefix, pattern, key, expected) in [
            ("", "a*", "abc", lock("abc")),
            ("", "a*", "bac", None),
            ("", "a*", "relatch_job:{abc}", job("abc")),
            ("", "a*", "relatch_job:a{b}c", job("a{b}c")),
            ("", "a*", "relatch_job:abc", None),
            ("", "[{]*", "relatch_job:{a}", job("{a}")),
            ("", "*", "relatch_job:{a}", Some((Some("relatch_job:{a}".into()), Some("a".into())))),
            ("app:", "*", "app:x", lock("x")),
            ("app:", "*", "app:", None),
            ("app:", "*", "x", None),
            ("app:", "*", "relatch_job:{app:x}", job("x")),
            ("app:", "*", "relatch_job:{x}", None),
            ("a*p:", "*", "abp:x", None),
            ("a*p:", "*", "a*p:x", lock("x")),
            ("two words:", "x", "two words:x", lock("x")),
            ("", r"\*", "*", lock("*")),
            ("", r"\*", "a", None),
            ("", "?", "\u{e9}", None),
        ] {
            assert_eq!(candidate(prefix, pattern, key), expected, "{prefix} {pattern} {key}");
        }
        assert!(Names::of("", "*").unwrap().candidate(b"\xff".to_vec()).is_none());
    }

    #[test]
    fn a_pattern_that_means_nothing_is_refused() {
        for (pattern, why) in [("", "empty"), ("a[b", "set"), ("a\\", "lone")] {
            let Err(Error::Invalid { what: "pattern", why: said, .. }) = Names::of("", pattern) else {
                panic!("{pattern}")
            };
            assert!(said.contains(why), "{said}");
        }
    }
}
