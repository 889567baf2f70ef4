//! How many tries of one client are under way at a time where one server is. Waiters that are all woken at once never stand
//! before renewals and releases, and on a long way no fewer are answered in the same time than on a short one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{
    clock::Moment,
    entry::{Entry, Place},
    flights::Landed,
};
use crate::state::{Command, TryPlace};

/// Twice so many are in flight where the server is near.
pub(super) const TRIES: usize = 64;

/// So many of those whose grants replicas are to know of: they share questions over a link of their own, on which nobody else
/// stands behind them.
pub(super) const ACKNOWLEDGED_TRIES: usize = 4096;

#[derive(Default)]
pub(super) struct Tries(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    under_way: usize,
    waiting: VecDeque<(Arc<Entry>, Command)>,
    /// Somebody sends those that wait: what is over at once meanwhile makes room for that one to fill.
    sending: bool,
}

impl Tries {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Tries {
    pub(super) fn under_way(&self) -> usize {
        self.lock().under_way
    }

    pub(super) fn occupy(&self, count: usize) {
        self.lock().under_way += count;
    }

    pub(super) fn vacate(&self, count: usize) {
        if count == 0 {
            return;
        }
        let mut turns = self.lock();
        // One of them has to be over for those that wait to have their turn.
        turns.under_way -= count - 1;
        let waiting = turns.waiting.front().map(|(entry, _)| Arc::clone(entry));
        match waiting.and_then(|entry| Some(Place { engine: entry.engine.upgrade()?, entry })) {
            Some(place) => {
                drop(turns);
                place.tried(0);
            }
            None => turns.under_way -= 1,
        }
    }
}

impl Place {
    /// Sends a try, or lets it stand in line. One that is answered at once is handed back.
    pub(super) fn tries_in_turn(&self, command: Command, moment: Moment) -> Option<Landed> {
        let at = self.engine.line().place(self.entry.protocol.key());
        let tries = self.engine.tries.at(at);
        let mut turns = tries.lock();
        let has_room = |under_way| under_way < 2 * TRIES || under_way < self.most_tries();
        if turns.waiting.is_empty() && has_room(turns.under_way) {
            turns.under_way += 1;
            drop(turns);
            return self.try_now(command, at, moment.now);
        }
        turns.waiting.push_back((Arc::clone(&self.entry), command));
        drop(turns);
        self.change(|name, env, effects| name.stands(command.id, TryPlace::Line, env, effects));
        None
    }

    /// One is over that was counted there: those that wait have their turn. A key may be elsewhere by then.
    pub(super) fn tried(&self, at: u32) {
        let tries = self.engine.tries.at(at);
        let mut turns = tries.lock();
        turns.under_way -= 1;
        if turns.waiting.is_empty() || std::mem::replace(&mut turns.sending, true) {
            return;
        }
        let most = self.most_tries();
        while turns.under_way < most
            && let Some((entry, command)) = turns.waiting.pop_front()
        {
            turns.under_way += 1;
            drop(turns);
            // Sent in vain it costs nothing: it asks whether it is still wanted.
            let place = Place { engine: Arc::clone(&self.engine), entry };
            place.change(|name, env, effects| name.stands(command.id, TryPlace::Link, env, effects));
            let landed = place.try_now(command, at, Instant::now());
            landed.into_iter().for_each(|landed| place.landed(landed));
            turns = tries.lock();
        }
        turns.sending = false;
    }

    fn most_tries(&self) -> usize {
        if self.engine.settings().replicas.is_some() { ACKNOWLEDGED_TRIES } else { self.distance().tries() * 2 }
    }
}
