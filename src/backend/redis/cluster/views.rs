//! What each node says of all of them, and what follows from several such views. Pure: it asks nobody.

use std::collections::{HashMap, HashSet};

use redis::Value;
use smallvec::SmallVec;

use super::{route::Endpoint, slots::NOBODY};
use crate::backend::{redis::codec, slot::SLOTS};

/// So many nodes are asked at a time.
pub(super) const ASKED: usize = 3;

/// What one node says of all of them.
#[derive(Clone, Debug)]
pub(super) struct View {
    asked: Endpoint,
    /// Who that is, where its address does not tell.
    pub(super) id: Option<String>,
    shards: Vec<Shard>,
}

/// Slots in a row, and who has them.
#[derive(Clone, Debug)]
struct Shard {
    first: u16,
    last: u16,
    master: NamedNode,
    replicas: Vec<NamedNode>,
}

/// A node as another tells of it: its name, and its addresses, the one to be used first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedNode {
    pub(super) id: String,
    pub(super) endpoints: Vec<Endpoint>,
}

/// Who has which slot, as it follows from some views.
#[derive(Debug)]
pub(super) struct Layout {
    /// The masters, of which `owners` has the positions.
    pub(super) masters: Vec<NamedNode>,
    /// [`NOBODY`]: nobody said.
    pub(super) owners: Box<[u16]>,
    /// All other nodes.
    pub(super) replicas: Vec<NamedNode>,
}

impl View {
    /// An answer to `CLUSTER SLOTS`. `by_name`: a name is wanted where there is one, for the sake of certificates.
    pub(super) fn read(reply: &Value, asked: &Endpoint, by_name: bool) -> Option<Self> {
        let Value::Array(rows) = reply else { return None };
        let mut shards = rows.iter().map(|row| Shard::read(row, asked, by_name)).collect::<Option<Vec<_>>>()?;
        tell_apart(&mut shards);
        (!shards.is_empty()).then(|| Self { asked: asked.clone(), id: None, shards })
    }

    /// The node with this name said it.
    pub(super) fn said_by(self, id: String) -> Self {
        Self { id: Some(id), ..self }
    }

    /// Whether it says which node it is that was asked.
    pub(super) fn names_the_asked(&self) -> bool {
        self.nodes().any(|node| node.endpoints.contains(&self.asked))
    }

    /// An address at which two masters are, neither of which has another.
    pub(super) fn shared_address(&self) -> Option<&Endpoint> {
        let mut ids: HashMap<&Endpoint, &str> = HashMap::new();
        let mut masters = self.shards.iter().map(|shard| &shard.master);
        masters.find_map(|master| {
            let at = master.endpoints.first()?;
            (*ids.entry(at).or_insert(&master.id) != master.id).then_some(at)
        })
    }

    fn nodes(&self) -> impl Iterator<Item = &NamedNode> {
        self.shards.iter().flat_map(Shard::nodes)
    }

    /// The master of each slot by its position, and that of whoever says so, if it is a master.
    fn owners(&self, masters: &[NamedNode]) -> (Vec<u16>, Option<u16>) {
        let at = |is: &dyn Fn(&NamedNode) -> bool| masters.iter().position(is).and_then(|at| u16::try_from(at).ok());
        let mut owners = vec![NOBODY; SLOTS];
        for shard in &self.shards {
            let owner = at(&|master| master.id == shard.master.id).unwrap_or(NOBODY);
            owners[usize::from(shard.first)..=usize::from(shard.last)].fill(owner);
        }
        let is_the_asked = |master: &NamedNode| match &self.id {
            Some(id) => master.id == *id,
            None => master.endpoints.contains(&self.asked),
        };
        (owners, at(&is_the_asked))
    }

    fn names(&self, slot: usize) -> Option<&NamedNode> {
        let holds = |shard: &&Shard| (usize::from(shard.first)..=usize::from(shard.last)).contains(&slot);
        self.shards.iter().find(holds).map(|shard| &shard.master)
    }
}

impl Shard {
    fn read(row: &Value, asked: &Endpoint, by_name: bool) -> Option<Self> {
        let Value::Array(parts) = row else { return None };
        let [Value::Int(first), Value::Int(last), master, replicas @ ..] = &parts[..] else { return None };
        let slot = |slot: &i64| u16::try_from(*slot).ok().filter(|slot| usize::from(*slot) < SLOTS);
        let (first, last) = (slot(first)?, slot(last)?);
        let master = NamedNode::read(master, asked, by_name)?;
        let replicas = replicas.iter().filter_map(|node| NamedNode::read(node, asked, by_name));
        let replicas = replicas.collect();
        (first <= last).then_some(Self { first, last, master, replicas })
    }

    fn nodes(&self) -> impl Iterator<Item = &NamedNode> {
        std::iter::once(&self.master).chain(&self.replicas)
    }
}

/// An address that several nodes say leads to none of them for certain: it is left out where a node has another.
fn tell_apart(shards: &mut [Shard]) {
    let (mut ids, mut shared) = (HashMap::new(), HashSet::new());
    for node in shards.iter().flat_map(Shard::nodes) {
        for at in &node.endpoints {
            if *ids.entry(at).or_insert(&node.id) != &node.id {
                shared.insert(at.clone());
            }
        }
    }
    if shared.is_empty() {
        return;
    }
    for node in shards.iter_mut().flat_map(|shard| std::iter::once(&mut shard.master).chain(&mut shard.replicas)) {
        if !node.endpoints.iter().all(|at| shared.contains(at)) {
            node.endpoints.retain(|at| !shared.contains(at));
        }
    }
}

impl NamedNode {
    fn read(node: &Value, asked: &Endpoint, by_name: bool) -> Option<Self> {
        let Value::Array(parts) = node else { return None };
        let [host, Value::Int(port), rest @ ..] = &parts[..] else { return None };
        let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
        let host = codec::text(host).unwrap_or_default();
        let preferred = Endpoint::of(host, port, asked);
        let id = rest.first().and_then(codec::text).map_or_else(|| preferred.to_string(), str::to_owned);
        let known = |what: &str| {
            let mut more = codec::pairs(rest.get(1)?).filter(|(name, _)| codec::text(name) == Some(what));
            let told = more.next().and_then(|(_, host)| codec::text(host));
            told.filter(|host| !matches!(*host, "" | "?")).map(|host| Endpoint { host: host.to_owned(), port })
        };
        let (name, ip) = (known("hostname"), known("ip"));
        // It has no name to be told by: that does not mean that it is where it was asked.
        let preferred = Some(preferred).filter(|_| host != "?" || ip.is_none());
        let mut endpoints: Vec<_> = match by_name {
            true => [name, preferred, ip].into_iter().flatten().collect(),
            false => [preferred, ip, name].into_iter().flatten().collect(),
        };
        let mut seen = HashSet::new();
        endpoints.retain(|endpoint| seen.insert(endpoint.clone()));
        Some(Self { id, endpoints })
    }

    /// Another node knows it by these addresses. Whoever knows more of them knows better which is to be used.
    fn is_also_at(&mut self, endpoints: &[Endpoint]) {
        if endpoints.len() > self.endpoints.len() {
            let fewer = std::mem::replace(&mut self.endpoints, endpoints.to_vec());
            return self.is_also_at(&fewer);
        }
        for endpoint in endpoints {
            if !self.endpoints.contains(endpoint) {
                self.endpoints.push(endpoint.clone());
            }
        }
    }
}

/// Who has which slot, by these views. What a node says of its own slots counts less than what others say of them: one that
/// was cut off or stood still does not know what it lost. `current` has the places of those who have the slots so far, and
/// deposed are those who lost all of theirs: the word of others is needed before they have any again.
pub(super) fn layout(
    views: &[View],
    current: &[u16],
    place: impl Fn(&Endpoint) -> Option<u16>,
    is_deposed: impl Fn(&str) -> bool,
) -> Layout {
    let mut masters: Vec<NamedNode> = Vec::new();
    for named in views.iter().flat_map(|view| &view.shards).map(|shard| &shard.master) {
        match masters.iter_mut().find(|known| known.id == named.id) {
            Some(known) => known.is_also_at(&named.endpoints),
            None => masters.push(named.clone()),
        }
    }
    let told: Vec<(Vec<u16>, Option<u16>)> = views.iter().map(|view| view.owners(&masters)).collect();
    let places: Vec<_> = masters.iter().map(|master| master.endpoints.iter().find_map(&place)).collect();
    let believed: Vec<_> = masters.iter().map(|master| !is_deposed(&master.id)).collect();
    let owners = current.iter().enumerate().map(|(slot, present)| {
        let mut votes: SmallVec<[(u16, u32); ASKED]> = SmallVec::new();
        for (owners, asked) in &told {
            let owner = owners[slot];
            let weight = if *asked == Some(owner) { 1 } else { 2 };
            match votes.iter_mut().find(|(known, _)| *known == owner) {
                _ if owner == NOBODY => {}
                Some((_, votes)) => *votes += weight,
                None => votes.push((owner, weight)),
            }
        }
        let is_present = |owner: u16| places[usize::from(owner)] == Some(*present);
        // Alone, its own word brings nobody back.
        votes.retain(|(owner, weight)| *weight > 1 || believed[usize::from(*owner)] || is_present(*owner));
        votes.iter().max_by_key(|(owner, votes)| (*votes, is_present(*owner))).map_or(NOBODY, |(owner, _)| *owner)
    });
    let owners = owners.collect();
    let mut replicas: HashMap<&str, NamedNode> = HashMap::new();
    for replica in views.iter().flat_map(|view| &view.shards).flat_map(|shard| &shard.replicas) {
        replicas.entry(&replica.id).or_insert_with(|| replica.clone()).is_also_at(&replica.endpoints);
    }
    Layout { masters, owners, replicas: replicas.into_values().collect() }
}

impl Layout {
    /// Those who have slots by it.
    pub(super) fn with_slots(&self) -> HashSet<String> {
        let owners: HashSet<u16> = self.owners.iter().copied().collect();
        let masters = (0..NOBODY).zip(&self.masters).filter(|(at, _)| owners.contains(at));
        masters.map(|(_, master)| master.id.clone()).collect()
    }

    /// For each address by which one node alone may be told, though another of it is to be used: that one.
    pub(super) fn other_addresses(&self) -> HashMap<Endpoint, Endpoint> {
        let nodes = || self.masters.iter().chain(&self.replicas);
        let first: HashSet<_> = nodes().filter_map(|node| node.endpoints.first()).collect();
        let mut others: HashMap<&Endpoint, Option<&Endpoint>> = HashMap::new();
        for (used, rest) in nodes().filter_map(|node| node.endpoints.split_first()) {
            for other in rest.iter().filter(|other| !first.contains(other)) {
                let known = others.entry(other).or_insert(Some(used));
                *known = known.filter(|known| *known == used);
            }
        }
        others.into_iter().filter_map(|(other, used)| Some((other.clone(), used?.clone()))).collect()
    }
}

/// Whether they say the same of every slot.
pub(super) fn agree(views: &[View]) -> bool {
    let Some((first, others)) = views.split_first() else { return true };
    let id = |view: &View, slot| view.names(slot).map(|named| named.id.clone());
    let bounds = views.iter().flat_map(|view| &view.shards);
    let bounds: HashSet<usize> = bounds.flat_map(|shard| [shard.first, shard.last]).map(usize::from).collect();
    let same = |slot: usize| others.iter().all(|other| id(other, slot) == id(first, slot));
    // They can differ only where one of their shards begins or ends, or right beside it.
    bounds.iter().all(|slot| same(*slot) && same(slot.saturating_sub(1)) && same((slot + 1).min(SLOTS - 1)))
}

#[cfg(test)]
mod tests;
