//! Where everything random comes from: client ids, tokens and the jitter of pauses. It knows nothing of what they are for.

#[cfg(feature = "embedded")]
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use uuid::Uuid;

/// A source of random numbers. Clones draw from the same one.
#[derive(Clone, Debug, Default)]
pub(crate) enum Chance {
    /// The system's. The standard hasher's random keys are good enough for jitter.
    #[default]
    System,
    /// A sequence that its seed decides, so that a run can be repeated.
    #[cfg(feature = "embedded")]
    Seeded(Arc<AtomicU64>),
}

impl Chance {
    #[cfg(feature = "embedded")]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self::Seeded(Arc::new(AtomicU64::new(seed)))
    }

    /// Evenly from 0 up to, but not including, 1.
    pub(crate) fn share(&self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of 65 536 equal shares.
    pub(crate) fn of_65_536(&self) -> u16 {
        (self.bits() >> 48) as u16
    }

    /// Evenly from nothing up to a bound, so that those who failed together do not come back together.
    pub(crate) fn part_of(&self, longest: Duration) -> Duration {
        longest.mul_f64(self.share())
    }

    /// An id that nobody else draws.
    pub(crate) fn uuid(&self) -> Uuid {
        match self {
            Self::System => Uuid::new_v4(),
            #[cfg(feature = "embedded")]
            Self::Seeded(_) => Uuid::from_u64_pair(self.bits(), self.bits()),
        }
    }

    /// What nobody else draws, and nobody guesses. Six bits of an id are always the same, at one place in each half.
    pub(crate) fn token(&self) -> u128 {
        self.uuid().as_u128() ^ self.uuid().as_u128().rotate_left(64)
    }

    fn bits(&self) -> u64 {
        match self {
            Self::System => RandomState::new().hash_one(0_u8),
            #[cfg(feature = "embedded")]
            Self::Seeded(state) => mixed(state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP)),
        }
    }
}

/// An odd step visits every number before it comes back: the golden ratio's spreads them best.
#[cfg(feature = "embedded")]
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Sebastiano Vigna's SplitMix64, as its author gave it to the public.
#[cfg(feature = "embedded")]
fn mixed(state: u64) -> u64 {
    let first = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    second ^ (second >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<Chance> {
        vec![
            Chance::System,
            #[cfg(feature = "embedded")]
            Chance::seeded(7),
        ]
    }

    #[test]
    fn shares_are_drawn_evenly() {
        for chance in sources() {
            let mut quarters = [0; 4];
            for _ in 0..4000 {
                quarters[(chance.share() * 4.0) as usize] += 1;
            }
            // By chance one is off by a fifth in less than one run of a billion.
            assert!(quarters.iter().all(|count| (800..1200).contains(count)), "{chance:?}: {quarters:?}");
        }
    }

    #[test]
    fn an_id_is_drawn_once() {
        for chance in sources() {
            let drawn: std::collections::HashSet<_> = (0..1000).map(|_| chance.uuid()).collect();
            assert_eq!(drawn.len(), 1000);
        }
    }

    #[test]
    fn every_bit_of_a_token_is_drawn() {
        for chance in sources() {
            let (mut set, mut clear) = (0, 0);
            // By chance one stays as it is in less than one run of a billion.
            for _ in 0..64 {
                let token = chance.token();
                (set, clear) = (set | token, clear | !token);
            }
            assert_eq!((set, clear), (u128::MAX, u128::MAX), "{chance:?}");
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn a_seed_decides_all_that_is_drawn() {
        let drawn = |seed| {
            let chance = Chance::seeded(seed);
            (chance.uuid(), chance.clone().share(), chance.part_of(Duration::from_secs(1)))
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        // The first of the published sequence for seed 1234567.
        assert_eq!(Chance::seeded(1_234_567).bits(), 6_457_827_717_110_365_317);
    }
}
