//! What is said once a client, however many servers it has, and however often it happens at them.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether each of it was said.
#[derive(Debug, Default)]
pub(super) struct SaidOnce {
    info_is_denied: AtomicBool,
    channel_is_denied: AtomicBool,
    drops_locks: AtomicBool,
}

impl SaidOnce {
    /// A server denies the question for what it is. Whether that is news.
    pub(super) fn info_is_denied(&self) -> bool {
        is_first(&self.info_is_denied)
    }

    /// A server denies a right to a channel. Whether that is news.
    pub(super) fn channel_is_denied(&self) -> bool {
        is_first(&self.channel_is_denied)
    }

    /// A server drops locks when its memory is full. Whether that is news.
    pub(super) fn drops_locks(&self) -> bool {
        is_first(&self.drops_locks)
    }
}

fn is_first(said: &AtomicBool) -> bool {
    !said.swap(true, Ordering::Relaxed)
}
