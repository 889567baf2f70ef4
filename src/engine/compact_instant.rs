//! An instant in eight bytes, for what every hold keeps for as long as it lives. It reads no clock.

use std::{
    fmt,
    num::NonZeroU64,
    ops::{Add, Sub},
    sync::OnceLock,
    time::Duration,
};

use tokio::time::Instant;

use crate::state;

/// What the first instant that was ever asked for is kept as: in the middle, so that 292 years fit on either side.
const FIRST: NonZeroU64 = NonZeroU64::MIN.saturating_add(u64::MAX / 2);

/// The same instant as the tokio [`Instant`] that it was made of, to the nanosecond, and as little as a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CompactInstant(NonZeroU64);

impl CompactInstant {
    pub(super) fn nanos_since(self, earlier: Self) -> u64 {
        self.0.get().saturating_sub(earlier.0.get())
    }

    pub(crate) fn after(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    /// Nanoseconds since the first instant that was ever asked for; none if this one is before it.
    pub(crate) fn since_first(self) -> u64 {
        self.0.get().saturating_sub(FIRST.get())
    }

    pub(crate) fn after_first(nanos: u64) -> Self {
        Self(FIRST.saturating_add(nanos))
    }
}

impl From<Instant> for CompactInstant {
    fn from(at: Instant) -> Self {
        let first = first();
        match at.checked_duration_since(first) {
            Some(after) => Self(FIRST) + after,
            None => Self(FIRST) - first.saturating_duration_since(at),
        }
    }
}

impl From<CompactInstant> for Instant {
    fn from(date: CompactInstant) -> Self {
        match date.0.get().checked_sub(FIRST.get()) {
            Some(after) => first() + Duration::from_nanos(after),
            // Further back than the machine's clock goes: all that matters is that it is over.
            None => first().checked_sub(Duration::from_nanos(FIRST.get() - date.0.get())).unwrap_or_else(first),
        }
    }
}

impl Add<Duration> for CompactInstant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        self.after(nanos(span))
    }
}

impl Sub<Duration> for CompactInstant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(NonZeroU64::new(self.0.get().saturating_sub(nanos(span))).unwrap_or(NonZeroU64::MIN))
    }
}

impl fmt::Debug for CompactInstant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Instant::from(*self).fmt(f)
    }
}

/// A span in nanoseconds; what is longer than any process runs is that long.
pub(crate) fn nanos(span: Duration) -> u64 {
    // By halves that fit: the whole in 128 bits costs several times as much.
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos().into())
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// By a clock that runs on while the machine sleeps, which it did for so long.
pub(super) fn instant(date: CompactInstant, slept: Duration) -> state::Instant {
    state::Instant::from_nanos(date.since_first() + nanos(slept))
}

fn first() -> Instant {
    static AT: OnceLock<Instant> = OnceLock::new();
    *AT.get_or_init(Instant::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPANS: [Duration; 5] = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(1),
        Duration::from_secs(3600),
        Duration::from_secs(100 * 365 * 24 * 3600),
    ];

    #[test]
    fn every_instant_comes_back_as_it_was() {
        let now = Instant::now();
        for span in SPANS {
            let later = now + span;
            assert_eq!(Instant::from(CompactInstant::from(later)), later);
            assert_eq!(Instant::from(CompactInstant::from(now) + span), later);
            assert_eq!(Instant::from(CompactInstant::from(later) - span), now);
            assert_eq!(
                CompactInstant::from(later).nanos_since(CompactInstant::from(now)),
                u64::try_from(span.as_nanos()).unwrap()
            );
        }
        // Before the first one, as far back as the machine's own clock goes.
        let Some(earlier) = first().checked_sub(Duration::from_millis(1)) else { return };
        assert_eq!(Instant::from(CompactInstant::from(earlier)), earlier);
        assert!(CompactInstant::from(earlier) < CompactInstant::from(now));
        assert_eq!(CompactInstant::from(earlier).nanos_since(CompactInstant::from(now)), 0);
    }

    #[test]
    fn a_span_without_an_end_ends_nowhere_else() {
        let now = CompactInstant::from(Instant::now());
        assert!(now + Duration::MAX > now + Duration::from_secs(200 * 365 * 24 * 3600));
        assert!(now - Duration::MAX < now);
    }

    #[test]
    fn none_takes_no_memory_of_its_own() {
        assert_eq!(size_of::<Option<CompactInstant>>(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_followed() {
        let before = CompactInstant::from(Instant::now());
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(CompactInstant::from(Instant::now()).nanos_since(before), 7_000_000_000);
    }
}
