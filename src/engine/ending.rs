//! The end of a client: who is told what, what is still sent, and what becomes of it when its runtime ends.

use std::{
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
};

use tokio::time::timeout;

use super::{queue::Told, registry::Place, shared::Engine};
use crate::error::{Error, LostCause};

impl Engine {
    /// Ends the client: tells everybody, sends what was released, within one command timeout, and lets the links go. Where
    /// its own runtime makes no progress nothing can be sent, and the links go after that time.
    pub(crate) async fn close(self: &Arc<Self>) {
        let places = self.end();
        if let Ok(home) = self.home().runtime() {
            let engine = Arc::clone(self);
            // Not to be taken back by whoever stops waiting for it.
            let ending = home.spawn(async move {
                engine.settle(places).await;
                engine.leave();
            });
            let _ = self.heard_within(self.settings().command_timeout, ending).await;
        }
        self.leave();
    }

    /// Tells everybody that the client ends.
    fn end(self: &Arc<Self>) -> Vec<Place> {
        self.closed.store(true, Ordering::Release);
        let places = self.places();
        for place in &places {
            place.update(|state, fx| {
                for waiter in state.queue.drain(false) {
                    fx.deliver(waiter.turn, Told::Failed(Error::Closed));
                }
                state.lose(place, LostCause::Closed, fx);
                fx.nudge();
            });
        }
        places
    }

    /// Waits until nothing is left to send, for a command timeout: what is not answered by then is left to its lease.
    async fn settle(&self, mut places: Vec<Place>) {
        let settled = async {
            loop {
                let mut told = pin!(self.settled.notified());
                told.as_mut().enable();
                // Who has settled has nothing to send any more.
                while places.pop_if(|place| place.entry.lock().is_settled()).is_some() {}
                if places.is_empty() {
                    return;
                }
                told.await;
            }
        };
        let _ = timeout(self.settings().command_timeout, settled).await;
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
