//! What a call to the fake server is, and what may become of it. It is carried out in `fake.rs`.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::copies::Copies;
use crate::backend::{Befell, Fault, FaultKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Acquire,
    Release,
    HandOver,
    Renew,
    Inspect,
    ForceRelease,
}

/// One call, as it left.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) verb: Verb,
    pub(super) keys: Vec<Arc<str>>,
    /// A hand-over has two, from and to; a renewal as many as there are holds.
    pub(super) numbers: Vec<u64>,
    /// Asked for by an acquire, left by a release.
    pub(super) holds: u32,
    pub(super) lease: Duration,
    pub(super) at: Instant,
}

/// What becomes of a call. "Runs" is said of the script, whether or not somebody still waits for the answer.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// Runs when it is sent, and is answered at the next poll.
    Prompt,
    /// Runs when it is sent, and is answered so much later.
    Slow(Duration),
    /// Runs so much later, and is answered then.
    Delayed(Duration),
    /// Runs when it is sent; the answer waits at the gate.
    Held(Gate),
    /// Runs when it is sent and once more so much `later`; the answer is `under_way` from then on: a lower layer sent it
    /// again.
    Twice { later: Duration, under_way: Duration },
    /// Runs when it is sent, and is never answered.
    Lost,
    /// Its link is over; it runs so much later, and is never answered.
    Late(Duration),
    /// Never runs, and is never answered.
    Never,
    /// The server, or the network, says no at once.
    Refused(FaultKind),
    /// There is no link for it, though there is one for everything else.
    Unopened,
    /// Runs, and then its link breaks.
    Broken,
    /// The server loses the key, then it runs, and is answered at the next poll.
    Gone,
    /// Another process has the key for so long, then it runs, and is answered at the next poll.
    Taken(Duration),
    /// These old copies run, then it does, and is answered at the next poll.
    Behind(Copies),
    /// Runs, and is answered at the next poll; a copy of it is kept, to run when the test says so.
    Doubled(Copies),
    /// Kept, to run when the test says so, since its link breaks before the server has it.
    Withheld(Copies),
}

/// Holds answers back until it is opened.
#[derive(Clone, Debug)]
pub(super) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn passed(&self) {
        // The sender is ours, so it outlives the wait.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

pub(super) fn fault(kind: FaultKind) -> Fault {
    Fault { kind, ..Fault::timeout(false, "the test wants it") }
}

/// No link to it was opened, beside one that there is.
pub(super) fn unopened() -> Fault {
    Fault { befell: Befell::OpeningApart, ..fault(FaultKind::Dropped) }
}

/// The link broke after the command was sent.
pub(super) fn broken() -> Fault {
    Fault { may_have_run: true, ..fault(FaultKind::Dropped) }
}
