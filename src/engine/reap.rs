//! Old copies of acquires. Only an acquire can make something of nothing, so only a copy that was sent, never answered,
//! and runs late on a free key leaves a hold that nobody believes in. The field of such an attempt is released again
//! every third of a lease, for one lease and one step more: a ghost lives for a third of a lease at most.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    HoldNumber,
    registry::{Place, State},
};
use crate::{backend::Pending, name::Field};

/// A number whose old copies are watched for.
#[derive(Debug)]
pub(crate) struct Reap {
    number: HoldNumber,
    step: Duration,
    pub(crate) next: Instant,
    until: Instant,
}

impl Reap {
    pub(super) fn new(number: HoldNumber, lease: Duration, place: &Place, now: Instant) -> Self {
        let step = lease.min(place.engine.settings().watchdog_timeout) / 3;
        Self { number, step, next: now + step, until: now + lease + step }
    }
}

impl State {
    /// The releases that are due, to be sent without anybody's waiting for them.
    pub(super) fn reaps_due(&mut self, place: &Place, now: Instant) -> Vec<Pending<()>> {
        let mut due: Vec<Pending<()>> = Vec::new();
        self.reaps.retain_mut(|reap| {
            if reap.next <= now {
                let (place, number) = (place.clone(), reap.number);
                due.push(Box::pin(async move {
                    // No answer is waited for again: the next step asks anyway.
                    let answer = place.entry.protocol.release(number, 0).await;
                    if matches!(answer, Ok(super::Letting::Done { .. })) {
                        tracing::warn!(lock = %Field(place.name()), hold = %number, "released a hold that an old copy of a command left");
                    }
                }));
                reap.next = now + reap.step;
            }
            // The last one is sent at `until` itself.
            reap.next <= reap.until
        });
        due
    }
}
