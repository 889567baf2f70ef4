//! Time as a client sees it, and whether the machine slept. It sets no timer.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::compact_instant::CompactInstant;

/// The clock of one client.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn SleepSource>);

/// What a clock shows at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Instant,
    /// The same.
    pub(super) date: CompactInstant,
    /// See [`Clock::slept`].
    pub(crate) slept: Duration,
}

/// Tells how long the machine slept, since some fixed time in the past. Never less than it told before.
pub(crate) trait SleepSource: Send + Sync + 'static {
    fn slept(&self) -> Duration;

    fn moment(&self) -> Moment {
        // In this order: a sleep between the two makes a deadline nearer, never later.
        let slept = self.slept();
        Moment::new(Instant::now(), slept)
    }
}

impl Moment {
    fn new(now: Instant, slept: Duration) -> Self {
        Self { now, date: now.into(), slept }
    }
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

    /// Both readings at once, for whatever is to be judged by them, be it one hold or many.
    pub(crate) fn moment(&self) -> Moment {
        self.0.moment()
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
    use tokio::time::Instant;

    use super::{CompactInstant, Moment, SleepSource};

    /// Nanoseconds of the clock that runs through a sleep.
    type Nanos = u64;

    pub(super) struct Suspend {
        /// The difference in nanoseconds when this was made. It may be negative in a time namespace.
        start: i128,
        /// What both clocks said then, for a quick look: the one that stands still was read first.
        began: (CompactInstant, Nanos),
        /// The most that was ever seen.
        slept_ms: AtomicU64,
    }

    impl Suspend {
        pub(super) fn new() -> Self {
            // A thread that is paused between the readings of one look is not paused in all of them: else what it missed
            // would pass for a sleep that is known of.
            let looks = (0..LOOKS).map(|_| Look::now());
            looks.min_by_key(|look| look.took).map_or_else(|| Self::from(Look::now()), Self::from)
        }

        #[cfg(test)]
        pub(super) fn starting_at(start: i128) -> Self {
            Self { start, ..Self::new() }
        }

        #[cfg(test)]
        pub(super) fn began(&self) -> (CompactInstant, Nanos) {
            self.began
        }

        /// What the machine slept, if one clock ran no further than the other and what is known explain. A runtime's clock
        /// that a test has paused lags behind, and explains nothing.
        pub(super) fn known(&self, through_sleep: Nanos, awake: CompactInstant) -> Option<Duration> {
            let known_ms = self.slept_ms.load(Ordering::Relaxed);
            let known = known_ms.saturating_add(1).saturating_mul(1_000_000);
            let explained = awake.nanos_since(self.began.0).saturating_add(known);
            (through_sleep.saturating_sub(self.began.1) < explained).then(|| Duration::from_millis(known_ms))
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

    /// So often both clocks are read for what all later readings are compared with.
    const LOOKS: usize = 8;

    /// Both clocks at one time, and how far that may be from one.
    struct Look {
        awake: std::time::Instant,
        through_sleep: Nanos,
        difference: i128,
        took: Duration,
    }

    impl Look {
        fn now() -> Self {
            let awake = std::time::Instant::now();
            let through_sleep = through_sleep();
            let difference = difference();
            Self { awake, through_sleep, difference, took: awake.elapsed() }
        }
    }

    impl From<Look> for Suspend {
        fn from(look: Look) -> Self {
            let began = (CompactInstant::from(Instant::from_std(look.awake)), look.through_sleep);
            Self { start: look.difference, began, slept_ms: AtomicU64::new(0) }
        }
    }

    impl SleepSource for Suspend {
        fn slept(&self) -> Duration {
            self.observe(difference())
        }

        fn moment(&self) -> Moment {
            let through_sleep = through_sleep();
            let now = Instant::now();
            let date = CompactInstant::from(now);
            match self.known(through_sleep, date) {
                Some(slept) => Moment { now, date, slept },
                None => {
                    let slept = self.slept();
                    Moment::new(Instant::now(), slept)
                }
            }
        }
    }

    /// The clock that runs through a sleep is read first: a thread that is paused between the two reads then sees
    /// too small a difference, never a sleep that was none.
    fn difference() -> i128 {
        let through_sleep = clock_gettime(ClockId::Boottime);
        let awake = clock_gettime(ClockId::Monotonic);
        nanoseconds(through_sleep) - nanoseconds(awake)
    }

    fn through_sleep() -> Nanos {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
        u64::try_from(tv_sec)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000)
            .saturating_add(u64::try_from(tv_nsec).unwrap_or(0))
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
    fn a_test_can_put_the_machine_to_sleep() {
        struct SetSleep(AtomicU64);
        impl SleepSource for SetSleep {
            fn slept(&self) -> Duration {
                Duration::from_secs(self.0.load(Ordering::Relaxed))
            }
        }
        let told = Arc::new(SetSleep(AtomicU64::new(0)));
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

    #[test]
    fn a_moment_tells_what_the_two_tell_one_by_one() {
        let clock = Clock::new();
        for _ in 0..100_000 {
            let (before, slept_before) = (clock.now(), clock.slept());
            let moment = clock.moment();
            assert!((before..=clock.now()).contains(&moment.now));
            assert!((slept_before..=clock.slept()).contains(&moment.slept));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_later_readings_are_compared_with_was_read_at_one_time() {
        let (awake, through_sleep) = suspend::Suspend::new().began();
        let (now, now_through_sleep) = suspend::Suspend::new().began();
        let [one, other] = [now.nanos_since(awake), now_through_sleep - through_sleep].map(Duration::from_nanos);
        assert!(one.abs_diff(other) < MS, "{one:?} on the one clock are {other:?} on the other");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_quick_look_knows_of_no_sleep_that_the_clocks_do_not_explain() {
        let suspend = suspend::Suspend::starting_at(0);
        let (awake, through_sleep) = suspend.began();
        let (second, sleep) = (Duration::from_secs(1), Duration::from_millis(1_700));
        let ms = |ms: u64| through_sleep + ms * 1_000_000;
        assert_eq!(suspend.known(ms(1_000), awake + second), Some(Duration::ZERO));
        assert_eq!(suspend.known(ms(2_700), awake + second), None, "it slept");
        assert_eq!(suspend.known(ms(1_000), awake), None, "a paused clock");
        suspend.observe(1_700_000_000);
        assert_eq!(suspend.known(ms(2_700), awake + second), Some(sleep));
        assert_eq!(suspend.known(ms(2_701), awake + second), None, "it slept again");
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
