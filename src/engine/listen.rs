//! The one subscription of a name: asked for and let go as its state says, and what comes through it.

use std::sync::{Arc, Weak};

use super::{
    entry::{Entry, Event},
    entry_ref::EntryRef,
    shared::Engine,
};
use crate::{
    backend::{Heard, Listener},
    state,
};

impl EntryRef {
    pub(super) fn listen(&self) {
        let number = {
            let mut state = self.entry.lock();
            let listening = &mut state.seldom().listening;
            listening.number = listening.number.wrapping_add(1);
            listening.number
        };
        let (engine, entry) = (Arc::downgrade(&self.engine), Arc::downgrade(&self.entry));
        let protocol = &self.entry.protocol;
        let listener = Arc::new(EntryListener { engine, entry, number });
        let subscription = self.engine.line().subscribe(protocol.key(), protocol.channel(), listener);
        let before = self.entry.lock().seldom().listening.subscription.replace(Box::new(subscription));
        drop(before);
    }

    pub(super) fn unlisten(&self) {
        let subscription = {
            let mut state = self.entry.lock();
            let listening = &mut state.seldom().listening;
            listening.number = listening.number.wrapping_add(1);
            listening.subscription.take()
        };
        drop(subscription);
    }
}

/// Carries what a backend hears to the entry, without keeping either alive.
struct EntryListener {
    engine: Weak<Engine>,
    entry: Weak<Entry>,
    number: u32,
}

impl Listener for EntryListener {
    fn hear(&self, heard: Heard<'_>) {
        let (Some(engine), Some(entry)) = (self.engine.upgrade(), self.entry.upgrade()) else { return };
        let heard = match heard {
            Heard::Subscribed => state::Heard::Subscribed,
            Heard::Message(_) => state::Heard::Message,
            Heard::Interrupted => state::Heard::Interrupted,
            Heard::Refused => {
                engine.cannot_hear();
                state::Heard::Refused
            }
        };
        let place = EntryRef { engine, entry };
        place.perform_after(|state, env, effects| {
            if state.seldom().listening.number == self.number {
                state.name.on(Event::Heard(heard), env, effects);
            }
        });
    }
}
