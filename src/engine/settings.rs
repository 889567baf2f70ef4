//! What a client was built with, and what of it a name needs.

use std::time::Duration;

pub(crate) use crate::state::Margin;
use crate::{
    backend::Replicas,
    error::{Error, Result},
    lease,
    state::{self, Grants},
};

/// What a client was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) unreachable_after: Duration,
    pub(crate) handover_slice: Duration,
    /// What a holder gives up at the end of its lease.
    pub(crate) margin: Margin,
    /// Those that are to know of a grant before it counts.
    pub(crate) replicas: Option<Replicas>,
    /// Where several servers vote.
    pub(crate) voted: Option<Voted>,
}

/// What is different where several servers vote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voted {
    /// A server that may have forgotten what it granted counts for nothing for so long: nobody may have a longer lease.
    pub(crate) longest_lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            watchdog_timeout: Duration::from_secs(30),
            command_timeout: Duration::from_secs(3),
            unreachable_after: Duration::from_secs(9),
            handover_slice: Duration::from_millis(10),
            margin: Margin::default(),
            replicas: None,
            voted: None,
        }
    }
}

impl Settings {
    /// A lease that is not renewed, checked.
    pub(crate) fn fixed_lease(&self, lease: Duration) -> Result<Duration> {
        let lease = lease::fixed_lease("lease", lease)?;
        match self.voted {
            Some(Voted { longest_lease }) if longest_lease < lease => Err(Error::invalid(
                "lease",
                format!(
                    "must be no longer than the restart_quarantine of {longest_lease:?}, not {lease:?}: a master that restarted \
                     might grant the lock again before it is over"
                ),
            )),
            _ => Ok(lease),
        }
    }

    /// How long a try may stand behind others whose grants replicas are to know of.
    pub(super) fn in_line(&self) -> Duration {
        self.replicas.map_or(Duration::ZERO, Replicas::told_within)
    }
}

/// Whoever is there comes for what it is given within this part of a watchdog timeout, if that is no longer than a busy machine
/// takes for it, and no shorter than most do.
const SHORT_TURN: u32 = 64;
const ENOUGH: Duration = Duration::from_millis(50);
const SHORTEST_TURN: Duration = Duration::from_millis(5);

/// What a name needs of them.
pub(super) fn state_settings(settings: &Settings) -> state::Settings {
    state::Settings {
        watchdog: settings.watchdog_timeout,
        command_timeout: settings.command_timeout,
        unreachable_after: settings.unreachable_after,
        slice: settings.handover_slice,
        cool_down: settings.handover_slice,
        in_line: settings.in_line(),
        margin: settings.margin,
        turns: (settings.watchdog_timeout / 2, (settings.watchdog_timeout / SHORT_TURN).clamp(SHORTEST_TURN, ENOUGH)),
        grants: match settings {
            Settings { replicas: Some(_), .. } => Grants::Acknowledged,
            Settings { voted: Some(_), .. } => Grants::Voted,
            _ => Grants::Answered,
        },
        ..state::Settings::default()
    }
}
