//! Which node has which slot: asked of a few nodes at a time, in one task of its own, and never only of one that is
//! suspected. How several answers become one is in `views.rs`.

use std::{
    collections::{HashMap, HashSet},
    slice,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Cmd, Value};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    Routes,
    nodes::Member,
    route::Endpoint,
    slots::NOBODY,
    views::{ASKED, View, agree, layout},
};
use crate::{
    backend::{
        Fault,
        redis::{codec, faults, link::Link},
    },
    chance::Chance,
};

/// So many answers are enough if they say the same.
const ENOUGH: usize = 2;

/// No answer is waited for longer, but for those of the first look of all: nothing is known without them, and a link to a node that is
/// far, or speaks TLS, takes several round trips. Where there is none within a part of that, more nodes are asked.
const LONGEST: Duration = Duration::from_secs(1);
const PATIENCE: u32 = 3;

/// The first look of all has no more time than connecting has: others than the one that answered first have as long again, and so
/// long at least.
const OTHERS: Duration = Duration::from_millis(100);

/// Two looks are so far apart at least.
const PAUSE: Duration = Duration::from_millis(50);

/// While nodes are suspected, they are so far apart at most: a part of the time for which it has been the same ones, in these
/// bounds. A failover is noticed by that part of the time that it took.
const SUSPECTED: Duration = Duration::from_millis(250);
const SUSPECTED_LONGEST: Duration = Duration::from_secs(5);
const SUSPECTED_PART: u32 = 20;

/// So many nodes that lost all of their slots are remembered: more than a cluster has.
const DEPOSED: usize = 1024;

/// While anything is done or waited for, at least so often; and while there is a node without slots that may be of no use any more.
pub(super) const OFTEN: Duration = Duration::from_secs(10);

/// Who may be asked.
enum Candidate {
    Member(Arc<Member>),
    Node(Endpoint),
    /// One of those that the user named, wherever its name leads by now.
    Seed(usize),
}

/// The one task that looks, whenever there is a reason to.
pub(super) struct Topology {
    routes: Arc<Routes>,
    replicas: Vec<Endpoint>,
    /// Who has slots, by the last look; and who had some before, and when it lost all of them.
    masters: HashSet<String>,
    deposed: HashMap<String, Instant>,
    /// The places of those who are suspected, and since when it has been these.
    suspects: (Vec<u16>, Instant),
    /// When it was looked last.
    looked: Instant,
    missed: watch::Receiver<()>,
}

impl Topology {
    pub(super) fn new(routes: Arc<Routes>) -> Self {
        let missed = routes.missed.times();
        let (masters, deposed, suspects) = (HashSet::new(), HashMap::new(), (Vec::new(), Instant::now()));
        Self { routes, replicas: Vec::new(), masters, deposed, suspects, looked: Instant::now(), missed }
    }

    /// Looks until the backend is closed.
    pub(super) async fn keep(mut self) {
        let routes = Arc::clone(&self.routes);
        routes.closed.run_until_cancelled(self.look_again_and_again()).await;
    }

    async fn look_again_and_again(&mut self) {
        loop {
            self.suspect();
            let suspected = !self.suspects.0.is_empty();
            let pause = match suspected {
                _ if self.routes.listening.has_migrating() => SUSPECTED,
                true => while_suspected(self.suspects.1.elapsed()),
                false => OFTEN,
            };
            let called = timeout(pause, self.missed.changed()).await.is_ok();
            self.routes.follow_slots();
            let is_due = || self.looked.elapsed() >= OFTEN && (self.routes.is_used() || self.has_guests());
            if called || suspected || is_due() {
                let started = Instant::now();
                if let Err(fault) = self.look().await {
                    tracing::debug!(error = %fault.source, "no node says who has which names");
                }
                self.looked = Instant::now();
                // All clients of a cluster lose a node in one moment.
                sleep(PAUSE.saturating_sub(started.elapsed()) + Chance::System.part_of(PAUSE)).await;
            }
        }
    }

    /// Whether there is a node of ours that has no slots.
    fn has_guests(&self) -> bool {
        self.routes.with_map(|slots, nodes| nodes.all().any(|member| !slots.owners().contains(&member.place)))
    }

    /// Who is suspected at present.
    fn suspect(&mut self) {
        let suspects: Vec<_> =
            self.routes.members().iter().filter(|it| it.node.is_suspect()).map(|it| it.place).collect();
        if suspects != self.suspects.0 {
            self.suspects = (suspects, Instant::now());
        }
    }

    /// Asks, and puts what follows in force.
    ///
    /// # Errors
    ///
    /// The most telling fault, where nobody answers.
    pub(super) async fn look(&mut self) -> Result<(), Fault> {
        let views = self.views().await?;
        self.take(&views);
        Ok(())
    }

    fn take(&mut self, views: &[View]) {
        let (current, just_moved) = self.routes.known();
        let mut layout = self.routes.with_map(|_, nodes| {
            let place = |endpoint: &Endpoint| nodes.leading_to(slice::from_ref(endpoint)).map(|member| member.place);
            layout(views, &current, place, |id| self.deposed.contains_key(id))
        });
        just_moved.iter().for_each(|slot| layout.owners[usize::from(*slot)] = NOBODY);
        let now = layout.with_slots();
        self.deposed.extend(self.masters.difference(&now).map(|id| (id.clone(), Instant::now())));
        self.deposed.retain(|id, _| !now.contains(id));
        forget_the_oldest(&mut self.deposed);
        self.masters = now;
        self.replicas = layout.replicas.iter().filter_map(|replica| replica.endpoints.first().cloned()).collect();
        self.routes.take(&layout);
        self.routes.follow_slots();
    }

    /// Whoever is not suspected first, by chance, or one of those whom the user named; then the replicas, the suspected, and those
    /// whom the user named.
    fn candidates(&self) -> Vec<Candidate> {
        let (suspected, mut members): (Vec<_>, Vec<_>) =
            self.routes.members().into_iter().partition(|member| member.node.is_suspect());
        let is_nobody = members.is_empty();
        shuffle(&mut members);
        let mut replicas = self.replicas.clone();
        shuffle(&mut replicas);
        let members = members.into_iter().map(Candidate::Member);
        let replicas = replicas.into_iter().map(Candidate::Node);
        let mut seeds: Vec<_> = (0..self.routes.seeds.len()).map(Candidate::Seed).collect();
        // In among the first three is at least one that is not suspected, if there is any. Where there is none all nodes may have
        // other addresses by now.
        let first = is_nobody.then(|| seeds.remove(chosen(seeds.len())));
        let suspected = suspected.into_iter().map(Candidate::Member);
        first.into_iter().chain(members).chain(replicas).chain(suspected).chain(seeds).collect()
    }

    /// The first answers, or the most telling of the faults.
    async fn views(&self) -> Result<Vec<View>, Fault> {
        let (started, within, first) = (Instant::now(), self.within(), self.masters.is_empty());
        let (mut rest, mut under_way) = (self.candidates().into_iter(), FuturesUnordered::new());
        let (mut views, mut fault): (Vec<View>, Option<Fault>) = (Vec::new(), None);
        let mut until = started;
        loop {
            if views.is_empty() && (under_way.is_empty() || until <= Instant::now()) {
                let longest =
                    if first { self.routes.command_timeout.saturating_sub(started.elapsed()) } else { within };
                under_way.extend(rest.by_ref().take(ASKED).map(|candidate| self.ask(candidate, longest)));
                until = Instant::now() + within / PATIENCE;
            }
            match timeout_at(until, under_way.next()).await {
                Ok(Some(Ok(view))) => {
                    views.push(view);
                    let others = if first { started.elapsed().max(OTHERS) } else { within };
                    until = Instant::now() + others;
                }
                Ok(Some(Err(other))) => fault = Some(fault.take().filter(|fault| !fault.heals()).unwrap_or(other)),
                Ok(None) => break,
                Err(_) if views.is_empty() => {}
                Err(_) => {
                    if first {
                        // Those who were not waited for may know better.
                        self.routes.look();
                    }
                    break;
                }
            }
            if views.len() >= ENOUGH && agree(&views) {
                break;
            }
        }
        if views.is_empty() { Err(fault.unwrap_or_else(faults::no_link)) } else { Ok(views) }
    }

    fn within(&self) -> Duration {
        self.routes.command_timeout.min(LONGEST)
    }

    async fn ask(&self, candidate: Candidate, within: Duration) -> Result<View, Fault> {
        let routes = &self.routes;
        let slots = cluster("SLOTS");
        let (endpoint, clients) = match &candidate {
            Candidate::Member(member) if member.node.current.link().is_some() => {
                let reply = member.node.ask(&slots, within).await?;
                return read(&reply, &member.endpoint, routes);
            }
            Candidate::Member(member) => (member.endpoint.clone(), routes.clients_at(&member.endpoint)?),
            Candidate::Node(endpoint) => (endpoint.clone(), routes.clients_at(endpoint)?),
            Candidate::Seed(at) => routes.seed(*at)?,
        };
        let started = Instant::now();
        let link = Link::open(&clients, &routes.closed, within).await?;
        let mut connection = link.connection();
        let mut answer = async |question: Cmd| {
            let left = within.saturating_sub(started.elapsed());
            match timeout(left, connection.send_packed_command(&question)).await {
                Ok(answer) => answer.map_err(|error| faults::failed(&error, false, &clients.secrets)),
                Err(_) => Err(faults::timeout(within, false)),
            }
        };
        let view = read(&answer(slots).await?, &endpoint, routes)?;
        if view.names_the_asked() {
            return Ok(view);
        }
        // Who was asked by another name than the others know is told by what it calls itself, if it may say that.
        let id = answer(cluster("MYID")).await.ok();
        Ok(match id.as_ref().and_then(codec::text) {
            Some(id) => view.said_by(id.to_owned()),
            None => view,
        })
    }
}

fn cluster(subcommand: &str) -> Cmd {
    let mut cmd = redis::cmd("CLUSTER");
    cmd.arg(subcommand);
    cmd
}

fn read(reply: &Value, asked: &Endpoint, routes: &Routes) -> Result<View, Fault> {
    if let Value::ServerError(error) = reply {
        return Err(faults::no_slots(error, routes.secrets()));
    }
    let view = View::read(reply, asked, routes.is_tls()).ok_or_else(faults::no_cluster_yet)?;
    match view.shared_address() {
        Some(shared) => Err(faults::one_address(&shared.to_string())),
        None => Ok(view),
    }
}

/// How long nobody needs to look while the same nodes have been suspected for so long.
fn while_suspected(since: Duration) -> Duration {
    (since / SUSPECTED_PART).clamp(SUSPECTED, SUSPECTED_LONGEST)
}

fn forget_the_oldest(deposed: &mut HashMap<String, Instant>) {
    while deposed.len() > DEPOSED {
        let Some(oldest) = deposed.iter().min_by_key(|(_, at)| **at).map(|(id, _)| id.clone()) else { return };
        deposed.remove(&oldest);
    }
}

fn shuffle<T>(all: &mut [T]) {
    for at in (1..all.len()).rev() {
        all.swap(at, chosen(at + 1));
    }
}

/// One of so many.
fn chosen(count: usize) -> usize {
    ((Chance::System.share() * count as f64) as usize).min(count - 1)
}

#[cfg(test)]
mod tests;
