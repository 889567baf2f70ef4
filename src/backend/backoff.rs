//! The pause before the next attempt to connect. Sleeps nowhere itself.

use std::time::Duration;

use crate::chance::Chance;

/// No pause is longer than this.
pub(super) const CAP: Duration = Duration::from_secs(1);

const FIRST: Duration = Duration::from_millis(10);

/// Pauses that double up to [`CAP`], each drawn evenly from zero to its bound: clients that lost one server together
/// must not come back together.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next pause; none before the first attempt.
    pub(super) fn pause(&mut self, chance: &Chance) -> Duration {
        let attempts = self.attempts;
        self.attempts = attempts.saturating_add(1);
        chance.part_of(bound(attempts))
    }

    /// The last attempt led to something: start over.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }
}

fn bound(attempts: u32) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        n => FIRST.saturating_mul(1 << (n - 1).min(16)).min(CAP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_from_nothing_to_the_cap() {
        assert_eq!(bound(0), Duration::ZERO);
        assert_eq!(bound(1), Duration::from_millis(10));
        assert_eq!(bound(4), Duration::from_millis(80));
        assert_eq!(bound(8), CAP);
        assert_eq!(bound(u32::MAX), CAP);
    }

    #[test]
    fn pauses_differ_and_stay_below_the_cap() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.pause(&Chance::System), Duration::ZERO);
        let pauses: Vec<_> = (0..200).map(|_| backoff.pause(&Chance::System)).collect();
        assert!(pauses.iter().all(|pause| *pause <= CAP));
        assert!(pauses[20..].iter().any(|pause| *pause > CAP / 2));
        assert!(pauses[20..].iter().any(|pause| *pause < CAP / 2));
        backoff.reset();
        assert_eq!(backoff.pause(&Chance::System), Duration::ZERO);
    }
}
