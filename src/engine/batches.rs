//! Which renewals go together, and in which order: one call of many keys, so many calls of a node at a time. When they are
//! due, and what their answers mean, is decided in `watchdog.rs`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{
    Clock, HoldNumber, Renewal, RenewalGroup,
    clock::Moment,
    date::Date,
    distance::Distance,
    hold::{Hold, Term},
    registry::{Entry, State},
    shared::Engine,
    watchdog::SLEEP_CHECK,
};
use crate::backend::{Dispatch, Fault, FaultKind, Pending};

/// At most so many keys go into one call: the server does nothing else while its script runs.
pub(super) const BATCH: usize = 100;

/// At most so many batches of one node are under way, the others wait here: one that waited inside a slow server would be
/// given up there, and be asked for once more while the server still works on it.
pub(super) const UNDER_WAY: usize = 32;

/// The lease of a renewal that raises none: it only asks whether the hold is there.
pub(super) const LOOK: Duration = Duration::ZERO;

/// A hold whose renewal is due.
#[derive(Clone)]
pub(super) struct DueRenewal {
    pub(super) entry: Arc<Entry>,
    pub(super) number: HoldNumber,
    pub(super) bound: Option<Date>,
    /// It is over by then, unless something moves that meanwhile.
    pub(super) until: Date,
}

/// Where a renewal goes.
#[derive(Clone, Copy)]
pub(super) enum Placement {
    /// It asks for what others do not.
    Apart { lease: Duration },
    /// The watchdog's lease, no more and no less.
    InLine { deadline: Date, again: bool },
}

/// The watchdog's renewals of one node. Those whose holds would be lost first go first.
#[derive(Default)]
pub(super) struct RenewalQueue {
    pub(super) fresh: BTreeMap<(Date, u64), DueRenewal>,
    /// Those that failed before: by themselves, since one that the server refuses fails all that go with it.
    again: BTreeMap<(Date, u64), DueRenewal>,
    pub(super) under_way: usize,
}

pub(super) type RenewalQueues = BTreeMap<RenewalGroup, RenewalQueue>;

/// Renewals that go out together, and what they ask for.
pub(super) struct Together {
    pub(super) holds: Vec<DueRenewal>,
    pub(super) lease: Duration,
    /// Whose places they take.
    pub(super) line: Option<RenewalGroup>,
}

/// Renewals that went out together, and what came of them.
pub(super) struct Batch {
    pub(super) asked: Together,
    /// One for each hold; none if nothing was sent.
    pub(super) answer: Option<(Term, Vec<Result<Renewal, Fault>>)>,
}

pub(super) type SentBatches = FuturesUnordered<Pending<Batch>>;

impl RenewalQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.again.is_empty()
    }

    fn first(&self) -> Option<&(Date, u64)> {
        self.fresh.keys().next().into_iter().chain(self.again.keys().next()).min()
    }

    /// The next ones to go.
    fn take(&mut self) -> Vec<DueRenewal> {
        let again = self.again.keys().next().is_some_and(|first| self.first() == Some(first));
        let waiting = if again { &mut self.again } else { &mut self.fresh };
        std::iter::from_fn(|| waiting.pop_first()).take(BATCH).map(|(_, due)| due).collect()
    }
}

/// The watchdog's renewals stand in line; all else is sent at once, one call a group and lease.
pub(super) fn line_up(
    engine: &Arc<Engine>,
    due: Vec<(DueRenewal, Placement)>,
    lines: &mut RenewalQueues,
    under_way: &SentBatches,
) {
    if let Some(group) = whole_batch(&due, lines) {
        lines.entry(group).or_default().under_way += 1;
        let (holds, lease) = (due.into_iter().map(|(due, _)| due).collect(), engine.settings().watchdog_timeout);
        under_way.push(batch(engine, Together { holds, lease, line: Some(group) }));
        return;
    }
    let now = Date::from(engine.clock().now());
    // In an order that does not change from run to run.
    let mut groups: BTreeMap<(RenewalGroup, Duration), Vec<DueRenewal>> = BTreeMap::new();
    for (due, placement) in due {
        let group = due.entry.protocol.renewal_group();
        match placement {
            Placement::InLine { deadline, again } => {
                let line = lines.entry(group).or_default();
                let waiting = if again { &mut line.again } else { &mut line.fresh };
                waiting.insert((deadline, due.entry.number), due);
            }
            // A bound that may cut the lease cuts nobody else's.
            Placement::Apart { lease } if due.bound.is_some_and(|bound| bound <= now + lease + SLEEP_CHECK) => {
                under_way.push(batch(engine, Together { holds: vec![due], lease, line: None }));
            }
            Placement::Apart { lease } => groups.entry((group, lease)).or_default().push(due),
        }
    }
    for ((_, lease), mut group) in groups {
        while !group.is_empty() {
            let rest = group.split_off(group.len().min(BATCH));
            let holds = std::mem::replace(&mut group, rest);
            under_way.push(batch(engine, Together { holds, lease, line: None }));
        }
    }
}

/// Whose line these need not stand in: they are all of its next batch, nobody stands there, and there is a place.
fn whole_batch(due: &[(DueRenewal, Placement)], lines: &RenewalQueues) -> Option<RenewalGroup> {
    let group = due.first()?.0.entry.protocol.renewal_group();
    let fresh = |(due, placement): &(DueRenewal, Placement)| {
        matches!(placement, Placement::InLine { again: false, .. }) && due.entry.protocol.renewal_group() == group
    };
    let free = |line: &RenewalQueue| line.is_empty() && line.under_way < UNDER_WAY;
    (due.len() == BATCH && lines.get(&group).is_none_or(free) && due.iter().all(fresh)).then_some(group)
}

/// Sends what stands in line as far as there are places, each batch with its own deadline.
pub(super) fn send(engine: &Arc<Engine>, lines: &mut RenewalQueues, under_way: &SentBatches) {
    let lease = engine.settings().watchdog_timeout;
    for (&group, line) in lines.iter_mut() {
        while line.under_way < UNDER_WAY && !line.is_empty() {
            line.under_way += 1;
            under_way.push(batch(engine, Together { holds: line.take(), lease, line: Some(group) }));
        }
    }
    lines.retain(|_, line| line.under_way > 0);
}

/// One call for holds of one lease. What is over by the time it leaves is not renewed: where one of them ends while they
/// wait for a link, none leaves, and the others are asked for anew.
pub(super) fn batch(engine: &Arc<Engine>, mut asked: Together) -> Pending<Batch> {
    let (command_timeout, key) =
        (engine.settings().command_timeout, asked.holds.first().map(|due| &due.entry.protocol));
    let round_trip = key.and_then(|protocol| engine.line().round_trip(protocol.key()));
    let distance = Distance::new(round_trip, command_timeout);
    let clock = engine.clock().clone();
    Box::pin(async move {
        // Those in line are asked for as they leave, all of them: one look before that would be one for nothing.
        let mut any_over = asked.line.is_none();
        loop {
            if any_over {
                let moment = clock.moment();
                asked.holds.retain(|due| live(&mut due.entry.lock(), due.number, moment).is_some());
            }
            let looks = asked.lease == LOOK;
            let bounds = asked.holds.iter().filter_map(|due| due.bound);
            let bound = bounds.min().filter(|_| !looks).map(Instant::from);
            // Less than a millisecond before its bound nothing is asked for.
            let term = Term::now(asked.lease, bound, &clock);
            let first = asked.holds.first().map(|due| Arc::clone(&due.entry));
            let Some((first, term)) = first.zip(term) else { return Batch { asked, answer: None } };
            let within = if looks { command_timeout } else { within(distance, &asked.holds, term) };
            let holds = Arc::new(std::mem::take(&mut asked.holds));
            let dispatch = while_all_held(&holds, term.lease, &clock);
            let calls: Vec<_> = holds.iter().map(|due| (&**due.entry.protocol.key(), due.number)).collect();
            let answers = first.protocol.renew(&calls, term.lease, within, &dispatch);
            drop((calls, dispatch));
            let answers = answers.await;
            asked.holds = Arc::unwrap_or_clone(holds);
            any_over = !answers.is_empty() && answers.iter().all(is_withdrawn);
            if !any_over {
                return Batch { asked, answer: Some((term, answers)) };
            }
        }
    })
}

fn is_withdrawn(answer: &Result<Renewal, Fault>) -> bool {
    matches!(answer, Err(Fault { kind: FaultKind::Withdrawn, .. }))
}

/// Within which time a renewal is answered, or asked for again: never later than one of its holds is over. After others that
/// failed, or on a long way, that may be sooner.
fn within(distance: Distance, holds: &[DueRenewal], term: Term) -> Duration {
    let (within, sent) = (distance.renewal(term.lease), Date::from(term.sent));
    // Mostly none is so near its end, and then nothing is locked.
    let near = holds.iter().filter(|due| due.until < sent + within);
    let deadline = |due: &DueRenewal| due.entry.lock().hold.as_ref().map(Hold::known_deadline);
    let first = near.filter_map(deadline).min();
    first.map_or(within, |first| within.min(first.saturating_duration_since(sent)))
}

fn while_all_held(holds: &Arc<Vec<DueRenewal>>, lease: Duration, clock: &Clock) -> Arc<Dispatch> {
    let (holds, clock) = (Arc::clone(holds), clock.clone());
    Dispatch::new(move || {
        let moment = clock.moment();
        // One that it does not reach in the end was asked for too much: its release is repeated for longer, no more.
        let until = moment.date + lease;
        let leaves = |hold: &mut Hold| hold.leaves(until);
        holds.iter().all(|due| live(&mut due.entry.lock(), due.number, moment).map(leaves).is_some())
    })
}

/// The hold, if it is still this one that lives.
fn live(state: &mut State, number: HoldNumber, moment: Moment) -> Option<&mut Hold> {
    state.hold.as_mut().filter(|hold| hold.number == number && hold.lives(moment))
}
