//! What a change of an entry leaves to do once its mutex is let go: whatever may call back (a waker, a channel, a guard's
//! drop, a backend) runs here, and never under the mutex. It decides nothing.

use std::{
    mem::{self, ManuallyDrop},
    sync::Arc,
    time::Duration,
};

use tokio::sync::oneshot;
use tracing::{Level, level_filters::LevelFilter};

use super::{
    date::Date,
    hold::Hold,
    queue::Told,
    reap::CrowdedOut,
    registry::Place,
    release::ReleaseJob,
    tenure::{End, Tenure},
};
use crate::{
    backend::{Pending, Subscription},
    error::LostCause,
    name::Field,
    owner::Owner,
    rules::{Rule, without},
};

/// An event that is logged through `tracing`, whose subscribers may ask about locks themselves.
#[derive(Debug)]
pub(super) enum LogEvent {
    Renewed {
        owner: Owner,
    },
    Released {
        owner: Owner,
        held: Duration,
    },
    Lost {
        owner: Owner,
        cause: LostCause,
        held: Duration,
    },
    /// Its lease is over, as it was meant to end.
    Ended {
        owner: Owner,
        held: Duration,
    },
    OutOfOrder {
        owner: Owner,
    },
    Unused {
        owner: Owner,
    },
    Parked {
        owner: Owner,
    },
}

impl LogEvent {
    fn emit(self, lock: &str) {
        let lock = Field(lock);
        match self {
            Self::Renewed { owner } => tracing::trace!(%lock, %owner, "renewed"),
            Self::Released { owner, held } => tracing::debug!(%lock, %owner, held_ms = millis(held), "released"),
            Self::Lost { owner, cause, held } => {
                tracing::warn!(%lock, %owner, cause = ?cause, held_ms = millis(held), "lost");
            }
            Self::Ended { owner, held } => tracing::debug!(%lock, %owner, held_ms = millis(held), "its lease is over"),
            Self::OutOfOrder { owner } => tracing::warn!(
                %lock,
                %owner,
                "an inner guard outlives an outer one: branches of one task share their owner's hold; see client.mutex"
            ),
            Self::Unused { owner } => tracing::warn!(
                %lock,
                %owner,
                "guards are dropped at once, again and again: the guard is the lock; keep it for as long as the work takes"
            ),
            Self::Parked { owner } => tracing::warn!(
                %lock,
                %owner,
                "an acquisition is neither polled nor dropped: when its turn came others waited, and now go first"
            ),
        }
    }
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// What is left to do after an entry's mutex was let go. Most changes leave nothing: that is neither moved nor dropped.
#[derive(Default)]
pub(crate) struct Effects(ManuallyDrop<Left>);

/// The same, in the order in which it is done.
#[derive(Default)]
struct Left {
    any: bool,
    ends: Few<(Arc<Tenure>, End)>,
    deliveries: Few<(oneshot::Sender<Told>, Told)>,
    work: Vec<Pending<()>>,
    releases: Vec<ReleaseJob>,
    events: Few<LogEvent>,
    unlisten: Vec<Subscription>,
    listen: Option<u64>,
    crowded_out: Vec<CrowdedOut>,
    nudge: bool,
    settled: bool,
}

/// A list of one more often than not, which then takes no memory of its own.
struct Few<T> {
    first: Option<T>,
    others: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, others: Vec::new() }
    }
}

impl<T> Few<T> {
    fn push(&mut self, it: T) {
        if self.first.is_none() {
            self.first = Some(it);
        } else {
            self.others.push(it);
        }
    }

    fn take(&mut self) -> impl Iterator<Item = T> {
        self.first.take().into_iter().chain(self.others.drain(..))
    }
}

impl Effects {
    pub(super) fn end(&mut self, tenure: &Arc<Tenure>, end: End) {
        tenure.note(end);
        self.0.any = true;
        self.0.ends.push((Arc::clone(tenure), end));
    }

    pub(super) fn deliver(&mut self, turn: oneshot::Sender<Told>, told: Told) {
        self.0.any = true;
        self.0.deliveries.push((turn, told));
    }

    pub(super) fn spawn(&mut self, work: Pending<()>) {
        self.0.any = true;
        self.0.work.push(work);
    }

    /// A release that nobody waits for.
    pub(super) fn release(&mut self, job: ReleaseJob) {
        self.0.any = true;
        self.0.releases.push(job);
    }

    pub(super) fn log(&mut self, event: LogEvent) {
        self.0.any = true;
        self.0.events.push(event);
    }

    /// As often as locks change hands: nothing is made where nobody at all hears it. No subscriber is asked for that.
    pub(super) fn log_released(&mut self, hold: &Hold, now: Date) {
        if Level::DEBUG <= LevelFilter::current() {
            self.log(LogEvent::Released { owner: hold.owner().clone(), held: hold.held_for(now) });
        }
    }

    /// As often as holds are renewed: nothing is made for nobody. Whether there is somebody is asked before: a subscriber is not
    /// asked under a mutex of ours either.
    pub(super) fn log_renewed(&mut self, hold: &Hold, heard: bool) {
        if heard {
            self.log(LogEvent::Renewed { owner: hold.owner().clone() });
        }
    }

    pub(super) fn listen(&mut self, epoch: u64) {
        self.0.any = true;
        self.0.listen = Some(epoch);
    }

    pub(super) fn unlisten(&mut self, subscription: Subscription) {
        self.0.any = true;
        self.0.unlisten.push(subscription);
    }

    /// A number of some name is watched for no more.
    pub(super) fn crowds_out(&mut self, out: CrowdedOut) {
        self.0.any = true;
        self.0.crowded_out.push(out);
    }

    pub(super) fn settled(&mut self) {
        self.0.any = true;
        self.0.settled = true;
    }

    pub(super) fn nudge(&mut self) {
        self.0.any = true;
        self.0.nudge = true;
    }

    /// Whether the contender is to look again.
    pub(super) fn nudges(&self) -> bool {
        self.0.nudge
    }

    /// Does it all.
    pub(super) fn run(&mut self, place: &Place) {
        if self.0.any {
            mem::take(&mut *self.0).run(place);
        }
    }
}

/// What nobody ran, because something panicked.
impl Drop for Effects {
    fn drop(&mut self) {
        if self.0.any {
            drop(mem::take(&mut *self.0));
        }
    }
}

impl Left {
    fn run(mut self, place: &Place) {
        for (tenure, end) in self.ends.take() {
            tenure.finish(end);
        }
        for event in self.events.take() {
            event.emit(place.name());
        }
        // A job starts by itself when it is dropped.
        self.releases.clear();
        for work in self.work.drain(..) {
            place.engine.spawn(work);
        }
        for (turn, told) in self.deliveries.take() {
            // Nobody there any more: what was told cleans up after itself as it is dropped.
            let untold = turn.send(told);
            if without(Rule::PassReachesSomebody) {
                mem::forget(untold);
            }
        }
        self.unlisten.clear();
        if let Some(epoch) = self.listen {
            place.listen(epoch);
        }
        for out in self.crowded_out.drain(..) {
            out.tell(place);
        }
        if self.nudge {
            place.entry.nudge();
        }
        if self.settled {
            place.engine.settled.notify_waiters();
        }
    }
}
