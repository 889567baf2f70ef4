//! Whose acquisitions wait, each with their number: so that one of many is found at once.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

use super::super::id::Owner;

#[derive(Clone, Debug, Default)]
pub(crate) struct Owners(HashMap<Owner, u32, BuildHasherDefault<Mix>>);

impl Owners {
    pub(crate) fn has(&self, owner: Owner) -> bool {
        self.0.contains_key(&owner)
    }

    pub(crate) fn enter(&mut self, owner: Owner) {
        *self.0.entry(owner).or_default() += 1;
    }

    pub(crate) fn leave(&mut self, owner: Owner) {
        if let Entry::Occupied(mut waits) = self.0.entry(owner) {
            *waits.get_mut() -= 1;
            if *waits.get() == 0 {
                waits.remove();
            }
        }
    }
}

/// Owners are numbers that were counted up by nobody but this process: one multiplication spreads them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The odd number next to 2^64 by the golden ratio; the table takes the lowest bits and the highest.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_there_for_as_long_as_one_of_its_acquisitions_is() {
        let (mut owners, [a, b]) = (Owners::default(), [Owner(4), Owner(8)]);
        [a, b, a].into_iter().for_each(|owner| owners.enter(owner));
        owners.leave(a);
        assert!(owners.has(a) && owners.has(b));
        owners.leave(a);
        owners.leave(a);
        assert!(!owners.has(a) && owners.has(b));
    }

    #[test]
    fn owners_in_a_row_are_spread_over_the_lowest_bits_and_the_highest() {
        let hash = |number: u64| {
            let mut mix = Mix::default();
            mix.write_u64(number);
            mix.finish()
        };
        for step in [1, 4, 64, 1 << 20] {
            let hashes: Vec<u64> = (1..=1024).map(|at| hash(at * step)).collect();
            for bits in [|hash: &u64| hash & 0xff, |hash: &u64| hash >> 57] {
                let parts: std::collections::HashSet<u64> = hashes.iter().map(bits).collect();
                assert!(parts.len() > 100, "{} parts of steps of {step}", parts.len());
            }
        }
    }
}
