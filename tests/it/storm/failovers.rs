//! Does to servers that belong together what the plan says, one thing at a time, and writes down which holds they may have
//! lost by it. It looks at no lock.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use relatch::Client;
use tokio::runtime::{Builder, Runtime};

use super::{
    LONGEST_HOLDUP, NAMES,
    chaos::{Done, wait_for},
    checker::Loss,
    name,
    plan::{NodeFault, Step},
    servers::{Kind, Masters, Nodes, SENTINELS, impatient},
};
use crate::harness::{clock::monotonic, cluster::slot};

/// How long servers may take to be in order again.
const WHOLE: Duration = Duration::from_secs(60);
/// How long one that is gone may go unnoticed by the others, and how long an order may take.
const NOTICED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// How long after the servers agree a client may still ask the old one.
const LEARNT: Duration = Duration::from_secs(1);
/// How long a holder may believe in what the new one has not, once it asks that: what is promised, and a busy machine's time.
const TOLD: Duration = Duration::from_millis(1_500 + 500);
/// How long a replica hears nothing before its master goes.
const LAG: Duration = Duration::from_millis(700);

/// Whoever strikes.
struct Striker<'a> {
    nodes: &'a Nodes,
    outside: (Runtime, Client),
    done: Done,
}

/// The faults of all of them, until that instant; all of them are in order at the end.
pub(super) fn harass_nodes(
    nodes: &Nodes,
    plan: impl Iterator<Item = Step<(usize, NodeFault)>>,
    until: Instant,
) -> Done {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime starts");
    let client = runtime.block_on(crate::kept::client(nodes.deployment.url()));
    let mut striker = Striker { nodes, outside: (runtime, client), done: Done::default() };
    let (mut due, mut seen, mut before) = (Instant::now(), monotonic(), striker.whole());
    for step in plan {
        due += step.after;
        wait_for(due.min(until));
        let Some(masters) = before else { break };
        if due >= until {
            break;
        }
        *striker.done.faults.entry(step.fault.1.kind().to_owned()).or_default() += 1;
        let lost_before = striker.done.losses.len();
        let expected = striker.strike(masters, &step.fault);
        let after = striker.whole();
        // Some were slow enough to be taken for dead.
        let unexpected = |other: &Masters| (0..NAMES).any(|name| other[name] != expected[name]);
        if after.as_ref().is_some_and(unexpected) {
            *striker.done.faults.entry("fail over by itself".to_owned()).or_default() += 1;
            striker.done.losses[lost_before..].iter_mut().for_each(|loss| loss.whole = false);
            striker.lost(0..NAMES, seen, false);
        }
        // Until everybody must have been told nothing else befalls them.
        let whole = striker.done.losses[lost_before..].iter().filter(|loss| loss.whole);
        let told = whole.map(|loss| loss.until + TOLD).max().unwrap_or_default();
        sleep(told.saturating_sub(monotonic()));
        (seen, before) = (monotonic(), after);
        // What one fault took longer than planned does not bring the next ones all at once.
        due = due.max(Instant::now());
    }
    let Striker { outside: (runtime, client), done, .. } = striker;
    runtime.block_on(client.close());
    done
}

impl Striker<'_> {
    /// Which server has each name, once all are in order.
    fn whole(&mut self) -> Option<Masters> {
        let whole = soon(WHOLE, || self.nodes.whole());
        if whole.is_none() {
            self.done.wrong.push(format!("the servers are not in order again after {WHOLE:?}"));
        }
        whole
    }

    /// From then until now holds of these names may have been lost, or all were.
    fn lost(&mut self, names: impl IntoIterator<Item = usize>, from: Duration, whole: bool) {
        let loss = |name| Loss { name: Some(name), from, until: monotonic() + LEARNT, told: Some(TOLD), whole };
        // With each that which goes where it goes.
        self.done.losses.extend(names.into_iter().flat_map(|name| [name, NAMES + name]).map(loss));
    }

    /// Which server has each name afterwards.
    fn strike(&mut self, masters: Masters, (which, fault): &(usize, NodeFault)) -> Masters {
        let (from, master, mut after) = (monotonic(), masters[*which], masters);
        let of_it = (0..NAMES).filter(move |name| masters[*name] == master);
        let deployment = &self.nodes.deployment;
        let replica = || self.nodes.replicas_of(master).first().copied().unwrap_or(master);
        match fault {
            NodeFault::FlushScripts => self.order(master, &["SCRIPT", "FLUSH"]),
            NodeFault::KillClients(kind) => self.order(master, &["CLIENT", "KILL", "TYPE", kind]),
            NodeFault::Stumble { master: itself, pause } => {
                let server = if *itself { master } else { replica() };
                deployment.freeze(server);
                sleep(*pause);
                deployment.thaw(server);
            }
            NodeFault::RestartEmpty(pause) => {
                deployment.kill(master);
                sleep(*pause);
                deployment.start(master);
                self.lost(of_it, from, true);
            }
            NodeFault::LoseReplica(pause) => {
                let server = replica();
                if server != master {
                    deployment.kill(server);
                    sleep(*pause);
                    deployment.start(server);
                }
            }
            NodeFault::FailOver { freezes, lags, back_after } => {
                self.fail_over(master, *freezes, *lags);
                let next = soon(NOTICED, || self.nodes.masters(Some(master)));
                self.lost(of_it, from, false);
                sleep(*back_after);
                let deployment = &self.nodes.deployment;
                if *freezes {
                    deployment.thaw(master)
                } else {
                    deployment.start(master)
                }
                match next {
                    Some(next) => after = next,
                    None => self.done.wrong.push(format!("nobody takes the place of {master} within {NOTICED:?}")),
                }
            }
            NodeFault::HandOver { by_force } => after = self.hand_over(masters, *which, *by_force),
            NodeFault::Apart(pause) => after = self.apart(masters, *which, *pause),
            NodeFault::Force => {
                let (runtime, client) = &self.outside;
                let forced = runtime.block_on(client.lock(name(*which)).force_unlock());
                // Without an answer it may run later.
                let late = if forced.is_ok() { Duration::ZERO } else { LONGEST_HOLDUP };
                let loss = Loss { name: Some(*which), from, until: monotonic() + late, told: None, whole: false };
                self.done.losses.push(loss);
            }
        }
        after
    }

    /// Something that a server may refuse.
    fn order(&self, server: &str, words: &[&str]) {
        if let Some(mut connection) = impatient(&self.nodes.deployment.client_of(server)) {
            let _ = redis::Cmd::new().arg(words).exec(&mut connection);
        }
    }

    fn fail_over(&self, master: &str, freezes: bool, lags: bool) {
        let (deployment, replicas) = (&self.nodes.deployment, self.nodes.replicas_of(master));
        if lags {
            replicas.iter().for_each(|replica| deployment.freeze(replica));
            // What is in a replica's socket would reach it after all.
            self.order(master, &["CLIENT", "KILL", "TYPE", "replica"]);
            sleep(LAG);
        }
        if freezes {
            deployment.freeze(master)
        } else {
            deployment.kill(master)
        }
        if lags {
            replicas.iter().for_each(|replica| deployment.thaw(replica));
        }
    }

    /// The master agrees, but in a cluster by force and with sentinels; then what it grants on the way is lost.
    fn hand_over(&mut self, masters: Masters, which: usize, by_force: bool) -> Masters {
        let (from, master, deployment) = (monotonic(), masters[which], &self.nodes.deployment);
        let replica = self.nodes.replicas_of(master).first().copied();
        let ordered = || match (self.nodes.kind, replica) {
            (Kind::Cluster, Some(replica)) if by_force => {
                deployment.try_ask(replica, &["CLUSTER", "FAILOVER", "FORCE"])
            }
            (Kind::Cluster, Some(replica)) => deployment.try_ask(replica, &["CLUSTER", "FAILOVER"]),
            _ => deployment.try_ask(SENTINELS[which], &["SENTINEL", "FAILOVER", "m"]),
        };
        // Sentinels refuse while they are not sure that there is a good one.
        let taken = soon(NOTICED, || ordered().then_some(()));
        let next = taken.and_then(|()| soon(NOTICED, || self.nodes.masters(None).filter(|next| next[which] != master)));
        if next.is_none() || by_force || self.nodes.kind == Kind::Sentinel {
            self.lost((0..NAMES).filter(move |name| masters[*name] == master), from, false);
        }
        // A node whose order came to nothing goes on as it was.
        next.unwrap_or(masters)
    }

    fn apart(&self, masters: Masters, which: usize, pause: Duration) -> Masters {
        let (deployment, mut after) = (&self.nodes.deployment, masters);
        if self.nodes.kind == Kind::Sentinel {
            deployment.freeze(SENTINELS[which]);
            sleep(pause);
            deployment.thaw(SENTINELS[which]);
            return after;
        }
        let (slot, from) = (slot(name(which)), masters[which]);
        let others = self.nodes.data().iter().filter(|node| **node != from && self.nodes.is_master(node));
        let Some(to) = others.copied().next() else { return after };
        deployment.begin_migration(slot, from, to);
        sleep(pause / 2);
        deployment.move_keys(slot, from, to);
        sleep(pause / 2);
        deployment.move_keys(slot, from, to);
        deployment.end_migration(slot, from, to);
        after[which] = to;
        after
    }
}

/// Looks until there is something, but for no longer than that.
fn soon<T>(within: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + within;
    loop {
        match look() {
            None if Instant::now() < until => sleep(LOOK),
            seen => return seen,
        }
    }
}
