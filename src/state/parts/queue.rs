//! The waiters of this process for one name, first come first served. It is as long as the number of tasks that wait.

use std::{
    collections::VecDeque,
    fmt,
    hash::{Hash, Hasher},
};

use super::{
    super::{
        deadline::Instant,
        id::{Id, Owner},
        wish::{Patience, Wish},
    },
    owners::Owners,
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
#[derive(Clone)]
pub(crate) struct Queue<W>(Option<Box<Waiters<W>>>);

#[derive(Clone)]
struct Waiters<W> {
    waiting: VecDeque<Waiting<W>>,
    /// Their wait is over, and they were not told so yet: they were called for it.
    over: Vec<Waiting<W>>,
    /// Whose all of these are.
    owners: Owners,
    /// No wait is over before. It may be too soon, and is set right when it comes.
    soonest: Option<Instant>,
}

impl<W> Default for Queue<W> {
    fn default() -> Self {
        Self(None)
    }
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), over: Vec::new(), owners: Owners::default(), soonest: None }
    }
}

/// Room that is kept makes no difference.
impl<W: PartialEq> PartialEq for Queue<W> {
    fn eq(&self, other: &Self) -> bool {
        self.soonest() == other.soonest() && self.late() == other.late() && self.iter().eq(other.iter())
    }
}

impl<W: Eq> Eq for Queue<W> {}

/// Nor in words.
impl<W: fmt::Debug> fmt::Debug for Queue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, late) = (self.iter().collect::<Vec<_>>(), self.late());
        f.debug_tuple("Queue").field(&waiting).field(&late).field(&self.soonest()).finish()
    }
}

impl<W: Hash> Hash for Queue<W> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.soonest().hash(state);
        (self.late(), self.iter().count()).hash(state);
        self.iter().for_each(|waiting| waiting.hash(state));
    }
}

impl<W> Queue<W> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|waiters| waiters.is_empty())
    }

    /// So many of them are told that their wait is over once they come.
    fn late(&self) -> usize {
        self.0.as_ref().map_or(0, |waiters| waiters.over.len())
    }

    /// Keeps no room that nobody has use for.
    pub(crate) fn shrink(&mut self) {
        self.0.take_if(|waiters| waiters.is_empty());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting<W>> {
        self.0.iter().flat_map(|waiters| waiters.waiting.iter().chain(&waiters.over))
    }

    /// Whether this owner waits.
    pub(crate) fn has(&self, owner: Owner) -> bool {
        self.0.as_ref().is_some_and(|waiters| waiters.owners.has(owner))
    }

    pub(crate) fn waits(&self, id: Id) -> bool {
        self.of(id).is_some()
    }

    /// Mostly it is the newest of whom anything is asked.
    pub(crate) fn of(&self, id: Id) -> Option<&Waiting<W>> {
        let waiters = self.0.as_ref()?;
        waiters.waiting.iter().rev().chain(&waiters.over).find(|waiting| waiting.id == id)
    }

    /// Ids grow: whoever asks again stands before those who came later.
    pub(crate) fn push(&mut self, waiting: Waiting<W>) {
        let waiters = self.with(&waiting);
        let at = waiters.iter().rposition(|before| before.id < waiting.id).map_or(0, |before| before + 1);
        waiters.insert(at, waiting);
    }

    /// One who lost through no fault of its own what it was about to have.
    pub(crate) fn push_front(&mut self, waiting: Waiting<W>) {
        self.with(&waiting).push_front(waiting);
    }

    /// Those who wait, where this one comes.
    fn with(&mut self, one: &Waiting<W>) -> &mut VecDeque<Waiting<W>> {
        let waiters = self.0.get_or_insert_default();
        waiters.soonest = [waiters.soonest, one.until()].into_iter().flatten().min();
        waiters.owners.enter(one.owner);
        &mut waiters.waiting
    }

    /// Who is next: one whose wait is over is the last resort.
    pub(crate) fn first(&self) -> Option<&Waiting<W>> {
        self.iter().next()
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<W>> {
        let waiters = self.0.as_mut()?;
        let next = waiters.waiting.pop_front()?;
        waiters.without(&next);
        Some(next)
    }

    /// One whose wait is over, and who was not told so yet.
    pub(crate) fn pop_over(&mut self) -> Option<Waiting<W>> {
        let waiters = self.0.as_mut()?;
        let next = (!waiters.over.is_empty()).then(|| waiters.over.remove(0))?;
        waiters.without(&next);
        Some(next)
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Waiting<W>> {
        let waiters = self.0.as_mut()?;
        let Some(at) = waiters.waiting.iter().position(|waiting| waiting.id == id) else { return self.remove_over(id) };
        let removed = waiters.waiting.remove(at)?;
        waiters.without(&removed);
        Some(removed)
    }

    /// The same of those only whose wait is over.
    pub(crate) fn remove_over(&mut self, id: Id) -> Option<Waiting<W>> {
        let waiters = self.0.as_mut()?;
        let at = waiters.over.iter().position(|waiting| waiting.id == id)?;
        let removed = waiters.over.remove(at);
        waiters.without(&removed);
        Some(removed)
    }

    /// When the next wait is over, or before.
    pub(crate) fn soonest(&self) -> Option<Instant> {
        self.0.as_ref()?.soonest
    }

    /// Those whose wait is over since the last look.
    pub(crate) fn are_over(&mut self, now: Instant) -> &[Waiting<W>] {
        let Some(waiters) = self.0.as_mut().filter(|waiters| waiters.soonest.is_some_and(|soonest| soonest <= now))
        else {
            return &[];
        };
        let before = waiters.over.len();
        let is_over = |waiting: &Waiting<W>| waiting.until().is_some_and(|until| until <= now);
        let (over, stay): (Vec<_>, Vec<_>) = waiters.waiting.drain(..).partition(is_over);
        waiters.soonest = stay.iter().filter_map(Waiting::until).min();
        waiters.waiting = stay.into();
        waiters.over.extend(over);
        &waiters.over[before..]
    }

    /// Takes out those who would wait for as long as the server answers.
    pub(crate) fn take_endless(&mut self) -> Vec<Waiting<W>> {
        let Some(waiters) = &mut self.0 else { return Vec::new() };
        let is_endless = |waiting: &Waiting<W>| waiting.wish.patience == Patience::ForEver;
        let (out, stay): (Vec<_>, Vec<_>) = waiters.waiting.drain(..).partition(is_endless);
        waiters.waiting = stay.into();
        out.iter().for_each(|waiting| waiters.without(waiting));
        out
    }

    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Waiting<W>> + use<W> {
        self.0.take().into_iter().flat_map(|waiters| waiters.waiting.into_iter().chain(waiters.over))
    }
}

impl<W> Waiters<W> {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.over.is_empty()
    }

    /// That one is taken out.
    fn without(&mut self, one: &Waiting<W>) {
        self.owners.leave(one.owner);
        if self.waiting.is_empty() {
            self.soonest = None;
        }
    }
}
