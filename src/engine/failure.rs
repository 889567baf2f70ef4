//! Why something could not be done, as the caller is told it: what the name decided, in the words of what befell it last.

use super::entry_ref::EntryRef;
use crate::{
    backend::{Fault, FaultKind},
    error::{Error, Op},
    lease::Lease,
    name::Shown,
    state::Failure,
};

const NO_ANSWER: &str = "no answer before the wait was over";
const NO_LINK: &str = "there was no link to the server until the wait was over";

/// An acquisition's answers came later than its own lease.
pub(super) fn answered_late(lease: Lease, place: &EntryRef) -> Error {
    let settings = place.engine.settings();
    let lease = if let Lease::Fixed(lease) = lease { lease } else { settings.watchdog_timeout };
    let why = place.distance().of_late_answers(lease, settings.replicas);
    Error::from_fault(Fault::of(FaultKind::Timeout, true, why), place.name(), Op::Acquire)
}

pub(super) fn error_of(failure: Failure, fault: Option<Box<Fault>>, place: &EntryRef, op: Op) -> Error {
    let name = place.name();
    match failure {
        Failure::Closed => Error::Closed,
        Failure::AskedTwice => Error::invalid(
            "owner",
            format!(
                "this owner is already acquiring lock {}: branches of one task are one owner; use client.mutex(name), wrap \
                 each branch in Owner::new().scope(..), or give each acquisition an .owner(..)",
                Shown(name)
            ),
        ),
        Failure::BeyondBound => {
            Error::invalid("lease", "it would reach beyond the max_hold of this hold").for_lock(name)
        }
        Failure::Unreachable { may_have_run } => {
            let fault = fault.filter(|fault| fault.heals()).map(|fault| Fault { may_have_run, ..*fault });
            let why = if may_have_run { NO_ANSWER } else { NO_LINK };
            let fault = fault.unwrap_or_else(|| Fault::timeout(may_have_run, why));
            Error::from_fault(fault, name, op)
        }
        Failure::AnsweredLate => Error::from_fault(Fault::timeout(true, NO_ANSWER), name, op),
        Failure::Refused | Failure::Unexpected | Failure::TooFewReplicas => {
            let fault = fault.map(|fault| *fault);
            Error::from_fault(fault.unwrap_or_else(|| Fault::unexpected("the server", &"no words")), name, op)
        }
    }
}
