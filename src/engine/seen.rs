//! What forced releases have seen, until it leaves: the holds that they free.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{HoldNumber, Sight};

/// What forced releases of this client's own holds saw, for as long as they are on their way.
#[derive(Default)]
pub(super) struct Seen(Mutex<Vec<(HoldNumber, Arc<Sight>)>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Vec<(HoldNumber, Arc<Sight>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, number: HoldNumber, sight: &Arc<Sight>) {
        self.lock().push((number, Arc::clone(sight)));
    }

    /// What was seen of this hold, once for each that saw it.
    pub(super) fn take(&self, number: HoldNumber) -> Option<Arc<Sight>> {
        let mut seen = self.lock();
        let at = seen.iter().position(|(its, _)| *its == number)?;
        Some(seen.swap_remove(at).1)
    }
}
