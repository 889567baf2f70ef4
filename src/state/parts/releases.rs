//! Releases that were decided and are not answered, and what stands beside them: ends that may be asked for again, forced
//! releases on their way. Most names have none of it, and a word is all that costs. Once there was some its room is kept.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use super::{
    super::{effect::Told, id::Id},
    forcing::Forcing,
    list::OneOrMany,
    release::Release,
};

/// An end that nobody waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unclaimed<W, S> {
    /// What became of it.
    Known(Told<S>),
    /// Its release was given up: it is asked for once more.
    GivenUp(Box<Release<W>>),
}

#[derive(Clone)]
pub(crate) struct Releases<W, S>(Option<Box<All<W, S>>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct All<W, S> {
    /// Mostly there is one: no room is made for more.
    releases: OneOrMany<Release<W>>,
    /// Ends of which whoever began them may ask again.
    unclaimed: Vec<(Id, Unclaimed<W, S>)>,
    forced: Vec<Forcing<W>>,
}

impl<W, S> Default for Releases<W, S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<W, S> Default for All<W, S> {
    fn default() -> Self {
        Self { releases: OneOrMany::None, unclaimed: Vec::new(), forced: Vec::new() }
    }
}

impl<W, S> Releases<W, S> {
    fn all(&mut self) -> &mut All<W, S> {
        self.0.get_or_insert_default()
    }

    pub(crate) fn as_slice(&self) -> &[Release<W>] {
        self.0.as_ref().map_or(&[], |all| all.releases.as_slice())
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Release<W>] {
        self.0.as_mut().map_or(&mut [], |all| all.releases.as_mut_slice())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Release<W>> {
        self.as_slice().iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Release<W>> {
        self.as_mut_slice().iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    pub(crate) fn push(&mut self, release: Release<W>) {
        self.all().releases.push(release);
    }

    /// Takes out the one at this place; the others stay in their order.
    pub(crate) fn take(&mut self, at: usize) -> Option<Release<W>> {
        self.0.as_mut()?.releases.take_at(at)
    }

    pub(crate) fn unclaimed(&self) -> &[(Id, Unclaimed<W, S>)] {
        self.0.as_ref().map_or(&[], |all| &all.unclaimed)
    }

    /// Whoever began this end may ask what became of it.
    pub(crate) fn is_unclaimed(&mut self, id: Id, what: Unclaimed<W, S>) {
        self.all().unclaimed.push((id, what));
    }

    /// It asks.
    pub(crate) fn claim(&mut self, id: Id) -> Option<Unclaimed<W, S>> {
        let unclaimed = &mut self.0.as_mut()?.unclaimed;
        let at = unclaimed.iter().position(|(of, _)| *of == id)?;
        Some(unclaimed.remove(at).1)
    }

    /// It will not ask.
    pub(crate) fn forget(&mut self, id: Id) {
        if let Some(all) = &mut self.0 {
            all.unclaimed.retain(|(of, _)| *of != id);
        }
    }

    pub(crate) fn forced(&self) -> &[Forcing<W>] {
        self.0.as_ref().map_or(&[], |all| &all.forced)
    }

    /// A forced release is on its way.
    pub(crate) fn force(&mut self, forcing: Forcing<W>) {
        self.all().forced.push(forcing);
    }

    /// Takes out the first forced release for which it is true.
    pub(crate) fn take_forced(&mut self, is_it: impl FnMut(&Forcing<W>) -> bool) -> Option<Forcing<W>> {
        let forced = &mut self.0.as_mut()?.forced;
        let at = forced.iter().position(is_it)?;
        Some(forced.remove(at))
    }

    /// What is compared, told apart and shown: room alone is nothing.
    fn what(&self) -> What<'_, W, S> {
        (self.as_slice(), self.unclaimed(), self.forced())
    }
}

type What<'a, W, S> = (&'a [Release<W>], &'a [(Id, Unclaimed<W, S>)], &'a [Forcing<W>]);

impl<W: PartialEq, S: PartialEq> PartialEq for Releases<W, S> {
    fn eq(&self, other: &Self) -> bool {
        self.what() == other.what()
    }
}

impl<W: Eq, S: Eq> Eq for Releases<W, S> {}

impl<W: Hash, S: Hash> Hash for Releases<W, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.what().hash(state);
    }
}

impl<W: fmt::Debug, S: fmt::Debug> fmt::Debug for Releases<W, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what().fmt(f)
    }
}
