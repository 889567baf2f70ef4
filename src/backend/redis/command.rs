//! What one command carries on its way: how it comes to a link, its deadline, and the trace that it leaves if nobody waits
//! for its answer. Sends nothing.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{current::SendTurn, link::Link};
use crate::backend::{Fault, Pending};

/// How a command comes to a link.
pub(super) enum LinkAccess {
    /// There it is, to be sent on in the same poll.
    Open(Arc<Link>, Option<SendTurn>),
    /// Not yet. From here on a task of ours sees to it: a caller that is not polled would hold up all behind it.
    Wait(LinkWait),
}

/// A place among those who wait for a link.
pub(super) type LinkWait = Pending<Result<(Arc<Link>, SendTurn), Fault>>;

/// The one deadline of a command, counted from its first poll.
#[derive(Clone, Copy)]
pub(super) struct Timer {
    pub(super) started: Instant,
    pub(super) within: Duration,
    /// When the command was sent last, or is about to be.
    pub(super) sent: Instant,
}

impl Timer {
    pub(super) fn started(now: Instant, within: Duration) -> Self {
        Self { started: now, within, sent: now }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.started + self.within
    }
}

/// A command between its sending and its answer. Dropped in between, by the caller or by the deadline, it leaves a link
/// that has yet to show that it lives.
pub(super) struct UnderWay<'a> {
    pub(super) link: &'a Link,
    pub(super) sent: Instant,
    pub(super) command_timeout: Duration,
    pub(super) over: bool,
}

impl<'a> UnderWay<'a> {
    pub(super) fn new(link: &'a Link, sent: Instant, command_timeout: Duration) -> Self {
        Self { link, sent, command_timeout, over: false }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.link.unanswered(self.sent, self.command_timeout);
        }
    }
}
