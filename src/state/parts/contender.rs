//! The one who tries at the server for this process: how far it has come. What it does next is decided in `attempt.rs`.

use super::{
    super::{
        deadline::{Instant, LeaseRequest, Span},
        effect::Failure,
        id::{CommandId, HoldNumber},
    },
    copies::Copies,
    queue::Waiting,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender<W> {
    pub(crate) who: Waiting<W>,
    pub(crate) number: HoldNumber,
    /// Of the acquires of this number.
    pub(crate) copies: Copies,
    /// By what the server said last, or did not say, the key may be ours.
    pub(crate) uncertain: bool,
    /// An earlier try may have got what the last one was granted.
    pub(crate) repeated: bool,
    /// A forced release saw this number: its grant is lost at once.
    pub(crate) forced: bool,
    pub(crate) stage: Stage,
    /// Answers in a row that came later than their own lease.
    pub(crate) late: u8,
    /// Somebody else had it, the last time that the server was heard.
    pub(crate) told_busy: bool,
    /// It waited for the turn of others, and not for a release of ours alone.
    pub(crate) let_others_first: bool,
    /// Rests in a row, after faults and after votes that nobody won.
    pub(crate) rests: u8,
    pub(crate) polls: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It may not try yet, since then.
    Gated {
        since: Instant,
        releases: Releases,
    },
    Trying(Try),
    /// The key is somebody else's.
    Sleeping {
        /// When the TTL is over that the server told.
        ttl: Instant,
        /// When it looks again if nothing would wake it.
        poll: Instant,
    },
    /// It waited, and may try if it is there: its caller was called then, and did not come yet.
    Called {
        since: Instant,
    },
    /// After a fault, or a vote that nobody won: nothing that is heard cuts it short.
    Resting {
        until: Instant,
        then: AfterRest,
    },
}

/// How far this process's releases of the name must have come before a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Releases {
    Sent,
    /// One of them may have been overtaken.
    Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AfterRest {
    TryAgain,
    /// Its wait is over by then: after a fault for want of an answer, after a vote for want of the key.
    GiveUp(WantOf),
}

/// What somebody lacks who gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WantOf {
    /// The key: somebody else has it.
    Key,
    /// An answer: the server says nothing.
    Answer,
}

/// An acquire on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Try {
    pub(crate) command: CommandId,
    pub(crate) request: LeaseRequest,
    /// A release of ours was not answered when it was decided.
    pub(crate) behind: bool,
    /// What it finds may be a lost hold of ours.
    pub(crate) finds_ours: bool,
    pub(crate) wants: Wants,
    pub(crate) place: TryPlace,
    /// So long its answer may take, by what was known of the way when it was decided.
    pub(crate) patience: Span,
}

/// Where a try stands until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TryPlace {
    /// Behind others of this client, of which there are enough under way: it asks nothing.
    Line,
    /// It leaves as soon as there is a link.
    Link,
}

/// What an acquire on its way is still waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wants {
    Answer,
    /// It was granted.
    Replicas,
}

/// Tries of one name that had no answer that counts. Kept from contender to contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trouble {
    /// Since the first of them was sent, or the server was heard last.
    pub(crate) since: Instant,
    pub(crate) failure: Failure,
    /// There was no answer at all, rather than one that says that the server cannot now.
    pub(crate) silent: bool,
}

impl Trouble {
    /// Whether it is still so where an answer was heard last at `heard`: a silence ends with any answer.
    pub(crate) fn lasts(&self, heard: Instant) -> bool {
        !self.silent || heard <= self.since
    }
}
