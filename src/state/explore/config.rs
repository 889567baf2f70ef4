//! What a world may do.

use std::time::Duration;

use crate::state::{Grants, Lease, Margin, Settings};

use super::server::TICK;

/// How long the watchdog's lease is.
const WATCHDOG_TICKS: u32 = 3;

/// No command is given up for want of time: links are cut instead.
const LONG: u32 = 1_000;

/// How everybody in a world waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    ForEver,
    Ticks(u8),
    Once,
}

/// Who forces a lock that somebody has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForcedBy {
    /// The first process, by its own state.
    FirstProcess,
    /// Somebody else: no process is told.
    Stranger,
}

#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How often each task of each process acquires.
    pub(crate) tasks: Vec<Vec<u8>>,
    /// The same for leases, in ticks; none is the watchdog's.
    pub(crate) leases: Vec<Vec<u8>>,
    pub(crate) ticks: u8,
    /// So many links are replaced, subscriptions interrupted, futures dropped.
    pub(crate) cuts: u8,
    pub(crate) interruptions: u8,
    pub(crate) drops: u8,
    /// The server loses its key so often; so many processes die.
    pub(crate) server_losses: u8,
    pub(crate) deaths: u8,
    /// So many commands that were answered run again; so many go to the end of the line, since the server lacked their script.
    pub(crate) repeats: u8,
    pub(crate) requeues: u8,
    /// So many clients are about to end; so many end; so many servers are followed by one that has nothing, and its clients are told.
    pub(crate) endings: u8,
    pub(crate) closes: u8,
    pub(crate) failovers: u8,
    /// So many guards are given up for a hold that stays; so many holds are made longer.
    pub(crate) detaches: u8,
    pub(crate) extensions: u8,
    /// So many locks are forced, by so many copies of the command.
    pub(crate) forces: u8,
    pub(crate) copies: u8,
    pub(crate) forced_by: ForcedBy,
    /// How long a process keeps a name to itself, in ticks; 0 is over at every end.
    pub(crate) slice: u8,
    /// Replicas are to know of grants: acquires take another way.
    pub(crate) acknowledged: bool,
    /// So many grants too few of them know of.
    pub(crate) too_few: u8,
    /// Owners that hold nest.
    pub(crate) nest: bool,
    /// Guards are unlocked by somebody who waits for the answer.
    pub(crate) unlock: bool,
    /// Commands may wait before they leave.
    pub(crate) lag: bool,
    /// Clocks run at slightly different rates.
    pub(crate) drift: bool,
    /// A timer may fire after whatever else happens at its instant.
    pub(crate) late_timers: bool,
    /// Whoever is called may be polled later, or not at all.
    pub(crate) late_callers: bool,
    /// Everybody's longest hold, in ticks; 0 is none.
    pub(crate) max_hold: u8,
    pub(crate) waits: Waits,
    /// Time passes only while no command is under way.
    pub(crate) idle_ticks: bool,
    /// So many ticks a hold that nobody answers for may live.
    pub(crate) ghost_ticks: u8,
    /// So many ticks a key may be free while somebody waits and nothing is under way.
    pub(crate) free_ticks: u8,
    /// So many states are enough. Only a world that is too large for a machine has fewer than all of them.
    pub(crate) cap: usize,
}

impl Default for Config {
    /// Two tasks beside one in another process, under the watchdog; nothing fails, one tick passes.
    fn default() -> Self {
        Self {
            tasks: vec![vec![1, 1], vec![1]],
            leases: vec![vec![0; 3]; 2],
            ticks: 1,
            cuts: 0,
            interruptions: 0,
            drops: 0,
            server_losses: 0,
            deaths: 0,
            repeats: 0,
            requeues: 0,
            endings: 0,
            closes: 0,
            failovers: 0,
            detaches: 0,
            extensions: 0,
            forces: 0,
            copies: 1,
            forced_by: ForcedBy::FirstProcess,
            slice: 9,
            acknowledged: false,
            too_few: 0,
            nest: false,
            unlock: false,
            lag: false,
            drift: false,
            late_timers: false,
            late_callers: false,
            max_hold: 0,
            waits: Waits::ForEver,
            idle_ticks: false,
            ghost_ticks: 3,
            free_ticks: 3,
            cap: usize::MAX,
        }
    }
}

impl Config {
    pub(crate) fn settings(&self) -> Settings {
        let none = Duration::ZERO;
        Settings {
            watchdog: WATCHDOG_TICKS * TICK,
            command_timeout: LONG * TICK,
            unreachable_after: LONG * TICK,
            turns: (2 * TICK, TICK),
            in_line: none,
            grace: Duration::from_nanos(1),
            slice: u32::from(self.slice) * TICK,
            // A timer that may fire at any time.
            cool_down: Duration::from_nanos(1),
            grants: if self.acknowledged { Grants::Acknowledged } else { Grants::Answered },
            margin: Margin::default(),
            pauses: (none, none),
            polls: (none, none),
        }
    }

    pub(crate) fn lease(&self, process: usize, task: usize) -> Lease {
        match self.leases[process][task] {
            0 => Lease::Watchdog,
            ticks => Lease::Fixed(u32::from(ticks) * TICK),
        }
    }

    /// Every hold is under the watchdog, and time waits for the answers to its renewals.
    pub(crate) fn keeps_holds(&self) -> bool {
        self.idle_ticks && self.max_hold == 0 && self.leases.iter().flatten().all(|ticks| *ticks == 0)
    }

    /// Only one task is in the world.
    pub(crate) fn is_lonely(&self) -> bool {
        self.tasks.iter().flatten().count() == 1
    }
}
