//! What a user of the servers must be allowed beside keys, channels and what scripts call. It asks nobody.

use super::Publish;

/// Commands, in the words of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// At the servers that have the locks.
    pub(crate) data: Vec<&'static str>,
    /// At the sentinels, where there are any.
    pub(crate) sentinel: Option<Vec<&'static str>>,
    /// Whether a key is asked for, when connecting, that no lock has.
    pub(crate) probes: bool,
}

impl Rights {
    /// What every link sends, where releases are told so.
    pub(crate) fn of_links(publish: Publish) -> Self {
        let tells = match publish {
            Publish::Classic => ["publish", "subscribe", "unsubscribe"],
            Publish::Sharded => ["spublish", "ssubscribe", "sunsubscribe"],
        };
        let data = ["eval", "evalsha"].into_iter().chain(tells).chain(["ping", "info", "type"]).collect();
        Self { data, sentinel: None, probes: false }
    }

    /// These too.
    pub(crate) fn and(mut self, more: impl IntoIterator<Item = &'static str>) -> Self {
        self.data.extend(more);
        self
    }
}
