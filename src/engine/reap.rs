//! Old copies of acquires. Only an acquire can make something of nothing, so only a copy that was sent, never answered,
//! and runs late on a free key leaves a hold that nobody believes in. The field of such an attempt is released again
//! every third of a lease, for one lease and one step more: a ghost lives for a third of a lease at most.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    HoldNumber, Letting,
    registry::{Place, State},
};
use crate::{
    backend::Pending,
    name::Field,
    rules::{Rule, without},
};

/// So many numbers of one name are watched for. One more, and that is forgotten whose watch ends first.
pub(super) const WATCHED: usize = 64;

/// The numbers of one name whose old copies are watched for: most names never have any.
#[derive(Debug, Default)]
pub(crate) struct Reaps(Option<Box<Watch>>);

#[derive(Debug, Default)]
struct Watch {
    watched: Vec<Reap>,
    /// The soonest of theirs, so that a look at the entry need not ask them all.
    next: Option<Instant>,
    /// Lives while a round is under way: the next one waits for its answers.
    round: Weak<()>,
}

#[derive(Debug)]
struct Reap {
    number: HoldNumber,
    step: Duration,
    next: Instant,
    until: Instant,
}

impl Reaps {
    pub(super) fn add(&mut self, number: HoldNumber, lease: Duration, place: &Place, now: Instant) {
        if without(Rule::OldCopiesAreReaped) {
            return;
        }
        let step = lease.min(place.engine.settings().watchdog_timeout) / 3;
        let watch = self.0.get_or_insert_default();
        watch.watched.push(Reap { number, step, next: now + step, until: now + lease + step });
        if watch.watched.len() > WATCHED {
            let first = watch.watched.iter().enumerate().min_by_key(|(_, reap)| reap.until);
            first.map(|(at, _)| at).map(|at| watch.watched.swap_remove(at));
        }
        watch.find_next();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|watch| watch.watched.is_empty())
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.as_ref()?.next
    }
}

impl Watch {
    /// The numbers to be released now. Whoever would be due within half a step goes along: one round for many.
    fn due(&mut self, now: Instant) -> Vec<HoldNumber> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let is_due = |reap: &Reap| reap.next <= now + reap.step / 2;
        if self.round.strong_count() > 0 {
            let soonest = self.watched.iter().filter(|reap| is_due(reap)).map(|reap| reap.step).min();
            self.next = soonest.map(|step| now + step);
            return Vec::new();
        }
        let mut due = Vec::new();
        self.watched.retain_mut(|reap| {
            if !is_due(reap) {
                return true;
            }
            due.push(reap.number);
            // The last one is sent at `until` itself.
            reap.next = (now + reap.step).min(reap.until);
            now < reap.until
        });
        self.find_next();
        due
    }

    fn find_next(&mut self) {
        self.next = self.watched.iter().map(|reap| reap.next).min();
    }
}

impl State {
    /// The releases that are due, to be sent without anybody's waiting for them.
    pub(super) fn reaps_due(&mut self, place: &Place, now: Instant) -> Option<Pending<()>> {
        let Some(watch) = &mut self.reaps.0 else { return None };
        let mut due = watch.due(now);
        // A release that is repeated needs no help; one that was helped would not find what it let go of.
        due.retain(|number| !self.releases.iter().any(|it| it.number == *number || it.then == Some(*number)));
        if due.is_empty() {
            return None;
        }
        let (place, round) = (place.clone(), Arc::new(()));
        watch.round = Arc::downgrade(&round);
        Some(Box::pin(async move {
            join_all(due.into_iter().map(|number| reap(&place, number))).await;
            drop(round);
        }))
    }
}

/// No answer is waited for again: the next step asks anyway.
async fn reap(place: &Place, number: HoldNumber) {
    let answer = place.entry.protocol.release(number, 0).await;
    if matches!(answer, Ok(Letting::Done { .. })) {
        tracing::warn!(lock = %Field(place.name()), hold = %number, "released a hold that an old copy of a command left");
    }
}
