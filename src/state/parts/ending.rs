//! The ticket that a hold ended with, and who wait for what comes of that.

use super::{
    super::id::{Id, Owner},
    list::OneOrMany,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ending<W> {
    pub(crate) id: Option<Id>,
    /// Whose it was, where its guard was given up before: the owner may ask again, who has no id.
    pub(crate) detached_of: Option<Owner>,
    pub(crate) ended_by: EndedBy,
    /// What it held was moved away: it is freed, whatever the rest comes to.
    pub(crate) freed: bool,
    /// They wait for what comes of one sending.
    pub(crate) waiters: OneOrMany<W>,
    /// They asked again, and wait for what becomes of it in the end.
    pub(crate) later: OneOrMany<W>,
    /// They asked for a longer lease, and it ended before that was answered.
    pub(crate) beside: OneOrMany<W>,
}

/// Who ended a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EndedBy {
    /// Somebody who waits for the answer, and may ask again after a fault.
    Unlock,
    Drop,
}

impl<W> Default for Ending<W> {
    fn default() -> Self {
        Self {
            id: None,
            detached_of: None,
            ended_by: EndedBy::Drop,
            freed: false,
            waiters: OneOrMany::None,
            later: OneOrMany::None,
            beside: OneOrMany::None,
        }
    }
}

impl<W> Ending<W> {
    pub(crate) fn asked_again(&mut self, waiter: W) {
        self.ended_by = EndedBy::Unlock;
        self.later.push(waiter);
    }

    /// Those who wait for what comes of one sending.
    pub(crate) fn take_of_one(&mut self) -> impl Iterator<Item = W> + use<W> {
        self.waiters.take().chain(self.beside.take())
    }

    /// Everybody who waits for it.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = W> + use<W> {
        self.waiters.take().chain(self.later.take())
    }

    /// Under which id somebody may ask again who has a guard: without one nobody would say that nobody asks any more.
    pub(crate) fn may_be_asked_for(&self) -> Option<Id> {
        self.id.filter(|_| self.ended_by == EndedBy::Unlock && self.detached_of.is_none())
    }
}
