//! Which node has which slot: numbers, and nothing that connects.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::backend::slot::SLOTS;

/// Which node a slot is on, by its place; and for each slot what grows when its commands take another way.
pub(super) struct Slots {
    owners: Box<[u16]>,
    links: Box<[u64]>,
    eras: Box<[u64]>,
    /// With which number the first of them became known.
    first: Option<u64>,
    /// When it was last seen that another node answers for a slot than before: it may lack what was there.
    changed: HashMap<u16, Instant>,
}

/// No node is known to have it.
pub(super) const NOBODY: u16 = u16::MAX;

impl Slots {
    pub(super) fn unknown() -> Self {
        let zeros = || vec![0; SLOTS].into_boxed_slice();
        let owners = vec![NOBODY; SLOTS].into_boxed_slice();
        Self { owners, links: zeros(), eras: zeros(), first: None, changed: HashMap::new() }
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

    /// When another node than before came to answer for it; `None` while it is where it was at first.
    pub(super) fn changed(&self, slot: u16) -> Option<Instant> {
        self.changed.get(&slot).copied()
    }

    /// Another node than its owner answers for some of its keys.
    pub(super) fn is_asked_elsewhere(&mut self, slot: u16) {
        self.changed.insert(slot, Instant::now());
    }

    /// What is sent from now on may overtake what was sent before.
    pub(super) fn rerouted(&mut self, slot: u16, number: u64) {
        self.links[usize::from(slot)] = number;
    }

    /// Another node has it. Whether that is news.
    pub(super) fn moved(&mut self, slot: u16, owner: u16, number: u64) -> bool {
        let news = self.owners[usize::from(slot)] != owner;
        if news {
            // What nobody had in the first map was perhaps lost before it came to somebody.
            if *self.first.get_or_insert(number) != number {
                self.changed.insert(slot, Instant::now());
            }
            self.owners[usize::from(slot)] = owner;
            self.links[usize::from(slot)] = number;
            self.eras[usize::from(slot)] = number;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

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

    #[tokio::test(start_paused = true)]
    async fn a_slot_changed_when_it_was_last_seen_elsewhere_than_before_and_the_first_map_is_no_change() {
        const SECOND: Duration = Duration::from_secs(1);
        let (mut slots, began) = (Slots::unknown(), Instant::now());
        assert!(slots.moved(7, 2, 5) && slots.moved(8, 3, 5));
        assert_eq!([7, 8, 9].map(|slot| slots.changed(slot)), [None; 3]);
        advance(SECOND).await;
        assert!(!slots.moved(7, 2, 6) && slots.moved(8, 2, 6) && slots.moved(9, 2, 6));
        slots.rerouted(7, 7);
        let first = Some(began + SECOND);
        assert_eq!([7, 8, 9].map(|slot| slots.changed(slot)), [None, first, first]);
        advance(SECOND).await;
        slots.is_asked_elsewhere(7);
        assert!(slots.moved(8, 3, 8));
        let second = Some(began + 2 * SECOND);
        assert_eq!([7, 8, 9].map(|slot| slots.changed(slot)), [second, second, first]);
    }
}
