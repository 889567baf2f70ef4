//! Nodes that are upgraded one by one under clients that decided when they connected how releases are told. It changes nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::nodes::Member;
use crate::backend::redis::node::Node;

/// From this version on nodes know sharded channels.
const SHARDED: u32 = 7;

/// Whether one of its version knows them; `None` where it did not say that.
pub(super) fn knows_sharded(node: &Node) -> Option<bool> {
    node.known.now().version.map(|version| version.major() >= SHARDED)
}

/// What is known of an upgrade.
#[derive(Debug, Default)]
pub(super) struct Upgrade {
    /// This client uses sharded channels, and it was not said yet that a node knows none.
    has: AtomicBool,
    /// This client would have used sharded channels, had all nodes known them.
    lacks: AtomicBool,
    /// Some node was of an older version.
    began: AtomicBool,
}

impl Upgrade {
    pub(super) fn lacks_sharded(&self) {
        self.lacks.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_sharded(&self) {
        self.has.store(true, Ordering::Relaxed);
    }

    /// One of them said which version it is of; whether one is older than it was taken for, which is told once. It gave no answer
    /// when this client connected, or came later.
    pub(super) fn falls_short(&self, members: &[Arc<Member>]) -> bool {
        let older = members.iter().find(|member| knows_sharded(&member.node) == Some(false));
        let Some(older) = older.filter(|_| self.has.swap(false, Ordering::Relaxed)) else { return false };
        tracing::warn!(
            server = %older.endpoint,
            "a node of the cluster is older than sharded channels, which this client uses since it was not told so when it \
             connected: clients that connect now hear nothing of its releases, which fail at that node; restart this client"
        );
        true
    }

    /// One of them said which version it is of; whether an upgrade is over in which this client was left behind.
    pub(super) fn ended(&self, members: &[Arc<Member>]) -> bool {
        let known: Vec<_> = members.iter().map(|member| knows_sharded(&member.node)).collect();
        if known.contains(&Some(false)) {
            self.began.store(true, Ordering::Relaxed);
        }
        let ended = self.lacks.load(Ordering::Relaxed)
            && known.iter().all(|known| *known == Some(true))
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
