//! Which node has which slot: numbers, and nothing that connects.

use crate::backend::slot::SLOTS;

/// Which node a slot is on, by its place; and for each slot what grows when its commands take another way.
pub(super) struct Slots {
    owners: Box<[u16]>,
    links: Box<[u64]>,
    eras: Box<[u64]>,
}

/// No node is known to have it.
pub(super) const NOBODY: u16 = u16::MAX;

impl Slots {
    pub(super) fn unknown() -> Self {
        let zeros = || vec![0; SLOTS].into_boxed_slice();
        Self { owners: vec![NOBODY; SLOTS].into_boxed_slice(), links: zeros(), eras: zeros() }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<u16> {
        Some(self.owners[usize::from(slot)]).filter(|owner| *owner != NOBODY)
    }

    pub(super) fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// The last number that was drawn for the way to this slot.
    pub(super) fn link(&self, slot: u16) -> u64 {
        self.links[usize::from(slot)]
    }

    /// The last one that was drawn because another node has it.
    pub(super) fn era(&self, slot: u16) -> u64 {
        self.eras[usize::from(slot)]
    }

    /// What is sent from now on may overtake what was sent before.
    pub(super) fn rerouted(&mut self, slot: u16, number: u64) {
        self.links[usize::from(slot)] = number;
    }

    /// Another node has it. Whether that is news.
    pub(super) fn moved(&mut self, slot: u16, owner: u16, number: u64) -> bool {
        let news = self.owners[usize::from(slot)] != owner;
        if news {
            self.owners[usize::from(slot)] = owner;
            self.links[usize::from(slot)] = number;
            self.eras[usize::from(slot)] = number;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slots_numbers_grow_with_each_change_of_its_own_and_with_no_other() {
        let mut slots = Slots::unknown();
        assert_eq!((slots.owner(7), slots.link(7), slots.era(7)), (None, 0, 0));
        assert!(slots.moved(7, 2, 5) && !slots.moved(7, 2, 6));
        assert_eq!((slots.owner(7), slots.link(7), slots.era(7)), (Some(2), 5, 5));
        slots.rerouted(7, 8);
        assert_eq!((slots.owner(7), slots.link(7), slots.era(7)), (Some(2), 8, 5));
        assert!(slots.moved(7, 3, 9));
        assert_eq!((slots.link(7), slots.era(7)), (9, 9));
        assert_eq!((slots.owner(8), slots.link(8), slots.era(8)), (None, 0, 0));
    }
}
