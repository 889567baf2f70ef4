//! What is told outside of the mutex, and the one task for what happens later. There is none while nothing is to happen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use super::{
    connection::{Link, Route, Wire},
    events::Event,
    network::{Pump, World},
    notices::News,
    sending::NextParked,
    trace::Purpose,
};

/// A store as its clients share it.
#[derive(Debug)]
pub(super) struct Store {
    world: Mutex<World>,
    /// Something is to happen sooner than the task knows, or the store is gone.
    sooner: Arc<Notify>,
    /// So many replicas have everything at once.
    pub(super) replicas: watch::Sender<u32>,
}

impl Store {
    pub(super) fn new(world: World) -> Arc<Self> {
        Arc::new(Self { world: Mutex::new(world), sooner: Arc::default(), replicas: watch::Sender::new(0) })
    }

    /// Changes the world, and does what follows from it once the mutex is let go.
    pub(super) fn with<R>(self: &Arc<Self>, change: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.lock();
        world.step();
        let done = change(&mut world);
        let follows = !world.news.is_empty();
        let mut starts = None;
        match world.pump {
            Pump::Idle if world.next_time().is_some() => {
                starts = world.clock.runtime().cloned();
                world.pump = if starts.is_some() { Pump::Runs } else { Pump::Idle };
            }
            Pump::Late => {
                world.pump = Pump::Runs;
                self.sooner.notify_one();
            }
            Pump::Idle | Pump::Runs | Pump::Ended => {}
        }
        drop(world);
        if let Some(runtime) = starts {
            runtime.spawn(drive(Ends(Some(Arc::downgrade(self))), Arc::clone(&self.sooner)));
        }
        if follows {
            self.tell();
        }
        done
    }

    pub(super) fn look<R>(&self, look: impl FnOnce(&World) -> R) -> R {
        look(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everything in order, unless somebody is at it.
    fn tell(&self) {
        let Some(mut telling) = NewsTurn::begin(self) else { return };
        while let Some(news) = telling.next() {
            news.tell();
        }
    }

    /// Lets everything happen that is due. When the next thing is.
    fn turn(self: &Arc<Self>) -> Option<Instant> {
        loop {
            let parked = self.with(|world| {
                let now = world.now();
                while let Some(event) = world.next_due(now) {
                    world.happen(event);
                }
                world.routes_with_parked()
            });
            for route in parked {
                self.send_parked(route);
            }
            let next = self.with(|world| {
                let next = world.next_time();
                if next.is_none() {
                    world.pump = Pump::Idle;
                }
                next.map(|next| (next, next <= world.now()))
            });
            match next {
                Some((_, true)) => {}
                next => return next.map(|(next, _)| next),
            }
        }
    }

    /// Those that waited for a link go in the order in which they came. Whether one may leave is asked with no mutex held.
    fn send_parked(self: &Arc<Self>, route: Route) {
        while let Some(NextParked { packet, dispatches, caller, link }) = self.with(|world| world.next_parked(route)) {
            let leaves = dispatches.leave(link).map_err(|fault| packet.fails(&fault));
            self.with(|world| world.send_parked(route, &packet, (leaves, link), caller));
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.sooner.notify_one();
    }
}

impl World {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { client, wire, what } => {
                if let Some(link) = self.travelled(client, wire, what.purpose()) {
                    link.lanes(what.order()).there.leave();
                }
                self.arrive(client, wire, what);
            }
            Event::Returns { client, wire, what } => {
                if let Some(link) = self.travelled(client, wire, what.purpose()) {
                    link.lanes(what.order()).back.leave();
                }
                self.come_back(client, wire, what);
            }
            Event::Copy { client, host, packet } => self.copy(client, host, &packet),
            Event::Overdue { client, flight } => self.overdue(client, flight),
            Event::Unsent { client, parked } => self.unsent(client, parked),
            Event::Replace { route, link } => self.replace(route, link),
            Event::Silent { route, block } => self.find_silent(route, block),
            Event::Gone { host } => self.end_host(host),
            Event::Settled { slot } => self.settle_slot(slot),
            Event::Look => {}
        }
    }

    /// The link on which something was, if it is still there.
    fn travelled(&mut self, client: Uuid, wire: Wire, purpose: Purpose) -> Option<&mut Link> {
        self.links_mut(Route::of(client, wire)).map(|links| links.of(purpose)).filter(|link| link.is(wire.number))
    }
}

/// Whoever tells. Others that come meanwhile leave their news to it.
struct NewsTurn<'a> {
    store: &'a Store,
    /// Everything was told; without that a listener panicked.
    through: bool,
}

impl<'a> NewsTurn<'a> {
    fn begin(store: &'a Store) -> Option<Self> {
        let mut world = store.lock();
        if world.telling {
            return None;
        }
        world.telling = true;
        drop(world);
        Some(Self { store, through: false })
    }

    fn next(&mut self) -> Option<News> {
        let mut world = self.store.lock();
        let news = world.news.pop_front();
        // In the same step: whoever comes after this finds nobody.
        world.telling = news.is_some();
        self.through = news.is_none();
        news
    }
}

impl Drop for NewsTurn<'_> {
    fn drop(&mut self) {
        if !self.through {
            self.store.lock().telling = false;
        }
    }
}

/// The task's life. It ends with the store, which it does not keep alive, and when nothing is to happen.
async fn drive(mut ends: Ends, sooner: Arc<Notify>) {
    while let Some(store) = ends.0.as_ref().and_then(Weak::upgrade) {
        let next = store.turn();
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
struct Ends(Option<Weak<Store>>);

impl Drop for Ends {
    fn drop(&mut self) {
        let Some(store) = self.0.take().and_then(|store| store.upgrade()) else { return };
        let left = store.with(|world| {
            world.pump = Pump::Ended;
            let clients: Vec<_> = world.members.keys().copied().collect();
            clients.into_iter().filter_map(|client| world.leave(client)).collect::<Vec<_>>()
        });
        drop(left);
    }
}
