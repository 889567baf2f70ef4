//! The way of each command: which node has its slot, over which links, and what changes that. It asks nobody.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::ConnectionAddr;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    listening::SlotListeners,
    nodes::{Member, Nodes},
    route::Endpoint,
    slots::{NOBODY, Slots},
    upgrade::Upgrade,
    views::Layout,
};
use crate::backend::{
    Fault, Listener, Publish, Subscription, Way,
    redis::{
        address::Target,
        aim::{Aim, RefreshTrigger},
        current::Numbers,
        faults,
        node::Node,
        options::{Clients, Options, RespVersion, ShardedPubSub},
        said::SaidOnce,
        secrets::Secrets,
    },
};

/// All that is known of a cluster.
pub(in crate::backend::redis) struct Routes {
    /// Those that the user named. All nodes are spoken to as the first of them is.
    pub(super) seeds: Vec<Target>,
    version: RespVersion,
    /// How its connections are called.
    name: Box<str>,
    secrets: Secrets,
    tls: bool,
    resp3: bool,
    /// Whether masters are asked which channels they know.
    asks_for_channels: bool,
    pub(super) command_timeout: Duration,
    pub(super) runtime: Handle,
    pub(super) started: Instant,
    pub(super) closed: CancellationToken,
    pub(super) numbers: Arc<Numbers>,
    map: RwLock<Map>,
    /// Held by whoever makes a node.
    making: Mutex<()>,
    pub(super) listening: Arc<SlotListeners>,
    /// Somebody has a reason to look who has which slots.
    pub(super) missed: RefreshTrigger,
    /// Something was sent since the last look.
    used: AtomicBool,
    pub(super) upgrade: Upgrade,
    /// By its nodes together.
    pub(in crate::backend::redis) said: Arc<SaidOnce>,
}

struct Map {
    slots: Slots,
    nodes: Nodes,
    /// When the node that had a slot said that another has it: the rest of the cluster may not know yet.
    moved_at: HashMap<u16, Instant>,
}

/// After so long what one node said counts no more than what the others say.
const NEWS: Duration = Duration::from_secs(2);

impl Routes {
    pub(super) fn new(seeds: &[Target], options: Options<'_>) -> Result<Arc<Self>, Fault> {
        let first = seeds.first().ok_or_else(faults::no_link)?;
        let clients = first.clients(options).map_err(|error| faults::unopened(&error))?;
        Ok(Arc::new(Self {
            seeds: seeds.to_vec(),
            version: options.version,
            name: options.name.into(),
            tls: matches!(clients.address(), ConnectionAddr::TcpTls { .. }),
            resp3: clients.resp3.is_some(),
            asks_for_channels: match options.sharded {
                ShardedPubSub::Off => false,
                ShardedPubSub::Auto => clients.resp3.is_some(),
                ShardedPubSub::On => true,
            },
            secrets: clients.secrets,
            command_timeout: options.command_timeout,
            runtime: Handle::current(),
            started: Instant::now(),
            closed: CancellationToken::new(),
            numbers: Numbers::new(),
            map: RwLock::new(Map { slots: Slots::unknown(), nodes: Nodes::default(), moved_at: HashMap::new() }),
            making: Mutex::default(),
            listening: Arc::default(),
            missed: RefreshTrigger::new(),
            used: AtomicBool::new(false),
            upgrade: Upgrade::default(),
            said: Arc::default(),
        }))
    }

    /// Somebody should look who has which slots.
    pub(super) fn look(&self) {
        self.missed.happened();
    }

    pub(super) fn uses(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether anything was done since the last time, or is waited for.
    pub(super) fn is_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed) || !self.listening.is_empty()
    }

    pub(super) fn member(&self, slot: u16) -> Option<Arc<Member>> {
        let map = self.map();
        map.nodes.at(map.slots.owner(slot)?).cloned()
    }

    pub(super) fn members(&self) -> Vec<Arc<Member>> {
        self.map().nodes.all().cloned().collect()
    }

    pub(super) fn link(&self, slot: u16) -> u64 {
        let map = self.map();
        map.slots.link(slot).max(map.node_number(slot))
    }

    pub(super) fn era(&self, slot: u16) -> u64 {
        let map = self.map();
        map.slots.era(slot).max(map.node_number(slot))
    }

    /// The numbers of its way, beside that of the node's link.
    pub(super) fn since(&self, slot: u16) -> Way {
        self.map().since(slot)
    }

    /// The same, and to whom it is sent.
    pub(super) fn node_of(&self, slot: u16) -> Option<(Arc<Node>, Way)> {
        let map = self.map();
        let member = map.nodes.at(map.slots.owner(slot)?)?;
        Some((Arc::clone(&member.node), map.since(slot)))
    }

    pub(super) fn with_map<T>(&self, look: impl FnOnce(&Slots, &Nodes) -> T) -> T {
        let map = self.map();
        look(&map.slots, &map.nodes)
    }

    /// Who has each slot so far, and which slots moved just now: nobody else needs to be asked about them.
    pub(super) fn known(&self) -> (Box<[u16]>, HashSet<u16>) {
        let mut map = self.map_mut();
        map.moved_at.retain(|_, at| at.elapsed() < NEWS);
        let is_there = |slot: &u16| {
            let owner = map.slots.owner(*slot).and_then(|owner| map.nodes.at(owner));
            owner.is_some_and(|member| !member.node.is_suspect())
        };
        (map.slots.owners().into(), map.moved_at.keys().copied().filter(is_there).collect())
    }

    /// How a node is known that answered.
    pub(super) fn endpoint_of(&self, node: &Node) -> Endpoint {
        let there = |member: &&Arc<Member>| std::ptr::eq(&*member.node, node);
        let known = self.map().nodes.all().find(there).map(|member| member.endpoint.clone());
        known.unwrap_or_else(|| Endpoint { host: node.aim.name().to_owned(), port: 0 })
    }

    /// A node says that another has this slot: what is sent from now on goes there.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, to: &Endpoint) -> Result<Arc<Member>, Fault> {
        let member = self.member_at(to)?;
        let moved = self.numbers.begin(|number| {
            let mut map = self.map_mut();
            map.moved_at.insert(slot, Instant::now());
            let moved = map.moved(slot, member.place, number);
            if moved {
                self.listening.went(&[slot]);
            }
            moved
        });
        if moved {
            member.ever_owned.store(true, Ordering::Relaxed);
            self.look();
        }
        Ok(member)
    }

    /// A node says that another has the key, but not the slot yet: what is sent there may overtake what is on its way here.
    pub(super) fn asks(self: &Arc<Self>, slot: u16, to: &Endpoint) -> Result<Arc<Member>, Fault> {
        let member = self.member_at(to)?;
        self.map_mut().slots.is_asked_elsewhere(slot);
        self.rerouted(slot);
        // Who has which slots is as it was: nobody needs to look.
        self.listening.migrates(slot);
        Ok(member)
    }

    pub(super) fn rerouted(&self, slot: u16) {
        self.numbers.draw(|number| self.map_mut().slots.rerouted(slot, number));
    }

    /// What a look found is in force from now on.
    pub(super) fn take(self: &Arc<Self>, layout: &Layout) {
        let masters = layout.masters.iter().map(|master| {
            let first = master.endpoints.first()?;
            let known = self.with_map(|_, nodes| nodes.leading_to(&master.endpoints).cloned());
            // By another address than the one to be used no certificate may be good for it.
            let serves = |it: &Arc<Member>| !self.tls || it.endpoint == *first || it.node.current.link().is_some();
            known.filter(serves).or_else(|| self.member_leading_to(first).inspect_err(unusable).ok())
        });
        let masters: Vec<Option<Arc<Member>>> = masters.collect();
        let used = if self.tls { layout.other_addresses() } else { HashMap::new() };
        let mut has_slots = vec![false; masters.len()];
        self.numbers.begin(|number| {
            let mut map = self.map_mut();
            map.nodes.are_used_by(used);
            for (member, master) in masters.iter().zip(&layout.masters) {
                let Some(member) = member else { continue };
                master.endpoints.iter().for_each(|at| map.nodes.also(at, member.place));
            }
            let (mut moved, begun) = (Vec::new(), map.slots.owners().iter().any(|owner| *owner != NOBODY));
            for (slot, owner) in (0..).zip(&layout.owners) {
                let Some(member) = masters.get(usize::from(*owner)).and_then(Option::as_ref) else { continue };
                has_slots[usize::from(*owner)] = true;
                if map.moved(slot, member.place, number) {
                    moved.push(slot);
                }
            }
            if begun {
                self.listening.went(&moved);
            }
            !moved.is_empty()
        });
        for (member, _) in masters.iter().zip(has_slots).filter(|(_, has)| *has) {
            member.iter().for_each(|member| member.ever_owned.store(true, Ordering::Relaxed));
        }
        let idle = {
            let mut map = self.map_mut();
            let mut owns = vec![false; usize::from(NOBODY) + 1];
            map.slots.owners().iter().for_each(|owner| owns[usize::from(*owner)] = true);
            map.nodes.take_idle(|place| owns[usize::from(place)])
        };
        idle.iter().for_each(|member| member.node.retire());
    }

    /// The node that is known by this address, or is from now on.
    fn member_at(self: &Arc<Self>, endpoint: &Endpoint) -> Result<Arc<Member>, Fault> {
        let endpoint = self.to_be_used(endpoint.clone());
        let known = self.map().nodes.find(&endpoint).cloned();
        known.map_or_else(|| self.member_leading_to(&endpoint), Ok)
    }

    /// The address of the node that is told by this one.
    pub(super) fn to_be_used(&self, endpoint: Endpoint) -> Endpoint {
        self.map().nodes.to_be_used(endpoint)
    }

    /// The one whose links lead to this address.
    fn member_leading_to(self: &Arc<Self>, endpoint: &Endpoint) -> Result<Arc<Member>, Fault> {
        let clients = self.clients_at(endpoint)?;
        // A node draws a number, which nobody does who has the map.
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.map().nodes.leading_to(std::slice::from_ref(endpoint)).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if self.closed.is_cancelled() {
            return Err(faults::closed(false));
        }
        let place = self.map().nodes.free().ok_or_else(faults::nobody)?;
        let _entered = self.runtime.enter();
        let (within, closed) = (self.command_timeout, self.closed.child_token());
        let aim = Aim::first_at(clients, endpoint.to_string(), self.missed.clone());
        let node = Node::of_cluster(aim, within, &self.numbers, closed, Arc::downgrade(self));
        let member = Arc::new(Member::new(place, endpoint.clone(), node));
        self.map_mut().nodes.add(Arc::clone(&member));
        Ok(member)
    }

    pub(super) fn clients_at(&self, endpoint: &Endpoint) -> Result<Clients, Fault> {
        self.clients(&self.seeds[0].at(&endpoint.host, endpoint.port))
    }

    /// One of those that the user named.
    pub(super) fn seed(&self, at: usize) -> Result<(Endpoint, Clients), Fault> {
        let seed = &self.seeds[at];
        let (host, port) = seed.host().ok_or_else(faults::no_link)?;
        Ok((Endpoint { host: host.to_owned(), port }, self.clients(seed)?))
    }

    fn clients(&self, target: &Target) -> Result<Clients, Fault> {
        let options = Options::of_a_node(self.command_timeout, self.version, &self.name);
        target.clients(options).map_err(|error| faults::unopened(&error))
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    /// Whether the newer protocol may be spoken.
    pub(super) fn speaks_resp3(&self) -> bool {
        self.resp3
    }

    /// Whether masters are asked which channels they know.
    pub(super) fn asks_for_channels(&self) -> bool {
        self.asks_for_channels
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(super) fn listen_as(&self, kind: Publish) {
        self.listening.listen_as(kind);
    }

    /// A node said which version it is of.
    pub(in crate::backend::redis) fn heard_version(&self) {
        let members = self.members();
        self.upgrade.ended(&members);
        self.upgrade.falls_short(&members);
    }

    pub(super) fn publish_kind(&self) -> Publish {
        self.listening.kind()
    }

    pub(super) fn subscribe(&self, slot: u16, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        let member = self.member(slot);
        self.listening.subscribe(slot, channel, listener, member)
    }

    /// Whoever listens does so at the node that has the slot.
    pub(super) fn follow_slots(&self) {
        self.listening.follow_slots(|slot| self.member(slot));
    }

    /// Whether the number that a publish in this slot answers with counts all who listen.
    pub(super) fn counts(&self, slot: u16) -> bool {
        self.listening.counts(slot)
    }

    pub(super) fn close(&self) {
        let members = self.members();
        members.iter().for_each(|member| member.node.close());
        self.closed.cancel();
    }

    fn map(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn map_mut(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    /// Another node has it. Whether that is news.
    fn moved(&mut self, slot: u16, owner: u16, number: u64) -> bool {
        let before = self.slots.owner(slot);
        let news = self.slots.moved(slot, owner, number);
        if news && let Some(before) = before.and_then(|before| self.nodes.at(before)) {
            before.is_asked();
        }
        news
    }

    fn since(&self, slot: u16) -> Way {
        Way { era: self.slots.era(slot), link: self.slots.link(slot) }
    }

    /// The number of the owner's link; zero where there is none.
    fn node_number(&self, slot: u16) -> u64 {
        let owner = self.slots.owner(slot).and_then(|owner| self.nodes.at(owner));
        owner.map_or(0, |member| member.node.current.number())
    }
}

fn unusable(fault: &Fault) {
    tracing::debug!(error = %fault.source, "a node of the cluster cannot be used");
}

#[cfg(test)]
mod tests;
