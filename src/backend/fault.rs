//! Why there is no answer, in words that no driver needs. It decides on no retry.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::error::UnexpectedReply;

/// Why there is no answer of the script's own.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Whether the script may have run all the same.
    pub(crate) may_have_run: bool,
    pub(crate) befell: Befell,
    pub(crate) source: Arc<dyn StdError + Send + Sync>,
}

/// What a fault befell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Befell {
    Command,
    /// The opening of a link: nobody said anything of the script.
    Opening,
    /// The same of a link beside another, over which the server may answer everything else.
    OpeningApart,
}

impl Fault {
    /// A command that had no answer in time.
    pub(crate) fn timeout(may_have_run: bool, why: &'static str) -> Self {
        Self::of(FaultKind::Timeout, may_have_run, why)
    }

    /// One for which nobody had words but us.
    pub(crate) fn of(kind: FaultKind, may_have_run: bool, why: impl Into<String>) -> Self {
        Self {
            kind,
            may_have_run,
            befell: Befell::Command,
            source: Arc::from(Box::<dyn StdError + Send + Sync>::from(why.into())),
        }
    }

    /// An answer that this script does not give.
    pub(crate) fn unexpected(script: &'static str, reply: &impl fmt::Debug) -> Self {
        let source = Arc::new(UnexpectedReply::new(script, reply));
        Self { kind: FaultKind::Unexpected, may_have_run: true, befell: Befell::Command, source }
    }

    /// Whether there was no answer at all, rather than one that says that the server cannot now. One that answers everything else
    /// is not silent.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self.kind, FaultKind::Timeout | FaultKind::Dropped) && self.befell != Befell::OpeningApart
    }

    /// Whether the same command may succeed when it is sent again. What could not be opened may be opened later: only what a
    /// server says of a command ends it.
    pub(crate) fn heals(&self) -> bool {
        self.kind.heals() || self.befell != Befell::Command
    }
}

/// The kinds of fault that the layers above tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// No answer within the command's deadline.
    Timeout,
    /// No link: refused, dropped, or not there in time.
    Dropped,
    /// The server cannot now but may soon: LOADING, TRYAGAIN, CLUSTERDOWN, MASTERDOWN, NOREPLICAS, BUSY.
    Unready,
    /// READONLY or MISCONF: a replica, or a master that may not write.
    ReadOnly,
    /// It is done, and fewer replicas have it than were wanted.
    TooFewReplicas,
    /// NOPERM.
    Permission,
    /// NOAUTH, WRONGPASS.
    Credentials,
    /// One of the certificates of a TLS link is not accepted, by us or by the server.
    Certificate,
    /// What leads to the server cannot be served, whatever the server does.
    Invalid,
    /// WRONGTYPE.
    WrongType,
    /// OOM.
    OutOfMemory,
    /// EVAL and EVALSHA are unknown or forbidden by the server's configuration.
    ScriptDisabled,
    /// Any other word of refusal.
    Other,
    /// An answer that no script of ours gives.
    Unexpected,
    /// Its caller did not want it any more when it was to leave: it never did.
    Withdrawn,
    /// The backend was closed.
    Closed,
}

impl FaultKind {
    /// Whether the same command may succeed when it is sent again.
    pub(crate) fn heals(self) -> bool {
        matches!(self, Self::Timeout | Self::Dropped | Self::Unready | Self::ReadOnly | Self::TooFewReplicas)
    }
}
