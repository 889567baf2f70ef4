//! The one task that looks after every entry of a client: renewals in batches, deadlines, bounds, reaps, and entries
//! that can be forgotten. What is due for one entry is decided by the entry; here is when, and together with whom.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{
    HoldNumber, Renewal, RenewalGroup,
    hold::Term,
    pause::{FIRST_PAUSE, LONGEST_PAUSE, jittered},
    registry::{Entry, Place, State},
    shared::Engine,
};
use crate::{
    backend::{Fault, Pending},
    error::LostCause,
};

/// At most so many keys go into one call.
const BATCH: usize = 100;

/// How often the driver looks whether the machine has slept, while there is anything to look after.
const SLEEP_CHECK: Duration = Duration::from_secs(1);

/// When each entry has to be looked at. An entry stands in it once at most.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    entries: Mutex<BTreeMap<(Instant, usize), Arc<Entry>>>,
    sooner: Notify,
    ended: AtomicBool,
}

impl Schedule {
    /// Moves an entry from where it stood to `at`.
    pub(super) fn put(&self, from: Option<Instant>, at: Instant, entry: &Arc<Entry>) {
        let id = Arc::as_ptr(entry).addr();
        let mut entries = self.lock();
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

    /// Ends the driver.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.sooner.notify_one();
    }

    fn next(&self) -> Option<Instant> {
        self.lock().first_key_value().map(|(&(at, _), _)| at)
    }

    fn take_due(&self, now: Instant) -> Vec<Arc<Entry>> {
        let mut entries = self.lock();
        let later = entries.split_off(&(now, usize::MAX));
        std::mem::replace(&mut *entries, later).into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Instant, usize), Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hold whose renewal is due.
struct Due {
    entry: Arc<Entry>,
    number: HoldNumber,
    lease: Duration,
    bound: Option<Instant>,
    /// It failed before: one key that the server refuses must not fail the others again and again.
    alone: bool,
}

/// Renewals that went out together, and what came of them.
struct Batch {
    holds: Vec<(Arc<Entry>, HoldNumber)>,
    term: Term,
    answer: Result<Vec<Renewal>, Fault>,
}

/// The driver's life. It ends with the engine, which it does not keep alive. `slept` is what the machine had slept
/// before there was any hold.
pub(super) async fn drive(engine: Weak<Engine>, schedule: Arc<Schedule>, mut slept: Duration) {
    let mut under_way: Vec<Pending<Batch>> = Vec::new();
    let mut check = Instant::now() + SLEEP_CHECK;
    loop {
        let next = schedule.next();
        let wake = next.map_or_else(|| Instant::now() + SLEEP_CHECK, |next| next.min(check));
        let answered = tokio::select! {
            () = schedule.sooner.notified() => None,
            () = sleep_until(wake), if next.is_some() => None,
            batch = first(&mut under_way), if !under_way.is_empty() => Some(batch),
        };
        if schedule.ended.load(Ordering::Acquire) {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        if let Some(batch) = answered {
            settle(&engine, batch);
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
        send(&engine, due, &mut under_way);
    }
}

impl Place {
    /// The driver's look at an entry whose time has come.
    fn look(&self, now: Instant) -> Option<Due> {
        let due = self.update(|state, fx| {
            state.scheduled = None;
            state.expire(self, fx);
            state.forget_detached(self);
            for reap in state.reaps_due(self, now) {
                fx.spawn(reap);
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
        let left = hold.deadline(clock).saturating_duration_since(now);
        let lease = if hold.watched() { watchdog.max(left) } else { left };
        hold.renewing = true;
        hold.probe = false;
        let alone = hold.retry.is_some();
        Some(Due { entry: Arc::clone(&place.entry), number: hold.number, lease, bound: hold.bound(), alone })
    }
}

/// Sends what is due: one call a group and lease, all at the same time, each with its own deadline.
fn send(engine: &Arc<Engine>, due: Vec<Due>, under_way: &mut Vec<Pending<Batch>>) {
    let mut groups: HashMap<(RenewalGroup, Duration), Vec<Due>> = HashMap::new();
    for due in due {
        match Term::now(due.lease, due.bound, engine.clock()) {
            Some(_) if due.alone => under_way.extend(batch(engine, vec![due])),
            Some(term) => groups.entry((due.entry.protocol.renewal_group(), term.lease)).or_default().push(due),
            // Less than a millisecond is left before its bound.
            None => settle_one(engine, &due.entry, due.number, None),
        }
    }
    for (_, mut group) in groups {
        while !group.is_empty() {
            let rest = group.split_off(group.len().min(BATCH));
            under_way.extend(batch(engine, std::mem::replace(&mut group, rest)));
        }
    }
}

fn batch(engine: &Arc<Engine>, due: Vec<Due>) -> Option<Pending<Batch>> {
    let first = due.first()?;
    let bound = due.iter().filter_map(|due| due.bound).min();
    let term = Term::now(first.lease, bound, engine.clock())?;
    let within = engine.settings().command_timeout.min(term.lease / 3);
    let protocol = Arc::clone(&first.entry.protocol);
    let calls: Vec<_> = due.iter().map(|due| (Arc::clone(due.entry.protocol.key()), due.number)).collect();
    let holds = due.into_iter().map(|due| (due.entry, due.number)).collect();
    let answer = protocol.renew(&calls, term.lease, within);
    Some(Box::pin(async move { Batch { holds, term, answer: answer.await } }))
}

/// The first of the batches that is answered.
async fn first(under_way: &mut Vec<Pending<Batch>>) -> Batch {
    poll_fn(|cx| {
        for at in 0..under_way.len() {
            if let Poll::Ready(batch) = under_way[at].as_mut().poll(cx) {
                drop(under_way.swap_remove(at));
                return Poll::Ready(batch);
            }
        }
        Poll::Pending
    })
    .await
}

fn settle(engine: &Arc<Engine>, batch: Batch) {
    match batch.answer {
        Ok(answers) => {
            for ((entry, number), answer) in batch.holds.into_iter().zip(answers) {
                settle_one(engine, &entry, number, Some((batch.term, answer)));
            }
        }
        Err(fault) => {
            tracing::debug!(error = %fault.source, holds = batch.holds.len(), "a renewal had no answer; it is tried again");
            for (entry, number) in batch.holds {
                settle_one(engine, &entry, number, None);
            }
        }
    }
}

/// One hold's share of an answer. A hold that is over, or lost, or another one by now, is none of its business.
fn settle_one(engine: &Arc<Engine>, entry: &Arc<Entry>, number: HoldNumber, answer: Option<(Term, Renewal)>) {
    let place = Place { engine: Arc::clone(engine), entry: Arc::clone(entry) };
    place.update(|state, fx| {
        state.expire(&place, fx);
        let Some(hold) = state.hold.as_mut().filter(|hold| hold.number == number) else { return };
        hold.renewing = false;
        let clock = engine.clock();
        match answer {
            Some((term, Renewal::Renewed)) => {
                hold.retry = None;
                if hold.watched() {
                    hold.renewed(term);
                }
                hold.extended(term, clock);
                tracing::trace!(lock = %place.name(), owner = %hold.owner(), "renewed");
            }
            Some((_, Renewal::Gone)) => state.lose(&place, LostCause::Gone, fx),
            None => {
                let failures = hold.retry.map_or(0, |(failures, _)| failures);
                let pause = (FIRST_PAUSE * 2_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
                hold.retry = Some((failures.saturating_add(1).min(16), clock.now() + pause / 2 + jittered(pause / 2)));
            }
        }
    });
}
