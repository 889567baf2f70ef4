//! What the server was told of a hold's count, and who waits for that. Made for the first nested acquisition of a hold.

use std::collections::VecDeque;

use super::{
    super::{
        deadline::{Instant, LeaseRequest, soonest},
        env::Env,
        id::{CommandId, Id},
        wish::Patience,
    },
    queue::Waiting,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counting<W> {
    /// The count on the server as far as answers told. `None` while one is missing.
    pub(crate) told: Option<u32>,
    /// The command in flight: one at a time.
    pub(crate) command: Option<CountCommand<W>>,
    /// Acquisitions under way, the first of them is asked for.
    pub(crate) nested: VecDeque<Nested<W>>,
    /// Tickets ended with so many remaining, and these wait for the server to know.
    pub(crate) telling: Vec<(W, u32)>,
    pub(crate) faults: u8,
    /// The pause after a fault is over then.
    pub(crate) again: Option<Instant>,
}

/// An owner that holds, and asks for one more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nested<W> {
    pub(crate) who: Waiting<W>,
    pub(crate) since: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountCommand<W> {
    pub(crate) id: CommandId,
    /// What was known before it.
    pub(crate) before: Option<u32>,
    pub(crate) what: CountChange<W>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CountChange<W> {
    /// The acquire of this acquisition, which may be over by now.
    Up { id: Id, request: LeaseRequest },
    /// A release to what remains, for those who wait.
    Down { waiters: Vec<(W, u32)> },
}

impl<W> Default for Counting<W> {
    fn default() -> Self {
        Self { told: Some(1), command: None, nested: VecDeque::new(), telling: Vec::new(), faults: 0, again: None }
    }
}

impl<W> Counting<W> {
    pub(crate) fn pending(&self) -> u32 {
        u32::try_from(self.nested.len()).unwrap_or(u32::MAX)
    }

    /// No command is under way or to come.
    pub(crate) fn is_quiet(&self) -> bool {
        self.command.is_none() && self.again.is_none() && self.nested.is_empty() && self.telling.is_empty()
    }

    pub(crate) fn nests(&self, id: Id) -> bool {
        self.nested.iter().any(|nested| nested.who.id == id)
    }

    /// Everybody who still waits for the server to know a count, with what remained for them.
    pub(crate) fn take_waiters(&mut self) -> Vec<(W, u32)> {
        let mut waiters = std::mem::take(&mut self.telling);
        if let Some(CountCommand { what: CountChange::Down { waiters: told }, .. }) = self.command.take() {
            waiters.extend(told);
        }
        waiters
    }

    /// The nested acquisitions, the newest first.
    pub(crate) fn take_nested(&mut self) -> impl Iterator<Item = Waiting<W>> {
        std::mem::take(&mut self.nested).into_iter().rev().map(|nested| nested.who)
    }

    /// The first of the nested acquisitions, if it is this one.
    pub(crate) fn take_front(&mut self, id: Id) -> Option<Nested<W>> {
        self.nested.front().is_some_and(|nested| nested.who.id == id).then(|| self.nested.pop_front())?
    }

    /// When something is to be done about it.
    pub(crate) fn due(&self, env: &Env<'_>) -> Option<Instant> {
        let again = self.again.filter(|_| self.command.is_none());
        let ends = self.nested.iter().map(|nested| nested.ends(env)).min();
        soonest([again, ends])
    }
}

impl<W> Nested<W> {
    /// When it gives up. A wait that ends while a command is on its way is over with the answer, or a grace later.
    pub(crate) fn ends(&self, env: &Env<'_>) -> Instant {
        match self.who.wish.patience {
            Patience::Once => self.since + env.settings.command_timeout + env.grace,
            Patience::Until(until) | Patience::OnceBy(until) => until.max(self.since) + env.grace,
            Patience::ForEver => self.since.max(env.last_answer) + env.settings.unreachable_after,
        }
    }
}
