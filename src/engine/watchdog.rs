//! The one task that looks after every entry of a client: renewals in batches, deadlines, bounds, reaps, and entries
//! that can be forgotten. What is due for one entry is decided by the entry; here is when, and together with whom.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{
    Clock, HoldNumber, Renewal, RenewalGroup,
    effects::Said,
    hold::{Hold, Term},
    pause::Pauses,
    registry::{Entry, Place, State},
    shared::Engine,
};
use crate::{
    backend::{Dispatch, Fault, FaultKind, Pending},
    error::LostCause,
    rules::{Rule, without},
};

/// At most so many keys go into one call.
const BATCH: usize = 100;

/// How often the driver looks whether the machine has slept, while there is anything to look after.
const SLEEP_CHECK: Duration = Duration::from_secs(1);

/// When each entry has to be looked at. An entry stands in it once at most.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: Mutex<BTreeMap<(Instant, u64), Arc<Entry>>>,
    sooner: Notify,
    ended: AtomicBool,
}

impl Schedule {
    /// Moves an entry from where it stood to `at`.
    pub(super) fn put(&self, from: Option<Instant>, at: Instant, entry: &Arc<Entry>) {
        let id = entry.number;
        let mut entries = self.lock();
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        if let Some(from) = from {
            entries.remove(&(from, id));
        }
        let first = entries.first_key_value().is_none_or(|(&(first, _), _)| at < first);
        entries.insert((at, id), Arc::clone(entry));
        drop(entries);
        if first {
            self.sooner.notify_one();
        }
    }

    /// Ends the driver, which leaves nothing to look at.
    pub(super) fn end(&self) {
        let mut entries = self.lock();
        self.ended.store(true, Ordering::Release);
        let forgotten = std::mem::take(&mut *entries);
        drop(entries);
        drop(forgotten);
        self.sooner.notify_one();
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.lock().first_key_value().map(|(&(at, _), _)| at)
    }

    fn take_due(&self, now: Instant) -> Vec<Arc<Entry>> {
        let mut entries = self.lock();
        let later = entries.split_off(&(now, u64::MAX));
        std::mem::replace(&mut *entries, later).into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Instant, u64), Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hold whose renewal is due.
struct Due {
    entry: Arc<Entry>,
    number: HoldNumber,
    lease: Duration,
    bound: Option<Instant>,
}

/// Renewals that went out together, and what came of them.
struct Batch {
    holds: Vec<Due>,
    /// None if nothing was sent.
    answer: Option<(Term, Result<Vec<Renewal>, Fault>)>,
}

/// The driver's life. It ends with the engine, which it does not keep alive. `slept` is what the machine had slept
/// before there was any hold.
pub(super) async fn drive(engine: Weak<Engine>, schedule: Arc<Schedule>, mut slept: Duration) {
    let mut under_way = FuturesUnordered::new();
    let mut check = Instant::now() + SLEEP_CHECK;
    loop {
        let next = schedule.next();
        let wake = next.map_or_else(|| Instant::now() + SLEEP_CHECK, |next| next.min(check));
        // Whichever comes first, what is due is looked at: none of them can hold up another.
        let answered = tokio::select! {
            biased;
            Some(batch) = under_way.next() => Some(batch),
            () = schedule.sooner.notified() => None,
            () = sleep_until(wake), if next.is_some() => None,
        };
        if schedule.ended.load(Ordering::Acquire) {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        if let Some(batch) = answered {
            settle(&engine, batch, &under_way);
        }
        let now = engine.clock().now();
        if check <= now {
            check = now + SLEEP_CHECK;
            let sleeps = engine.clock().slept();
            if std::mem::replace(&mut slept, sleeps) < sleeps {
                for place in engine.places() {
                    place.update(|state, fx| state.expire(&place, fx));
                }
            }
        }
        let mut due = Vec::new();
        for entry in schedule.take_due(now) {
            let place = Place { engine: Arc::clone(&engine), entry };
            due.extend(place.look(now));
        }
        send(&engine, due, &under_way);
    }
}

impl Place {
    /// The driver's look at an entry whose time has come.
    fn look(&self, now: Instant) -> Option<Due> {
        let due = self.update(|state, fx| {
            state.scheduled = None;
            state.expire(self, fx);
            state.forget_detached(self, fx);
            if let Some(reaps) = state.reaps_due(self, now) {
                fx.spawn(reaps);
            }
            state.renewal_due(self, now)
        });
        self.engine.forget(&self.entry, now);
        due
    }
}

impl State {
    fn renewal_due(&mut self, place: &Place, now: Instant) -> Option<Due> {
        let watchdog = place.engine.settings().watchdog_timeout;
        let clock = place.engine.clock();
        let hold = self.hold.as_mut()?;
        if hold.due(watchdog)? > now {
            return None;
        }
        // A hold of fixed leases is only probed: for what is left, so that nothing grows. A key that somebody stripped
        // of its TTL gets the lease, so never less is asked for than the hold was promised.
        let until = hold.kept_back(watchdog).unwrap_or_else(|| hold.deadline(clock));
        let left = until.saturating_duration_since(now);
        let lease = if hold.watched() { watchdog.max(left) } else { left };
        hold.renewing = true;
        hold.probe = false;
        Some(Due { entry: Arc::clone(&place.entry), number: hold.number, lease, bound: hold.bound() })
    }
}

type UnderWay = FuturesUnordered<Pending<Batch>>;

/// Sends what is due: one call a group and lease, all at the same time, each with its own deadline.
fn send(engine: &Arc<Engine>, due: Vec<Due>, under_way: &UnderWay) {
    let now = engine.clock().now();
    // In an order that does not change from run to run.
    let mut groups: BTreeMap<(RenewalGroup, Duration), Vec<Due>> = BTreeMap::new();
    for due in due {
        // A bound that may cut the lease cuts nobody else's.
        if due.bound.is_some_and(|bound| bound <= now + due.lease + SLEEP_CHECK) {
            under_way.push(batch(engine, vec![due]));
        } else {
            groups.entry((due.entry.protocol.renewal_group(), due.lease)).or_default().push(due);
        }
    }
    for (_, mut group) in groups {
        while !group.is_empty() {
            let rest = group.split_off(group.len().min(BATCH));
            under_way.push(batch(engine, std::mem::replace(&mut group, rest)));
        }
    }
}

/// One call for holds of one lease. What is over by the time it leaves is not renewed: where one of them ends while they
/// wait for a link, none leaves, and the others are asked for anew.
fn batch(engine: &Arc<Engine>, mut holds: Vec<Due>) -> Pending<Batch> {
    let command_timeout = engine.settings().command_timeout;
    let clock = engine.clock().clone();
    Box::pin(async move {
        loop {
            holds.retain(|due| live(&mut due.entry.lock(), due.number, &clock).is_some());
            let bound = holds.iter().filter_map(|due| due.bound).min();
            let first = holds.first().map(|due| (Arc::clone(&due.entry.protocol), due.lease));
            // Less than a millisecond before its bound nothing is asked for.
            let asked = first.and_then(|(protocol, lease)| Some((protocol, Term::now(lease, bound, &clock)?)));
            let Some((protocol, term)) = asked else { return Batch { holds, answer: None } };
            let within = command_timeout.min(term.lease / 3);
            let calls: Vec<_> = holds.iter().map(|due| (Arc::clone(due.entry.protocol.key()), due.number)).collect();
            let dispatch = while_all_held(&holds, term.lease, &clock);
            match protocol.renew(&calls, term.lease, within, &dispatch).await {
                Err(Fault { kind: FaultKind::Withdrawn, .. }) => {}
                answer => return Batch { holds, answer: Some((term, answer)) },
            }
        }
    })
}

fn while_all_held(holds: &[Due], lease: Duration, clock: &Clock) -> Arc<Dispatch> {
    let holds: Vec<_> = holds.iter().map(|due| (Arc::clone(&due.entry), due.number)).collect();
    let clock = clock.clone();
    Dispatch::new(move || {
        // One that it does not reach in the end was asked for too much: its release is repeated for longer, no more.
        let leaves = |hold: &mut Hold| hold.leaves(clock.now() + lease);
        holds.iter().all(|(entry, number)| live(&mut entry.lock(), *number, &clock).map(leaves).is_some())
    })
}

/// The hold, if it is still this one that lives.
fn live<'a>(state: &'a mut State, number: HoldNumber, clock: &Clock) -> Option<&'a mut Hold> {
    state.hold.as_mut().filter(|hold| hold.number == number && hold.lives(clock))
}

fn settle(engine: &Arc<Engine>, mut batch: Batch, under_way: &UnderWay) {
    // Those that failed together are tried again together.
    let jitter = engine.chance().share();
    match batch.answer {
        Some((term, Ok(answers))) => {
            for (due, answer) in batch.holds.iter().zip(answers) {
                settle_one(engine, due, jitter, Some((term, answer)));
            }
        }
        // One key that the server refuses fails all: halves, down to the one.
        Some((_, Err(fault))) if !fault.kind.heals() && batch.holds.len() > 1 => {
            let half = batch.holds.split_off(batch.holds.len() / 2);
            under_way.push(self::batch(engine, batch.holds));
            under_way.push(self::batch(engine, half));
        }
        unanswered => {
            if let Some((_, Err(fault))) = unanswered {
                tracing::debug!(error = %fault.source, holds = batch.holds.len(), "a renewal had no answer; it is tried again");
            }
            for due in &batch.holds {
                settle_one(engine, due, jitter, None);
            }
        }
    }
}

/// One hold's share of an answer. A hold that is over, or lost, or another one by now, is none of its business.
fn settle_one(engine: &Arc<Engine>, due: &Due, jitter: f64, answer: Option<(Term, Renewal)>) {
    let place = Place { engine: Arc::clone(engine), entry: Arc::clone(&due.entry) };
    place.update(|state, fx| {
        state.expire(&place, fx);
        let Some(hold) = state.hold.as_mut().filter(|hold| hold.number == due.number) else { return };
        hold.renewing = false;
        let clock = engine.clock();
        match answer {
            Some((_, Renewal::Gone)) if !without(Rule::GoneIsLost) => state.lose(&place, LostCause::Gone, fx),
            Some((term, _)) => {
                hold.retry = None;
                if hold.watched() {
                    hold.renewed(term);
                }
                hold.extended(term, clock);
                fx.say(Said::Renewed { owner: hold.owner().clone() });
            }
            None => {
                let failures = hold.retry.map_or(0, |(failures, _)| failures);
                let pause = Pauses::longest_after(failures).mul_f64(jitter);
                hold.retry = Some((failures.saturating_add(1), clock.now() + pause));
                // A probe that had no answer is asked again; the watchdog's own are due anyway.
                hold.probe |= !hold.watched();
            }
        }
    });
}
