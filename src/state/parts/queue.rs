//! The waiters of this process for one name, first come first served. It is as long as the number of tasks that wait.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
};

use super::super::{
    deadline::Instant,
    id::{Id, Owner},
    wish::{Patience, Wish},
};

/// One who asked and has nothing yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting<W> {
    pub(crate) id: Id,
    pub(crate) owner: Owner,
    pub(crate) wish: Wish,
    pub(crate) waiter: W,
    /// It was said that somebody else has the name.
    pub(crate) contended: bool,
}

impl<W> Waiting<W> {
    pub(crate) fn until(&self) -> Option<Instant> {
        self.wish.patience.until()
    }
}

/// Most names have none: a word is all that costs. Once there was one its room is kept: where tasks pass a hold on to each other
/// the next one comes soon.
#[derive(Clone, Debug)]
pub(crate) struct Queue<W>(Option<Box<Waiters<W>>>);

#[derive(Clone, Debug)]
struct Waiters<W> {
    waiting: VecDeque<Waiting<W>>,
    /// No wait is over before. It may be too soon, and is set right when it comes.
    soonest: Option<Instant>,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self(None)
    }
}

/// Room that is kept makes no difference.
impl<W: PartialEq> PartialEq for Queue<W> {
    fn eq(&self, other: &Self) -> bool {
        self.soonest() == other.soonest() && self.iter().eq(other.iter())
    }
}

impl<W: Eq> Eq for Queue<W> {}

impl<W: Hash> Hash for Queue<W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.soonest().hash(state);
        state.write_usize(self.iter().count());
        self.iter().for_each(|waiting| waiting.hash(state));
    }
}

impl<W> Queue<W> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|waiters| waiters.waiting.is_empty())
    }

    /// Keeps no room that nobody has use for.
    pub(crate) fn shrink(&mut self) {
        self.0.take_if(|waiters| waiters.waiting.is_empty());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting<W>> {
        self.0.iter().flat_map(|waiters| &waiters.waiting)
    }

    /// Whether this owner waits.
    pub(crate) fn has(&self, owner: Owner) -> bool {
        self.iter().any(|waiting| waiting.owner == owner)
    }

    pub(crate) fn waits(&self, id: Id) -> bool {
        self.iter().any(|waiting| waiting.id == id)
    }

    pub(crate) fn push(&mut self, waiting: Waiting<W>) {
        self.waiters(waiting.until()).push_back(waiting);
    }

    /// One who lost through no fault of its own what it was about to have.
    pub(crate) fn push_front(&mut self, waiting: Waiting<W>) {
        self.waiters(waiting.until()).push_front(waiting);
    }

    /// Those who wait, where one more comes whose wait is over then.
    fn waiters(&mut self, until: Option<Instant>) -> &mut VecDeque<Waiting<W>> {
        let empty = || Box::new(Waiters { waiting: VecDeque::new(), soonest: None });
        let waiters = self.0.get_or_insert_with(empty);
        waiters.soonest = [waiters.soonest, until].into_iter().flatten().min();
        &mut waiters.waiting
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<W>> {
        let waiters = self.0.as_mut()?;
        let next = waiters.waiting.pop_front();
        waiters.forget_soonest();
        next
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Waiting<W>> {
        let waiters = self.0.as_mut()?;
        let at = waiters.waiting.iter().position(|waiting| waiting.id == id)?;
        let removed = waiters.waiting.remove(at);
        waiters.forget_soonest();
        removed
    }

    /// When the next wait is over, or before.
    pub(crate) fn soonest(&self) -> Option<Instant> {
        self.0.as_ref()?.soonest
    }

    /// Takes out those whose wait is over.
    pub(crate) fn take_over(&mut self, now: Instant) -> Vec<Waiting<W>> {
        if self.soonest().is_none_or(|soonest| now < soonest) {
            return Vec::new();
        }
        let over = self.take_all(|waiting| waiting.until().is_some_and(|until| until <= now));
        let soonest = self.iter().filter_map(Waiting::until).min();
        if let Some(waiters) = &mut self.0 {
            waiters.soonest = soonest;
        }
        over
    }

    /// Takes out those who would wait for as long as the server answers.
    pub(crate) fn take_endless(&mut self) -> Vec<Waiting<W>> {
        self.take_all(|waiting| waiting.wish.patience == Patience::ForEver)
    }

    pub(crate) fn take_all(&mut self, is_it: impl FnMut(&Waiting<W>) -> bool) -> Vec<Waiting<W>> {
        let Some(waiters) = &mut self.0 else { return Vec::new() };
        let (out, stay): (Vec<_>, Vec<_>) = waiters.waiting.drain(..).partition(is_it);
        waiters.waiting = stay.into();
        waiters.forget_soonest();
        out
    }
}

impl<W> Waiters<W> {
    fn forget_soonest(&mut self) {
        if self.waiting.is_empty() {
            self.soonest = None;
        }
    }
}
