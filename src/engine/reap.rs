//! Old copies of acquires. Only an acquire can make something of nothing, so only a copy that was sent, never answered,
//! and runs late on a free key leaves a hold that nobody believes in. The field of such an attempt is released again
//! every third of a lease, for one lease and one step more: a ghost lives for a third of a lease at most. A link keeps
//! its order: what was followed on the same link by an answer has run, and is watched for no more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    HoldNumber, Letting, Note,
    apart::ApartTry,
    registry::{Entry, Place, State},
};
use crate::{
    backend::{Dispatch, Pending},
    name::Field,
    rules::{Rule, without},
};

/// So many numbers of one name are watched for. One more, and that is forgotten whose watch ends first.
pub(super) const WATCHED: usize = 64;

/// So many of all names of a client are. One more, and that is forgotten whose watch ends first.
pub(super) const WATCHED_IN_ALL: usize = 4096;

/// Which acquires of a number were sent and never answered: old copies of them may run later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OldCopies {
    #[default]
    None,
    /// All of them left on this link.
    On(u64),
    Anywhere,
}

impl OldCopies {
    /// Of a hold that has some, or none.
    pub(super) fn of(unclean: bool) -> Self {
        if unclean { Self::Anywhere } else { Self::None }
    }

    /// One more, which left on this link if it is known.
    fn add(&mut self, link: Option<u64>) {
        *self = match (*self, link) {
            (Self::None, Some(link)) => Self::On(link),
            (Self::On(known), Some(link)) if known == link => Self::On(link),
            _ => Self::Anywhere,
        };
    }

    /// One more that has no answer, unless whoever asked knows that it is over.
    pub(super) fn add_try(&mut self, dispatch: Option<&Dispatch>, apart: Option<&ApartTry>) {
        if !apart.is_some_and(ApartTry::is_over) {
            self.add(dispatch.and_then(Dispatch::left_on));
        }
    }

    /// Whether all of them have run by now: a command that left later was answered, and `link` is the link now, which had
    /// that number all the while.
    pub(super) fn have_run(self, link: impl FnOnce() -> u64) -> bool {
        matches!(self, Self::On(known) if known == link())
    }
}

/// How long an old copy may keep the key.
pub(super) fn reap_step(lease: Duration, place: &Place) -> Duration {
    lease.min(place.engine.settings().watchdog_timeout) / 3
}

/// The numbers of one name whose old copies are watched for: most names never have any.
#[derive(Debug, Default)]
pub(crate) struct Reaps(Option<Box<WatchList>>);

#[derive(Debug, Default)]
struct WatchList {
    watched: Vec<Reap>,
    /// The soonest of theirs, so that a look at the entry need not ask them all.
    next: Option<Instant>,
    /// Lives while a round is under way: the next one waits for its answers.
    round: Weak<()>,
    /// Somebody else's, for which there was no room any more: to be told.
    crowded_out: Vec<CrowdedOut>,
}

#[derive(Debug)]
struct Reap {
    number: HoldNumber,
    /// What is said of it, as long as its own release has no answer; what runs after that is an old copy's, under which nothing is done.
    note: Note,
    step: Duration,
    next: Instant,
    until: Instant,
    /// Its place among all of the client.
    _place: WatchPlace,
}

/// A number that is to be watched for no more.
#[derive(Debug)]
pub(super) struct CrowdedOut {
    entry: Weak<Entry>,
    number: HoldNumber,
}

/// All numbers of a client that are watched for, those whose watch ends first in front.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<BTreeMap<Until, Weak<Entry>>>);

type Until = (Instant, HoldNumber);

/// A number's place in the list, which is given up when this is dropped.
#[derive(Debug)]
struct WatchPlace {
    watched: Arc<Watched>,
    until: Until,
}

impl Watched {
    fn list(&self) -> MutexGuard<'_, BTreeMap<Until, Weak<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.list().len()
    }

    /// A place for one more, and who has to go for it.
    fn enter(self: &Arc<Self>, until: Until, entry: Weak<Entry>) -> (WatchPlace, Option<CrowdedOut>) {
        let mut list = self.list();
        list.insert(until, entry);
        let first = if list.len() > WATCHED_IN_ALL { list.pop_first() } else { None };
        let crowded_out = first.map(|((_, number), entry)| CrowdedOut { entry, number });
        (WatchPlace { watched: Arc::clone(self), until }, crowded_out)
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        self.watched.list().remove(&self.until);
    }
}

impl CrowdedOut {
    /// Not to be called under any entry's mutex.
    pub(super) fn tell(self, place: &Place) {
        if let Some(entry) = self.entry.upgrade() {
            let place = Place { engine: Arc::clone(&place.engine), entry };
            place.update(|state, _| state.reaps.forget(self.number));
        }
    }
}

impl Reaps {
    pub(super) fn add(&mut self, number: HoldNumber, note: Note, lease: Duration, place: &Place, now: Instant) {
        if without(Rule::OldCopiesAreReaped) {
            return;
        }
        let step = reap_step(lease, place);
        let until = now + lease + step;
        let watch = self.0.get_or_insert_default();
        let (own, crowded_out) = place.engine.watched().enter((until, number), place.entry_weak());
        watch.crowded_out.extend(crowded_out);
        watch.watched.push(Reap { number, note, step, next: now + step, until, _place: own });
        if watch.watched.len() > WATCHED {
            let first = watch.watched.iter().enumerate().min_by_key(|(_, reap)| reap.until);
            first.map(|(at, _)| at).map(|at| watch.watched.swap_remove(at));
        }
        watch.find_next();
    }

    /// What is to be said of it from now on, if it is watched for.
    pub(super) fn say(&mut self, number: HoldNumber, note: Note) {
        let watched = self.0.as_mut().map(|watch| watch.watched.iter_mut());
        watched.into_iter().flatten().filter(|reap| reap.number == number).for_each(|reap| reap.note = note);
    }

    /// It has run, or there is no room for it.
    pub(super) fn forget(&mut self, number: HoldNumber) {
        if let Some(watch) = &mut self.0 {
            watch.watched.retain(|reap| reap.number != number);
            watch.find_next();
        }
    }

    /// One of those who had to go for numbers of this name.
    pub(super) fn crowded_out(&mut self) -> Option<CrowdedOut> {
        self.0.as_mut()?.crowded_out.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|watch| watch.watched.is_empty())
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.as_ref()?.next
    }
}

impl WatchList {
    /// The numbers to be released now. Whoever would be due within half a step goes along: one round for many.
    fn due(&mut self, now: Instant) -> Vec<(HoldNumber, Note)> {
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
            due.push((reap.number, if without(Rule::WatchedEndKeepsNote) { Note::Unused } else { reap.note }));
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
        due.retain(|(number, _)| !self.releases.iter().any(|it| it.number == *number || it.then == Some(*number)));
        if due.is_empty() {
            return None;
        }
        let (place, round) = (place.clone(), Arc::new(()));
        watch.round = Arc::downgrade(&round);
        Some(Box::pin(async move {
            join_all(due.into_iter().map(|(number, note)| reap(&place, number, note))).await;
            drop(round);
        }))
    }
}

/// No answer is waited for again: the next step asks anyway.
async fn reap(place: &Place, number: HoldNumber, note: Note) {
    let answer = place.entry.protocol.release(number, 0, note).await;
    // What its own release would have said, which had no answer, is no news.
    if note == Note::Unused && matches!(answer, Ok(Letting::Done { .. })) {
        tracing::warn!(lock = %Field(place.name()), hold = %number, "released a hold that an old copy of a command left");
    }
}
