//! A guard under which something is done that succeeds or fails, which is said with its release.

use std::sync::Arc;

use super::{guard::LockGuard, outcome::Released, tenure::Tenure};
use crate::error::{Error, Result};

/// The guard of whoever does the work. Dropped, the hold is released, whoever else still has a share of the guard.
#[derive(Debug)]
pub(crate) struct NotedGuard(Arc<LockGuard>);

impl NotedGuard {
    pub(crate) fn new(guard: LockGuard) -> Self {
        Self(Arc::new(guard))
    }

    /// For the work itself, to ask how long the hold lasts.
    pub(crate) fn share(&self) -> Arc<LockGuard> {
        Arc::clone(&self.0)
    }

    /// Does the work for as long as the hold lasts, and says how it ended. Work that was done by the time its end is noticed is
    /// done, though the hold may have run out meanwhile: whether it counts is the server's to say.
    ///
    /// From its first poll on it has failed, until [`NotedGuard::unlock_succeeded`] says otherwise.
    pub(crate) async fn work<W: Future>(&self, work: W) -> Result<W::Output> {
        let mut done = None;
        let all = async {
            self.tenures(Tenure::begins);
            done = Some(work.await);
        };
        let lasted = self.0.protect(all).await;
        match done {
            Some(output) => Ok(output),
            None => Err(lasted.err().unwrap_or_else(|| Error::NotHeld { name: self.0.name().into(), guards: 0 })),
        }
    }

    fn tenures(&self, notes: fn(&Tenure)) {
        if let Some(share) = self.0.only() {
            notes(&share.tenure);
        }
    }

    /// Releases the hold: what was done under it came to nothing.
    pub(crate) async fn unlock_failed(&self) -> Result<Released> {
        self.0.unlock().await
    }

    /// Releases the hold: what was done under it is done.
    pub(crate) async fn unlock_succeeded(&self) -> Result<Released> {
        self.tenures(Tenure::succeeds);
        self.0.unlock().await
    }
}

impl LockGuard {
    /// What was to be done under it was not begun.
    pub(crate) fn note_unbegun(&self) {
        if let Some(share) = self.only() {
            share.tenure.never_began();
        }
    }
}

impl Drop for NotedGuard {
    fn drop(&mut self) {
        if let Some(share) = self.0.only() {
            share.abandon();
        }
    }
}
