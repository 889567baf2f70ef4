//! What a user of the servers must be allowed beside keys, channels and what scripts call. It asks nobody.

use super::{Deletes, Publish};

/// Commands, in the words of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    /// At the servers that have the locks.
    pub(crate) data: Vec<&'static str>,
    /// At the sentinels, where there are any.
    pub(crate) sentinel: Option<Vec<&'static str>>,
    /// Whether a key is asked for, when connecting, that no lock has.
    pub(crate) probes: bool,
    /// How, where they run no scripts, they delete a key while it has a value.
    pub(crate) deletes: Option<Deletes>,
}

impl Rights {
    /// What every link sends, where releases are told so.
    pub(crate) fn of_links(publish: Publish) -> Self {
        let tells = match publish {
            Publish::Classic => ["publish", "subscribe", "unsubscribe"],
            Publish::Sharded => ["spublish", "ssubscribe", "sunsubscribe"],
        };
        let data = ["eval", "evalsha"].into_iter().chain(tells).chain(["ping", "info", "type"]).collect();
        Self { data, sentinel: None, probes: false, deletes: None }
    }

    /// Of servers that do without scripts by this command; that they have it was asked.
    pub(crate) fn without_scripts(mut self, deletes: Deletes) -> Self {
        self.data.retain(|right| !right.starts_with("eval"));
        Self { deletes: Some(deletes), ..self.and(["command|info"]) }
    }

    /// These too.
    pub(crate) fn and(mut self, more: impl IntoIterator<Item = &'static str>) -> Self {
        self.data.extend(more);
        self
    }
}
