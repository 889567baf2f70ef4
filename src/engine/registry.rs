//! Which names a client knows: an entry is made when somebody asks for it, and forgotten when there is nothing to remember.

use std::sync::{Arc, Weak, atomic::Ordering};

use super::{
    Protocol,
    entry::{ByKey, Client, ClientRef, Entry, Event, State},
    entry_ref::EntryRef,
    kinds::{in_use_as_another, in_use_with_other_options},
    shared::Engine,
};
use crate::error::{Error, Result};

impl Engine {
    /// The entry of a key that is known, if it has one.
    pub(crate) fn find(self: &Arc<Self>, key: &str) -> Option<EntryRef> {
        let entry = Arc::clone(&self.entries.get(key)?.key().0);
        Some(EntryRef { engine: Arc::clone(self), entry })
    }

    /// The entry of a protocol's key.
    fn place(self: &Arc<Self>, protocol: &Arc<dyn Protocol>) -> EntryRef {
        if let Some(place) = self.find(protocol.key()) {
            return place;
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let client = self.of_entries.get_or_init(|| {
            let client: Weak<dyn Client> = Arc::<Self>::downgrade(self);
            Arc::new(ClientRef(client))
        });
        let made =
            Arc::new(Entry::new(number, Arc::clone(client), self.line().era(protocol.key()), Arc::clone(protocol)));
        // Another may have made one meanwhile: that one stays.
        let entry = Arc::clone(&self.entries.entry(ByKey(made)).or_default().key().0);
        let place = EntryRef { engine: Arc::clone(self), entry };
        // Those that were known were told.
        if self.is_ending() {
            place.on(Event::Ending);
        }
        place
    }

    /// Something happens at a protocol's entry, whichever is in the registry at that moment.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] where another primitive has the key; [`Error::Closed`].
    pub(super) fn at(self: &Arc<Self>, protocol: &Arc<dyn Protocol>, mut event: Event) -> Result<EntryRef> {
        loop {
            if self.is_closed() {
                return Err(Error::Closed);
            }
            let place = self.place(protocol);
            if let Some(error) = in_use_as_another(&*place.entry.protocol, &**protocol) {
                return Err(error);
            }
            if place.entry.protocol.options() != protocol.options() {
                if self.replaces(&place.entry) {
                    continue;
                }
                return Err(in_use_with_other_options(&**protocol));
            }
            match place.on_live(event) {
                Ok(()) => return Ok(place),
                Err(untold) => event = untold,
            }
        }
    }

    /// Forgets an entry that has nothing to remember.
    pub(super) fn forget(self: &Arc<Self>, entry: &Arc<Entry>) {
        let place = EntryRef { engine: Arc::clone(self), entry: Arc::clone(entry) };
        self.forget_if(entry, |state| place.with_env(self.clock().moment(), None, |env| state.name.is_idle(env)));
    }

    /// Forgets an entry that nobody uses, for one with other options; false where somebody does.
    fn replaces(&self, entry: &Arc<Entry>) -> bool {
        self.forget_if(entry, |state| state.name.is_done());
        entry.lock().dead
    }

    fn forget_if(&self, entry: &Arc<Entry>, is_idle: impl Fn(&State) -> bool) {
        self.entries.remove_if(&**entry.protocol.key(), |found, ()| {
            let mut state = entry.lock();
            let idle = Arc::ptr_eq(&found.0, entry) && !state.performing && entry.flights.is_empty() && is_idle(&state);
            if idle {
                state.dead = true;
                self.schedule().remove(entry);
            }
            idle
        });
    }
}
