//! The fake server as the engine's line: one place for most names, and another one.

use std::sync::Arc;

use tokio::{sync::watch, time::Instant};

use super::fake::World;
use crate::backend::{Line, Listener, RoundTrip, Subscription};

/// Names that begin with this are at another place.
const ELSEWHERE: &str = "elsewhere";

pub(super) fn is_elsewhere(key: &str) -> bool {
    key.starts_with(ELSEWHERE)
}

impl Line for World {
    fn subscribe(&self, _: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        let id = self.server(|server| server.subscribe(channel, listener));
        let world = self.this.clone();
        Subscription::new(move || {
            if let Some(world) = world.upgrade() {
                world.server(|server| server.unsubscribe(id));
            }
        })
    }

    fn link(&self, _: &str) -> u64 {
        self.inside().link
    }

    fn last_answer(&self, key: &str) -> Instant {
        self.inside().last_answer[usize::from(is_elsewhere(key))]
    }

    fn round_trip(&self, _: &str) -> Option<RoundTrip> {
        self.inside().round_trip
    }

    fn place(&self, key: &str) -> u32 {
        u32::from(is_elsewhere(key))
    }

    fn era(&self, key: &str) -> u64 {
        let latest = *self.eras.borrow();
        let missed = !is_elsewhere(key) && self.inside().elsewhere == Some(latest);
        latest - u64::from(missed)
    }

    fn eras(&self) -> watch::Receiver<u64> {
        self.eras.subscribe()
    }

    fn close(&self) {
        self.inside().closed = true;
    }
}
