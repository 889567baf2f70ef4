//! Which node has which slot: asked of a few nodes at a time, in one task of its own, and never only of one that is
//! suspected. What is asked for, and how several answers become one, is pure.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::Value;
use smallvec::SmallVec;
use tokio::time::{Instant, sleep, timeout};

use super::{Routes, nodes::Member, route::Endpoint, slots::NOBODY};
use crate::{
    backend::{
        Fault,
        redis::{codec, faults, link::Link},
        slot::SLOTS,
    },
    chance::Chance,
};

/// So many nodes are asked at a time, and so many answers are enough if they say the same.
const ASKED: usize = 3;
const ENOUGH: usize = 2;

/// No answer is waited for longer.
const LONGEST: Duration = Duration::from_secs(1);

/// Two looks are so far apart at least, and so far at most while a node is suspected.
const PAUSE: Duration = Duration::from_millis(50);
const SUSPECTED: Duration = Duration::from_millis(250);

/// While anything is done or waited for, at least so often.
pub(super) const OFTEN: Duration = Duration::from_secs(10);

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
    master: Named,
    replicas: Vec<Endpoint>,
}

/// A node as another tells of it: its name, and its addresses, the one to be used first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    id: String,
    pub(super) endpoints: Vec<Endpoint>,
}

/// What follows from some views.
#[derive(Debug)]
pub(super) struct Verdict {
    /// The masters, of which `owners` has the positions.
    pub(super) masters: Vec<Named>,
    /// [`NOBODY`]: nobody said.
    pub(super) owners: Box<[u16]>,
    /// All other nodes.
    pub(super) replicas: Vec<Endpoint>,
}

impl View {
    /// An answer to `CLUSTER SLOTS`. `by_name`: a name is wanted where there is one, for the sake of certificates.
    fn read(reply: &Value, asked: &Endpoint, by_name: bool) -> Option<Self> {
        let Value::Array(rows) = reply else { return None };
        let shards = rows.iter().map(|row| Shard::read(row, asked, by_name)).collect::<Option<Vec<_>>>()?;
        (!shards.is_empty()).then(|| Self { asked: asked.clone(), shards })
    }

    /// The master of each slot by its position, and that of whoever says so, if it is a master.
    fn owners(&self, masters: &[Named]) -> (Vec<u16>, Option<u16>) {
        let at = |is: &dyn Fn(&Named) -> bool| masters.iter().position(is).and_then(|at| u16::try_from(at).ok());
        let mut owners = vec![NOBODY; SLOTS];
        for shard in &self.shards {
            let owner = at(&|master| master.id == shard.master.id).unwrap_or(NOBODY);
            owners[usize::from(shard.first)..=usize::from(shard.last)].fill(owner);
        }
        (owners, at(&|master| master.endpoints.contains(&self.asked)))
    }

    fn names(&self, slot: usize) -> Option<&Named> {
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
        let master = Named::read(master, asked, by_name)?;
        let replicas = replicas.iter().filter_map(|node| Named::read(node, asked, by_name));
        let replicas = replicas.flat_map(|node| node.endpoints.into_iter().take(1)).collect();
        (first <= last).then_some(Self { first, last, master, replicas })
    }
}

impl Named {
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
/// `deposed` those who lost all of theirs: the word of others is needed before they have any again.
pub(super) fn verdict(
    views: &[View],
    current: &[u16],
    place: impl Fn(&Endpoint) -> Option<u16>,
    deposed: &HashSet<String>,
) -> Verdict {
    let mut masters: Vec<Named> = Vec::new();
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
    let believed: Vec<_> = masters.iter().map(|master| !deposed.contains(&master.id)).collect();
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
    Verdict { masters, owners, replicas: replicas.into_iter().collect() }
}

impl Verdict {
    /// Those who have slots by it.
    fn with_slots(&self) -> HashSet<String> {
        let owners: HashSet<u16> = self.owners.iter().copied().collect();
        let masters = (0..NOBODY).zip(&self.masters).filter(|(at, _)| owners.contains(at));
        masters.map(|(_, master)| master.id.clone()).collect()
    }
}

/// Whom to ask.
enum Asked {
    Member(Arc<Member>),
    Node(Endpoint),
    /// One of those that the user named, wherever its name leads by now.
    Seed(usize),
}

/// The one task that looks, whenever there is a reason to.
pub(super) struct Topology {
    routes: Arc<Routes>,
    replicas: Vec<Endpoint>,
    /// Who has slots, by the last look; and who had some before, and lost all of them since.
    masters: HashSet<String>,
    deposed: HashSet<String>,
}

impl Topology {
    pub(super) fn new(routes: Arc<Routes>) -> Self {
        Self { routes, replicas: Vec::new(), masters: HashSet::new(), deposed: HashSet::new() }
    }

    /// Looks until the backend is closed.
    pub(super) async fn keep(mut self) {
        let routes = Arc::clone(&self.routes);
        routes.closed.run_until_cancelled(self.look_again_and_again()).await;
    }

    async fn look_again_and_again(&mut self) {
        let mut missed = self.routes.missed.times();
        loop {
            let suspected = self.routes.members().iter().any(|member| member.node.is_suspect());
            let pause = if suspected || self.routes.waits() { SUSPECTED } else { OFTEN };
            let called = timeout(pause, missed.changed()).await.is_ok();
            self.routes.settle();
            if called || suspected || (pause == OFTEN && self.routes.is_used()) {
                let started = Instant::now();
                if let Err(fault) = self.look().await {
                    tracing::debug!(error = %fault.source, "no node says who has which names");
                }
                // All clients of a cluster lose a node in one moment.
                sleep(PAUSE.saturating_sub(started.elapsed()) + Chance::System.part_of(PAUSE)).await;
            }
            self.routes.settle();
        }
    }

    /// Asks, and puts what follows in force.
    ///
    /// # Errors
    ///
    /// The most telling fault, where nobody answers.
    pub(super) async fn look(&mut self) -> Result<(), Fault> {
        let mut fault = faults::no_link();
        let mut rest = self.candidates();
        while !rest.is_empty() {
            let others = rest.split_off(rest.len().min(ASKED));
            match self.views(std::mem::replace(&mut rest, others)).await {
                Ok(views) => {
                    self.take(&views);
                    return Ok(());
                }
                Err(other) => fault = other,
            }
        }
        Err(fault)
    }

    fn take(&mut self, views: &[View]) {
        let (current, settled) = self.routes.known();
        let mut verdict = self.routes.with_map(|_, nodes| {
            let place = |endpoint: &Endpoint| nodes.find(endpoint).map(|member| member.place);
            verdict(views, &current, place, &self.deposed)
        });
        settled.iter().for_each(|slot| verdict.owners[usize::from(*slot)] = NOBODY);
        let now = verdict.with_slots();
        self.deposed.extend(self.masters.difference(&now).cloned());
        self.deposed.retain(|id| !now.contains(id));
        self.masters = now;
        self.replicas.clone_from(&verdict.replicas);
        self.routes.take(&verdict);
    }

    /// Whoever is not suspected first, by chance; then the replicas, the suspected, and those whom the user named.
    fn candidates(&self) -> Vec<Asked> {
        let (suspected, mut members): (Vec<_>, Vec<_>) =
            self.routes.members().into_iter().partition(|member| member.node.is_suspect());
        shuffle(&mut members);
        let mut replicas = self.replicas.clone();
        shuffle(&mut replicas);
        let members = members.into_iter().map(Asked::Member);
        let replicas = replicas.into_iter().map(Asked::Node);
        // In among the first three is at least one that is not suspected, if there is any.
        let seeds = (0..self.routes.seeds.len()).map(Asked::Seed);
        members.chain(replicas).chain(suspected.into_iter().map(Asked::Member)).chain(seeds).collect()
    }

    /// The first answers, or the most telling of the faults.
    async fn views(&self, asked: Vec<Asked>) -> Result<Vec<View>, Fault> {
        let mut under_way: FuturesUnordered<_> = asked.into_iter().map(|asked| self.ask(asked)).collect();
        let (mut views, mut fault): (Vec<View>, Option<Fault>) = (Vec::new(), None);
        while let Some(answer) = under_way.next().await {
            match answer {
                Ok(view) => views.push(view),
                Err(other) => fault = Some(fault.take().filter(|fault| !fault.heals()).unwrap_or(other)),
            }
            if views.len() >= ENOUGH && agree(&views) {
                break;
            }
        }
        if views.is_empty() { Err(fault.unwrap_or_else(faults::no_link)) } else { Ok(views) }
    }

    async fn ask(&self, asked: Asked) -> Result<View, Fault> {
        let routes = &self.routes;
        let within = routes.command_timeout.min(LONGEST);
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let (endpoint, clients) = match &asked {
            Asked::Member(member) if member.node.current.link().is_some() => {
                let reply = member.node.ask(&slots, within).await?;
                return read(&reply, &member.endpoint, routes);
            }
            Asked::Member(member) => (member.endpoint.clone(), routes.clients_at(&member.endpoint)?),
            Asked::Node(endpoint) => (endpoint.clone(), routes.clients_at(endpoint)?),
            Asked::Seed(at) => routes.seed(*at)?,
        };
        let started = Instant::now();
        let link = Link::open(&clients, &routes.closed, within).await?;
        let mut connection = link.connection();
        let left = within.saturating_sub(started.elapsed());
        match timeout(left, connection.send_packed_command(&slots)).await {
            Ok(Ok(reply)) => read(&reply, &endpoint, routes),
            Ok(Err(error)) => Err(faults::failed(&error, false, &clients.secrets)),
            Err(_) => Err(faults::timeout(within, false)),
        }
    }
}

fn read(reply: &Value, asked: &Endpoint, routes: &Routes) -> Result<View, Fault> {
    if let Value::ServerError(error) = reply {
        return Err(faults::no_slots(error, routes.secrets()));
    }
    View::read(reply, asked, routes.is_tls()).ok_or_else(faults::no_cluster_yet)
}

/// Whether they say the same of every slot.
fn agree(views: &[View]) -> bool {
    let Some((first, others)) = views.split_first() else { return true };
    let id = |view: &View, slot| view.names(slot).map(|named| named.id.clone());
    let bounds = views.iter().flat_map(|view| &view.shards);
    let bounds: HashSet<usize> = bounds.flat_map(|shard| [shard.first, shard.last]).map(usize::from).collect();
    let same = |slot: usize| others.iter().all(|other| id(other, slot) == id(first, slot));
    // They can differ only where one of their shards begins or ends, or right beside it.
    bounds.iter().all(|slot| same(*slot) && same(slot.saturating_sub(1)) && same((slot + 1).min(SLOTS - 1)))
}

fn shuffle<T>(all: &mut [T]) {
    for at in (1..all.len()).rev() {
        let other = (Chance::System.share() * (at + 1) as f64) as usize;
        all.swap(at, other.min(at));
    }
}

#[cfg(test)]
mod tests;
