//! Holds that are asked for although no renewal is due: another server may answer for their keys, or the same one may have
//! forgotten them. When that is so the line says; what is sent for a hold, and what its answer means, is in `watchdog.rs`.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
    vec,
};

use tokio::{sync::watch, task::yield_now, time::Instant};

use super::{
    batches::{DueRenewal, Placement},
    clock::Moment,
    date::Date,
    effects::Effects,
    registry::{Entry, Place, State},
    shared::Engine,
    watchdog::each,
};
use crate::{
    backend::Dispatch,
    rules::{Rule, without},
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

/// How often the driver saw that another server may answer.
#[derive(Debug, Default)]
pub(super) struct Era(AtomicU64);

impl Era {
    fn begins(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// For what leaves now.
    pub(super) fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether another one was seen since this number. Asked under an entry's mutex: what comes before the driver looks at the
    /// entry the driver asks for, and for the rest this is true.
    pub(super) fn is_over(&self, number: u64) -> bool {
        number != self.number()
    }
}

/// What was known of the servers behind a name before a command left.
#[derive(Clone, Copy)]
pub(super) struct ServersSeen {
    number: u64,
    /// The key's own.
    era: u64,
}

/// What the driver knows of the servers behind its line.
pub(super) struct Eras {
    changes: watch::Receiver<u64>,
    /// The last change that was seen.
    latest: u64,
    round: Option<Sweep>,
    /// What the next round is for.
    next: Option<Changed>,
}

/// Some change of the servers.
#[derive(Clone, Copy)]
struct Changed {
    /// Only keys that changed after this.
    after: u64,
    /// What was asked for later, and answered, need not be asked for again.
    seen: Date,
}

/// Every entry of a client, one piece after the other.
struct Sweep {
    entries: vec::IntoIter<Arc<Entry>>,
    changed: Changed,
    /// The last change that was seen before it began.
    latest: u64,
    next: Instant,
    step: Duration,
}

impl Eras {
    pub(super) fn told_by(changes: watch::Receiver<u64>) -> Self {
        let latest = *changes.borrow();
        Self { changes, latest, round: None, next: None }
    }

    /// Comes back when there is something new. Dropped, it takes nothing away.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The line is gone, and tells nothing any more.
            pending().await
        }
    }

    /// When the next piece is to leave.
    pub(super) fn next(&self) -> Option<Instant> {
        self.round.as_ref().map(|round| round.next)
    }

    /// Lets others have their turn, where the next piece is to leave already.
    pub(super) async fn pause(&self) {
        if self.next().is_some_and(|next| next <= Instant::now()) {
            yield_now().await;
        }
    }

    /// The holds whose turn it is. Those that are asked for anyhow, or were since, are not among them.
    pub(super) fn due(&mut self, engine: &Arc<Engine>, moment: Moment) -> Vec<(DueRenewal, Placement)> {
        self.see(engine, moment);
        let mut due = Vec::new();
        let Some(round) = &mut self.round else { return due };
        let (Changed { after, seen }, pieces) = (round.changed, round.pieces(moment.now));
        let entries = round.entries.by_ref().take(pieces as usize * PIECE).map(|entry| ((), entry));
        each(engine, entries, |place, (), state, fx| {
            if after < place.era() {
                due.extend(state.asked_anew(place, seen, moment, fx));
            }
        });
        round.next += round.step * pieces;
        if round.entries.as_slice().is_empty() {
            let next = self.next.take();
            self.round = next.map(|changed| Sweep::begin(engine, changed, self.latest, WITHIN / 2, moment));
        }
        due
    }

    /// A round for what changed since the last one. Where that is not over it goes on, and is followed by another: one that began
    /// anew with each change would never come to its end where slots move one after the other.
    fn see(&mut self, engine: &Arc<Engine>, moment: Moment) {
        let latest = *self.changes.borrow();
        if latest == self.latest || without(Rule::NewServerIsAsked) {
            return;
        }
        let before = std::mem::replace(&mut self.latest, latest);
        // Before the look at the entries: a grant of before that is answered after it is asked for by itself.
        engine.era.begins();
        let seen = moment.date;
        match &mut self.round {
            None => self.round = Some(Sweep::begin(engine, Changed { after: before, seen }, latest, WITHIN, moment)),
            Some(round) => {
                round.changed.seen = seen;
                round.end_within(WITHIN / 2);
                let after = self.next.map_or(round.latest, |next| next.after);
                self.next = Some(Changed { after, seen });
            }
        }
    }
}

impl Sweep {
    fn begin(engine: &Arc<Engine>, changed: Changed, latest: u64, within: Duration, moment: Moment) -> Self {
        let entries: Vec<_> = engine.places().into_iter().map(|place| place.entry).collect();
        let mut round = Self { entries: entries.into_iter(), changed, latest, next: moment.now, step: LONGEST_STEP };
        round.end_within(within);
        round
    }

    /// What is left of it.
    fn end_within(&mut self, within: Duration) {
        let pieces = u32::try_from(self.entries.as_slice().len().div_ceil(PIECE)).unwrap_or(u32::MAX).max(1);
        self.step = self.step.min(within / pieces);
    }

    /// How many pieces are to leave now: one after the other, unless the driver is late.
    fn pieces(&self, now: Instant) -> u32 {
        let Some(late) = now.checked_duration_since(self.next) else { return 0 };
        let missed = late.as_nanos() / self.step.as_nanos().max(1);
        if missed < LATE.into() { 1 } else { u32::try_from(missed).unwrap_or(u32::MAX - 1) + 1 }
    }
}

impl Place {
    /// The latest change of the servers that this name's key saw.
    fn era(&self) -> u64 {
        self.engine.line().era(self.entry.protocol.key())
    }

    pub(super) fn servers_seen(&self) -> ServersSeen {
        ServersSeen { number: self.engine.era.number(), era: self.era() }
    }

    /// Whether what was asked after this may have been answered by a server that answers no more. Asked under the entry's mutex.
    pub(super) fn is_over(&self, seen: ServersSeen) -> bool {
        self.engine.era.is_over(seen.number) && seen.era != self.era()
    }

    /// Whether a command was answered by a server that answers no more: that says nothing of what the present one has. `number`
    /// was the era's before it left. Asked under the entry's mutex.
    pub(super) fn is_outdated(&self, number: u64, dispatch: &Dispatch) -> bool {
        let outdated = self.engine.era.is_over(number) && dispatch.left_in() != Some(self.era());
        outdated && !without(Rule::GrantOfOldServerIsAskedFor)
    }
}

impl State {
    /// The hold, unless the present server was asked for it since.
    fn asked_anew(
        &mut self,
        place: &Place,
        seen: Date,
        moment: Moment,
        fx: &mut Effects,
    ) -> Option<(DueRenewal, Placement)> {
        self.expire_at(place, moment, fx);
        let hold = self.hold.as_mut().filter(|hold| !hold.answered_since(seen))?;
        hold.ask_now();
        self.renewal_due(place, moment.date, moment, true)
    }
}
