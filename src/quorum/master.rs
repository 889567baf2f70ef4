//! One master as a vote sees it: whether it is likely to answer, since when it remembers what it was told, and what is owed to it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::ballot::young_for;
use crate::{
    backend::{Backend, Fault, Memory},
    engine::HoldNumber,
};

/// So many numbers of one name are owed to a master, and so many of all names. Beyond, the oldest of them is forgotten: what it may
/// have left ends with its lease.
const OWED: usize = 64;
const OWED_IN_ALL: usize = 4096;

/// So many old copies are watched for at a master.
const WATCHED: usize = 4096;

/// A suspect that leaves so many commands without an answer is asked nothing more until it answers one of them.
const UNANSWERED: usize = 256;

/// One of the masters.
pub(crate) struct Master {
    pub(super) backend: Arc<dyn Backend>,
    /// As people know it.
    pub(super) name: String,
    _owner: Arc<dyn Send + Sync>,
    /// It did not answer in time, the last time that it was asked.
    suspect: AtomicBool,
    /// Commands that nobody waits for any more, and that it did not answer yet.
    unanswered: AtomicUsize,
    owed: Mutex<Owed>,
    /// How many are owed: mostly none, which is seen without the mutex.
    owes: AtomicUsize,
    /// Numbers of which an old copy may run here.
    watched: AtomicUsize,
}

/// Numbers that ended and whose release had no answer, by the name's key, and until when that matters.
#[derive(Default)]
struct Owed {
    numbers: HashMap<Arc<str>, Vec<(HoldNumber, Instant)>>,
    count: usize,
}

impl Master {
    /// `owner` keeps the way to it open.
    pub(crate) fn new(backend: Arc<dyn Backend>, name: String, owner: Arc<dyn Send + Sync>) -> Self {
        let none = || AtomicUsize::new(0);
        let (suspect, owed) = (AtomicBool::new(false), Mutex::default());
        Self { backend, name, _owner: owner, suspect, unanswered: none(), owed, owes: none(), watched: none() }
    }

    /// Whether a vote that lacks nothing but its word is to wait for it.
    pub(super) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// It was waited for, and said nothing.
    pub(super) fn was_silent(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// What it said, or that there is no way to it.
    pub(super) fn said<T>(&self, answer: &Result<T, Fault>) {
        let silent = answer.as_ref().is_err_and(Fault::is_silence);
        if silent != self.is_suspect() {
            self.suspect.store(silent, Ordering::Relaxed);
        }
    }

    /// Whether it is asked at all.
    pub(super) fn is_asked(&self) -> bool {
        !self.is_suspect() || self.unanswered.load(Ordering::Relaxed) < UNANSWERED
    }

    /// One more command that nobody waits for.
    pub(super) fn leaves_behind(self: &Arc<Self>) -> LeftBehind {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        LeftBehind(Arc::clone(self))
    }

    /// An old copy of an acquire may run here. `None` where there are so many that one more is not watched for: what it may leave
    /// ends with its lease.
    pub(super) fn watches(self: &Arc<Self>) -> Option<Watched> {
        let watched = Watched(Arc::clone(self));
        (self.watched.fetch_add(1, Ordering::Relaxed) < WATCHED).then_some(watched)
    }

    /// For how much longer its word counts for nothing, by what it may have forgotten.
    pub(super) fn young_for(&self, key: &str, quarantine: Duration, now: Instant) -> Option<Duration> {
        if quarantine.is_zero() {
            return None;
        }
        let since = self.backend.remembers_since(key).map_or(now, Memory::since);
        young_for(now.saturating_duration_since(since), quarantine)
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number ended, and what it has here was not let go of yet. False if that is known.
    pub(super) fn owe(&self, key: &Arc<str>, number: HoldNumber, until: Instant) -> bool {
        let mut owed = self.owed();
        let is_owed = owed.owe(key, number, until);
        self.owes.store(owed.count, Ordering::Relaxed);
        is_owed
    }

    /// What is owed of a name, which is said now.
    pub(super) fn take_owed(&self, key: &str) -> Vec<(HoldNumber, Instant)> {
        if self.owes.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut owed = self.owed();
        let numbers = owed.take(key);
        self.owes.store(owed.count, Ordering::Relaxed);
        numbers
    }

    /// The same of one number: whether it was owed still.
    pub(super) fn take_owed_number(&self, key: &str, number: HoldNumber) -> bool {
        let mut owed = self.owed();
        let was_owed = owed.take_one(key, number);
        self.owes.store(owed.count, Ordering::Relaxed);
        was_owed
    }
}

impl Owed {
    fn owe(&mut self, key: &Arc<str>, number: HoldNumber, until: Instant) -> bool {
        let of_name = self.numbers.get(key).map_or(&[][..], |numbers| numbers);
        if of_name.iter().any(|(owed, _)| *owed == number) {
            return false;
        }
        if of_name.len() == OWED {
            self.forget_first(&Arc::clone(key));
        } else if self.count == OWED_IN_ALL {
            let first = self.numbers.iter().min_by_key(|(_, numbers)| numbers.first()).map(|(key, _)| Arc::clone(key));
            first.into_iter().for_each(|key| self.forget_first(&key));
        }
        self.numbers.entry(Arc::clone(key)).or_default().push((number, until));
        self.count += 1;
        true
    }

    fn forget_first(&mut self, key: &str) {
        if let Some(&(first, _)) = self.numbers.get(key).and_then(|numbers| numbers.first()) {
            self.take_one(key, first);
        }
    }

    fn take(&mut self, key: &str) -> Vec<(HoldNumber, Instant)> {
        let numbers = self.numbers.remove(key).unwrap_or_default();
        self.count -= numbers.len();
        numbers
    }

    fn take_one(&mut self, key: &str, number: HoldNumber) -> bool {
        let Some(numbers) = self.numbers.get_mut(key) else { return false };
        let Some(at) = numbers.iter().position(|(owed, _)| *owed == number) else { return false };
        numbers.remove(at);
        if numbers.is_empty() {
            self.numbers.remove(key);
        }
        self.count -= 1;
        true
    }
}

/// A number that is watched for, until it is dropped.
pub(super) struct Watched(Arc<Master>);

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watched.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A command that nobody waits for, until it is answered or dropped.
pub(super) struct LeftBehind(Arc<Master>);

impl Drop for LeftBehind {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::Relaxed);
    }
}
