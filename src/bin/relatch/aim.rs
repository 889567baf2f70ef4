//! For which period a call of `once` is, by what the server says of its clock: only decisions, no I/O.

use std::time::Duration;

use tokio::time::Instant;

/// A call that comes so shortly before a period is meant for that one: the clocks of machines are not the same.
const EARLY: Duration = Duration::from_secs(10);
/// But no earlier than this part of a period.
const PART: u32 = 4;

/// The period that a call is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    ends: Instant,
    every: Duration,
}

/// How the period of an answer stands to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The answer is of the period before, and ours begins in a moment.
    Before(Instant),
    Within,
    After,
}

impl Aim {
    /// By the first answer, in whose period so much was left.
    pub(crate) fn of(every: Duration, left: Duration, now: Instant) -> Self {
        let next = now + left;
        Self { ends: if left <= early(every) { next + every } else { next }, every }
    }

    /// For an answer in whose period so much is left. Two answers in one period differ by what they took on their way.
    pub(crate) fn answered(self, left: Duration, now: Instant) -> Answered {
        let (next, slack) = (now + left, self.every / 2);
        if self.ends + slack < next {
            Answered::After
        } else if next + slack < self.ends && left <= early(self.every) {
            Answered::Before(next)
        } else {
            Answered::Within
        }
    }

    /// When it ends.
    pub(crate) fn ends(self) -> Instant {
        self.ends
    }
}

fn early(every: Duration) -> Duration {
    EARLY.min(every / PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_call_just_before_a_period_is_for_that_one_and_any_other_for_its_own() {
        let now = Instant::now();
        for (every, left, is_early) in [
            (HOUR, Duration::from_millis(1), true),
            (HOUR, 10 * SECOND, true),
            (HOUR, 11 * SECOND, false),
            (HOUR, HOUR, false),
            (4 * SECOND, SECOND, true),
            (4 * SECOND, 2 * SECOND, false),
            (SECOND, SECOND / 2, false),
        ] {
            let aim = Aim::of(every, left, now);
            let (answered, ends) = if is_early {
                (Answered::Before(now + left), now + left + every)
            } else {
                (Answered::Within, now + left)
            };
            assert_eq!((aim.answered(left, now), aim.ends()), (answered, ends), "{every:?} {left:?}");
        }
    }

    #[test]
    fn answers_of_one_period_are_told_from_those_of_the_next() {
        let (now, ms) = (Instant::now(), Duration::from_millis(1));
        let aim = Aim::of(HOUR, HOUR - SECOND, now);
        let later = now + HOUR - SECOND;
        assert_eq!(aim.answered(2 * SECOND, later - SECOND), Answered::Within, "this one took a second on its way");
        assert_eq!(aim.answered(ms, later), Answered::Within);
        assert_eq!(aim.answered(HOUR - ms, later), Answered::After);
        let early = Aim::of(HOUR, SECOND, now);
        let begins = now + SECOND;
        assert_eq!(early.answered(ms, begins - ms), Answered::Before(begins));
        assert_eq!(early.answered(HOUR, begins), Answered::Within);
        assert_eq!(early.answered(HOUR, begins + HOUR), Answered::After);
        assert_eq!(early.answered(HOUR / 4, begins + HOUR / 4), Answered::Within, "the clock was set back");
    }
}
