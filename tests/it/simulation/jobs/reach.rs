//! Which nodes go by the schedule and reach the server: since when nothing has befallen them, by what was lost and what broke.

use std::{collections::HashMap, time::Duration};

use relatch::{
    Uuid,
    embedded::{Happening, Road, Traced},
};

use super::ledger::SETTLED;

/// After a fault this passes before a command counts: what was under way then may have been given up meanwhile.
const UNDER_WAY: Duration = Duration::from_millis(600);

#[derive(Debug, Default)]
pub(super) struct Reach {
    nodes: HashMap<Uuid, Node>,
    /// Commands may take as long as is waited for them, so that some are given up though nothing is lost.
    slow: bool,
}

#[derive(Debug, Default)]
struct Node {
    /// Until when something befell it, or does.
    hurt: Duration,
    /// When it asked for the job after that: it knows how the job stands, and makes no pause for a fault.
    asked: Option<Duration>,
}

impl Reach {
    /// A node goes by the schedule from now on.
    pub(super) fn follows(&mut self, client: Uuid, now: Duration) {
        self.nodes.insert(client, Node { hurt: now, asked: None });
    }

    /// It does so no more.
    pub(super) fn leaves(&mut self, client: Uuid) {
        self.nodes.remove(&client);
    }

    pub(super) fn all_leave(&mut self) {
        self.nodes.clear();
    }

    /// Something befalls a node until then.
    pub(super) fn is_hurt(&mut self, client: Uuid, until: Duration) {
        if let Some(node) = self.nodes.get_mut(&client) {
            (node.hurt, node.asked) = (node.hurt.max(until), None);
        }
    }

    /// The server is another one, or its clock is: what anybody knows of it is old.
    pub(super) fn all_are_hurt(&mut self, now: Duration) {
        for node in self.nodes.values_mut() {
            (node.hurt, node.asked) = (node.hurt.max(now), None);
        }
    }

    /// The way to the server is a slow one from now on, or is not.
    pub(super) fn is_slow(&mut self, slow: bool, now: Duration) {
        if slow || self.slow {
            self.all_are_hurt(now);
        }
        self.slow = slow;
    }

    pub(super) fn hears(&mut self, traced: &Traced) {
        match &traced.what {
            Happening::Ran(ran) if ran.script() == "lua/job/acquire.lua" && ran.road() == Road::Link => {
                let node = self.nodes.get_mut(&traced.client).filter(|node| node.hurt + UNDER_WAY <= traced.at);
                if let Some(node) = node {
                    node.asked.get_or_insert(traced.at);
                }
            }
            Happening::Lost { .. }
            | Happening::Unanswered
            | Happening::Missed { .. }
            | Happening::Broke { .. }
            | Happening::Replaced { .. }
            | Happening::Left => self.is_hurt(traced.client, traced.at),
            _ => {}
        }
    }

    /// Since when somebody who reaches the server must know when there is something to do.
    pub(super) fn since(&self, now: Duration) -> Option<Duration> {
        if self.slow {
            return None;
        }
        let since = |node: &Node| {
            // No pause after a fault is longer than that.
            let rested = Some(node.hurt + SETTLED).filter(|at| *at <= now);
            node.asked.or(rested)
        };
        self.nodes.values().filter_map(since).min()
    }
}
