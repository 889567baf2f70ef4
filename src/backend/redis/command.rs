//! What one command carries on its way: how it comes to a link, whether it may still leave, its deadline, and the trace
//! that it leaves if nobody waits for its answer. Sends nothing.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, Sleep};

use super::{current::Turn, faults, link::Link};
use crate::backend::{Call, Dispatch, Fault, Pending};

/// Whom to ask whether a command, or a pipeline of them, may still go. Asked in the same poll that sends.
pub(super) struct Dispatches(Vec<Arc<Dispatch>>);

impl Dispatches {
    pub(super) fn of<'a>(calls: impl IntoIterator<Item = &'a Call<'a>>) -> Self {
        Self(calls.into_iter().filter_map(|call| call.dispatch).map(Arc::clone).collect())
    }

    pub(super) fn leave(&self) -> Result<(), Fault> {
        if self.0.iter().all(|dispatch| dispatch.leaves()) { Ok(()) } else { Err(faults::withdrawn()) }
    }
}

/// How a command comes to a link.
pub(super) enum Way {
    /// There it is, to be sent on in the same poll.
    Open(Arc<Link>, Option<Turn>),
    /// Not yet. From here on a task of ours sees to it: a caller that is not polled would hold up all behind it.
    Line(Pending<Result<(Arc<Link>, Turn), Fault>>),
}

/// The one deadline of a command, counted from its first poll.
pub(super) struct Timer<'a> {
    pub(super) sleep: Pin<&'a mut Sleep>,
    pub(super) within: Duration,
    /// When the command was sent last, or is about to be.
    pub(super) sent: Instant,
}

/// A command between its sending and its answer. Dropped in between, by the caller or by the deadline, it leaves a link
/// that has yet to show that it lives.
pub(super) struct UnderWay<'a> {
    pub(super) link: &'a Link,
    pub(super) sent: Instant,
    pub(super) command_timeout: Duration,
    pub(super) over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.link.unanswered(self.sent, self.command_timeout);
        }
    }
}
