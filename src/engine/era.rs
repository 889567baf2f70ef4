//! Entries are told when another server may answer for their keys, or the same one may have forgotten them. When that is so the
//! line says; what is sent for it each name decides.

use std::{
    future::pending,
    sync::{Arc, atomic::Ordering},
    time::Duration,
    vec,
};

use tokio::{sync::watch, task::yield_now, time::Instant};

use super::{
    entry::{Entry, Event},
    entry_ref::{EntryRef, each},
    shared::Engine,
};

/// All holds of a client are asked for within this time, however many there are: not all in one moment, since what others
/// do at the server goes on.
const WITHIN: Duration = Duration::from_secs(1);

/// So many at a time, far fewer than are renewed together: a lock or an unlock that comes in between waits for no more than
/// that, here and at the server.
const PIECE: usize = 25;

/// No piece waits longer for its turn than this after the one before it.
const LONGEST_STEP: Duration = Duration::from_millis(2);

/// Whoever is later than so many pieces asks for all of them in one turn.
const LATE: u32 = 10;

/// What the driver knows of the servers behind its line.
pub(super) struct Eras {
    changes: watch::Receiver<u64>,
    /// The last change that was seen.
    latest: u64,
    round: Option<Round>,
    /// The servers have changed since it began: there is another one after it.
    again: bool,
}

/// Every entry of a client, one piece after the other.
struct Round {
    entries: vec::IntoIter<Arc<Entry>>,
    next: Instant,
    step: Duration,
}

impl Eras {
    pub(super) fn told_by(changes: watch::Receiver<u64>) -> Self {
        let latest = *changes.borrow();
        Self { changes, latest, round: None, again: false }
    }

    /// Comes back when there is something new. Dropped, it takes nothing away.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The line is gone, and tells nothing any more.
            pending().await
        }
    }

    /// When the next piece has its turn.
    pub(super) fn next(&self) -> Option<Instant> {
        self.round.as_ref().map(|round| round.next)
    }

    /// Lets others have their turn, where the next piece has its own already.
    pub(super) async fn pause(&self) {
        if self.next().is_some_and(|next| next <= Instant::now()) {
            yield_now().await;
        }
    }

    /// Tells those whose turn it is.
    pub(super) fn tell(&mut self, engine: &Arc<Engine>, now: Instant) {
        self.see(engine, now);
        let Some(round) = &mut self.round else { return };
        let pieces = round.pieces(now);
        each(engine, round.entries.by_ref().take(pieces as usize * PIECE), |place| {
            if place.sees_new_era() {
                place.on(Event::NewEra);
            }
        });
        round.next += round.step * pieces;
        if round.entries.as_slice().is_empty() {
            let again = std::mem::take(&mut self.again);
            self.round = again.then(|| Round::begin(engine, WITHIN / 2, now));
        }
    }

    /// A round for what changed since the last one. Where that is not over it goes on, and is followed by another: one that began
    /// anew with each change would never come to its end where slots move one after the other.
    fn see(&mut self, engine: &Arc<Engine>, now: Instant) {
        let latest = *self.changes.borrow();
        if std::mem::replace(&mut self.latest, latest) == latest {
            return;
        }
        match &mut self.round {
            None => self.round = Some(Round::begin(engine, WITHIN, now)),
            Some(round) => {
                round.end_within(WITHIN / 2);
                self.again = true;
            }
        }
    }
}

impl Round {
    fn begin(engine: &Arc<Engine>, within: Duration, now: Instant) -> Self {
        let entries: Vec<_> = engine.places().into_iter().map(|place| place.entry).collect();
        let mut round = Self { entries: entries.into_iter(), next: now, step: LONGEST_STEP };
        round.end_within(within);
        round
    }

    /// What is left of it.
    fn end_within(&mut self, within: Duration) {
        let pieces = u32::try_from(self.entries.as_slice().len().div_ceil(PIECE)).unwrap_or(u32::MAX).max(1);
        self.step = self.step.min(within / pieces);
    }

    /// How many pieces have their turn now: one after the other, unless the driver is late.
    fn pieces(&self, now: Instant) -> u32 {
        let Some(late) = now.checked_duration_since(self.next) else { return 0 };
        let missed = late.as_nanos() / self.step.as_nanos().max(1);
        if missed < LATE.into() { 1 } else { u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1 }
    }
}

impl EntryRef {
    /// Whether the servers behind this name's key have changed since it was told so last. From now on it was told.
    pub(super) fn sees_new_era(&self) -> bool {
        let era = self.engine.line().era(self.entry.protocol.key());
        // Mostly read, and seldom written.
        self.entry.told_era.load(Ordering::Relaxed) != era && self.entry.told_era.swap(era, Ordering::Relaxed) != era
    }
}
