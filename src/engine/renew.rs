//! Which renewals go together, and in which order: one call of many names, so many calls of a node at a time. When one is due,
//! and what its answer means, each name decides by itself; how a call is made is in `batches.rs`.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::sync::Notify;

use super::{
    HoldNumber, RenewalGroup,
    batches::{Ask, BATCH, Batch, Called, Due, UNDER_WAY, call, is_refused, is_withdrawn},
    clock::Moment,
    entry::{Entry, Place},
    flights::Landed,
    shared::Engine,
};
use crate::{
    backend::Pending,
    state::{Command, Instant, Raises, Verb},
};

/// What names have decided to ask for, until the driver takes it.
pub(crate) struct Renewals {
    decided: Mutex<Vec<(Due, Way)>>,
    watchdog: Duration,
    /// There is something to take.
    pub(super) more: Notify,
}

/// How a renewal goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The watchdog's, in line.
    Fresh,
    /// The same, of one that failed before.
    Again,
    /// At once.
    Apart(Ask),
}

impl Renewals {
    pub(super) fn new(watchdog: Duration) -> Self {
        Self { decided: Mutex::default(), watchdog, more: Notify::new() }
    }

    /// For the driver to send. It may be asked for under an entry's mutex.
    pub(super) fn push(&self, entry: &Arc<Entry>, command: Command, raises: Raises) {
        let Verb::Renew { lease } = command.verb else { return };
        let (deadline, way) = match raises {
            Raises::Watched { deadline, again } if lease == self.watchdog => {
                (deadline, if again { Way::Again } else { Way::Fresh })
            }
            Raises::Fixed { deadline, as_taken: true } => (deadline, Way::Apart(Ask::Look)),
            Raises::Watched { deadline, .. } | Raises::Fixed { deadline, .. } => {
                (deadline, Way::Apart(Ask::Renew { lease }))
            }
            // What somebody waits for leaves by itself.
            Raises::Longer { .. } => return,
        };
        let due = Due::new(Arc::clone(entry), (command.id, command.number), lease, deadline);
        let mut decided = self.decided.lock().unwrap_or_else(PoisonError::into_inner);
        decided.push((due, way));
        let is_first = decided.len() == 1;
        drop(decided);
        if is_first {
            self.more.notify_one();
        }
    }

    /// `taken` is empty, and its room is used next.
    fn take(&self, taken: &mut Vec<(Due, Way)>) {
        // What was said of these is done with. It comes first: of whatever comes from now on it is said anew.
        let _ = self.more.notified().now_or_never();
        std::mem::swap(&mut *self.decided.lock().unwrap_or_else(PoisonError::into_inner), taken);
    }
}

/// Those that wait for a place, in the order in which their holds are over: there may be very many while a server is slow.
#[derive(Default)]
struct Waiting(BTreeMap<(Instant, HoldNumber), Due>);

impl Waiting {
    fn push(&mut self, due: Due) {
        self.0.insert(due.place(), due);
    }

    /// Whose hold is over first.
    fn first(&self) -> Option<(Instant, HoldNumber)> {
        self.0.keys().next().copied()
    }

    fn take(&mut self, count: usize) -> Vec<Due> {
        std::iter::from_fn(|| self.0.pop_first()).take(count).map(|(_, due)| due).collect()
    }
}

/// The watchdog's renewals of one node. Those whose holds would be lost first go first.
#[derive(Default)]
struct Line {
    fresh: Waiting,
    /// Those that failed before: by themselves, since one that the server refuses fails all that go with it.
    again: Waiting,
    under_way: usize,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.fresh.0.is_empty() && self.again.0.is_empty()
    }

    /// The next ones to go.
    fn take(&mut self) -> Vec<Due> {
        let (fresh, again) = (self.fresh.first(), self.again.first());
        let again_first = again.is_some_and(|again| fresh.is_none_or(|fresh| again < fresh));
        let waiting = if again_first { &mut self.again } else { &mut self.fresh };
        waiting.take(BATCH)
    }
}

/// All renewals of a client that were decided on and are not answered.
#[derive(Default)]
pub(super) struct Lines {
    lines: BTreeMap<RenewalGroup, Line>,
    /// Room for what is taken.
    taken: Vec<(Due, Way)>,
    under_way: FuturesUnordered<Pending<Called>>,
}

impl Lines {
    /// The next call that is over; none while none is under way.
    pub(super) async fn next(&mut self) -> Option<Called> {
        self.under_way.next().await
    }

    /// Whether nobody waits for a place.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.values().all(Line::is_empty)
    }

    /// How many the last of the batches that leave next lacks.
    pub(super) fn missing(&self) -> usize {
        let waiting: usize = self.lines.values().map(|line| line.fresh.0.len()).sum();
        waiting.next_multiple_of(BATCH) - waiting
    }

    /// Takes what names have decided on. The watchdog's renewals stand in line; all else is sent at once, one call a group and
    /// lease.
    pub(super) fn line_up(&mut self, engine: &Arc<Engine>) {
        engine.renewals().take(&mut self.taken);
        // In an order that does not change from run to run.
        let mut apart: BTreeMap<(RenewalGroup, Ask), Vec<Due>> = BTreeMap::new();
        for (due, way) in self.taken.drain(..) {
            let group = due.entry.protocol.renewal_group();
            match way {
                Way::Fresh => self.lines.entry(group).or_default().fresh.push(due),
                Way::Again => self.lines.entry(group).or_default().again.push(due),
                Way::Apart(ask) => apart.entry((group, ask)).or_default().push(due),
            }
        }
        for ((_, ask), mut holds) in apart {
            // One alone is asked for what is left of it: that mends a key that somebody stripped of its TTL.
            let ask = match &holds[..] {
                [alone] if ask == Ask::Look => Ask::Renew { lease: alone.lease },
                _ => ask,
            };
            while !holds.is_empty() {
                let rest = holds.split_off(holds.len().min(BATCH));
                let holds = std::mem::replace(&mut holds, rest);
                self.call(engine, Batch { holds, ask, line: None });
            }
        }
    }

    /// Sends what stands in line as far as there are places.
    pub(super) fn send(&mut self, engine: &Arc<Engine>) {
        let ask = Ask::Renew { lease: engine.settings().watchdog_timeout };
        for (&group, line) in &mut self.lines {
            while line.under_way < UNDER_WAY && !line.is_empty() {
                line.under_way += 1;
                self.under_way.push(call(engine, Batch { holds: line.take(), ask, line: Some(group) }));
            }
        }
        self.lines.retain(|_, line| line.under_way > 0);
    }

    /// Tells each name what became of its own.
    pub(super) fn settle(&mut self, engine: &Arc<Engine>, called: Called) {
        let Called { asked, answers } = called;
        if let Some(line) = asked.line.and_then(|group| self.lines.get_mut(&group)) {
            line.under_way -= 1;
        }
        if let Some(fault) = answers.iter().find_map(|answer| answer.as_ref().err()) {
            let holds = answers.iter().filter(|answer| answer.is_err()).count();
            tracing::debug!(error = %fault.source, holds, "a renewal had no answer; it is tried again");
        }
        // One key that the server refuses fails all of its call: those that failed are asked for anew, by halves, down to the one.
        let halves = answers.iter().filter(|answer| is_refused(answer)).nth(1).is_some();
        let (mut refused, mut anew) = (Vec::new(), Vec::new());
        let (mut engine, chance) = (Arc::clone(engine), engine.chance().of_65_536());
        for (due, answer) in asked.holds.iter().zip(answers) {
            if halves && is_refused(&answer) {
                refused.push(due.again());
                continue;
            }
            // Another one of them was over when they were to leave.
            if due.is_wanted() && is_withdrawn(&answer) {
                anew.push(due.again());
                continue;
            }
            let place = Place { engine, entry: Arc::clone(&due.entry) };
            due.settle(&place, answer, chance);
            engine = place.engine;
        }
        let second = refused.split_off(refused.len() / 2);
        for holds in [refused, second, anew] {
            if !holds.is_empty() {
                self.call(&engine, Batch { holds, ask: asked.ask, line: asked.line });
            }
        }
    }

    fn call(&mut self, engine: &Arc<Engine>, batch: Batch) {
        if let Some(group) = batch.line {
            self.lines.entry(group).or_default().under_way += 1;
        }
        self.under_way.push(call(engine, batch));
    }
}

impl Place {
    /// What is answered at once is handed back.
    pub(super) fn renew(&self, command: Command, raises: Raises, moment: Moment) -> Option<Landed> {
        if let Raises::Longer { since } = raises {
            return self.lengthen(command, since, moment);
        }
        self.engine.renewals().push(&self.entry, command, raises);
        None
    }
}

impl fmt::Debug for Renewals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewals").finish_non_exhaustive()
    }
}

/// What is left of the time of one command that was asked for first at `since`. Who was not there for so long has it once more.
pub(super) fn time_left(engine: &Engine, since: Instant) -> Duration {
    let whole = engine.settings().command_timeout;
    let left = since + whole - engine.now();
    if left.is_zero() { whole } else { left }
}
