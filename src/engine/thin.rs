//! A list that is mostly empty, and then takes no more than a pointer. It knows nothing of what is in it.

use std::ops::{Deref, DerefMut};

/// A list that most entries never put anything into. Its box stays once it was needed.
#[derive(Debug)]
pub(super) struct ThinVec<T>(Option<Box<List<T>>>);

#[derive(Debug)]
struct List<T>(Vec<T>);

impl<T> ThinVec<T> {
    pub(super) fn push(&mut self, it: T) {
        // One at a time, mostly.
        self.0.get_or_insert_with(|| Box::new(List(Vec::with_capacity(1)))).0.push(it);
    }

    pub(super) fn remove(&mut self, at: usize) -> Option<T> {
        self.list().filter(|list| at < list.len()).map(|list| list.remove(at))
    }

    /// Takes one out; the last one moves to its place.
    pub(super) fn swap_remove(&mut self, at: usize) -> Option<T> {
        self.list().filter(|list| at < list.len()).map(|list| list.swap_remove(at))
    }

    /// Takes all out.
    pub(super) fn take(&mut self) -> Vec<T> {
        self.list().map(std::mem::take).unwrap_or_default()
    }

    /// Takes out those of which it is true.
    pub(super) fn take_if(&mut self, is_out: impl FnMut(&T) -> bool) -> Vec<T> {
        let Some(list) = self.list().filter(|list| !list.is_empty()) else { return Vec::new() };
        let (out, stay) = std::mem::take(list).into_iter().partition(is_out);
        *list = stay;
        out
    }

    fn list(&mut self) -> Option<&mut Vec<T>> {
        self.0.as_mut().map(|list| &mut list.0)
    }
}

impl<T> Default for ThinVec<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for ThinVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| list.0.as_slice())
    }
}

impl<T> DerefMut for ThinVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |list| list.0.as_mut_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_list_that_takes_no_more_than_a_pointer() {
        let mut list = ThinVec::default();
        assert_eq!(size_of_val(&list), size_of::<usize>());
        assert!(list.is_empty() && list.remove(0).is_none() && list.swap_remove(0).is_none() && list.take().is_empty());
        list.push(5);
        assert_eq!((list.remove(1), list.remove(0)), (None, Some(5)));
        (0..4).for_each(|it| list.push(it));
        assert_eq!(list.swap_remove(0), Some(0));
        list.iter_mut().for_each(|it| *it *= 10);
        assert_eq!(list[..], [30, 10, 20]);
        assert_eq!(list.take_if(|it| *it > 15), [30, 20]);
        assert_eq!((list.take(), list.len()), (vec![10], 0));
    }
}
