//! What each node says of all of them, and what follows from several such views. Pure: it asks nobody.

use std::collections::HashSet;

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
    shards: Vec<Shard>,
}

/// Slots in a row, and who has them.
#[derive(Clone, Debug)]
struct Shard {
    first: u16,
    last: u16,
    master: NamedNode,
    replicas: Vec<Endpoint>,
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
    pub(super) replicas: Vec<Endpoint>,
}

impl View {
    /// An answer to `CLUSTER SLOTS`. `by_name`: a name is wanted where there is one, for the sake of certificates.
    pub(super) fn read(reply: &Value, asked: &Endpoint, by_name: bool) -> Option<Self> {
        let Value::Array(rows) = reply else { return None };
        let shards = rows.iter().map(|row| Shard::read(row, asked, by_name)).collect::<Option<Vec<_>>>()?;
        (!shards.is_empty()).then(|| Self { asked: asked.clone(), shards })
    }

    /// The master of each slot by its position, and that of whoever says so, if it is a master.
    fn owners(&self, masters: &[NamedNode]) -> (Vec<u16>, Option<u16>) {
        let at = |is: &dyn Fn(&NamedNode) -> bool| masters.iter().position(is).and_then(|at| u16::try_from(at).ok());
        let mut owners = vec![NOBODY; SLOTS];
        for shard in &self.shards {
            let owner = at(&|master| master.id == shard.master.id).unwrap_or(NOBODY);
            owners[usize::from(shard.first)..=usize::from(shard.last)].fill(owner);
        }
        (owners, at(&|master| master.endpoints.contains(&self.asked)))
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
        let replicas = replicas.flat_map(|node| node.endpoints.into_iter().take(1)).collect();
        (first <= last).then_some(Self { first, last, master, replicas })
    }
}

impl NamedNode {
    fn read(node: &Value, asked: &Endpoint, by_name: bool) -> Option<Self> {
        let Value::Array(parts) = node else { return None };
        let [host, Value::Int(port), rest @ ..] = &parts[..] else { return None };
        let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
        let preferred = Endpoint::of(codec::text(host).unwrap_or_default(), port, asked);
        let id = rest.first().and_then(codec::text).map_or_else(|| preferred.to_string(), str::to_owned);
        let known = |what: &str| {
            let mut more = codec::pairs(rest.get(1)?).filter(|(name, _)| codec::text(name) == Some(what));
            let told = more.next().and_then(|(_, host)| codec::text(host));
            told.filter(|host| !matches!(*host, "" | "?")).map(|host| Endpoint { host: host.to_owned(), port })
        };
        let mut endpoints: Vec<_> = match by_name {
            true => [known("hostname"), Some(preferred), known("ip")].into_iter().flatten().collect(),
            false => [Some(preferred), known("ip"), known("hostname")].into_iter().flatten().collect(),
        };
        let mut seen = HashSet::new();
        endpoints.retain(|endpoint| seen.insert(endpoint.clone()));
        Some(Self { id, endpoints })
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
            Some(known) => {
                let more = named.endpoints.iter().filter(|endpoint| !known.endpoints.contains(endpoint));
                let more: Vec<_> = more.cloned().collect();
                known.endpoints.extend(more);
            }
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
    let replicas = views.iter().flat_map(|view| &view.shards).flat_map(|shard| shard.replicas.iter().cloned());
    let replicas: HashSet<_> = replicas.collect();
    Layout { masters, owners, replicas: replicas.into_iter().collect() }
}

impl Layout {
    /// Those who have slots by it.
    pub(super) fn with_slots(&self) -> HashSet<String> {
        let owners: HashSet<u16> = self.owners.iter().copied().collect();
        let masters = (0..NOBODY).zip(&self.masters).filter(|(at, _)| owners.contains(at));
        masters.map(|(_, master)| master.id.clone()).collect()
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
