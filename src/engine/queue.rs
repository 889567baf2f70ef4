//! The waiters of this process for one name, first come first served. A waiter is told its turn through its own
//! one-shot channel; what it was told is cleaned up by its own drop if nobody takes it.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use tokio::{sync::oneshot, task};

use super::{admit::ContenderSlot, mix::Mixing, registry::Place, share::Share};
use crate::{
    error::Error,
    lease::Lease,
    owner::Owner,
    rules::{Rule, without},
};

/// What a waiter is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// The name is nobody's here any more: try the server.
    Contend(ContenderSlot),
    /// Passed or handed over.
    Granted(Share),
    /// An answer that stands for all who wait.
    Failed(Error),
    /// Somebody did not take its turn: whoever is there asks again, and stands where it stood.
    Called,
}

/// A task of this process that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    pub(super) task: Option<task::Id>,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    /// It waits as long as the server answers, so it shares the verdict that the server does not.
    pub(crate) for_ever: bool,
    pub(crate) turn: oneshot::Sender<Told>,
}

/// The local queue. Its bound is the number of tasks that wait: each stands in it once. Most names never have one, so
/// it is made for the first that waits.
#[derive(Debug, Default)]
pub(crate) struct Queue(Option<Box<Waiters>>);

#[derive(Debug, Default)]
struct Waiters {
    waiters: VecDeque<Waiter>,
    owners: HashSet<Owner, Mixing>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|waiting| waiting.waiters.is_empty())
    }

    /// Whether this owner already waits.
    pub(crate) fn has(&self, owner: &Owner) -> bool {
        self.0.as_ref().is_some_and(|waiting| !waiting.owners.is_empty() && waiting.owners.contains(owner))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.0.iter().flat_map(|waiting| &waiting.waiters).filter(|waiter| !waiter.turn.is_closed())
    }

    pub(crate) fn push(&mut self, waiter: Waiter) {
        let waiting = self.0.get_or_insert_default();
        waiting.owners.insert(waiter.owner.clone());
        // Numbers grow, so most come last. Whoever asks again has the number that it had.
        let later = waiting.waiters.iter().rev().take_while(|other| other.id > waiter.id).count();
        waiting.waiters.insert(waiting.waiters.len() - later, waiter);
    }

    /// The next one that still waits.
    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        let waiting = self.0.as_mut()?;
        loop {
            let last = without(Rule::FirstComeFirstServed);
            let waiter = if last { waiting.waiters.pop_back() } else { waiting.waiters.pop_front() }?;
            waiting.owners.remove(&waiter.owner);
            if !waiter.turn.is_closed() {
                return Some(waiter);
            }
        }
    }

    /// The next one, without taking it.
    pub(crate) fn head(&mut self) -> Option<&Waiter> {
        let waiting = self.0.as_mut()?;
        while waiting.waiters.front().is_some_and(|waiter| waiter.turn.is_closed()) {
            if let Some(waiter) = waiting.waiters.pop_front() {
                waiting.owners.remove(&waiter.owner);
            }
        }
        waiting.waiters.front()
    }

    /// Whether this waiter stands in it.
    fn waits(&self, id: u64) -> bool {
        self.0.as_ref().is_some_and(|waiting| waiting.waiters.binary_search_by_key(&id, |waiter| waiter.id).is_ok())
    }

    /// A waiter gave up.
    pub(crate) fn remove(&mut self, id: u64) {
        let Some(waiting) = &mut self.0 else { return };
        // The queue is in the order of its numbers.
        let at = waiting.waiters.binary_search_by_key(&id, |waiter| waiter.id);
        if let Some(waiter) = at.ok().and_then(|at| waiting.waiters.remove(at)) {
            waiting.owners.remove(&waiter.owner);
        }
    }

    /// Takes out everybody, or those who wait for ever.
    pub(crate) fn drain(&mut self, only_for_ever: bool) -> Vec<Waiter> {
        let Some(waiting) = &mut self.0 else { return Vec::new() };
        let (out, stay): (Vec<_>, Vec<_>) =
            std::mem::take(&mut waiting.waiters).into_iter().partition(|waiter| waiter.for_ever || !only_for_ever);
        waiting.waiters = stay.into();
        for waiter in &out {
            waiting.owners.remove(&waiter.owner);
        }
        out
    }
}

/// A waiter's place in the queue; dropping it gives the place up, and whatever was told and not taken.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    place: Place,
    id: u64,
    /// Nothing once it was told.
    turn: Option<oneshot::Receiver<Told>>,
    /// Its own task took what it waits for.
    pub(super) behind_itself: bool,
}

impl QueuePlace {
    pub(crate) fn new(place: Place, id: u64, turn: oneshot::Receiver<Told>, behind_itself: bool) -> Self {
        Self { place, id, turn: Some(turn), behind_itself }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn number(&self) -> u64 {
        self.id
    }

    /// Whether its turn was decided, so that it is about to be told.
    pub(super) fn is_decided(&self) -> bool {
        let state = self.place.entry.lock();
        let awaits_hand_over = state.handing.as_ref().is_some_and(|successor| successor.id == self.id);
        !awaits_hand_over && !state.queue.waits(self.id)
    }

    /// Waits for the turn; `None` if the entry let go of the sender, which means that the client ended.
    pub(crate) async fn turn(&mut self) -> Option<Told> {
        let told = self.turn.as_mut()?.await.ok();
        if told.is_some() {
            self.turn = None;
        }
        told
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        // Whoever was told its turn is in no queue any more.
        let Some(turn) = &mut self.turn else { return };
        // Closed first: whoever pops it from now on goes on to the next one.
        turn.close();
        self.place.update(|state, _| {
            state.queue.remove(self.id);
            // A hand-over goes on without it, and its owner may ask again meanwhile.
            if let Some(successor) = state.handing.as_mut().filter(|successor| successor.id == self.id) {
                successor.owner = None;
            }
        });
    }
}
