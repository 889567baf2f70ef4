//! Names whose guards are dropped at once, counted: a guard that protects nothing is a mistake when it comes again and again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Short work under a guard is as quick, so one is nothing, and so many in a row are a mistake.
const IN_A_ROW: u64 = 3;

/// At most so many names are counted at a time: one whose place another takes begins anew.
const COUNTED: usize = 64;

/// Names whose guards were dropped at once, so often in a row. An entry may live no longer than its hold, so a client counts;
/// and since every end of a hold may ask, nothing is locked for it.
#[derive(Debug)]
pub(super) struct DroppedAtOnce {
    /// Mostly there was none ever, and then no name is looked for.
    any: AtomicBool,
    /// A name's hash, and in its lowest bits how often in a row. Zero is none.
    counts: [AtomicU64; COUNTED],
}

impl Default for DroppedAtOnce {
    fn default() -> Self {
        Self { any: AtomicBool::new(false), counts: [const { AtomicU64::new(0) }; COUNTED] }
    }
}

impl DroppedAtOnce {
    const COUNT: u64 = 0xff;

    /// One more; whether there are as many in a row as are told.
    pub(super) fn note(&self, hash: u64) -> bool {
        self.any.store(true, Ordering::Relaxed);
        let place = self.place(hash);
        let known = place.load(Ordering::Relaxed);
        let times = if Self::is(known, hash) { known & Self::COUNT } else { 0 } + 1;
        let told = times >= IN_A_ROW;
        place.store(if told { 0 } else { hash & !Self::COUNT | times }, Ordering::Relaxed);
        told
    }

    pub(super) fn forget(&self, hash: impl FnOnce() -> u64) {
        if self.any.load(Ordering::Relaxed) {
            let hash = hash();
            let place = self.place(hash);
            if Self::is(place.load(Ordering::Relaxed), hash) {
                place.store(0, Ordering::Relaxed);
            }
        }
    }

    fn is(known: u64, hash: u64) -> bool {
        known & Self::COUNT != 0 && known & !Self::COUNT == hash & !Self::COUNT
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.counts[hash as usize % COUNTED]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_a_row_are_told_and_what_is_used_in_between_is_not() {
        let dropped = DroppedAtOnce::default();
        let (one, other) = (0x1234_5600, 0x1234_6501);
        assert_eq!([(); 4].map(|()| dropped.note(one)), [false, false, true, false]);
        dropped.forget(|| one);
        assert_eq!([(); 2].map(|()| dropped.note(one)), [false, false]);
        assert!(!dropped.note(other));
        dropped.forget(|| other);
        assert!(dropped.note(one), "another name is none of its business");
    }

    #[test]
    fn no_more_names_are_counted_than_there_are_places_and_none_for_another() {
        let dropped = DroppedAtOnce::default();
        let in_one_place = |number: u64| (number << 8) * COUNTED as u64;
        (1..1000).for_each(|number| assert!(!dropped.note(in_one_place(number))));
        assert_eq!(dropped.counts.iter().filter(|count| count.load(Ordering::Relaxed) != 0).count(), 1);
    }

    #[test]
    fn before_the_first_no_name_is_looked_for() {
        DroppedAtOnce::default().forget(|| panic!("nobody needs it"));
    }
}
