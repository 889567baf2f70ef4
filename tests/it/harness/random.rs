//! Random numbers that are the same for the same seed. They decide nothing.

use std::time::Duration;

/// Random numbers that are the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// One of many independent sequences of one seed.
    pub(crate) fn new(seed: u64, lane: &[u64]) -> Self {
        let mut random = Self(seed);
        for number in lane {
            random.0 = random.next() ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93);
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the numbers below this.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True so many times in a thousand.
    pub(crate) fn once_in_a_while(&mut self, in_a_thousand: usize) -> bool {
        self.below(1000) < in_a_thousand
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A time from one number of milliseconds up to another.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from * 1000 + self.next() % ((to - from) * 1000 + 1))
    }
}
