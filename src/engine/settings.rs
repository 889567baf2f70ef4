//! What a client was built with, and what of it a name needs.

use std::time::Duration;

use crate::{
    backend::Replicas,
    state::{self, Grants},
};

/// What a client was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) unreachable_after: Duration,
    pub(crate) handover_slice: Duration,
    /// Those that are to know of a grant before it counts.
    pub(crate) replicas: Option<Replicas>,
}

impl Settings {
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
        turns: (settings.watchdog_timeout / 2, (settings.watchdog_timeout / SHORT_TURN).clamp(SHORTEST_TURN, ENOUGH)),
        grants: if settings.replicas.is_some() { Grants::Acknowledged } else { Grants::Answered },
        ..state::Settings::default()
    }
}
