//! What is to be done after an event: in this order, and outside of every lock but one that keeps the order of a name.

use std::time::Duration;

use super::{
    command::{Command, Fault, FaultKind, Raises},
    deadline::Instant,
    id::{CommandId, HoldNumber, Id},
};

/// What the guards of one owner share, made of whoever waited for the hold.
pub(crate) trait Share<W>: Clone {
    fn of(waiter: &W) -> Self;
}

/// What an event leaves to do. `W` is whoever waits for an answer, `S` what the guards of one owner share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect<W, S> {
    /// Ask [`Name::leaves`](super::name::Name::leaves) at the moment of sending. Commands of a name go out in order; several
    /// that follow one another may go in one sending.
    Send(Command),
    /// The same of a [`Verb::Renew`](super::command::Verb::Renew), and what it is for.
    Renew(Command, Raises),
    /// Nobody waits for its answer any more: if it has not left, it shall not.
    Withdraw(CommandId),
    /// One who waits is told. A grant that cannot be told comes back as `Event::Dropped`.
    Tell(W, Told<S>),
    /// It is the turn of one who waits to try: it says `Event::Here` once it is polled. What guards would share is told
    /// [`Told::Called`].
    Call(Id, S),
    /// It did not come for its turn to try.
    Missed(S),
    /// The hold is over for its owner: wake whoever watches what the guards share.
    Ended(S, End),
    /// Subscribe to the name's channel.
    Listen,
    /// Nobody waits any more: let the subscription go.
    Unlisten,
    /// A `Tick` then, unless a sooner one was asked for.
    WakeAt(Instant),
    /// For the log and for counts.
    Log(LogEvent),
}

/// What one who waits is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told<S> {
    /// The ticket has the id of the ask. [`Name::take`](super::name::Name::take) it: until then it is not renewed.
    Granted {
        id: Id,
        share: S,
        fence: Option<u64>,
    },
    /// It is its turn to try, if it is there.
    Called,
    /// Somebody did not come for its turn, and whoever is there goes first: ask again.
    PassedOver,
    /// Somebody else has it, and the wait is over.
    Busy,
    /// Nobody has it, and nobody is to have it for now.
    Settled,
    Failed(Failure),
    /// The hold is over: the key is free, or somebody else of this process has it.
    Freed,
    /// It had run out before, and nobody else has the key.
    AlreadyExpired,
    /// The owner still has it so many times.
    StillHeld(u32),
    Lost(Cause),
    NotHeld,
    /// The hold lasts as long as was asked for.
    Extended,
    /// A forced release was answered: whether it freed something.
    Forced(bool),
}

/// Why something could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Failure {
    Closed,
    /// The owner already asks for this name.
    AskedTwice,
    /// The extension would reach beyond the `max_hold` of the hold.
    BeyondBound,
    /// Every answer came later than the lease that it was for.
    AnsweredLate,
    Unreachable {
        may_have_run: bool,
    },
    Refused,
    /// It was granted, and fewer replicas know of that than were asked for.
    TooFewReplicas,
    /// An answer that no script of ours gives.
    Unexpected,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Refused | FaultKind::Full => Self::Refused,
            FaultKind::TooFewReplicas => Self::TooFewReplicas,
            FaultKind::Silent | FaultKind::Withdrawn | FaultKind::Passing => {
                Self::Unreachable { may_have_run: fault.may_have_run }
            }
        }
    }
}

/// How a hold ended for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// By the will of its owner.
    Over,
    Lost(Cause),
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// Its deadline was over.
    Expired,
    /// The server said that it is not there.
    Gone,
    /// A forced release of this process.
    Forced,
    MaxHold,
    Closed,
}

/// How much of what happens somebody hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    Warnings,
    Details,
}

impl LogEvent {
    /// Who hears of it.
    pub(crate) fn is_for(self) -> Log {
        match self {
            Self::Contended(_)
            | Self::Granted(_)
            | Self::Nested(_)
            | Self::Passed(_)
            | Self::HandedOver(_)
            | Self::Renewed
            | Self::Ended { end: End::Over, .. }
            | Self::RanOut { .. }
            | Self::TooLate => Log::Details,
            Self::Ended { .. } | Self::Untaken | Self::OutOfOrder | Self::GaveUpRelease(_) | Self::ReapedOldCopy(_) => {
                Log::Warnings
            }
        }
    }
}

/// What is worth a line in a log, or a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LogEvent {
    /// Somebody else has the name; said once an acquisition.
    Contended(Id),
    /// From the free key.
    Granted(Id),
    Nested(Id),
    /// From another owner of this process, without a command.
    Passed(Id),
    /// The same by a command.
    HandedOver(Id),
    Renewed,
    /// An owner had a hold for so long.
    Ended {
        end: End,
        held: Duration,
    },
    /// The same, of one that nobody has at hand and that was to end with its lease.
    RanOut {
        held: Duration,
    },
    /// It was given to an owner that did not come for it.
    Untaken,
    /// An owner tried for it, and came later than its lease lasts: it tries anew.
    TooLate,
    /// An outer guard was released before an inner one.
    OutOfOrder,
    /// A release had no answer that counts until nothing of its lease was left; last there was this.
    GaveUpRelease(Fault),
    /// An old copy of an acquire had made a hold that nobody believed in.
    ReapedOldCopy(HoldNumber),
}
