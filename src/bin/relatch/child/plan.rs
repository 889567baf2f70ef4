//! When a command is told to stop, and when it is killed: only decisions, no clock and no process.

use std::time::Duration;

use crate::args::OnLoss;

/// Between TERM and KILL, where nobody says.
const GRACE: Duration = Duration::from_secs(5);
/// A command is killed so much before its lock ends, at the most: killing takes a moment.
const MOMENT: Duration = Duration::from_millis(100);

/// What was agreed for the command of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    on_loss: OnLoss,
    grace: Duration,
    moment: Duration,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing, whatever happens.
    Nothing,
    /// Nothing for so long.
    LookIn(Duration),
    /// It is told to stop, and killed so much later.
    Term { kill_in: Duration },
    /// It is killed.
    Kill,
}

impl Plan {
    /// For a hold that is good for so long unless it is renewed.
    pub(crate) fn new(on_loss: OnLoss, grace: Option<Duration>, whole: Duration) -> Self {
        // One that takes most of the lease would end commands whose renewal is only late.
        let grace = grace.map_or_else(|| GRACE.min(whole / 3), |asked| asked.min(whole / 2));
        Self { on_loss, grace, moment: MOMENT.min(whole / 100) }
    }

    /// For a command that was not told anything yet. `left`: how long its hold is good for by now; `None` if it is lost.
    pub(crate) fn step(&self, left: Option<Duration>) -> Step {
        let until_killed = left.map(|left| left.saturating_sub(self.moment));
        match (self.on_loss, until_killed) {
            (OnLoss::Ignore, _) => Step::Nothing,
            (OnLoss::Kill, None) => Step::Kill,
            (OnLoss::Term, None) => Step::Term { kill_in: self.grace },
            (OnLoss::Kill, Some(left)) if left.is_zero() => Step::Kill,
            (OnLoss::Kill, Some(left)) => Step::LookIn(left),
            (OnLoss::Term, Some(left)) if left > self.grace => Step::LookIn(left - self.grace),
            (OnLoss::Term, Some(left)) => Step::Term { kill_in: left },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn plan(on_loss: OnLoss) -> Plan {
        Plan::new(on_loss, None, 30 * SECOND)
    }

    #[test]
    fn term_comes_a_grace_before_the_kill_and_the_kill_before_the_end() {
        let plan = plan(OnLoss::Term);
        assert_eq!(plan.step(Some(30 * SECOND)), Step::LookIn(25 * SECOND - MOMENT));
        assert_eq!(plan.step(Some(5 * SECOND + MOMENT)), Step::Term { kill_in: 5 * SECOND });
        assert_eq!(plan.step(Some(2 * SECOND)), Step::Term { kill_in: 2 * SECOND - MOMENT });
        assert_eq!(plan.step(Some(Duration::ZERO)), Step::Term { kill_in: Duration::ZERO });
    }

    #[test]
    fn a_hold_that_is_gone_already_leaves_the_command_its_grace() {
        assert_eq!(plan(OnLoss::Term).step(None), Step::Term { kill_in: 5 * SECOND });
        assert_eq!(plan(OnLoss::Kill).step(None), Step::Kill);
    }

    #[test]
    fn a_command_is_killed_without_a_word_or_left_alone_if_that_is_wanted() {
        assert_eq!(plan(OnLoss::Kill).step(Some(SECOND)), Step::LookIn(SECOND - MOMENT));
        assert_eq!(plan(OnLoss::Kill).step(Some(MOMENT)), Step::Kill);
        assert_eq!(plan(OnLoss::Kill).step(Some(Duration::from_millis(100))), Step::Kill, "killing takes a moment");
        for left in [Some(30 * SECOND), Some(Duration::ZERO), None] {
            assert_eq!(plan(OnLoss::Ignore).step(left), Step::Nothing);
        }
    }

    #[test]
    fn a_grace_is_never_most_of_the_lease() {
        let kill_in = |asked, whole| match Plan::new(OnLoss::Term, asked, whole).step(None) {
            Step::Term { kill_in } => kill_in,
            other => panic!("{other:?}"),
        };
        assert_eq!(kill_in(None, 6 * SECOND), 2 * SECOND);
        assert_eq!(kill_in(Some(20 * SECOND), 30 * SECOND), 15 * SECOND);
        assert_eq!(kill_in(Some(Duration::ZERO), 30 * SECOND), Duration::ZERO);
    }
}
