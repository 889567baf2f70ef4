//! Which rights our links need, as far as that is not the same everywhere: it depends on what a server knows. It asks nobody.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use redis::Value;

use super::{codec, options::Clients};

/// The version of a server, as far as it matters: the two numbers that stand first in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32);

impl Version {
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// Its first part.
    pub(super) fn major(self) -> u32 {
        self.0
    }

    /// Of a server that was greeted.
    pub(super) fn of(greeting: &Value) -> Option<Self> {
        let mut told = codec::pairs(greeting).filter(|(what, _)| codec::text(what) == Some("version"));
        Self::read(codec::text(told.next()?.1)?)
    }

    /// Whether an access list may have the subcommand by which the driver names itself: it is known from 7.2 on, and 7.0 refuses
    /// a list with a word that it does not know. Older ones take any.
    fn takes_setinfo(self) -> bool {
        self < Self(7, 0) || self >= Self(7, 2)
    }
}

/// By which a link says whose it is, to servers of these versions. One that did not say its version may know anything.
pub(super) fn of_names(clients: &Clients, versions: &[Option<Version>]) -> Vec<&'static str> {
    let known = !versions.is_empty() && versions.iter().all(|version| version.is_some_and(Version::takes_setinfo));
    match (clients.name.is_some(), known) {
        (false, _) => vec![],
        (true, false) => vec!["client|setname"],
        (true, true) => vec!["client|setname", "client|setinfo"],
    }
}

/// What a link of these sends before all else, where its database is not the first.
pub(super) fn of_database(clients: &Clients) -> Option<&'static str> {
    let database = clients.resp2.get_connection_info().redis_settings().db();
    (database != 0).then_some("select")
}

/// What a user of sentinels of these versions needs.
pub(super) fn of_sentinels(clients: &Clients, versions: &[Option<Version>]) -> Vec<&'static str> {
    let asked = ["sentinel|master", "sentinel|get-master-addr-by-name", "sentinel|sentinels", "sentinel|myid"];
    asked.into_iter().chain(["subscribe"]).chain(of_names(clients, versions)).collect()
}

/// The versions of all servers of a kind, each by its address.
#[derive(Default)]
pub(super) struct Versions(Mutex<HashMap<String, Option<Version>>>);

impl Versions {
    pub(super) fn note(&self, at: String, version: Option<Version>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(at, version);
    }

    pub(super) fn forget(&self, at: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(at);
    }

    pub(super) fn all(&self) -> Vec<Option<Version>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::{address::Target, options::Options, testing::options};

    #[test]
    fn a_version_is_read_where_a_server_says_it() {
        for (text, version) in [
            ("7.0.15", Some(Version(7, 0))),
            ("6.2.14", Some(Version(6, 2))),
            ("9.1.2", Some(Version(9, 1))),
            ("255.255.255", Some(Version(255, 255))),
            ("7", None),
            ("", None),
            ("s3cret", None),
        ] {
            assert_eq!(Version::read(text), version, "{text}");
        }
        let greeting = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n8.2.3\r\n";
        assert_eq!(Version::of(&redis::parse_redis_value(greeting).unwrap()), Some(Version(8, 2)));
        assert_eq!(Version::of(&redis::parse_redis_value(b"-ERR unknown command\r\n").unwrap()), None);
    }

    #[test]
    fn a_word_that_any_of_the_servers_would_refuse_is_left_out() {
        let target = Target::parse("redis://h").unwrap();
        let clients = target.clients(Options { name: "relatch:x", ..options(3000) }).unwrap();
        let takes = |versions: &[Option<Version>]| of_names(&clients, versions).contains(&"client|setinfo");
        let [old, middle, new] = [Some(Version(6, 2)), Some(Version(7, 0)), Some(Version(7, 2))];
        assert!(takes(&[old]) && takes(&[new]) && takes(&[old, new]));
        assert!(!takes(&[middle]) && !takes(&[middle, new]) && !takes(&[new, None]) && !takes(&[]));
        let quiet = target.clients(options(3000)).unwrap();
        assert_eq!(of_names(&quiet, &[new]), Vec::<&str>::new());
    }
}
