//! Tries have their turn among those of their client: where too many are under way at one server they stand in line.

use std::sync::Arc;

use tokio::time::Instant;

use super::{clock::Moment, distance::TRIES, entry_ref::EntryRef, flights::Landed, tries::ACKNOWLEDGED_TRIES};
use crate::state::{Command, TryPlace};

impl EntryRef {
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
            let place = EntryRef { engine: Arc::clone(&self.engine), entry };
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
