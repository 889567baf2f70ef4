//! Nodes that are upgraded one by one under clients that decided when they connected how releases are told. It changes nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::nodes::Member;
use crate::backend::redis::rights::Version;

/// From this version on nodes know sharded channels.
const SHARDED: u32 = 7;

/// What is known of an upgrade.
#[derive(Debug, Default)]
pub(super) struct Upgrade {
    /// This client would have used sharded channels, had all nodes known them.
    lacks: AtomicBool,
    /// Some node was of an older version.
    began: AtomicBool,
}

impl Upgrade {
    pub(super) fn lacks_sharded(&self) {
        self.lacks.store(true, Ordering::Relaxed);
    }

    /// One of them said which version it is of; whether an upgrade is over in which this client was left behind.
    pub(super) fn ended(&self, members: &[Arc<Member>]) -> bool {
        let major = |member: &Arc<Member>| member.node.known.now().version.map(Version::major);
        let versions: Vec<_> = members.iter().map(major).collect();
        if versions.iter().flatten().any(|version| *version < SHARDED) {
            self.began.store(true, Ordering::Relaxed);
        }
        let ended = self.lacks.load(Ordering::Relaxed)
            && versions.iter().all(|version| version.is_some_and(|version| version >= SHARDED))
            && self.began.swap(false, Ordering::Relaxed);
        if ended {
            tracing::warn!(
                "all nodes of the cluster know sharded channels by now: clients that connect from now on use them, and hear \
                 nothing from those that connected before, such as this one, which should be restarted"
            );
        }
        ended
    }
}
