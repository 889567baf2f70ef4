//! Renewals that names have decided on, until the driver comes for them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::entry::Entry;
use crate::state::Command;

/// What names have decided to ask for, until the driver takes it.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    decided: Mutex<Vec<(Arc<Entry>, Command)>>,
    /// There is something to take.
    pub(super) more: Notify,
}

impl Renewals {
    /// For the driver to send: a [`Verb::Renew`](crate::state::Verb::Renew).
    pub(super) fn push(&self, entry: &Arc<Entry>, command: Command) {
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        decided.push((Arc::clone(entry), command));
        let is_first = decided.len() == 1;
        drop(decided);
        if is_first {
            self.more.notify_one();
        }
    }

    pub(super) fn take(&self) -> Vec<(Arc<Entry>, Command)> {
        std::mem::take(&mut *self.decided.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
