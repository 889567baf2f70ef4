//! Rules that a build for tests can leave out one at a time, to see that the simulation misses each of them. In every
//! other build nothing is left out, and nothing of this is there at run time.

#[cfg(all(feature = "embedded", not(relatch_mutants)))]
use crate::script::Script;

/// A rule of the engine. What breaks without it is said in [`mutants::all`], which a build with `--cfg relatch_mutants`
/// has.
#[cfg_attr(relatch_mutants, derive(Clone, Copy, Debug, PartialEq, Eq))]
pub(crate) enum Rule {
    BegunWorkCounts,
    CoolDownEnds,
    BehindMissingIsLetGo,
    ConfirmationWakes,
    DeadlineFromSending,
    DeadlineHasMargin,
    DeadlineMovesWithAnswer,
    DroppedContenderHasSuccessor,
    ForcedIsReleased,
    FirstComeFirstServed,
    GivenUpIsLetGo,
    GoneIsLost,
    GrantOfOldServerIsAskedFor,
    GrowthFallsSlowly,
    HandOverNeedsAnswer,
    HandOverUndoneInOrder,
    LateAnswerEndsNumber,
    LossAtDeadline,
    LossOfPartEndsAll,
    LossOfPartIsTold,
    LostIsReleased,
    LostReleasedBeforeTry,
    MaxHoldEndsWithTicket,
    MessageWakes,
    NestedNeedsOuter,
    NewServerIsAsked,
    NoLifeAfterDeadline,
    NumberPerHold,
    OthersAreGivenMore,
    OldCopiesAreReaped,
    PartsInOneOrder,
    PassKeepsDeadline,
    PassReachesSomebody,
    PendingIsTicket,
    ReleaseBeforeTry,
    ReleaseIsRepeated,
    SliceEnds,
    SubscriptionEnds,
    TurnsAfterRestCount,
    UncertainIsReleased,
    WatchdogForAnyTicket,
    WatchedEndKeepsNote,
    WithdrawnStays,
}

/// Whether this rule is left out now.
#[cfg(not(relatch_mutants))]
pub(crate) const fn without(_: Rule) -> bool {
    false
}

/// The script as it is to run now.
#[cfg(all(feature = "embedded", not(relatch_mutants)))]
pub(crate) const fn as_it_runs(script: &'static Script) -> &'static Script {
    script
}

#[cfg(relatch_mutants)]
pub(crate) use mutants::{as_it_runs, without};

/// The faults that the simulation must find: a rule of the engine left out, or a line of a script changed.
#[cfg(relatch_mutants)]
pub mod mutants;
