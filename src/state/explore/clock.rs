//! How time passes in a world: TTLs, and timers that fire.

use crate::state::Event;

use super::{config::Config, process::Run, promise::Promise, server, world::World};

/// It may be the turn of those who do not come for so many ticks, however many they are: a lease is over then.
const LEASE_TICKS: u8 = 3;

/// The same for one of them.
const TURN_TICKS: u8 = 2;

/// A timer that is due fires so often before the next step, should it be set to the same instant again.
const ROUNDS: usize = 4;

impl World {
    /// Less than any margin is left before the next tick: what ends with it has ended on the server.
    pub(crate) fn almost_tick(&mut self, run: &mut Run<'_>) {
        self.late = true;
        (0..self.processes.len()).for_each(|at| self.process(at).ahead = None);
        self.silent |= server::almost_tick(&mut self.key);
        if !run.config.late_timers {
            self.fire_all(run);
        }
    }

    pub(crate) fn tick(&mut self, run: &mut Run<'_>) {
        (self.time, self.late) = (self.time + 1, false);
        (0..self.processes.len()).for_each(|at| self.process(at).ahead = None);
        self.pass_time(run.config);
        if !run.config.late_timers {
            self.fire_all(run);
        }
    }

    fn pass_time(&mut self, config: &Config) {
        let answered_for = self.key.is_none_or(|key| self.answers_for(key.number));
        if let Some(key) = &mut self.key {
            key.ghost = if answered_for { 0 } else { key.ghost + 1 };
            if key.ghost > config.ghost_ticks {
                self.broken = Some(Promise::AGhostDiesSoon);
            }
        }
        self.silent |= server::tick(&mut self.key);
        for at in 0..self.processes.len() {
            let process = self.process(at);
            let offered = process.name.turn();
            process.parked = if offered.is_some() { process.parked + 1 } else { 0 };
            let before = process.turn;
            process.turn = offered.map(|id| match before {
                Some((same, ticks)) if same == id => (id, ticks + 1),
                _ => (id, 1),
            });
            if process.parked > LEASE_TICKS || process.turn.is_some_and(|(_, ticks)| ticks > TURN_TICKS) {
                self.broken = Some(Promise::WhatNobodyTakesIsNotKept);
            }
        }
        self.harmed = self.harmed.map(|ticks| ticks.saturating_add(1).min(LEASE_TICKS * 3));
        let wanted = self.living().any(|(_, process)| process.name.is_wanted());
        self.free = if wanted && self.key.is_none() && self.is_quiet() { self.free + 1 } else { 0 };
        if self.free > config.free_ticks {
            self.broken = Some(Promise::NobodySleepsLongOnAFreeKey);
        }
    }

    fn fire_all(&mut self, run: &mut Run<'_>) {
        for p in 0..self.processes.len() {
            for _ in 0..ROUNDS {
                if self.processes[p].armed.is_some_and(|armed| armed <= self.now()) {
                    self.fire(p, run);
                }
            }
        }
    }

    /// A timer fires; a short one a moment later than now.
    pub(crate) fn fire(&mut self, p: usize, run: &mut Run<'_>) {
        let Some(armed) = self.process(p).armed.take() else { return };
        let now = armed.max(self.now_of(p));
        self.on_at(p, Event::Tick, now, run);
    }
}
