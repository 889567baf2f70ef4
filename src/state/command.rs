//! What is sent to the server for a name, and what comes back.

use std::time::Duration;

use super::{
    deadline::Instant,
    id::{CommandId, HoldNumber},
};

/// One step of a sending. A sending may carry many, of this name and of others: each is asked for and answered by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Command {
    pub(crate) id: CommandId,
    /// The hold that it is for.
    pub(crate) number: HoldNumber,
    pub(crate) verb: Verb,
}

/// What is asked of the server. Counts are set, never counted: each says what shall be afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    /// A hold that counts `holds` afterwards.
    Acquire { lease: Duration, holds: u32 },
    /// Let go until `holds` remain. `note` says what was done under a hold that ends.
    Release { holds: u32, note: Note },
    /// Move the hold to another number without freeing the key.
    HandOver { to: HoldNumber, lease: Duration },
    /// Raise the TTL to the lease, if the hold is there.
    Renew { lease: Duration },
    /// Free the key if this hold has it, whoever's it is.
    Force,
}

/// What a [`Verb::Renew`] is for, and until when its hold is believed in as things are where it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Raises {
    /// A longer lease that somebody asked for, since then: one whose answer did not count is asked for within the time of the first.
    Longer { since: Instant },
    /// The watchdog's lease; `again`: the one before it had no answer.
    Watched { deadline: Instant, again: bool },
    /// What is left of fixed leases. `as_taken`: whatever server knows of the hold knows all of its lease, and it need only be
    /// looked for.
    Fixed { deadline: Instant, as_taken: bool },
}

/// What is said of a hold with its release, where that makes a difference to its primitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Note {
    /// Nothing was done under it.
    #[default]
    Unused,
    /// What was done under it, under this fencing token, came to nothing.
    Failure(u64),
    /// It was done.
    Success(u64),
}

/// What the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// To an acquire: ours, so many times, under this fencing token if the primitive has one.
    Granted { holds: u32, fence: Option<u64> },
    /// To an acquire: somebody else's, for so long unless it is renewed. `None` where the key has no TTL.
    Busy { retry_in: Option<Duration> },
    /// To a fresh acquire: a vote that found no majority. What it got has to be released, and its number is not asked for again.
    /// `retry_in`: when a majority may be free, as far as that was said.
    Split { retry_in: Option<Duration>, kept_by: KeptBy },
    /// To an acquire: nobody has it, and nobody is to have it for now.
    Settled,
    /// To a release: so many remain. At zero the key is free.
    Released { holds: u32, published: Published },
    /// To a hand-over: the new number has it. Where its lease ends sooner than the old one those who wait were told.
    Moved { published: Published, fence: Option<u64> },
    /// To a renewal or a forced release.
    Done { published: Published },
    /// The hold that the command names is not there.
    Gone,
    /// The same, and nobody else has the key either. Only primitives answer so for which such a hold counts as released.
    Expired,
}

/// Who else has votes where one found no majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KeptBy {
    /// Somebody who may have a majority: nothing was granted.
    Holder,
    /// Others who got votes, as we did.
    Contenders,
}

/// What became of the message to those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Published {
    /// There was none: there was nothing to tell, or the server would not let us publish.
    No,
    /// It reached so many listeners, our own among them.
    To(u32),
    /// It was sent, and nobody knows how many heard it.
    Uncounted,
}

/// There is no answer, or none that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// It may have been run, or may be run yet.
    pub(crate) may_have_run: bool,
}

impl Fault {
    /// What the runtime answers to a step that was not wanted any more when it could have left.
    pub(crate) const WITHDRAWN: Self = Self { kind: FaultKind::Withdrawn, may_have_run: false };

    /// The same to one that left and whose answer it does not wait for any longer.
    pub(crate) const LOST: Self = Self { kind: FaultKind::Silent, may_have_run: true };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FaultKind {
    /// No answer in time, or the link ended.
    Silent,
    /// It was not wanted any more when it could have left.
    Withdrawn,
    /// An error of the server that passes.
    Passing,
    /// An error that stays.
    Refused,
    /// The server has no room for what it is asked for.
    Full,
    /// To an acquire: it was granted and answered, and fewer replicas know of that than were asked for.
    TooFewReplicas,
}

impl FaultKind {
    /// Whether trying again may help.
    pub(crate) fn heals(self) -> bool {
        !matches!(self, Self::Refused | Self::Full)
    }
}
