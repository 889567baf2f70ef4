//! Old copies of acquires, over all names of a client: so many numbers are watched for. One more, and that is forgotten whose
//! watch ends first. What is done about one is decided by its name.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::entry::{Entry, State, Watch};
use crate::state::HoldNumber;

#[cfg(test)]
pub(super) use crate::state::WATCHED;

/// So many of all names of a client are watched for.
pub(super) const WATCHED_IN_ALL: usize = 4096;

/// All that are watched for, those whose watch ends first in front.
#[derive(Default)]
pub(super) struct Watched(Mutex<BTreeMap<Watch, Weak<Entry>>>);

/// There is no room for it any more.
pub(super) struct CrowdedOut {
    pub(super) entry: Weak<Entry>,
    pub(super) number: HoldNumber,
}

impl Watched {
    /// Makes the list say what this name watches for now, and tells who has to go for that. Under the entry's mutex.
    pub(super) fn follow(&self, state: &mut State, entry: &Arc<Entry>) -> Vec<CrowdedOut> {
        let watches_any = state.had_seldom().is_some_and(|seldom| !seldom.watches.is_empty());
        if !watches_any && state.name.old.is_empty() {
            return Vec::new();
        }
        let now: Vec<Watch> = state.name.old.watched().collect();
        let before = mem::take(&mut state.seldom().watches);
        let mut crowded_out = Vec::new();
        if before != now {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            before.iter().for_each(|watch| drop(all.remove(watch)));
            all.extend(now.iter().map(|watch| (*watch, Arc::downgrade(entry))));
            while all.len() > WATCHED_IN_ALL
                && let Some(((_, number), entry)) = all.pop_first()
            {
                crowded_out.push(CrowdedOut { entry, number });
            }
        }
        state.seldom().watches = now;
        crowded_out
    }
}
