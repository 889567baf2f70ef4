//! What a change of an entry leaves to do once its mutex is let go: whatever may call back (a waker, a channel, a guard's
//! drop, a backend) runs here, and never under the mutex. It decides nothing.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    hold::{End, Tenure},
    queue::Told,
    registry::Place,
};
use crate::backend::{Pending, Subscription};

/// What is left to do after an entry's mutex was let go, in this order.
#[derive(Default)]
pub(crate) struct Effects {
    ends: Vec<(Arc<Tenure>, End)>,
    deliveries: Vec<(oneshot::Sender<Told>, Told)>,
    work: Vec<Pending<()>>,
    unlisten: Vec<Subscription>,
    listen: Option<u64>,
    nudge: bool,
    settled: bool,
}

impl Effects {
    pub(super) fn end(&mut self, tenure: &Arc<Tenure>, end: End) {
        tenure.note(end);
        self.ends.push((Arc::clone(tenure), end));
    }

    pub(super) fn deliver(&mut self, turn: oneshot::Sender<Told>, told: Told) {
        self.deliveries.push((turn, told));
    }

    pub(super) fn spawn(&mut self, work: Pending<()>) {
        self.work.push(work);
    }

    pub(super) fn listen(&mut self, epoch: u64) {
        self.listen = Some(epoch);
    }

    pub(super) fn unlisten(&mut self, subscription: Subscription) {
        self.unlisten.push(subscription);
    }

    pub(super) fn settled(&mut self) {
        self.settled = true;
    }

    pub(super) fn nudge(&mut self) {
        self.nudge = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
            && self.deliveries.is_empty()
            && self.work.is_empty()
            && self.unlisten.is_empty()
            && self.listen.is_none()
            && !self.nudge
            && !self.settled
    }

    pub(super) fn run(self, place: &Place) {
        for (tenure, end) in self.ends {
            tenure.finish(end);
        }
        for work in self.work {
            place.engine.spawn(work);
        }
        for (turn, told) in self.deliveries {
            // Nobody there any more: what was told cleans up after itself as it is dropped.
            drop(turn.send(told));
        }
        drop(self.unlisten);
        if let Some(epoch) = self.listen {
            place.listen(epoch);
        }
        if self.nudge {
            place.entry.nudge.notify_one();
        }
        if self.settled {
            place.engine.settled.notify_waiters();
        }
    }
}
