//! What a primitive's answers mean to a name.

use super::protocol::{Attempt, Forced, Letting, Moved, Renewal};
use crate::{
    backend::{Fault, FaultKind},
    error::LostCause,
    state::{self, Answer, Cause, Published},
};

pub(super) fn answer_of_attempt(attempt: Attempt) -> Answer {
    match attempt {
        Attempt::Granted { holds, fence } => Answer::Granted { holds, fence },
        Attempt::Busy { retry_in } => Answer::Busy { retry_in },
        Attempt::Split { retry_in, kept_by } => Answer::Split { retry_in, kept_by },
        Attempt::Gone => Answer::Gone,
        Attempt::Settled => Answer::Settled,
    }
}

pub(super) fn answer_of_release(letting: Letting) -> Answer {
    match letting {
        Letting::Done { holds, published } => Answer::Released { holds, published },
        Letting::NotHeld => Answer::Gone,
        Letting::Expired => Answer::Expired,
    }
}

pub(super) fn answer_of_moved(moved: Moved) -> Answer {
    match moved {
        Moved::Done { published, fence } => Answer::Moved { published, fence },
        Moved::Gone => Answer::Gone,
        Moved::Expired => Answer::Expired,
    }
}

pub(super) fn answer_of_renewal(renewal: Renewal) -> Answer {
    match renewal {
        Renewal::Renewed => Answer::Done { published: Published::No },
        Renewal::Gone => Answer::Gone,
    }
}

pub(super) fn answer_of_force(forced: Forced) -> Answer {
    match forced {
        Forced::Done { published } => Answer::Done { published },
        Forced::Gone => Answer::Gone,
    }
}

pub(super) fn fault_of(fault: &Fault) -> state::Fault {
    let kind = match fault.kind {
        FaultKind::Withdrawn => state::FaultKind::Withdrawn,
        FaultKind::TooFewReplicas => state::FaultKind::TooFewReplicas,
        _ if fault.is_silence() => state::FaultKind::Silent,
        _ if fault.heals() => state::FaultKind::Passing,
        FaultKind::OutOfMemory => state::FaultKind::Full,
        _ => state::FaultKind::Refused,
    };
    state::Fault { kind, may_have_run: fault.may_have_run }
}

impl From<Cause> for LostCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Expired => Self::Expired,
            Cause::Gone => Self::Gone,
            Cause::Forced => Self::Forced,
            Cause::MaxHold => Self::MaxHold,
            Cause::Closed => Self::Closed,
        }
    }
}

impl From<state::End> for super::ended::End {
    fn from(end: state::End) -> Self {
        match end {
            state::End::Over => Self::Over,
            state::End::Lost(cause) => {
                Self::Lost(super::ended::Loss { cause: cause.into(), since: std::time::Instant::now() })
            }
        }
    }
}
