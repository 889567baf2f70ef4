//! A cluster, as the seam wants it: links of our own to each node, our own map of slots, subscriptions that go where their
//! slots go.
//!
//! | file | job |
//! | --- | --- |
//! | `slots` | the node of a slot |
//! | `nodes` | the nodes that are known, each with its links |
//! | `routes` | the way of each command, and how it changes |
//! | `route` | what an answer says of the way; pure |
//! | `redirect` | a command that is sent on |
//! | `sending` | what is sent to a node beside what callers ask it |
//! | `topology` | asks the nodes who has which slots |
//! | `upgrade` | says when all nodes know more than this client counted on |
//! | `views` | what follows from their answers; pure |
//! | `listening` | who listens at which node |

mod listening;
mod nodes;
mod redirect;
mod route;
mod routes;
mod sending;
mod slots;
mod topology;
mod upgrade;
mod views;

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    task::unconstrained,
    time::{Instant, timeout_at},
};

pub(super) use self::routes::Routes;
use self::topology::Topology;
#[cfg(feature = "operate")]
use super::asked::AskedServer;
use super::{
    acks::AckRequest,
    address::Target,
    codec, faults,
    many::pipeline_of,
    memory,
    node::Node,
    options::{Options, ShardedPubSub},
    rights,
};
use crate::backend::{
    self, Abilities, Acknowledged, Answer, Backend, Call, Fault, FaultKind, Line, Listener, Memory, Pending, Publish,
    Replicas, Rights, RoundTrip, Subscription, Value,
    dispatch::{Dispatches, Way},
    slot::slot,
};

/// Nodes are asked for so long whether they know sharded channels; where that is left open, the others decide for those that do not
/// answer, and it is told when they turn out to be older. The first answer is waited for as long as connecting may take, and so are
/// all of them where sharded channels are asked for.
const CHANNELS: Duration = Duration::from_secs(1);

/// A cluster. Dropping it closes it.
pub(crate) struct Cluster(Arc<Routes>);

/// Connects within the command timeout to whichever of these nodes, and makes sure that there is a cluster that can be
/// worked with.
pub(crate) async fn connect(seeds: &[Target], options: Options<'_>) -> Result<Cluster, Fault> {
    let started = Instant::now();
    let routes = Routes::new(seeds, options)?;
    // Dropped from here on, it leaves nothing behind.
    let cluster = Cluster(Arc::clone(&routes));
    let mut topology = Topology::new(Arc::clone(&routes));
    topology.look().await?;
    let left = options.command_timeout.saturating_sub(started.elapsed());
    let kind = publish_kind(&routes, options.sharded, left).await?;
    routes.listen_as(kind);
    if kind == Publish::Sharded {
        routes.upgrade.has_sharded();
        routes.heard_version();
    }
    if kind == Publish::Classic && options.sharded == ShardedPubSub::Auto && routes.speaks_resp3() {
        routes.upgrade.lacks_sharded();
    }
    routes.runtime.spawn(topology.keep());
    Ok(cluster)
}

/// Sharded channels where every master knows them: of several versions side by side the older ones do not.
async fn publish_kind(routes: &Arc<Routes>, wanted: ShardedPubSub, within: Duration) -> Result<Publish, Fault> {
    if !routes.asks_for_channels() {
        return Ok(Publish::Classic);
    }
    let mut asked = redis::cmd("PUBSUB");
    asked.arg("SHARDNUMSUB");
    let members = routes.members();
    let answer = async |node: &Node| (node.greet_and_ask(&asked, within).await, upgrade::knows_sharded(node));
    let mut answers: FuturesUnordered<_> = members.iter().map(|member| answer(&member.node)).collect();
    let (mut known, mut unknown, mut denied, mut fault) = (0, 0, None, None);
    let patience = Instant::now() + CHANNELS;
    loop {
        let answer = match known + unknown {
            1.. if wanted != ShardedPubSub::On => timeout_at(patience, answers.next()).await.ok().flatten(),
            _ => answers.next().await,
        };
        let Some((answer, by_version)) = answer else { break };
        match (answer.map(|reply| codec::value(reply, routes.secrets())), by_version) {
            (Ok(Ok(_)), _) => known += 1,
            (Ok(Err(other)), _) if other.kind == FaultKind::Other => unknown += 1,
            // Whoever may not ask does not know which channels the others take.
            (Ok(Err(other)), _) if !other.heals() && wanted == ShardedPubSub::Auto => return Err(other),
            (Ok(Err(other)), _) if !other.heals() => denied = Some(other),
            (_, Some(true)) => known += 1,
            (_, Some(false)) => unknown += 1,
            (Ok(Err(other)) | Err(other), None) => fault = Some(other),
        }
    }
    // Nobody can be reached who has any name.
    if let (0, 0, Some(fault)) = (known, unknown, fault.as_ref().or(denied.as_ref())) {
        return Err(fault.clone());
    }
    match (known, unknown, fault) {
        // Whoever asks for them gets them at all masters, or is told why not.
        (_, 0, Some(fault)) if wanted == ShardedPubSub::On => Err(fault),
        (_, 1.., _) if wanted == ShardedPubSub::On => Err(faults::no_sharded_channels()),
        (_, 0, _) if !routes.speaks_resp3() => Err(faults::no_sharded_channels()),
        (_, 0, _) => Ok(Publish::Sharded),
        (0, ..) => Ok(Publish::Classic),
        _ => {
            tracing::warn!(
                known,
                unknown,
                "not all nodes of the cluster know sharded channels: releases are told to all nodes"
            );
            Ok(Publish::Classic)
        }
    }
}

impl Cluster {
    fn node_of(&self, call: &Call<'_>) -> Option<(Arc<Node>, Way)> {
        self.0.node_of(slot(call.keys.first()?.as_bytes()))
    }

    fn node(&self, key: &str) -> Option<Arc<Node>> {
        self.0.member(slot(key.as_bytes())).map(|member| Arc::clone(&member.node))
    }
}

impl Line for Cluster {
    fn subscribe(&self, key: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        self.0.subscribe(slot(key.as_bytes()), channel, listener)
    }

    fn link(&self, key: &str) -> u64 {
        self.0.link(slot(key.as_bytes()))
    }

    fn last_answer(&self, key: &str) -> Instant {
        // A node that never answered was not heard of when it became known.
        self.node(key).and_then(|node| node.answered()).unwrap_or(self.0.started)
    }

    fn round_trip(&self, key: &str) -> Option<RoundTrip> {
        self.node(key)?.round_trips.seen()
    }

    fn place(&self, key: &str) -> u32 {
        // One that nobody has stands by itself.
        self.0.member(slot(key.as_bytes())).map_or(slots::NOBODY.into(), |member| member.place.into())
    }

    fn era(&self, key: &str) -> u64 {
        self.0.era(slot(key.as_bytes()))
    }

    fn eras(&self) -> watch::Receiver<u64> {
        self.0.numbers.eras()
    }

    fn in_use(&self) {
        self.0.uses();
    }

    fn close(&self) {
        self.0.close();
    }
}

impl Backend for Cluster {
    fn run(&self, call: &Call<'_>) -> Answer {
        let Some((node, since)) = self.node_of(call) else {
            let fault = self.0.nobody();
            return backend::answer(async { Err(fault) });
        };
        self.0.uses();
        let script = call.script;
        let cmd = codec::command(&node.hashes, call);
        let dispatches = Dispatches::of([call]).since(since);
        // Unconstrained: a spent task budget would make the first poll yield before it has sent.
        backend::answer(unconstrained(node.run(cmd, script, dispatches, call.polled)))
    }

    fn run_many(&self, calls: &[Call<'_>], within: Duration) -> Pending<Vec<Result<Value, Fault>>> {
        self.0.uses();
        let mut pipelines: Vec<(Arc<Node>, Way, Vec<usize>)> = Vec::new();
        let mut answers: Vec<Result<Value, Fault>> = Vec::with_capacity(calls.len());
        for (at, call) in calls.iter().enumerate() {
            answers.push(Err(self.0.nobody()));
            let Some((node, since)) = self.node_of(call) else { continue };
            match pipelines.iter_mut().find(|(there, ..)| Arc::ptr_eq(there, &node)) {
                Some((.., calls)) => calls.push(at),
                None => pipelines.push((node, since, vec![at])),
            }
        }
        let sent: Vec<_> = pipelines
            .into_iter()
            .map(|(node, since, places)| {
                let calls: Vec<Call<'_>> = places.iter().map(|at| calls[*at]).collect();
                let scripts: Vec<_> = calls.iter().map(|call| call.script).collect();
                let pipeline = pipeline_of(calls.iter().map(|call| codec::command_of_many(&node.hashes, call)));
                // Of the first: nobody asks how one of many left.
                let dispatches = Dispatches::of(&calls).since(since);
                async move { (places, node.run_many(pipeline, scripts, within, dispatches).await) }
            })
            .collect();
        Box::pin(unconstrained(async move {
            for (places, told) in join_all(sent).await {
                places.into_iter().zip(told).for_each(|(at, answer)| answers[at] = answer);
            }
            answers
        }))
    }

    fn run_acknowledged(&self, call: &Call<'_>, replicas: Replicas) -> Pending<Result<(Value, Acknowledged), Fault>> {
        let Some((node, since)) = self.node_of(call) else {
            let fault = self.0.nobody();
            return Box::pin(async { Err(fault) });
        };
        self.0.uses();
        let asked = AckRequest::of(&node, call, replicas, Dispatches::of([call]).since(since));
        Box::pin(unconstrained(node.run_acknowledged(asked)))
    }

    fn publish_kind(&self) -> Publish {
        self.0.publish_kind()
    }

    fn counts(&self, key: &str) -> bool {
        self.0.counts(slot(key.as_bytes()))
    }

    fn same_slot(&self, key: &str, channel: &str) -> bool {
        slot(key.as_bytes()) == slot(channel.as_bytes())
    }

    fn address(&self) -> Option<String> {
        let first = self.0.with_map(|_, nodes| nodes.all().next().map(|member| member.node.aim.name().to_owned()));
        first.map(|node| format!("the cluster of {node}"))
    }

    fn abilities(&self) -> Abilities {
        Abilities { resends: false, joins_names: false }
    }

    fn rights(&self) -> Rights {
        let Ok((_, clients)) = self.0.seed(0) else { return Rights::of_links(self.publish_kind()) };
        let versions: Vec<_> = self.0.members().iter().map(|member| member.node.known.now().version).collect();
        let asks = self.0.asks_for_channels().then_some("pubsub|shardnumsub");
        let rights = Rights::of_links(self.publish_kind()).and(rights::of_names(&clients, &versions));
        rights.and(["cluster|slots", "cluster|myid", "asking"]).and(asks)
    }

    #[cfg(feature = "operate")]
    fn servers(&self) -> Vec<Arc<dyn backend::Server>> {
        self.0.masters().iter().map(|member| AskedServer::at(&member.node, self.publish_kind())).collect()
    }

    #[cfg(feature = "operate")]
    fn server_of(&self, key: &str) -> Option<Arc<dyn backend::Server>> {
        Some(AskedServer::at(&*self.node(key)?, self.publish_kind()))
    }

    #[cfg(feature = "operate")]
    fn deployment(&self) -> backend::Deployment {
        backend::Deployment::Cluster
    }

    fn remembers_since(&self, key: &str) -> Option<Memory> {
        let slot = slot(key.as_bytes());
        self.0.with_map(|slots, nodes| {
            let memory = nodes.at(slots.owner(slot)?)?.node.known.memory.now()?;
            Some(slots.changed(slot).map_or(memory, |changed| memory.not_before(changed)))
        })
    }

    fn ask_memory(&self) -> Pending<()> {
        memory::asked(self.0.masters().iter().map(|member| Arc::clone(&member.node)).collect())
    }

    fn identities(&self) -> Vec<Arc<str>> {
        self.0.masters().iter().filter_map(|member| member.node.known.memory.run_id()).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Routes {
    /// Those that have slots.
    fn masters(&self) -> Vec<Arc<nodes::Member>> {
        self.with_map(|slots, nodes| {
            let owners: std::collections::HashSet<u16> = slots.owners().iter().copied().collect();
            nodes.all().filter(|member| owners.contains(&member.place)).cloned().collect()
        })
    }

    /// Why nothing can be sent for a name.
    fn nobody(&self) -> Fault {
        if self.closed.is_cancelled() {
            return Fault::of(FaultKind::Closed, false, "the client was closed");
        }
        self.look();
        faults::nobody()
    }
}
