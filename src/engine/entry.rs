//! One name of a client: its state behind one mutex, and beside it what its client's lists know it by. It knows its client only as
//! whoever looks after what was sent for it.

use std::{
    borrow::Borrow,
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::Wake,
};

use super::{
    Protocol,
    convert::fault_of,
    flights::{Flights, Polling},
    tenure::Tenure,
};
use crate::{
    backend::{Fault, Subscription},
    state::{self, Expired, HoldNumber, Instant, Shape, Succession},
};

pub(super) type Name = state::Name<Arc<Tenure>, Arc<Tenure>>;
pub(super) type Event = state::Event<Arc<Tenure>>;
pub(super) type Effect = state::Effect<Arc<Tenure>, Arc<Tenure>>;

/// One mapped key of a client, shared by all owners, guards and primitives.
pub(crate) struct Entry {
    /// In the order in which the client's entries were made.
    pub(super) number: u64,
    pub(crate) protocol: Arc<dyn Protocol>,
    client: Arc<ClientRef>,
    pub(super) shape: Shape,
    state: Mutex<State>,
    /// When the driver looks at it.
    pub(super) scheduled: Scheduled,
    /// What it was told last of the servers behind its key.
    pub(super) told_era: AtomicU64,
    /// Commands that were sent and not answered.
    pub(super) flights: Flights,
    pub(super) polling: Polling,
}

/// What is behind the mutex.
pub(super) struct State {
    pub(super) name: Name,
    /// Somebody does what was decided: in order, so one at a time.
    pub(super) performing: bool,
    /// Taken out of the registry: look the name up again.
    pub(super) dead: bool,
    /// Of guards that are dropped at once there is nothing more to say.
    pub(super) dropped_at_once_told: bool,
    /// What most names never have: a word is all that costs. Once there was some of it its room is kept.
    seldom: Option<Box<Seldom>>,
}

/// What few names have beside their state.
#[derive(Default)]
pub(super) struct Seldom {
    /// What is to be done, once whoever performs comes to it.
    pub(super) outbox: Vec<Effect>,
    pub(super) listening: Listening,
    /// Its old copies among those of all names.
    pub(super) watches: Vec<Watch>,
    /// What befell this name last, in words.
    fault: Option<Box<Fault>>,
}

impl Entry {
    pub(super) fn new(number: u64, client: Arc<ClientRef>, era: u64, protocol: Arc<dyn Protocol>) -> Self {
        let state =
            State { name: Name::default(), performing: false, dead: false, dropped_at_once_told: false, seldom: None };
        let shape = shape(&*protocol);
        Self {
            number,
            protocol,
            client,
            shape,
            state: Mutex::new(state),
            scheduled: Scheduled::default(),
            told_era: AtomicU64::new(era),
            flights: Flights::default(),
            polling: Polling::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn client(&self) -> Option<Arc<dyn Client>> {
        self.client.0.upgrade()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the mutex can only be a broken invariant of ours; the state is still the best that is known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        self.protocol.name()
    }
}

/// How a primitive differs from the plain lock.
fn shape(protocol: &dyn Protocol) -> Shape {
    let succession = match (protocol.passes(), protocol.hands_over()) {
        (true, true) => Succession::Pass,
        (true, false) => Succession::PassOrRelease,
        (false, true) => Succession::HandOver,
        (false, false) => Succession::Release,
    };
    let expired = if protocol.expired_is_released() { Expired::IsReleased } else { Expired::IsLost };
    Shape { succession, publishes: protocol.publishes(), expired }
}

impl State {
    pub(super) fn seldom(&mut self) -> &mut Seldom {
        self.seldom.get_or_insert_default()
    }

    /// What there is of that.
    pub(super) fn had_seldom(&mut self) -> Option<&mut Seldom> {
        self.seldom.as_deref_mut()
    }

    /// What befell this name last, in words.
    pub(super) fn fault(&self) -> Option<Box<Fault>> {
        self.seldom.as_ref()?.fault.clone()
    }

    /// It is of no use any more.
    pub(super) fn forgets_fault(&mut self) {
        if let Some(seldom) = &mut self.seldom {
            seldom.fault = None;
        }
    }

    /// There was no answer: what that is to the name, and in words for whoever is told of it.
    pub(super) fn befalls(&mut self, fault: Fault) -> state::Fault {
        let told = fault_of(&fault);
        // What nobody wanted any more says nothing of what was in the way.
        if told.kind != state::FaultKind::Withdrawn {
            self.seldom().fault = Some(Box::new(fault));
        }
        told
    }
}

/// When an entry is looked at, as the entry itself knows it: so it is found in the schedule. It is written under the schedule's
/// mutex, and nowhere else.
#[derive(Debug, Default)]
pub(crate) struct Scheduled(AtomicU64);

impl Scheduled {
    pub(super) fn get(&self) -> Option<Instant> {
        self.0.load(Ordering::Relaxed).checked_sub(1).map(Instant::from_nanos)
    }

    pub(super) fn set(&self, at: Option<Instant>) {
        self.0.store(at.map_or(0, |at| at.as_nanos() + 1), Ordering::Relaxed);
    }
}

/// A name's subscription. The last words of an old one are not taken for the new one's.
#[derive(Default)]
pub(super) struct Listening {
    pub(super) number: u32,
    pub(super) subscription: Option<Box<Subscription>>,
}

/// One number that is watched for, and until when.
pub(super) type Watch = (Instant, HoldNumber);

/// An entry as the registry knows it: by its key, of which it has the only copy.
pub(super) struct ByKey(pub(super) Arc<Entry>);

impl Borrow<str> for ByKey {
    fn borrow(&self) -> &str {
        self.0.protocol.key()
    }
}

impl Hash for ByKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As its borrowed form hashes.
        str::hash(self.0.protocol.key(), state);
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.protocol.key() == other.0.protocol.key()
    }
}

impl Eq for ByKey {}

/// Whose names they are, once for all of them: each has a word for it.
pub(super) struct ClientRef(pub(super) Weak<dyn Client>);

/// Whose name it is.
pub(super) trait Client: Send + Sync {
    /// Something that was sent for this name is to be looked at.
    fn woken(self: Arc<Self>, entry: Arc<Entry>);

    /// One of the tries is over that a test had occupied.
    #[cfg(test)]
    fn has_room(self: Arc<Self>, entry: Arc<Entry>);
}

impl Wake for Entry {
    fn wake(self: Arc<Self>) {
        if self.polling.begin()
            && let Some(client) = self.client.0.upgrade()
        {
            client.woken(self);
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", self.protocol.key()).finish_non_exhaustive()
    }
}
