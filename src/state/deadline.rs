//! Time as a name sees it: a compact instant, the margin of a lease, and what a command asked for.
//!
//! The clock is the runtime's. It runs on while the machine sleeps, so no deadline here has to know of sleep.

use std::{
    num::NonZeroU64,
    ops::{Add, Sub},
    time::Duration,
};

use super::id::Era;

/// Nanoseconds since a point that the runtime chose. An `Option` of it takes no more room than itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(NonZeroU64);

impl Instant {
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Zero where the other is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// A span in as much room as an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span(u64);

impl From<Duration> for Span {
    fn from(span: Duration) -> Self {
        Self(nanos(span))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0)
    }
}

fn nanos(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos().into())
}

/// The soonest of those that there are.
pub(crate) fn soonest<const N: usize>(instants: [Option<Instant>; N]) -> Option<Instant> {
    // Never stands for none: without a branch for each.
    let first = instants.into_iter().fold(u64::MAX, |first, at| first.min(at.map_or(u64::MAX, |at| at.0.get())));
    NonZeroU64::new(first).filter(|first| *first != NonZeroU64::MAX).map(Instant)
}

/// What a holder gives up at the end of its lease: room for clocks that run at slightly different rates, and for the
/// server's whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margin {
    /// Of the lease, in parts of 2³²: so it costs no division.
    part: u32,
    /// Of any lease, beside that.
    least: Span,
}

impl Margin {
    /// `part` of a lease, from nothing to all of it, and `least` beside that.
    pub(crate) fn new(part: f64, least: Duration) -> Self {
        // Rounded up: what is given up is never less than was asked for.
        let part = (part * (f64::from(u32::MAX) + 1.0)).ceil() as u32;
        Self { part, least: least.into() }
    }

    pub(crate) fn of(self, lease: Duration) -> Duration {
        let part = (u128::from(nanos(lease)) * u128::from(self.part)) >> u32::BITS;
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX).saturating_add(self.least.0))
    }
}

/// For one server: a 256th of the lease, and a millisecond.
impl Default for Margin {
    fn default() -> Self {
        Self { part: 1 << (u32::BITS - 8), least: Duration::from_millis(1).into() }
    }
}

/// What a command asked for, and when it left. The deadline counts from then: the server's own count starts after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseRequest {
    pub(crate) sent: Instant,
    pub(crate) lease: Duration,
    /// A `max_hold` made it shorter than was asked for.
    pub(crate) cut: bool,
    /// It left, and may have run from then on.
    pub(crate) left: bool,
    /// Which servers answered when it left.
    pub(crate) era: Era,
}

impl LeaseRequest {
    /// For a hold that begins: never longer than its `max_hold`.
    pub(crate) fn first(lease: Duration, max_hold: Option<Duration>, now: Instant) -> Self {
        let longest = max_hold.unwrap_or(Duration::MAX);
        Self { sent: now, lease: lease.min(longest), cut: longest < lease, left: false, era: Era::default() }
    }

    /// Never beyond `bound`, in whole milliseconds. `None` if less than one is left before it.
    pub(crate) fn new(lease: Duration, bound: Option<Instant>, now: Instant) -> Option<Self> {
        let left = bound.map_or(Duration::MAX, |bound| bound - now);
        let left = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        let request = Self { sent: now, lease: lease.min(left), cut: left < lease, left: false, era: Era::default() };
        (!left.is_zero()).then_some(request)
    }

    /// It is sent now.
    pub(crate) fn leaves(&mut self, now: Instant, era: Era) {
        (self.sent, self.era, self.left) = (now, era, true);
    }

    /// When a hold counts as lost, if nothing else is heard.
    pub(crate) fn deadline(&self, margin: Margin) -> Instant {
        self.sent + self.lease.saturating_sub(margin.of(self.lease))
    }

    /// How far the lease reaches on the server at least.
    pub(crate) fn reached(&self) -> Instant {
        self.sent + self.lease
    }
}
