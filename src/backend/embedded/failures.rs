//! Why a command fails: what its caller is answered in place of a reply.

use crate::backend::{Fault, FaultKind};

/// The client was closed.
pub(super) fn closed(may_have_run: bool) -> Fault {
    Fault::of(FaultKind::Closed, may_have_run, "the client was closed")
}

/// Its slot is elsewhere by now.
pub(super) fn moved() -> Fault {
    Fault::of(FaultKind::Unready, false, "its slot has moved")
}

/// The link went away under a command.
pub(super) fn dropped() -> Fault {
    Fault::of(FaultKind::Dropped, true, "the link was dropped")
}

/// The link was given up because nothing came over it any more.
pub(super) fn silent() -> Fault {
    Fault::of(FaultKind::Timeout, true, "the link went silent")
}

/// No answer came before the command's time was over.
pub(super) fn no_answer() -> Fault {
    Fault::of(FaultKind::Timeout, true, "no answer in time")
}

/// No link came before the command's time was over.
pub(super) fn no_link() -> Fault {
    Fault::of(FaultKind::Dropped, false, "no link in time")
}
