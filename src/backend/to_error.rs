//! What a fault is to whoever asked for what it befell.

use std::sync::Arc;

use super::{Fault, FaultKind, TooFewReplicas};
use crate::error::{Error, Op, RefusedKind, UnexpectedReply, cut};

impl Error {
    /// What a fault of the backend means to the caller of `op`. An empty name stands for no lock.
    pub(crate) fn from_fault(fault: Fault, name: &Arc<str>, op: Op) -> Self {
        let Fault { kind, may_have_run, source, .. } = fault;
        let refused = |kind, source| Self::Refused { name: Arc::clone(name), op, kind, source };
        match kind {
            FaultKind::Timeout | FaultKind::Dropped | FaultKind::Unready => {
                Self::Unreachable { name: Arc::clone(name), op, may_have_run, source }
            }
            FaultKind::ReadOnly => refused(RefusedKind::ReadOnly, source),
            FaultKind::Permission => refused(RefusedKind::Permission, source),
            FaultKind::Credentials => refused(RefusedKind::Credentials, source),
            FaultKind::Certificate => refused(RefusedKind::Certificate, source),
            FaultKind::Invalid => Self::invalid("server", source.to_string()),
            FaultKind::WrongType => refused(RefusedKind::WrongType, source),
            FaultKind::OutOfMemory => refused(RefusedKind::OutOfMemory, source),
            FaultKind::ScriptDisabled => refused(RefusedKind::ScriptDisabled, source),
            FaultKind::Other => refused(RefusedKind::Other, source),
            FaultKind::TooFewReplicas => {
                let told = source.downcast_ref().copied();
                let TooFewReplicas { acknowledged, wanted } =
                    told.unwrap_or(TooFewReplicas { acknowledged: 0, wanted: 0 });
                Self::TooFewReplicas { name: Arc::clone(name), acknowledged, wanted }
            }
            FaultKind::Unexpected => match source.downcast_ref::<UnexpectedReply>() {
                Some(UnexpectedReply { script, reply }) => Self::Protocol { script, reply: Arc::clone(reply) },
                None => Self::Protocol { script: "the server", reply: cut(&source.to_string()) },
            },
            // Nobody withdraws a command whose answer somebody waits for, but for the end of the client.
            FaultKind::Withdrawn | FaultKind::Closed => Self::Closed,
        }
    }
}
