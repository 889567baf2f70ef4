//! Nodes that are upgraded one by one under clients that decided when they connected how releases are told. It changes nothing.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use super::nodes::Member;
use crate::backend::redis::node::Node;

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

    /// One of them says which version it is of; whether that ended an upgrade in which this client was left behind.
    pub(super) fn hears(&self, members: &[Arc<Member>], node: &Node, version: Option<u32>) -> bool {
        let version = version.unwrap_or(0);
        let there = members.iter().filter(|member| std::ptr::eq(&*member.node, node));
        there.for_each(|member| member.version.store(version, Ordering::Relaxed));
        if (1..SHARDED).contains(&version) {
            self.began.store(true, Ordering::Relaxed);
        }
        let mut versions = members.iter().map(|member| member.version.load(Ordering::Relaxed));
        let ended = self.lacks.load(Ordering::Relaxed)
            && versions.all(|version| version >= SHARDED)
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
