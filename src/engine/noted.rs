//! A guard under which something is done that succeeds or fails, which is said with its release.

use std::sync::Arc;

use super::{entry::Event, guard::LockGuard, outcome::Released};
use crate::{
    error::{Error, Result},
    state::Note,
};

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
            self.0.note(Note::Failure);
            done = Some(work.await);
        };
        let lasted = self.0.protect(all).await;
        match done {
            Some(output) => Ok(output),
            None => Err(lasted.err().unwrap_or_else(|| Error::NotHeld { name: self.0.name().into(), guards: 0 })),
        }
    }

    /// Releases the hold: what was done under it came to nothing.
    pub(crate) async fn unlock_failed(&self) -> Result<Released> {
        self.0.unlock().await
    }

    /// Releases the hold: what was done under it is done.
    pub(crate) async fn unlock_succeeded(&self) -> Result<Released> {
        self.0.note(Note::Success);
        self.0.unlock().await
    }
}

impl LockGuard {
    /// What was to be done under it was not begun.
    pub(crate) fn note_unbegun(&self) {
        if let Some(share) = self.only() {
            share.place.change(|name, env, effects| {
                if !matches!(name.note_of(share.id), Some(Note::Success(_))) {
                    name.on(Event::Noted { id: share.id, note: Note::Unused }, env, effects);
                }
            });
        }
    }

    /// What is said of it with its release.
    fn note(&self, note: impl Fn(u64) -> Note) {
        if let Some(share) = self.only() {
            let note = note(share.tenure.fence().unwrap_or(0));
            share.place.on(Event::Noted { id: share.id, note });
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
