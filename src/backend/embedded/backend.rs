//! The seam: one client's commands and subscriptions at a store. What becomes of them is the network's.

use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch::{self, error::RecvError},
    task::coop,
    time::{Instant, sleep},
};
use uuid::Uuid;

use super::{
    client::Signals,
    delivery::SharedStore,
    failures::closed,
    frame::{Answers, Frame},
    network::Network,
    routing::LinkState,
    sending::Sent,
};
use crate::{
    backend::{
        self, Abilities, Acknowledged, Answer, Backend, Call, Fault, FaultKind, Line, Listener, Memory, Pending,
        Publish, Replicas, Rights, RoundTrip, Subscription, Value, dispatch::Dispatches,
    },
    error::Error,
};

/// One client's way to a store. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct EmbeddedBackend {
    store: Arc<SharedStore>,
    client: Uuid,
    command_timeout: Duration,
    opened: Instant,
    subscribed: AtomicU64,
    signals: Signals,
}

impl EmbeddedBackend {
    pub(super) fn open(store: &Arc<SharedStore>, client: Uuid, command_timeout: Duration) -> Result<Self, Error> {
        let signals = Signals::new(store.read(Network::nodes));
        let opened = store.with(|network| network.join(client, command_timeout, &signals))?;
        let (store, subscribed) = (Arc::clone(store), AtomicU64::new(0));
        Ok(Self { store, client, command_timeout, opened, subscribed, signals })
    }

    /// For a store that nobody else has.
    pub(super) fn first(store: Arc<SharedStore>, client: Uuid, command_timeout: Duration) -> Self {
        let signals = Signals::new(store.read(Network::nodes));
        let opened = store.with(|network| {
            network.clock.bind();
            network.enter(client, command_timeout, &signals)
        });
        Self { store, client, command_timeout, opened, subscribed: AtomicU64::new(0), signals }
    }

    fn node_of(&self, key: &str) -> usize {
        // One that is the only one is not asked for.
        if self.signals.round_trips.len() == 1 { 0 } else { self.store.read(|network| network.instances.node_of(key)) }
    }

    fn exchange(
        &self,
        frame: Frame,
        dispatches: Dispatches,
        within: Duration,
    ) -> impl Future<Output = Answers> + Send + use<> {
        let (store, client) = (Arc::clone(&self.store), self.client);
        async move {
            let answers = match sent(&store, client, &frame, dispatches, within) {
                Sent::Answered(answers) => answers,
                Sent::UnderWay(answer) => answer.await.unwrap_or_else(|_| frame.fails(&closed(true))),
                Sent::Queued(number, answer) => {
                    let _place = QueuePlace { store, client, number };
                    answer.await.unwrap_or_else(|_| frame.fails(&closed(true)))
                }
            };
            // Answers that come at once must not keep the other tasks of the thread from running.
            coop::consume_budget().await;
            answers
        }
    }
}

/// Sends, or takes a place in the line. Awaits nothing, so that the first to be polled is the first to send.
fn sent(store: &Arc<SharedStore>, client: Uuid, frame: &Frame, dispatches: Dispatches, within: Duration) -> Sent {
    let asked = store.with(|network| {
        let deadline = network.now() + within;
        match network.link_state(client, frame) {
            (_, LinkState::Closed) => Ok(Sent::Answered(frame.fails(&closed(false)))),
            (route, LinkState::Down) => Ok(network.queue(route, frame.clone(), Arc::new(dispatches), deadline)),
            (_, LinkState::Open) if dispatches.is_empty() => Ok(network.send(client, frame, &dispatches, deadline)),
            (_, LinkState::Open) => Err((dispatches, deadline, network.number(client, frame))),
        }
    });
    match asked {
        Ok(sent) => sent,
        // With no mutex held.
        Err((dispatches, deadline, link)) => match dispatches.leave(link) {
            Ok(()) => store.with(|network| network.send(client, frame, &dispatches, deadline)),
            Err(fault) => Sent::Answered(frame.fails(&fault)),
        },
    }
}

impl Line for EmbeddedBackend {
    fn subscribe(&self, key: &str, channel: Arc<str>, listener: Arc<dyn Listener>) -> Subscription {
        let (store, client) = (Arc::clone(&self.store), self.client);
        let id = self.subscribed.fetch_add(1, Ordering::Relaxed);
        drop(self.store.with(|network| network.subscribe(client, key, Arc::clone(&channel), id, listener)));
        Subscription::new(move || drop(store.with(|network| network.unsubscribe(client, &channel, id))))
    }

    fn link(&self, key: &str) -> u64 {
        self.store.read(|network| network.link(self.client, key))
    }

    fn last_answer(&self, key: &str) -> Instant {
        self.store.read(|network| network.last_answer(self.client, key)).unwrap_or(self.opened)
    }

    fn round_trip(&self, key: &str) -> Option<RoundTrip> {
        self.signals.round_trips[self.node_of(key)].seen()
    }

    fn place(&self, key: &str) -> u32 {
        self.node_of(key) as u32
    }

    fn era(&self, key: &str) -> u64 {
        self.link(key)
    }

    fn eras(&self) -> watch::Receiver<u64> {
        self.signals.eras.subscribe()
    }

    fn close(&self) {
        drop(self.store.with(|network| network.leave(self.client)));
    }
}

impl Backend for EmbeddedBackend {
    fn run(&self, call: &Call<'_>) -> Answer {
        let answers = self.exchange(Frame::of(slice::from_ref(call)), Dispatches::of([call]), self.command_timeout);
        backend::answer(async move { answers.await.pop().unwrap_or_else(|| Err(closed(true))) })
    }

    fn run_many(&self, calls: &[Call<'_>], within: Duration) -> Pending<Vec<Result<Value, Fault>>> {
        match calls {
            [] => Box::pin(async { Vec::new() }),
            calls => Box::pin(self.exchange(Frame::of(calls), Dispatches::of(calls), within)),
        }
    }

    /// Over the one link that there is, which waits for nobody: but not in the order of what else goes there. Replicas follow the
    /// node's master, and no other that was one.
    fn run_acknowledged(&self, call: &Call<'_>, replicas: Replicas) -> Pending<Result<(Value, Acknowledged), Fault>> {
        let (frame, dispatches) = (Frame::of(slice::from_ref(call)).apart(), Dispatches::of([call]));
        let answers = self.exchange(frame, dispatches, self.command_timeout);
        let (store, client, mut eras) = (Arc::clone(&self.store), self.client, self.signals.eras.subscribe());
        let key = call.keys.first().copied().unwrap_or_default().to_owned();
        Box::pin(async move {
            let answer = answers.await.pop().unwrap_or_else(|| Err(closed(true)))?;
            let number = store.read(|network| network.link(client, &key));
            let counted: Acknowledged = Box::pin(async move {
                let mut count = store.replicas.subscribe();
                let of_master =
                    |count| if store.read(|network| network.leads_to_rival(client, &key)) { 0 } else { count };
                // Of the links to other nodes nothing hangs.
                let dropped = async {
                    while store.read(|network| network.link(client, &key)) == number {
                        eras.changed().await?;
                    }
                    Ok::<_, RecvError>(())
                };
                tokio::select! {
                    biased;
                    Ok(()) = dropped => Err(Fault::of(FaultKind::Dropped, true, "the link was dropped")),
                    Ok(count) = count.wait_for(|count| replicas.wanted <= of_master(*count)) => Ok(*count),
                    () = sleep(replicas.within) => Ok(of_master(*store.replicas.borrow())),
                }
            });
            Ok((answer, counted))
        })
    }

    fn publish_kind(&self) -> Publish {
        Publish::Classic
    }

    fn counts(&self, key: &str) -> bool {
        self.signals.round_trips.len() == 1 || self.store.read(|network| network.counts(key))
    }

    fn same_slot(&self, _: &str, _: &str) -> bool {
        true
    }

    fn address(&self) -> Option<String> {
        None
    }

    fn abilities(&self) -> Abilities {
        // As a cluster refuses it, whose nodes have slots of their own.
        Abilities { resends: false, joins_names: self.signals.round_trips.len() == 1 }
    }

    /// As of one server, which knows no users and forbids nothing.
    fn rights(&self) -> Rights {
        Rights::of_links(Publish::Classic)
    }

    #[cfg(feature = "operate")]
    fn servers(&self) -> Vec<Arc<dyn backend::Server>> {
        vec![Arc::new(super::as_server::StoreAsServer(Arc::clone(&self.store)))]
    }

    #[cfg(feature = "operate")]
    fn deployment(&self) -> backend::Deployment {
        backend::Deployment::Embedded
    }

    fn remembers_since(&self, key: &str) -> Option<Memory> {
        self.store.read(|network| network.remembers_since(self.client, key)).map(Memory::Since)
    }

    fn ask_memory(&self) -> Pending<()> {
        Box::pin(async {})
    }

    /// Where the store is in memory: no other that lives is there.
    fn identities(&self) -> Vec<Arc<str>> {
        vec![format!("embedded store {:p}", Arc::as_ptr(&self.store)).into()]
    }
}

impl Drop for EmbeddedBackend {
    fn drop(&mut self) {
        self.close();
    }
}

/// A queued command's place in the line; dropped, it is given up.
struct QueuePlace {
    store: Arc<SharedStore>,
    client: Uuid,
    number: u64,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        drop(self.store.with(|network| network.withdraw(self.client, self.number)));
    }
}
