//! Turns that nobody takes. An acquisition may be neither polled nor dropped: what it was given is taken back after a while,
//! as if it had been dropped, and the next one gets it. Polled again, it starts over.

use std::time::Duration;

use super::{
    clock::Moment,
    date::Date,
    effects::{Effects, Said},
    registry::{Place, State},
};
use crate::owner::Owner;

/// So often in a row a turn is given for half as long as the one before: however many do not take theirs, all of them
/// together have about one watchdog timeout.
const HALVINGS: u8 = 9;

/// A task that was woken may take so long on a busy machine.
const SHORTEST: Duration = Duration::from_millis(5);

/// How long a turn is kept for somebody who does not take it, after so many who did not.
fn patience(watchdog: Duration, passed_over: u8) -> Duration {
    (watchdog / (2 << passed_over.min(HALVINGS))).max(SHORTEST)
}

impl State {
    /// When the live hold is taken back, if nobody works under it.
    pub(super) fn taken_back_at(&self, place: &Place) -> Option<Date> {
        let since = self.hold.as_ref()?.untaken_since()?;
        Some(since + patience(place.engine.settings().watchdog_timeout, self.passed_over))
    }

    /// Whether nobody worked under the live hold for too long.
    pub(super) fn is_left(&self, place: &Place, moment: Moment) -> bool {
        self.taken_back_at(place).is_some_and(|at| at <= moment.date)
    }

    /// A turn was taken: the next one is kept for as long as ever.
    pub(super) fn turn_taken(&mut self) {
        self.passed_over = 0;
    }

    /// Somebody did not take its turn.
    pub(super) fn turn_missed(&mut self, owner: &Owner, place: &Place, fx: &mut Effects) {
        self.passed_over = self.passed_over.saturating_add(1);
        if place.engine.first_time("parked", place.name()) {
            fx.say(Said::Parked { owner: owner.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_miss_their_turns_the_first_ones_have_a_watchdog_timeout_together() {
        let watchdog = Duration::from_secs(30);
        let each: Vec<_> = (0..=u8::MAX).map(|passed_over| patience(watchdog, passed_over)).collect();
        assert_eq!(each[..3], [watchdog / 2, watchdog / 4, watchdog / 8]);
        assert!(each[..10].iter().sum::<Duration>() < watchdog);
        assert!(each[10..].iter().all(|each| *each < watchdog / 1000));
        assert_eq!(patience(Duration::from_millis(100), 9), SHORTEST);
    }
}
