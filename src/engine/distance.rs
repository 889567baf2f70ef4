//! What follows from how far the server is: until when a try is waited for, and how many may be under way. Pure: it measures
//! nothing and waits for nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::RoundTrip;

/// However near the server is, a try that is on its way when a wait ends may still be answered within this time.
pub(super) const GRACE: Duration = Duration::from_millis(15);

/// On a way that is in order an answer takes no longer than so many of the longest round trips.
const ROUND_TRIPS: u32 = 3;

/// How far the server of a name is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distance {
    /// `None`: nothing was measured yet.
    round_trip: Option<RoundTrip>,
    command_timeout: Duration,
}

impl Distance {
    pub(super) fn new(round_trip: Option<RoundTrip>, command_timeout: Duration) -> Self {
        Self { round_trip, command_timeout }
    }

    /// How long an answer may take before a way counts as silent. Of one that nobody went yet nothing is known but that no
    /// command takes longer than its timeout.
    pub(super) fn patience(self) -> Duration {
        let known = self.round_trip.map(|trip| trip.longest.saturating_mul(ROUND_TRIPS));
        known.unwrap_or(self.command_timeout).min(self.command_timeout).max(GRACE)
    }

    /// How long an answer usually takes.
    pub(super) fn usual(self) -> Duration {
        self.round_trip.map_or(Duration::ZERO, |trip| trip.usual)
    }

    /// Until when an answer to what was asked at `asked` is waited for by somebody whose wait ends at `until`: where the
    /// server answers at all, it comes by then.
    pub(super) fn cut_off(self, until: Instant, asked: Instant) -> Instant {
        (until.max(asked) + GRACE).max(asked + self.patience())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const TIMEOUT: Duration = Duration::from_secs(3);

    fn at(longest: Option<Duration>) -> Distance {
        Distance::new(longest.map(|longest| RoundTrip { usual: Duration::ZERO, longest }), TIMEOUT)
    }

    #[test]
    fn whoever_is_near_waits_a_moment_longer_than_it_wants_and_whoever_is_far_for_its_answer() {
        let asked = Instant::now();
        for (longest, wait, over) in [
            (Duration::ZERO, 0, 15),
            (MS, 100, 115),
            (5 * MS, 0, 15),
            (20 * MS, 0, 60),
            (20 * MS, 100, 115),
            (200 * MS, 100, 600),
            (200 * MS, 5_000, 5_015),
        ] {
            assert_eq!(at(Some(longest)).cut_off(asked + MS * wait, asked), asked + MS * over, "{longest:?}, {wait}");
        }
        // A wait that was over before it was asked: the answer has its time all the same.
        assert_eq!(at(Some(200 * MS)).cut_off(asked, asked + 50 * MS), asked + 650 * MS);
    }

    #[test]
    fn no_answer_is_waited_for_beyond_the_command_timeout_whatever_was_measured() {
        let asked = Instant::now();
        assert_eq!(at(None).cut_off(asked, asked), asked + TIMEOUT);
        assert_eq!(at(Some(10 * TIMEOUT)).cut_off(asked, asked), asked + TIMEOUT);
        assert_eq!(at(Some(Duration::MAX / 4)).patience(), TIMEOUT);
    }
}
