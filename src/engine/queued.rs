//! Whether somebody of this client came to stand in a queue: circles are looked for only then.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody of a client has queued since it was looked at last.
#[derive(Debug, Default)]
pub(super) struct Queued(AtomicBool);

impl Queued {
    /// Most look, and few write.
    pub(super) fn note(&self) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
