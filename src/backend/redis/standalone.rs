//! A standalone server, as the seam wants it: one node for commands, one link for all subscriptions. It only hands on.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, task::unconstrained, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    acks::AckRequest,
    address::Target,
    aim::Aim,
    codec, faults,
    link::Link,
    many::pipeline_of,
    memory,
    node::{self, Node},
    options::Options,
    pubsub::PubSub,
    rights::{self, Versions},
};
use crate::backend::{
    self, Abilities, Acknowledged, Answer, Backend, Call, Fault, Line, Listener, Memory, Pending, Publish, Replicas,
    Rights, RoundTrip, Scripting, Subscription, Value, dispatch::Dispatches,
};

/// A standalone server. Dropping it closes it.
pub(crate) struct Standalone {
    node: Arc<Node>,
    pubsub: PubSub,
    /// Of the sentinels that say where it is, if any do.
    sentinels: Option<Arc<Versions>>,
}

/// Connects within the command timeout, and makes sure that there is a server that can be worked with.
pub(crate) async fn connect(target: &Target, options: Options<'_>) -> Result<Standalone, Fault> {
    let started = Instant::now();
    let clients = target.clients(options).map_err(|error| faults::unopened(&error))?;
    let closed = CancellationToken::new();
    let link = Link::open(&clients, &closed, options.command_timeout).await?;
    node::start(link, Aim::at(clients), options, started, closed).await.map(|node| Standalone::on(node, None))
}

impl Standalone {
    /// With all its subscriptions where its commands go.
    pub(super) fn on(node: Arc<Node>, sentinels: Option<Arc<Versions>>) -> Self {
        let pubsub = PubSub::start(&node, Publish::Classic);
        Self { node, pubsub, sentinels }
    }
}

impl Line for Standalone {
    fn subscribe(&self, _: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        self.pubsub.subscribe(channel, listener)
    }

    fn link(&self, _: &str) -> u64 {
        self.node.current.number()
    }

    fn last_answer(&self, _: &str) -> Instant {
        self.node.last_answer()
    }

    fn round_trip(&self, _: &str) -> Option<RoundTrip> {
        self.node.round_trips.seen()
    }

    fn place(&self, _: &str) -> u32 {
        0
    }

    fn era(&self, key: &str) -> u64 {
        self.link(key)
    }

    fn eras(&self) -> watch::Receiver<u64> {
        self.node.current.eras()
    }

    fn close(&self) {
        self.node.close();
    }
}

impl Backend for Standalone {
    fn run(&self, call: &Call<'_>) -> Answer {
        let node = self.node.clone();
        let script = call.script;
        let cmd = codec::command(&node.hashes, call);
        let dispatches = Dispatches::of([call]);
        // Unconstrained: a spent task budget would make the first poll yield before it has sent.
        backend::answer(unconstrained(node.run(cmd, script, dispatches, call.polled)))
    }

    fn run_many(&self, calls: &[Call<'_>], within: Duration) -> Pending<Vec<Result<Value, Fault>>> {
        let node = self.node.clone();
        let scripts: Vec<_> = calls.iter().map(|call| call.script).collect();
        let pipeline = pipeline_of(calls.iter().map(|call| codec::command_of_many(&node.hashes, call)));
        let dispatches = Dispatches::of(calls);
        Box::pin(unconstrained(node.run_many(pipeline, scripts, within, dispatches)))
    }

    fn run_acknowledged(&self, call: &Call<'_>, replicas: Replicas) -> Pending<Result<(Value, Acknowledged), Fault>> {
        let (node, dispatches) = (self.node.clone(), Dispatches::of([call]));
        let asked = AckRequest::of(&node, call, replicas, dispatches);
        Box::pin(unconstrained(node.run_acknowledged(asked)))
    }

    fn publish_kind(&self) -> Publish {
        Publish::Classic
    }

    fn counts(&self, _: &str) -> bool {
        true
    }

    fn same_slot(&self, _: &str, _: &str) -> bool {
        true
    }

    fn address(&self) -> Option<String> {
        Some(self.node.aim.now().address().to_string())
    }

    fn abilities(&self) -> Abilities {
        let joins_names = self.node.current.link().is_none_or(|link| link.joins_slots());
        Abilities { resends: false, joins_names }
    }

    fn scripting(&self) -> Scripting {
        self.node.known.now().scripting
    }

    fn rights(&self) -> Rights {
        let clients = self.node.aim.now();
        let names = rights::of_names(&clients, &[self.node.known.now().version]);
        let rights = Rights::of_links(Publish::Classic).and(names).and(rights::of_database(&clients));
        let rights = match self.scripting() {
            Scripting::Compares(deletes) => rights.without_scripts(deletes),
            Scripting::Runs | Scripting::Denied | Scripting::Neither | Scripting::NotTold => rights,
        };
        let sentinel = self.sentinels.as_ref().map(|sentinels| rights::of_sentinels(&clients, &sentinels.all()));
        // Whoever was found by a sentinel is asked whether it is a master.
        let role = sentinel.is_some().then_some("role");
        Rights { sentinel, probes: true, ..rights.and(role) }
    }

    #[cfg(feature = "operate")]
    fn servers(&self) -> Vec<Arc<dyn backend::Server>> {
        vec![super::asked::AskedServer::at(&self.node, Publish::Classic)]
    }

    #[cfg(feature = "operate")]
    fn deployment(&self) -> backend::Deployment {
        use backend::Deployment::{Sentinel, Standalone};
        self.sentinels.as_ref().map_or(Standalone, |sentinels| Sentinel(sentinels.all().len()))
    }

    fn remembers_since(&self, _: &str) -> Option<Memory> {
        self.node.known.memory.now()
    }

    fn ask_memory(&self) -> Pending<()> {
        memory::asked(vec![Arc::clone(&self.node)])
    }

    fn identities(&self) -> Vec<Arc<str>> {
        self.node.known.memory.run_id().into_iter().collect()
    }
}

impl Drop for Standalone {
    fn drop(&mut self) {
        self.node.close();
    }
}

#[cfg(test)]
mod tests;
