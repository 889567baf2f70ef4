//! What is told outside of the mutex, and the one task for what happens later. There is none while nothing is to happen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use super::{
    connection::{Link, LinkId, Route},
    events::Event,
    network::{Network, TaskState},
    notices::Notice,
    sending::NextQueued,
    trace::Purpose,
};

/// A store as its clients share it.
#[derive(Debug)]
pub(super) struct SharedStore {
    network: Mutex<Network>,
    /// Something is to happen sooner than the task knows, or the store is gone.
    sooner: Arc<Notify>,
    /// So many replicas have everything at once.
    pub(super) replicas: watch::Sender<u32>,
}

impl SharedStore {
    pub(super) fn new(network: Network) -> Arc<Self> {
        Arc::new(Self { network: Mutex::new(network), sooner: Arc::default(), replicas: watch::Sender::new(0) })
    }

    /// Changes the network, and does what follows from it once the mutex is let go.
    pub(super) fn with<R>(self: &Arc<Self>, change: impl FnOnce(&mut Network) -> R) -> R {
        let mut network = self.lock();
        network.step();
        let done = change(&mut network);
        let follows = !network.notices.is_empty();
        let mut starts = None;
        match network.task {
            TaskState::Idle if network.next_time().is_some() => {
                starts = network.clock.runtime().cloned();
                network.task = if starts.is_some() { TaskState::Runs } else { TaskState::Idle };
            }
            TaskState::Late => {
                network.task = TaskState::Runs;
                self.sooner.notify_one();
            }
            TaskState::Idle | TaskState::Runs | TaskState::Ended => {}
        }
        drop(network);
        if let Some(runtime) = starts {
            runtime.spawn(drive(Ends(Some(Arc::downgrade(self))), Arc::clone(&self.sooner)));
        }
        if follows {
            self.deliver();
        }
        done
    }

    pub(super) fn read<R>(&self, read: impl FnOnce(&Network) -> R) -> R {
        read(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everything in order, unless somebody is at it.
    fn deliver(&self) {
        let Some(mut turn) = DeliveryTurn::begin(self) else { return };
        while let Some(notice) = turn.next() {
            notice.deliver();
        }
    }

    /// Lets everything happen that is due. When the next thing is.
    fn run_due(self: &Arc<Self>) -> Option<Instant> {
        loop {
            let queued = self.with(|network| {
                let now = network.now();
                while let Some(event) = network.next_due(now) {
                    network.run_event(event);
                }
                network.routes_with_queued()
            });
            for route in queued {
                self.send_queued(route);
            }
            let next = self.with(|network| {
                let next = network.next_time();
                if next.is_none() {
                    network.task = TaskState::Idle;
                }
                next.map(|next| (next, next <= network.now()))
            });
            match next {
                Some((_, true)) => {}
                next => return next.map(|(next, _)| next),
            }
        }
    }

    /// Those that waited for a link go in the order in which they came. Whether one may leave is asked with no mutex held.
    fn send_queued(self: &Arc<Self>, route: Route) {
        while let Some(NextQueued { frame, dispatches, caller, link }) = self.with(|network| network.next_queued(route))
        {
            let leaves = dispatches.leave(link).map_err(|fault| frame.fails(&fault));
            self.with(|network| network.send_queued(route, &frame, leaves, caller));
        }
    }
}

impl Drop for SharedStore {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

impl Network {
    fn run_event(&mut self, event: Event) {
        match event {
            Event::Arrives { client, link_id, what } => {
                if let Some(link) = self.travelled(client, link_id, what.purpose()) {
                    link.streams(what.order()).to_server.arrived();
                }
                self.arrive_at_server(client, link_id, what);
            }
            Event::Returns { client, link_id, what } => {
                if let Some(link) = self.travelled(client, link_id, what.purpose()) {
                    link.streams(what.order()).to_client.arrived();
                }
                self.arrive_at_client(client, link_id, what);
            }
            Event::Copy { client, instance, frame } => self.copy(client, instance, &frame),
            Event::Overdue { client, flight } => self.overdue(client, flight),
            Event::QueueTimeout { client, queued } => self.queue_timeout(client, queued),
            Event::Replace { route, link } => self.replace(route, link),
            Event::Silent { route, block } => self.find_silent(route, block),
            Event::Gone { instance } => self.end_instance(instance),
            Event::Settled { slot } => self.settle_slot(slot),
            Event::CheckQueues => {}
        }
    }

    /// The link on which something was, if it is still there.
    fn travelled(&mut self, client: Uuid, link_id: LinkId, purpose: Purpose) -> Option<&mut Link> {
        self.links_mut(Route::of(client, link_id)).map(|links| links.of(purpose)).filter(|link| link.is(link_id.number))
    }
}

/// Whoever tells. Others that come meanwhile leave their notices to it.
struct DeliveryTurn<'a> {
    store: &'a SharedStore,
    /// Everything was told; without that a listener panicked.
    through: bool,
}

impl<'a> DeliveryTurn<'a> {
    fn begin(store: &'a SharedStore) -> Option<Self> {
        let mut network = store.lock();
        if network.delivering {
            return None;
        }
        network.delivering = true;
        drop(network);
        Some(Self { store, through: false })
    }

    fn next(&mut self) -> Option<Notice> {
        let mut network = self.store.lock();
        let notice = network.notices.pop_front();
        // In the same step: whoever comes after this finds nobody.
        network.delivering = notice.is_some();
        self.through = notice.is_none();
        notice
    }
}

impl Drop for DeliveryTurn<'_> {
    fn drop(&mut self) {
        if !self.through {
            self.store.lock().delivering = false;
        }
    }
}

/// The task's life. It ends with the store, which it does not keep alive, and when nothing is to happen.
async fn drive(mut ends: Ends, sooner: Arc<Notify>) {
    while let Some(store) = ends.0.as_ref().and_then(Weak::upgrade) {
        let next = store.run_due();
        drop(store);
        let Some(next) = next else { break };
        tokio::select! {
            biased;
            () = sooner.notified() => {}
            () = sleep_until(next) => {}
        }
    }
    ends.0 = None;
}

/// When the runtime takes the task away nothing would ever happen again: all clients are closed.
struct Ends(Option<Weak<SharedStore>>);

impl Drop for Ends {
    fn drop(&mut self) {
        let Some(store) = self.0.take().and_then(|store| store.upgrade()) else { return };
        let left = store.with(|network| {
            network.task = TaskState::Ended;
            let clients: Vec<_> = network.clients.keys().copied().collect();
            clients.into_iter().filter_map(|client| network.leave(client)).collect::<Vec<_>>()
        });
        drop(left);
    }
}
