//! Renewals that names have decided on, until the driver comes for them.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::{HoldNumber, entry::Entry};
use crate::state::{Command, CommandId, Instant, Raises, Verb};

/// What names have decided to ask for, until the driver takes it.
pub(crate) struct Renewals {
    decided: Mutex<Vec<(Due, Leaves)>>,
    watchdog: Duration,
    /// There is something to take.
    pub(super) more: Notify,
}

/// A hold whose life is to be raised.
pub(super) struct Due {
    pub(super) entry: Arc<Entry>,
    pub(super) command: CommandId,
    pub(super) number: HoldNumber,
    pub(super) lease: Duration,
    /// It is over by then, unless something moves that meanwhile.
    pub(super) deadline: Instant,
    /// It was when the call left last.
    pub(super) wanted: AtomicBool,
}

/// When a renewal leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaves {
    /// The watchdog's: in line.
    InLine,
    /// The same, of one that failed before.
    InLineAgain,
    AtOnce(BatchVerb),
}

/// What a call of many names asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BatchVerb {
    /// Whether holds are there.
    Look,
    /// What a name repeats by itself.
    Renew { lease: Duration },
}

impl Renewals {
    pub(super) fn new(watchdog: Duration) -> Self {
        Self { decided: Mutex::default(), watchdog, more: Notify::new() }
    }

    /// For the driver to send. It may be asked for under an entry's mutex.
    pub(super) fn push(&self, entry: &Arc<Entry>, command: Command, raises: Raises) {
        let Verb::Renew { lease } = command.verb else { return };
        let (deadline, leaves) = match raises {
            Raises::Watched { deadline, again } if lease == self.watchdog => {
                (deadline, if again { Leaves::InLineAgain } else { Leaves::InLine })
            }
            Raises::Fixed { deadline, as_taken: true } => (deadline, Leaves::AtOnce(BatchVerb::Look)),
            Raises::Watched { deadline, .. } | Raises::Fixed { deadline, .. } => {
                (deadline, Leaves::AtOnce(BatchVerb::Renew { lease }))
            }
            // What somebody waits for leaves by itself.
            Raises::Longer { .. } => return,
        };
        let wanted = AtomicBool::new(true);
        let Command { id, number, .. } = command;
        let due = Due { entry: Arc::clone(entry), command: id, number, lease, deadline, wanted };
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        decided.push((due, leaves));
        let is_first = decided.len() == 1;
        drop(decided);
        if is_first {
            self.more.notify_one();
        }
    }

    /// `taken` is empty, and its room is used next.
    pub(super) fn take(&self, taken: &mut Vec<(Due, Leaves)>) {
        // What was said of these is done with. It comes first: of whatever comes from now on it is said anew.
        let _ = self.more.notified().now_or_never();
        std::mem::swap(&mut *self.decided.lock().unwrap_or_else(PoisonError::into_inner), taken);
    }
}

impl Due {
    /// For another call.
    pub(super) fn again(&self) -> Self {
        Self { entry: Arc::clone(&self.entry), wanted: AtomicBool::new(true), ..*self }
    }

    /// Where it stands in line.
    pub(super) fn place(&self) -> (Instant, HoldNumber) {
        (self.deadline, self.number)
    }
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewals").finish_non_exhaustive()
    }
}
