//! One call for holds of many names: it is asked for as it leaves, for each of them. Where one is not wanted any more by then none
//! leaves, and the others are asked for anew: what was lost is not to live longer on the server.
//! Which go together is decided in `renew.rs`.

use std::{
    future::ready,
    panic::AssertUnwindSafe,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use futures_util::FutureExt;

use super::{
    Renewal, RenewalGroup,
    clock::Moment,
    compact_instant::instant,
    convert::fault_of,
    entry::Event,
    entry_ref::EntryRef,
    foreign::panicked,
    renewals::{BatchVerb, Due},
    shared::Engine,
};
use crate::{
    backend::{self, Dispatch, Pending, Way},
    state::{Answer, Chance, Fault, Instant, Published},
};

/// At most so many keys go into one call: the server does nothing else while its script runs.
pub(super) const BATCH: usize = 100;

/// At most so many batches of one node are under way, the others wait here: one that waited inside a slow server would be
/// given up there, and be asked for once more while the server still works on it.
pub(super) const UNDER_WAY: usize = 32;

/// The lease of a renewal that raises none: it only asks whether the hold is there.
const LOOK: Duration = Duration::ZERO;

/// Holds that are asked for together.
pub(super) struct Batch {
    pub(super) holds: Vec<Due>,
    pub(super) ask: BatchVerb,
    /// Whose place the call takes.
    pub(super) line: Option<RenewalGroup>,
}

/// A call that is over.
pub(super) struct Called {
    pub(super) asked: Arc<Batch>,
    pub(super) answers: Vec<Result<Renewal, backend::Fault>>,
}

impl Due {
    /// Whether it was wanted, as far as anybody asked.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    fn is_wanted_at(&self, now: Instant) -> bool {
        self.note(self.entry.lock().name.wants(self.command, now))
    }

    fn leaves(&self, place: &EntryRef, moment: Moment, way: Way) -> bool {
        self.note(place.leaves_at(self.command, moment, way))
    }

    fn note(&self, wanted: bool) -> bool {
        self.wanted.store(wanted, Ordering::Relaxed);
        wanted
    }

    /// Tells the name what came of it. Of what was not wanted any more an answer says nothing. `chance` is the same for all that
    /// went together: those that have to ask again do that together, too.
    pub(super) fn settle(&self, place: &EntryRef, answer: Result<Renewal, backend::Fault>, chance: u16) {
        let answer = match answer {
            _ if !self.is_wanted() => Err(Fault::WITHDRAWN),
            Ok(Renewal::Renewed) => Ok(Answer::Done { published: Published::No }),
            Ok(Renewal::Gone) => Ok(Answer::Gone),
            Err(fault) => Err(fault_of(&fault)),
        };
        let event = Event::Answered { command: self.command, answer };
        place.change(|name, env, effects| {
            env.chance = Chance::Drawn(chance);
            name.on(event, env, effects);
        });
    }
}

/// Whether asking again would be answered the same.
pub(super) fn is_refused(answer: &Result<Renewal, backend::Fault>) -> bool {
    answer.as_ref().is_err_and(|fault| !fault.heals() && fault.kind != backend::FaultKind::Withdrawn)
}

/// Whether it did not leave.
pub(super) fn is_withdrawn(answer: &Result<Renewal, backend::Fault>) -> bool {
    answer.as_ref().is_err_and(|fault| fault.kind == backend::FaultKind::Withdrawn)
}

/// Asks for holds of one group.
pub(super) fn call(engine: &Arc<Engine>, asked: Batch) -> Pending<Called> {
    let asked = Arc::new(asked);
    let Some(first) = asked.holds.first() else { return Box::pin(ready(Called { asked, answers: Vec::new() })) };
    let (lease, within) = match asked.ask {
        BatchVerb::Look => (LOOK, engine.settings().command_timeout),
        BatchVerb::Renew { lease } => (lease, within(engine, first, lease, &asked.holds)),
    };
    let calls: Vec<_> = asked.holds.iter().map(|due| (&**due.entry.protocol.key(), due.number)).collect();
    let answers = first.entry.protocol.renew(&calls, lease, within, &while_all_are_wanted(engine, &asked));
    Box::pin(async move {
        let answers = AssertUnwindSafe(answers).catch_unwind().await;
        let answers = answers.unwrap_or_else(|_| asked.holds.iter().map(|_| Err(panicked())).collect());
        Called { answers, asked }
    })
}

/// Within which time a renewal is answered, or asked for again: never later than one of its holds is over. After others that
/// failed, or on a long way, that may be sooner.
fn within(engine: &Arc<Engine>, first: &Due, lease: Duration, holds: &[Due]) -> Duration {
    let place = EntryRef { engine: Arc::clone(engine), entry: Arc::clone(&first.entry) };
    let (within, now) = (place.distance().renewal(lease), engine.now());
    // Mostly none is so near its end, and then nothing is locked.
    let near = holds.iter().filter(|due| due.deadline < now + within);
    let deadline = near.filter_map(|due| due.entry.lock().name.deadline()).min();
    deadline.map_or(within, |deadline| within.min(deadline - now))
}

fn while_all_are_wanted(engine: &Arc<Engine>, asked: &Arc<Batch>) -> Arc<Dispatch> {
    let (engine, asked): (Weak<Engine>, _) = (Arc::downgrade(engine), Arc::clone(asked));
    Dispatch::new(move |way| {
        let Some(mut engine) = engine.upgrade() else { return false };
        // One reading for all: a lease that counts from a little earlier than its sending is never too long.
        let moment = engine.clock().moment();
        let now = instant(moment.date, moment.slept);
        // All of them are looked at first: a name that says that a command leaves counts on it.
        let over = asked.holds.iter().filter(|due| !due.is_wanted_at(now)).count();
        if over > 0 {
            return false;
        }
        let mut leaves = false;
        for due in &asked.holds {
            let place = EntryRef { engine, entry: Arc::clone(&due.entry) };
            leaves |= due.leaves(&place, moment, way);
            engine = place.engine;
        }
        leaves
    })
}
