//! How long answers take: measured where they are noted anyway, and kept in two words, so that noting one costs next to
//! nothing. What follows from it is decided by whoever waits for answers.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

/// Nothing was measured yet.
const UNKNOWN: u64 = u64::MAX;

/// The usual round trip moves by this part of what a new one differs, the longest and the shortest by this part back to it.
const USUAL: u32 = 8;
const BACK: u32 = 16;

/// How long answers take at present, from the sending of a command to its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    /// Smoothed over the last few.
    pub(crate) usual: Duration,
    /// The longest of the last few.
    pub(crate) longest: Duration,
    /// The shortest of the last few: what late answers do not change.
    pub(crate) shortest: Duration,
}

/// The round trips over one way.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    /// The usual and the longest in microseconds, in one half each. Where two are noted at once one of them may be lost.
    known: AtomicU64,
    shortest: AtomicU32,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self { known: AtomicU64::new(UNKNOWN), shortest: AtomicU32::new(u32::MAX) }
    }
}

impl RoundTrips {
    pub(crate) fn note(&self, took: Duration) {
        let known = self.known.load(Ordering::Relaxed);
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        let before = self.shortest.load(Ordering::Relaxed);
        let (usual, longest, shortest) = match unpack(known) {
            None => (took, took, took),
            Some((usual, longest)) => {
                (moved(usual, took, USUAL), took.max(moved(longest, took, BACK)), took.min(moved(before, took, BACK)))
            }
        };
        if shortest != before {
            self.shortest.store(shortest, Ordering::Relaxed);
        }
        let now = u64::from(usual) << 32 | u64::from(longest);
        if now != known {
            self.known.store(now, Ordering::Relaxed);
        }
    }

    /// `None`: nothing was measured yet.
    pub(crate) fn seen(&self) -> Option<RoundTrip> {
        let (usual, longest) = unpack(self.known.load(Ordering::Relaxed))?;
        let micros = |micros| Duration::from_micros(u64::from(micros));
        let shortest = self.shortest.load(Ordering::Relaxed).min(longest);
        Some(RoundTrip { usual: micros(usual), longest: micros(longest), shortest: micros(shortest) })
    }
}

fn unpack(known: u64) -> Option<(u32, u32)> {
    (known != UNKNOWN).then_some(((known >> 32) as u32, known as u32))
}

/// So far on the way from one to the other, and never at rest short of it.
fn moved(from: u32, to: u32, part: u32) -> u32 {
    let step = from.abs_diff(to).div_ceil(part);
    if from < to { from + step } else { from - step }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn after(took: &[Duration]) -> RoundTrip {
        let trips = RoundTrips::default();
        took.iter().for_each(|took| trips.note(*took));
        trips.seen().expect("something was measured")
    }

    #[test]
    fn nothing_is_known_before_the_first_and_that_counts_in_full() {
        assert_eq!(RoundTrips::default().seen(), None);
        assert_eq!(after(&[7 * MS]), RoundTrip { usual: 7 * MS, longest: 7 * MS, shortest: 7 * MS });
        assert_eq!(after(&[Duration::ZERO]), RoundTrip::default());
        assert_eq!(after(&[Duration::MAX]).longest, Duration::from_micros(u64::from(u32::MAX - 1)));
    }

    #[test]
    fn one_that_is_late_counts_at_once_as_the_longest_and_little_as_the_usual() {
        let trip = after(&[MS, MS, 201 * MS]);
        assert_eq!(trip, RoundTrip { usual: 26 * MS, longest: 201 * MS, shortest: MS + MS * 200 / 16 });
    }

    #[test]
    fn the_first_that_is_in_time_again_is_the_shortest_whatever_came_late_before_it() {
        let trip = after(&[MS, 900 * MS, 900 * MS, 900 * MS, MS]);
        assert_eq!(trip.shortest, MS);
        assert!(trip.usual > 250 * MS, "{trip:?}");
        // A way that has become longer is known as that after a few.
        let mut took = vec![MS];
        took.extend([200 * MS; 48]);
        assert!((190 * MS..=200 * MS).contains(&after(&took).shortest), "{:?}", after(&took));
    }

    #[test]
    fn what_is_past_is_forgotten_within_a_few() {
        let mut took = vec![200 * MS; 4];
        took.extend([2 * MS; 64]);
        let trip = after(&took);
        assert!((2 * MS..3 * MS).contains(&trip.usual), "{trip:?}");
        assert!((2 * MS..7 * MS).contains(&trip.longest), "{trip:?}");
        took.extend([2 * MS; 200]);
        let two = RoundTrip { usual: 2 * MS, longest: 2 * MS, shortest: 2 * MS };
        assert_eq!(after(&took), two, "to the last microsecond");
    }
}
