//! Who listens to which channel, and at which node: a channel goes where its slot goes. It opens no link.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{nodes::Member, topology::OFTEN};
use crate::backend::{Heard, Listener, Publish, Subscription};

/// A slot whose commands were sent on to another node, for the time being, counts as migrating for so long after the last.
const MIGRATING: Duration = Duration::from_secs(1);

/// After so long whoever listened to a sharded channel does so at the node that its slot went to: it was told.
const SHARDED_SETTLES: Duration = Duration::from_secs(1);

/// After so long every client has looked who has which slots. Of a classic channel only the listeners of one node are counted, and
/// some may listen elsewhere until then.
const CLASSIC_SETTLES: Duration = Duration::from_secs(OFTEN.as_secs() * 3 / 2);

/// All who listen.
#[derive(Default)]
pub(super) struct SlotListeners {
    listeners: Mutex<HashMap<u64, Arc<Relay>>>,
    next: AtomicU64,
    unsettled: Mutex<Unsettled>,
    kind: OnceLock<Publish>,
}

/// Where others may listen at another node than the one that has a slot.
#[derive(Default)]
struct Unsettled {
    /// Slots of which a part is at another node, and when that was seen last.
    migrating: HashMap<u16, Instant>,
    /// Slots that went to another node a short time ago, and when the last of all did.
    moved: HashMap<u16, Instant>,
    last: Option<Instant>,
}

/// One listener, who hears through this of one node after the other.
struct Relay {
    slot: u16,
    channel: Arc<str>,
    listener: Arc<dyn Listener>,
    /// Held while the listener is told something: what two nodes say must come in the order in which it counts.
    state: Mutex<Attached>,
    /// Nobody listens any more. Whoever has the state lets the subscription go.
    over: AtomicBool,
}

#[derive(Default)]
struct Attached {
    /// How often it was attached: an old node's last words are not taken for the new one's.
    times: u64,
    member: Option<Arc<Member>>,
    subscription: Option<Subscription>,
    /// The node confirmed it.
    live: bool,
    /// What is published may be published elsewhere.
    migrating: bool,
}

/// What a node's subscriptions tell.
struct NodeListener {
    relay: Arc<Relay>,
    times: u64,
}

impl SlotListeners {
    pub(super) fn subscribe(
        self: &Arc<Self>,
        slot: u16,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
        member: Option<Arc<Member>>,
    ) -> Subscription {
        let (state, over) = (Mutex::default(), AtomicBool::new(false));
        let relay = Arc::new(Relay { slot, channel, listener, state, over });
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.listeners).insert(id, Arc::clone(&relay));
        // Whoever ends the migration of the slot from here on finds it in the list.
        relay.change(|state| state.migrating = self.is_migrating(slot));
        relay.attach(member.as_ref(), self.kind());
        let listening = Arc::clone(self);
        Subscription::new(move || {
            let gone = lock(&listening.listeners).remove(&id);
            if let Some(relay) = gone {
                relay.over.store(true, Ordering::SeqCst);
                relay.let_go();
            }
        })
    }

    /// All servers know these.
    pub(super) fn listen_as(&self, kind: Publish) {
        let _ = self.kind.set(kind);
    }

    pub(super) fn kind(&self) -> Publish {
        self.kind.get().copied().unwrap_or(Publish::Classic)
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.listeners).is_empty()
    }

    /// Whether there is a migrating slot, which one must look at again.
    pub(super) fn has_migrating(&self) -> bool {
        !lock(&self.unsettled).migrating.is_empty()
    }

    fn is_migrating(&self, slot: u16) -> bool {
        lock(&self.unsettled).migrating.contains_key(&slot)
    }

    /// These slots went to other nodes.
    pub(super) fn went(&self, slots: &[u16]) {
        if slots.is_empty() {
            return;
        }
        let (mut unsettled, now) = (lock(&self.unsettled), Instant::now());
        unsettled.moved.extend(slots.iter().map(|slot| (*slot, now)));
        unsettled.last = Some(now);
    }

    /// Whether all who listen in this slot do so at the node that has it, as far as is known.
    pub(super) fn counts(&self, slot: u16) -> bool {
        let unsettled = lock(&self.unsettled);
        if unsettled.migrating.contains_key(&slot) {
            return false;
        }
        let (last, settles) = match self.kind() {
            Publish::Sharded => (unsettled.moved.get(&slot).copied(), SHARDED_SETTLES),
            Publish::Classic => (unsettled.last, CLASSIC_SETTLES),
        };
        last.is_none_or(|since| since.elapsed() > settles)
    }

    /// A part of this slot is at another node, where nobody listens.
    pub(super) fn migrates(&self, slot: u16) {
        if lock(&self.unsettled).migrating.insert(slot, Instant::now()).is_none() {
            self.in_slot(slot).iter().for_each(|relay| relay.set_migrating(true));
        }
    }

    /// Everybody listens at the node that has the slot by now, and what has not been seen for long is over.
    pub(super) fn follow_slots(&self, owner: impl Fn(u16) -> Option<Arc<Member>>) {
        let migrated: Vec<u16> = {
            let mut unsettled = lock(&self.unsettled);
            // Nobody reads a clock for what is long over.
            unsettled.moved.retain(|_, at| at.elapsed() <= SHARDED_SETTLES);
            unsettled.last.take_if(|at| at.elapsed() > CLASSIC_SETTLES);
            let over = unsettled.migrating.extract_if(|_, seen| seen.elapsed() > MIGRATING);
            over.map(|(slot, _)| slot).collect()
        };
        for slot in migrated {
            self.in_slot(slot).iter().for_each(|relay| relay.set_migrating(false));
        }
        let all: Vec<_> = lock(&self.listeners).values().cloned().collect();
        for relay in all {
            relay.attach(owner(relay.slot).as_ref(), self.kind());
        }
    }

    fn in_slot(&self, slot: u16) -> Vec<Arc<Relay>> {
        lock(&self.listeners).values().filter(|relay| relay.slot == slot).cloned().collect()
    }
}

impl Relay {
    /// Listens at this node and at no other. One that is not known keeps the old one.
    fn attach(self: &Arc<Self>, member: Option<&Arc<Member>>, kind: Publish) {
        let Some(member) = member else { return };
        self.change(|state| {
            if state.member.as_ref().is_some_and(|there| Arc::ptr_eq(there, member)) {
                return;
            }
            state.times += 1;
            state.subscription = None;
            if std::mem::take(&mut state.live) && !state.migrating {
                self.listener.hear(Heard::Interrupted);
            }
            state.member = Some(Arc::clone(member));
            let from = Arc::new(NodeListener { relay: Arc::clone(self), times: state.times });
            state.subscription = Some(member.listeners(kind).subscribe(Arc::clone(&self.channel), from));
        });
    }

    fn set_migrating(&self, migrating: bool) {
        self.change(|state| {
            if std::mem::replace(&mut state.migrating, migrating) != migrating && state.live {
                self.listener.hear(if migrating { Heard::Interrupted } else { Heard::Subscribed });
            }
        });
    }

    fn heard(&self, times: u64, heard: Heard<'_>) {
        self.change(|state| {
            if state.times != times {
                return;
            }
            match heard {
                Heard::Subscribed => state.live = true,
                Heard::Interrupted | Heard::Refused => state.live = false,
                Heard::Message(_) => {}
            }
            let told = matches!(heard, Heard::Message(_) | Heard::Refused);
            if told || !state.migrating {
                self.listener.hear(heard);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Attached)) {
        let mut state = lock(&self.state);
        if !self.over.load(Ordering::SeqCst) {
            change(&mut state);
        }
        drop(state);
        self.let_go();
    }

    /// Lets the subscription go if nobody listens any more. Somebody who is being told something does so afterwards.
    fn let_go(&self) {
        while self.over.load(Ordering::SeqCst) {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let gone = (state.subscription.take(), state.member.take());
            drop(state);
            if gone.0.is_none() {
                return;
            }
        }
    }
}

impl Listener for NodeListener {
    fn hear(&self, heard: Heard<'_>) {
        self.relay.heard(self.times, heard);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    struct Nobody;

    impl Listener for Nobody {
        fn hear(&self, _: Heard<'_>) {}
    }

    #[test]
    fn whoever_begins_to_listen_as_the_migration_of_its_slot_ends_is_not_told_that_it_migrates() {
        let listening = Arc::new(SlotListeners::default());
        listening.migrates(7);
        let listeners = lock(&listening.listeners);
        let begins = {
            let listening = Arc::clone(&listening);
            thread::spawn(move || listening.subscribe(7, "a".into(), Arc::new(Nobody), None))
        };
        // From here on it is about to come into the list, in which nobody is found who would hear of it.
        while listening.next.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        lock(&listening.unsettled).migrating.remove(&7);
        drop(listeners);
        let _subscription = begins.join().unwrap();
        let relays = listening.in_slot(7);
        assert!(relays.len() == 1 && !lock(&relays[0].state).migrating);
    }

    #[test]
    fn whoever_begins_to_listen_in_a_migrating_slot_hears_of_it() {
        let listening = Arc::new(SlotListeners::default());
        listening.migrates(7);
        let _subscription = listening.subscribe(7, "a".into(), Arc::new(Nobody), None);
        assert!(lock(&listening.in_slot(7)[0].state).migrating);
    }
}
