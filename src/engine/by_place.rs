//! What a client keeps for each place where keys are, by itself: what happens at one server says nothing of the others. The
//! places of servers that are gone are taken again, so there are never more than there were servers at one time.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Debug, Default)]
pub(super) struct ByPlace<T> {
    /// Where there is one server, this is all.
    first: T,
    others: Mutex<BTreeMap<u32, Arc<T>>>,
}

/// That of one place.
pub(super) enum AtPlace<'a, T> {
    First(&'a T),
    Other(Arc<T>),
}

impl<T: Default> ByPlace<T> {
    pub(super) fn at(&self, place: u32) -> AtPlace<'_, T> {
        if place == 0 {
            return AtPlace::First(&self.first);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        AtPlace::Other(Arc::clone(others.entry(place).or_default()))
    }
}

impl<T> Deref for AtPlace<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::First(here) => here,
            Self::Other(here) => here,
        }
    }
}
