//! The end of a client: who is told what, what is still sent, and what becomes of it when its runtime ends.
//!
//! | | acquisitions and waiters | holders | what is sent |
//! | --- | --- | --- | --- |
//! | shutting down | `Closed`, but for nested ones | their tokens fire; held, renewed, released as ever | everything |
//! | closed | `Closed` | lost (Closed) | releases that were decided, and of holds that nobody took |
//! | the runtime ended | `Closed` | lost (Closed) | nothing |

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Weak,
        atomic::{Ordering, fence},
    },
    time::Duration,
};

use tokio::time::timeout;

use super::{
    entry::{Event, Name},
    entry_ref::EntryRef,
    shared::Engine,
    winding_down::{Shutdown, WindingDown},
};

impl Engine {
    /// Lets nobody in any more, tells holders to stop, and waits until they have, for the grace. Then it closes. Once begun it
    /// goes on by itself; another one joins it.
    pub(crate) async fn shutdown(self: &Arc<Self>, grace: Duration) -> Shutdown {
        let shutdown = Arc::clone(self.shutdown.get_or_init(Arc::default));
        if !shutdown.begun.swap(true, Ordering::SeqCst) {
            self.wind_down(&shutdown, grace);
        }
        // Where home makes no progress nobody renews or releases.
        if self.heard(pin!(shutdown.reported())).await.is_err() {
            drop(self.end());
            self.leave();
        }
        shutdown.reported().await
    }

    fn wind_down(self: &Arc<Self>, shutdown: &WindingDown, grace: Duration) {
        self.is_to_end();
        let places = self.places();
        let mut held = Vec::new();
        for place in &places {
            place.on(Event::Ending);
            let tenure = place.look(|name, _| name.holder().map(Arc::clone));
            held.extend(tenure.map(|tenure| (Arc::clone(place.name()), tenure)));
        }
        held.iter().for_each(|(_, tenure)| tenure.stop());
        let _ = shutdown.held.set(held);
        // In one order for all: either the end sees what was held, or this sees the end.
        fence(Ordering::SeqCst);
        if self.schedule().has_ended() {
            return shutdown.report();
        }
        let engine = Arc::clone(self);
        self.spawn(Box::pin(async move {
            // What is sent then, and who is asked for once more, has its own time.
            let _ = timeout(grace, engine.until_all(places, |name| name.holder().is_none())).await;
            engine.finish(engine.end()).await;
        }));
    }

    /// Ends the client: tells everybody, sends what was released, within one command timeout, and lets the links go. Where
    /// its own runtime makes no progress nothing can be sent, and the links go after that time.
    pub(crate) async fn close(self: &Arc<Self>) {
        let places = self.end();
        if let Ok(home) = self.home().runtime() {
            let engine = Arc::clone(self);
            // Not to be taken back by whoever stops waiting for it.
            let mut ending = home.spawn(async move { engine.finish(places).await });
            let _ = self.heard_within(self.settings().command_timeout, Pin::new(&mut ending)).await;
        }
        self.leave();
    }

    /// Tells everybody that the client ends.
    fn end(self: &Arc<Self>) -> Vec<EntryRef> {
        self.is_to_end();
        self.closed.store(true, Ordering::Release);
        let places = self.places();
        for place in &places {
            place.on(Event::Closed);
        }
        places
    }

    /// Waits until nothing is left to send, for a command timeout: what is not answered by then is left to its lease.
    async fn finish(self: &Arc<Self>, places: Vec<EntryRef>) {
        let _ = timeout(self.settings().command_timeout, self.until_all(places, Name::is_settled)).await;
        self.leave();
    }

    /// Waits until the client ends, or is about to.
    pub(super) async fn until_ending(&self) {
        loop {
            let mut told = pin!(self.ends.notified());
            told.as_mut().enable();
            if self.is_ending() {
                return;
            }
            told.await;
        }
    }

    /// From now on nobody is let in any more.
    fn is_to_end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.ends.notify_waiters();
    }

    /// Waits until it is true of each. From then on it stays so.
    async fn until_all(&self, mut places: Vec<EntryRef>, is_it: fn(&Name) -> bool) {
        loop {
            let mut told = pin!(self.settled.notified());
            told.as_mut().enable();
            while places.pop_if(|place| is_it(&place.entry.lock().name)).is_some() {}
            if places.is_empty() {
                return;
            }
            told.await;
        }
    }
}

/// Kept by the driver at home: taken away with it when the runtime ends. From then on nobody would renew, and nothing is
/// sent, so the client is closed.
pub(super) struct HomeEnds(Weak<Engine>);

impl HomeEnds {
    pub(super) fn of(engine: &Arc<Engine>) -> Self {
        Self(Arc::downgrade(engine))
    }
}

impl Drop for HomeEnds {
    fn drop(&mut self) {
        if let Some(engine) = self.0.upgrade().filter(|engine| !engine.schedule().has_ended()) {
            drop(engine.end());
            engine.leave();
        }
    }
}
