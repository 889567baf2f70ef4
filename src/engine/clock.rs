//! Time as a hold sees it: when it must count as over, and whether the machine slept. It sets no timer.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::date::Date;

/// What a holder gives up at the end of its lease: room for clocks that run at slightly different rates, and for the
/// server's whole milliseconds.
pub(crate) fn margin(lease: Duration) -> Duration {
    lease / 256 + Duration::from_millis(1)
}

/// When a hold must count as lost, if nothing is heard. `sent` is the instant *before* the request left, since the
/// server may have started its own count right after it.
pub(crate) fn deadline(sent: Instant, lease: Duration) -> Instant {
    sent + lease.saturating_sub(margin(lease))
}

/// The clock of one client.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn SleepSource>);

/// What a clock shows at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    /// The same.
    pub(super) date: Date,
    /// See [`Clock::slept`].
    pub(crate) slept: Duration,
}

/// Tells how long the machine slept, since some fixed time in the past. Never less than it told before.
pub(crate) trait SleepSource: Send + Sync + 'static {
    fn slept(&self) -> Duration;
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self::with_source(Arc::new(suspend::Suspend::new()))
    }

    /// For a store that lives on this process's clock: a lease stands still while the machine sleeps, as its holder does.
    #[cfg(feature = "embedded")]
    pub(crate) fn of_this_process() -> Self {
        struct Never;
        impl SleepSource for Never {
            fn slept(&self) -> Duration {
                Duration::ZERO
            }
        }
        Self::with_source(Arc::new(Never))
    }

    pub(crate) fn with_source(source: Arc<dyn SleepSource>) -> Self {
        Self(source)
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::now()
    }

    /// Both readings, for whatever is to be judged by them, be it one hold or many.
    pub(crate) fn moment(&self) -> Moment {
        // In this order: a sleep between the two counts against what is asked for now, and shortens it later.
        let slept = self.slept();
        let now = self.now();
        Moment { now, date: now.into(), slept }
    }

    /// How long the machine slept so far, in whole milliseconds. Only differences mean something: [`Clock::now`]
    /// stands still during a sleep on Linux, so a deadline is nearer than it looks by what this has grown meanwhile.
    pub(crate) fn slept(&self) -> Duration {
        self.0.slept()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("slept", &self.slept()).finish()
    }
}

#[cfg(target_os = "linux")]
mod suspend {
    //! The kernel's count: the clock that runs through a sleep, less the one that stands still.

    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use rustix::time::{ClockId, Timespec, clock_gettime};

    use super::SleepSource;

    pub(super) struct Suspend {
        /// The difference in nanoseconds when this was made. It may be negative in a time namespace.
        start: i128,
        /// The most that was ever seen.
        slept_ms: AtomicU64,
    }

    impl Suspend {
        pub(super) fn new() -> Self {
            Self::starting_at(difference())
        }

        pub(super) fn starting_at(start: i128) -> Self {
            Self { start, slept_ms: AtomicU64::new(0) }
        }

        /// Each difference is at most the true one, so the largest is the best, and it never goes back.
        pub(super) fn observe(&self, difference: i128) -> Duration {
            // Narrow before it is divided: that is one multiplication, where the wide number takes a loop.
            let slept = u64::try_from((difference - self.start).max(0)).unwrap_or(u64::MAX) / 1_000_000;
            let known = self.slept_ms.load(Ordering::Relaxed);
            // Written only when it grew, so that readers do not fight for the cache line.
            let most = if slept > known { self.slept_ms.fetch_max(slept, Ordering::Relaxed).max(slept) } else { known };
            Duration::from_millis(most)
        }
    }

    impl SleepSource for Suspend {
        fn slept(&self) -> Duration {
            self.observe(difference())
        }
    }

    /// The clock that runs through a sleep is read first: a thread that is paused between the two reads then sees
    /// too small a difference, never a sleep that was none.
    fn difference() -> i128 {
        let through_sleep = clock_gettime(ClockId::Boottime);
        let awake = clock_gettime(ClockId::Monotonic);
        nanoseconds(through_sleep) - nanoseconds(awake)
    }

    fn nanoseconds(time: Timespec) -> i128 {
        i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
    }
}

#[cfg(not(target_os = "linux"))]
mod suspend {
    //! No count is had here: a sleep shows only as far as the monotonic clock runs through it.

    use std::time::Duration;

    use super::SleepSource;

    pub(super) struct Suspend;

    impl Suspend {
        pub(super) fn new() -> Self {
            Self
        }
    }

    impl SleepSource for Suspend {
        fn slept(&self) -> Duration {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_margin_is_a_256th_and_a_millisecond() {
        assert_eq!(margin(Duration::ZERO), MS);
        assert_eq!(margin(MS * 256), MS * 2);
        assert_eq!(margin(Duration::from_secs(30)), Duration::from_nanos(118_187_500));
    }

    #[test]
    fn the_deadline_lies_within_the_lease_and_never_before_the_send() {
        let sent = Instant::now();
        assert_eq!(deadline(sent, MS * 256), sent + MS * 254);
        assert_eq!(deadline(sent, MS), sent);
        assert_eq!(deadline(sent, Duration::ZERO), sent);
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        assert!(deadline(sent, year) > sent + year - year / 255);
    }

    #[test]
    fn a_test_can_put_the_machine_to_sleep() {
        struct Told(AtomicU64);
        impl SleepSource for Told {
            fn slept(&self) -> Duration {
                Duration::from_secs(self.0.load(Ordering::Relaxed))
            }
        }
        let told = Arc::new(Told(AtomicU64::new(0)));
        let clock = Clock::with_source(Arc::clone(&told) as Arc<dyn SleepSource>);
        let copy = clock.clone();
        assert_eq!(copy.slept(), Duration::ZERO);
        told.0.store(90, Ordering::Relaxed);
        assert_eq!(copy.slept(), Duration::from_secs(90));
    }

    #[test]
    fn the_machine_does_not_seem_to_sleep_while_this_runs() {
        let clock = Clock::new();
        let mut last = clock.slept();
        // Reads that were torn apart by the scheduler must not show, and surely not as seconds.
        for _ in 0..100_000 {
            let slept = clock.slept();
            assert!(slept >= last);
            last = slept;
        }
        assert!(last < Duration::from_secs(1), "{last:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn sleep_is_counted_from_the_start_and_never_taken_back() {
        // A start below zero, as a time namespace can give.
        let suspend = suspend::Suspend::starting_at(-5_000_000_000);
        let observed = [
            (-5_000_000_000, 0),
            (-5_000_300_000, 0),
            (-4_999_000_001, 0),
            (-4_999_000_000, 1),
            (55_000_000_000, 60_000),
            (54_000_000_000, 60_000),
            (i128::from(i64::MAX), (i64::MAX as u64 + 5_000_000_000) / 1_000_000),
        ];
        for (difference, slept_ms) in observed {
            assert_eq!(suspend.observe(difference), Duration::from_millis(slept_ms), "{difference}");
        }
    }
}
