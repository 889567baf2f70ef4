//! How errors are put into words. Which there are is in `error.rs`.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use super::Op;
use crate::name::Shown;

/// The longest part of an unexpected reply that is kept, in characters.
pub(super) const REPLY_SHOWN: usize = 200;

/// A reply that does not fit the script it answers: the source of a [`FaultKind::Unexpected`](crate::backend::FaultKind::Unexpected).
#[derive(Clone, Debug, thiserror::Error)]
#[error("{script} answered {reply}")]
pub(crate) struct UnexpectedReply {
    pub(crate) script: &'static str,
    pub(crate) reply: Arc<str>,
}

impl UnexpectedReply {
    /// Keeps no more of the reply than a message can show.
    pub(crate) fn new(script: &'static str, reply: &impl fmt::Debug) -> Self {
        Self { script, reply: cut(&format!("{reply:?}")) }
    }
}

/// `acquire lock "orders"`; without a name only the verb.
pub(super) struct Task<'a> {
    pub(super) op: Op,
    pub(super) name: &'a str,
}

impl fmt::Display for Task<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, name } = self;
        if name.is_empty() { write!(f, "{op}") } else { write!(f, "{op} lock {}", Shown(name)) }
    }
}

/// The client's own runtime stands still: the source of an [`Error::Unreachable`](super::Error::Unreachable) that is no fault of the server.
#[derive(Debug, thiserror::Error)]
#[error("the runtime that the client lives on ran nothing for {0:?}: it is not driven, or something blocks it")]
pub(crate) struct Stalled(pub(crate) Duration);

/// Who did not answer.
pub(super) struct WhoIsSilent<'a>(pub(super) &'a Arc<dyn StdError + Send + Sync>);

impl fmt::Display for WhoIsSilent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is::<Stalled>() {
            "the runtime that the client lives on makes no progress; give the client one of its own with \
             ClientBuilder::own_thread()"
        } else {
            "the server is unreachable"
        })
    }
}

/// The end of a message whose command has an unknown outcome.
pub(super) struct MayHaveRun(pub(super) bool);

impl fmt::Display for MayHaveRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 { f.write_str(", yet the command may have run") } else { Ok(()) }
    }
}

/// Points at the guards where there are some: unlocking past them is the usual cause.
pub(super) struct NotHeldWords<'a> {
    pub(super) name: &'a str,
    pub(super) guards: u32,
}

impl fmt::Display for NotHeldWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Shown(self.name);
        match self.guards {
            0 => write!(f, "lock {name} is not held by this owner"),
            1 => write!(f, "lock {name} is held by this owner through a guard: release it with `guard.unlock()`"),
            n => write!(f, "lock {name} is held by this owner through {n} guards: release each with `guard.unlock()`"),
        }
    }
}

pub(crate) fn cut(text: &str) -> Arc<str> {
    match text.char_indices().nth(REPLY_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
