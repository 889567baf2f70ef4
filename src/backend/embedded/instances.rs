//! The servers of a store: which of them is each node's master now, which slots are whose, and what each of them had a while
//! ago. It moves no command and no message.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{
    frame::{Frame, OwnedCall},
    server::{Entry, MAX_BYTES, Server},
};
use crate::backend::slot::{SLOTS, slot as slot_of};

/// What changed longer ago than this is not forgotten any more.
pub(super) const LONGEST_PAST: Duration = Duration::from_secs(10);
/// And no more changes than this are.
const MOST_CHANGES: usize = 1 << 16;

/// One server process: the master of its node, or one that was.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) node: usize,
    pub(super) server: Server,
    /// Who listens where, as this process knows it.
    pub(super) subscribers: BTreeMap<Arc<str>, BTreeSet<Uuid>>,
    /// It takes what comes, and does nothing with it.
    pub(super) frozen: bool,
    /// Since when it surely has everything that it was told; `None`: since the store was made.
    pub(super) remembers_since: Option<Instant>,
    /// Slots that came to its node when it was the master no more.
    missing_slots: BTreeSet<u16>,
    past: VecDeque<Change>,
}

/// What a key had before something was done to it.
#[derive(Clone, Debug)]
struct Change {
    at: Instant,
    key: Vec<u8>,
    before: Option<Entry>,
}

/// All server processes, and where the slots are.
#[derive(Debug)]
pub(super) struct Instances {
    all: BTreeMap<u64, Instance>,
    /// Of each node.
    masters: Vec<u64>,
    next_id: u64,
    /// Slots that are not where they were at first.
    moved: BTreeMap<u16, Slot>,
    /// What each may keep, where that was said.
    memory: Option<usize>,
    /// Whether what was there a while ago is known.
    pub(super) keeps_past: bool,
}

/// A slot that went to another node, or is on its way there.
#[derive(Clone, Copy, Debug)]
struct Slot {
    node: usize,
    /// Its messages are lost, as long as one of so many moves is under way.
    under_way: u32,
    /// When it last went.
    since: Instant,
}

impl Instance {
    fn new(node: usize, server: Server) -> Self {
        Self {
            node,
            server,
            subscribers: BTreeMap::new(),
            frozen: false,
            remembers_since: None,
            missing_slots: BTreeSet::new(),
            past: VecDeque::new(),
        }
    }

    /// A command may change this key.
    fn note(&mut self, now: Instant, key: &[u8]) {
        let oldest = self.past.front().map(|change| change.at);
        let is_old = oldest.is_some_and(|at| at + LONGEST_PAST < now);
        if is_old || self.past.len() >= MOST_CHANGES {
            self.past.pop_front();
        }
        self.past.push_back(Change { at: now, key: key.to_vec(), before: self.server.copy_of(key) });
    }

    /// The process that comes in its place now, with what this one had at an instant.
    fn successor(&self, then: Option<Instant>, now: Instant) -> Self {
        let past = self.past.clone();
        let mut next = Self { past, remembers_since: Some(now), ..Self::new(self.node, self.server.replica()) };
        while next.past.back().is_some_and(|change| then.is_some_and(|then| then < change.at)) {
            let Some(Change { key, before, .. }) = next.past.pop_back() else { break };
            next.server.put_back(&key, before);
        }
        next
    }

    /// A client listens on a channel from now on.
    pub(super) fn add_subscriber(&mut self, client: Uuid, channel: &Arc<str>) {
        self.subscribers.entry(Arc::clone(channel)).or_default().insert(client);
        self.count_subscribers(channel);
    }

    /// A client listens on a channel no more.
    pub(super) fn remove_subscriber(&mut self, client: Uuid, channel: &str) {
        if let Some(subscribers) = self.subscribers.get_mut(channel) {
            subscribers.remove(&client);
            self.count_subscribers(channel);
        }
    }

    /// A client listens nowhere any more.
    pub(super) fn forget_subscriber(&mut self, client: Uuid) {
        let heard = self.subscribers.iter().filter(|(_, subscribers)| subscribers.contains(&client));
        let heard: Vec<_> = heard.map(|(channel, _)| Arc::clone(channel)).collect();
        heard.iter().for_each(|channel| self.remove_subscriber(client, channel));
    }

    /// The server counts who listens.
    fn count_subscribers(&mut self, channel: &str) {
        let count = self.subscribers.get(channel).map_or(0, BTreeSet::len);
        self.server.listen(channel.as_bytes(), count);
        if count == 0 {
            self.subscribers.remove(channel);
        }
    }
}

impl Instances {
    pub(super) fn new(nodes: usize, keeps_past: bool) -> Self {
        let all: BTreeMap<_, _> =
            (0..nodes).map(|node| (node as u64, Instance::new(node, Server::default()))).collect();
        let (masters, next_id) = (all.keys().copied().collect(), nodes as u64);
        Self { all, masters, next_id, moved: BTreeMap::new(), memory: None, keeps_past }
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.masters.len()
    }

    /// The master of a node.
    pub(super) fn master(&self, node: usize) -> u64 {
        self.masters[node]
    }

    pub(super) fn get(&self, instance: u64) -> Option<&Instance> {
        self.all.get(&instance)
    }

    pub(super) fn get_mut(&mut self, instance: u64) -> Option<&mut Instance> {
        self.all.get_mut(&instance)
    }

    /// Masters and those that were.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Instance> {
        self.all.values_mut()
    }

    pub(super) fn masters(&self) -> impl Iterator<Item = &Instance> {
        self.masters.iter().filter_map(|instance| self.all.get(instance))
    }

    /// Whether this process was replaced as the master of its node.
    pub(super) fn is_rival(&self, instance: u64) -> bool {
        self.all.get(&instance).is_some_and(|it| self.masters[it.node] != instance)
    }

    /// Which node has a key.
    pub(super) fn node_of(&self, key: &str) -> usize {
        if self.nodes() == 1 { 0 } else { self.node_of_slot(slot_of(key.as_bytes())) }
    }

    pub(super) fn node_of_slot(&self, slot: u16) -> usize {
        self.moved.get(&slot).map_or_else(|| at_first(slot, self.nodes()), |moved| moved.node)
    }

    /// Which node a command is for: that of its first key.
    pub(super) fn node_for(&self, frame: &Frame) -> usize {
        let first = frame.calls().first().and_then(|words| words.keys.first());
        first.map_or(0, |key| self.node_of(key))
    }

    /// Whether all keys of a command are at this process.
    pub(super) fn has(&self, instance: u64, words: &OwnedCall) -> bool {
        let Some(instance) = self.all.get(&instance) else { return false };
        let is_there = |slot| self.node_of_slot(slot) == instance.node && !instance.missing_slots.contains(&slot);
        self.nodes() == 1 || words.keys.iter().all(|key| is_there(slot_of(key.as_bytes())))
    }

    /// Whether messages of this slot are lost at present.
    pub(super) fn is_moving(&self, slot: u16) -> bool {
        self.moved.get(&slot).is_some_and(|moved| moved.under_way > 0)
    }

    /// The keys of a slot go to another node, with all that they have.
    pub(super) fn begin_move(&mut self, slot: u16, to: usize, now: Instant, time: Duration) {
        let from = self.node_of_slot(slot);
        let (source, target) = (self.masters[from], self.masters[to]);
        let Some(instance) = self.all.get_mut(&source) else { return };
        let keys: Vec<_> = instance.server.keys(time).into_iter().filter(|key| slot_of(key) == slot).collect();
        let mut moving = Vec::with_capacity(keys.len());
        for key in keys {
            if self.keeps_past {
                instance.note(now, &key);
            }
            moving.push((instance.server.copy_of(&key), key.clone()));
            instance.server.put_back(&key, None);
        }
        let Some(instance) = self.all.get_mut(&target) else { return };
        // A master that forgot how the slot left has something of it yet.
        let stale: Vec<_> = instance.server.keys(time).into_iter().filter(|key| slot_of(key) == slot).collect();
        for key in stale {
            if self.keeps_past {
                instance.note(now, &key);
            }
            instance.server.put_back(&key, None);
        }
        for (entry, key) in moving {
            if self.keeps_past {
                instance.note(now, &key);
            }
            instance.server.put_back(&key, entry);
        }
        let known = self.moved.entry(slot).or_insert(Slot { node: from, under_way: 0, since: now });
        (known.node, known.under_way, known.since) = (to, known.under_way + 1, now);
        let others = self.all.iter_mut().filter(|(instance, it)| it.node == to && **instance != target);
        others.for_each(|(_, it)| it.missing_slots.extend([slot]));
    }

    /// When the slot of a key last went to another node, if it ever did.
    pub(super) fn moved_at(&self, key: &str) -> Option<Instant> {
        if self.moved.is_empty() { None } else { self.moved.get(&slot_of(key.as_bytes())).map(|moved| moved.since) }
    }

    /// A move is over; whether no other one of the slot is under way.
    pub(super) fn end_move(&mut self, slot: u16) -> bool {
        let Some(moved) = self.moved.get_mut(&slot) else { return false };
        moved.under_way -= 1;
        moved.under_way == 0
    }

    /// Another process is the node's master from now on, with what the old one had `then`, or has now. The old one stays.
    pub(super) fn replace_master(&mut self, node: usize, then: Option<Instant>, now: Instant) -> u64 {
        let (old, new) = (self.masters[node], self.next_id);
        if let Some(instance) = self.all.get(&old) {
            let mut next = instance.successor(then, now);
            next.server.limit(self.memory.unwrap_or(MAX_BYTES));
            self.all.insert(new, next);
        }
        self.next_id += 1;
        self.masters[node] = new;
        old
    }

    pub(super) fn remove(&mut self, instance: u64) {
        self.all.remove(&instance);
    }

    /// Nothing was ever there, and nobody but the masters.
    pub(super) fn forget_everything(&mut self, now: Instant) {
        self.all.retain(|instance, it| self.masters[it.node] == *instance);
        for instance in self.all.values_mut() {
            let (frozen, remembers_since) = (instance.frozen, Some(now));
            *instance = Instance { frozen, remembers_since, ..Instance::new(instance.node, Server::default()) };
            if let Some(bytes) = self.memory {
                instance.server.limit(bytes);
            }
        }
    }

    pub(super) fn limit_memory(&mut self, bytes: usize) {
        self.memory = Some(bytes);
        self.all.values_mut().for_each(|instance| instance.server.limit(bytes));
    }

    /// Lets the store itself write, however full it is.
    pub(super) fn lift_limit(&mut self, lifted: bool) {
        let bytes = if lifted { usize::MAX } else { self.memory.unwrap_or(MAX_BYTES) };
        self.all.values_mut().for_each(|instance| instance.server.limit(bytes));
    }

    /// A command may change what is at these keys.
    pub(super) fn note<'a>(&mut self, instance: u64, now: Instant, keys: impl IntoIterator<Item = &'a str>) {
        if let Some(instance) = self.all.get_mut(&instance).filter(|_| self.keeps_past) {
            keys.into_iter().for_each(|key| instance.note(now, key.as_bytes()));
        }
    }
}

/// Each node has as many slots, side by side.
fn at_first(slot: u16, nodes: usize) -> usize {
    usize::from(slot) * nodes / SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_share_of_the_slots() {
        for nodes in 1..=7 {
            let mut shares = vec![0_usize; nodes];
            (0..SLOTS as u16).for_each(|slot| shares[at_first(slot, nodes)] += 1);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 1, "{shares:?}");
        }
    }
}
