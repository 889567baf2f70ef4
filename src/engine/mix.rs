//! A hasher for numbers that this process drew itself. It is quick, and anybody can find what collides: nothing that a user
//! may choose goes through it.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes one for each map.
pub(super) type Mixing = BuildHasherDefault<Mix>;

/// Multiplication carries every bit upwards, and a turn at the end brings them down again.
#[derive(Clone, Copy, Default)]
pub(super) struct Mix(u64);

impl Mix {
    /// Odd, and without a pattern: the golden ratio's fraction.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn mix(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(Self::FACTOR).rotate_left(29);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    /// Which variant it is of an enum.
    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher};

    use super::*;
    use crate::owner::Owner;

    #[test]
    fn owners_that_are_drawn_one_after_the_other_are_spread_over_a_table_as_if_by_chance() {
        let owners: Vec<_> = (0..1 << 12).map(|_| Owner::new()).collect();
        let hashes: Vec<_> = owners.iter().map(|owner| Mixing::default().hash_one(owner)).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), owners.len());
        // A table looks at the lowest bits first, and at the highest seven then.
        for place in [|hash: &u64| hash & 0xfff, |hash: &u64| hash >> 52] {
            let places = hashes.iter().map(place).collect::<HashSet<_>>().len();
            assert!(places > 2400, "by chance 2589 of 4096 places are taken, and not {places}");
        }
    }
}
