//! Chance that can be repeated: the same seed throws the same dice. Knows nothing of what is decided by it.

use std::time::Duration;

/// SplitMix64: small, good enough to choose what goes wrong next.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of its own for each of several parts of one run.
    pub(crate) fn apart(&self, part: u64) -> Self {
        let mut dice = Self(self.0 ^ part.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        dice.throw();
        dice
    }

    pub(crate) fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..sides`.
    pub(crate) fn of(&mut self, sides: u64) -> u64 {
        self.throw() % sides
    }

    /// True in so many of a hundred.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.of(100) < percent
    }

    /// Whole milliseconds from `least` to `most`.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.of(most - least + 1))
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.of(of.len() as u64)).expect("an index")]
    }
}

#[test]
fn the_same_seed_throws_the_same_and_parts_differ() {
    let throws = |mut dice: Dice| (0..100).map(|_| dice.throw()).collect::<Vec<_>>();
    let dice = Dice::new(7);
    assert_eq!(throws(dice.clone()), throws(Dice::new(7)));
    assert_ne!(throws(dice.clone()), throws(Dice::new(8)));
    assert_ne!(throws(dice.apart(1)), throws(dice.apart(2)));
}
