//! The one task that looks after every entry of a client: renewals in batches, deadlines, bounds, reaps, and entries
//! that can be forgotten. What is due for one entry is decided by the entry; here is when, and together with whom.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::{
    Clock, HoldNumber, Renewal, RenewalGroup,
    effects::Said,
    hold::{Hold, Term},
    pause::Pauses,
    registry::{Entry, Place, State},
    schedule::Schedule,
    shared::Engine,
};
use crate::{
    backend::{Dispatch, Fault, FaultKind, Pending},
    error::LostCause,
    rules::{Rule, without},
};

/// At most so many keys go into one call: the server does nothing else while its script runs.
const BATCH: usize = 100;

/// At most so many batches of one node are under way, the others wait here: one that waited inside a slow server would be
/// given up there, and be asked for once more while the server still works on it.
const UNDER_WAY: usize = 32;

/// A renewal may leave by this part of the lease before it is due: to fill a batch that leaves anyway, or as one of a
/// whole batch, so that not all leave in one moment.
const EARLY: u32 = 12;

/// How often the driver looks whether the machine has slept, while there is anything to look after.
const SLEEP_CHECK: Duration = Duration::from_secs(1);

/// A hold whose renewal is due.
struct Due {
    entry: Arc<Entry>,
    number: HoldNumber,
    lease: Duration,
    bound: Option<Instant>,
    stands: Stands,
}

/// Where a renewal goes.
#[derive(Clone, Copy)]
enum Stands {
    /// It asks for what others do not.
    Apart,
    InLine {
        deadline: Instant,
        again: bool,
    },
}

/// The watchdog's renewals of one node. Those whose holds would be lost first go first.
#[derive(Default)]
struct Line {
    fresh: BTreeMap<(Instant, u64), Due>,
    /// Those that failed before: by themselves, since one that the server refuses fails all that go with it.
    again: BTreeMap<(Instant, u64), Due>,
    under_way: usize,
}

type Lines = BTreeMap<RenewalGroup, Line>;

/// Renewals that went out together, and what came of them.
struct Batch {
    holds: Vec<Due>,
    /// Whose places they take.
    line: Option<RenewalGroup>,
    /// None if nothing was sent.
    answer: Option<(Term, Result<Vec<Renewal>, Fault>)>,
}

/// The driver's life. It ends with the engine, which it does not keep alive. `slept` is what the machine had slept
/// before there was any hold.
pub(super) async fn drive(engine: Weak<Engine>, schedule: Arc<Schedule>, mut slept: Duration) {
    let (mut under_way, mut lines) = (FuturesUnordered::new(), Lines::new());
    let mut check = Instant::now() + SLEEP_CHECK;
    let mut spread_next = Instant::now();
    loop {
        let next = schedule.next();
        let mut wake = next.map_or_else(|| Instant::now() + SLEEP_CHECK, |next| next.min(check));
        if let Some(early) = next_early(&engine, &schedule, &lines) {
            wake = wake.min(early.max(spread_next));
        }
        // Whichever comes first, what is due is looked at: none of them can hold up another.
        let answered = tokio::select! {
            biased;
            Some(batch) = under_way.next() => Some(batch),
            () = schedule.sooner.notified() => None,
            () = sleep_until(wake), if next.is_some() => None,
        };
        if schedule.has_ended() {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        if let Some(batch) = answered {
            settle(&engine, batch, &mut lines, &under_way);
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
        line_up(&engine, due, &mut lines, &under_way);
        line_up(&engine, filling(&engine, &schedule, &lines, now), &mut lines, &under_way);
        line_up(&engine, spread(&engine, &schedule, &lines, &mut spread_next, now), &mut lines, &under_way);
        send(&engine, &mut lines, &under_way);
    }
}

/// How long before it is due a renewal may leave.
fn ahead(engine: &Engine) -> Duration {
    engine.settings().watchdog_timeout / EARLY
}

/// When a whole batch could leave early, while nothing that is due waits.
fn next_early(engine: &Weak<Engine>, schedule: &Schedule, lines: &Lines) -> Option<Instant> {
    let engine = engine.upgrade().filter(|_| lines.values().all(Line::is_empty))?;
    let last = schedule.by(BATCH)?;
    Some(last.checked_sub(ahead(&engine)).unwrap_or(last))
}

/// What makes the last of the batches that go out anyway a whole one: holds that are due a little later, and together
/// from then on. Where there are too few nobody leaves before the time.
fn filling(engine: &Arc<Engine>, schedule: &Schedule, lines: &Lines, now: Instant) -> Vec<Due> {
    let waiting: usize = lines.values().map(|line| line.fresh.len()).sum();
    let until = now + ahead(engine);
    let missing = waiting.next_multiple_of(BATCH) - waiting;
    let entries = schedule.first(missing, until);
    let whole = entries.len() == missing && entries.iter().all(|entry| renews_by(engine, entry, until));
    if whole { early(engine, schedule, entries, until) } else { Vec::new() }
}

/// A whole batch that leaves early, again and again within a third of the lease until it was everybody's turn: holds that
/// were taken in one moment are not due in one moment for ever. `next` is when that may be, and is moved.
fn spread(engine: &Arc<Engine>, schedule: &Schedule, lines: &Lines, next: &mut Instant, now: Instant) -> Vec<Due> {
    let until = now + ahead(engine);
    let busy = lines.values().any(|line| !line.is_empty());
    if now < *next || busy || schedule.by(BATCH).is_none_or(|last| until < last) {
        return Vec::new();
    }
    let share = BATCH as f64 / schedule.len().max(BATCH) as f64;
    *next = now + (engine.settings().watchdog_timeout / 3).mul_f64(share);
    let entries = schedule.first(BATCH, until);
    let whole = entries.iter().all(|entry| renews_by(engine, entry, until));
    if whole { early(engine, schedule, entries, until) } else { Vec::new() }
}

/// The renewals of these that are due by then.
fn early(engine: &Arc<Engine>, schedule: &Schedule, entries: Vec<Arc<Entry>>, until: Instant) -> Vec<Due> {
    let due = entries.into_iter().filter_map(|entry| {
        let place = Place { engine: Arc::clone(engine), entry };
        place.update(|state, _| {
            let due = state.renewal_due(&place, until)?;
            // It does not stand where it was due any more.
            schedule.strike(state.scheduled.take(), &place.entry);
            Some(due)
        })
    });
    due.collect()
}

/// Whether the watchdog's own renewal is due by then, for the first time.
fn renews_by(engine: &Engine, entry: &Entry, until: Instant) -> bool {
    let watchdog = engine.settings().watchdog_timeout;
    let state = entry.lock();
    let plain = |hold: &&Hold| hold.watched() && hold.bound().is_none() && hold.retry.is_none();
    state.hold.as_ref().filter(plain).and_then(|hold| hold.due(watchdog)).is_some_and(|due| due <= until)
}

impl Line {
    fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.again.is_empty()
    }

    fn first(&self) -> Option<&(Instant, u64)> {
        self.fresh.keys().next().into_iter().chain(self.again.keys().next()).min()
    }

    /// The next ones to go.
    fn take(&mut self) -> Vec<Due> {
        let again = self.again.keys().next().is_some_and(|first| self.first() == Some(first));
        let waiting = if again { &mut self.again } else { &mut self.fresh };
        std::iter::from_fn(|| waiting.pop_first()).take(BATCH).map(|(_, due)| due).collect()
    }
}

impl Place {
    /// The driver's look at an entry whose time has come.
    fn look(&self, now: Instant) -> Option<Due> {
        let (due, idle) = self.update(|state, fx| {
            state.scheduled = None;
            state.expire(self, fx);
            state.forget_detached(self, fx);
            if let Some(reaps) = state.reaps_due(self, now) {
                fx.spawn(reaps);
            }
            (state.renewal_due(self, now), state.is_idle())
        });
        if idle {
            self.engine.forget(&self.entry, now);
        }
        due
    }
}

impl State {
    /// The renewal that is due by then.
    fn renewal_due(&mut self, place: &Place, until: Instant) -> Option<Due> {
        let watchdog = place.engine.settings().watchdog_timeout;
        let clock = place.engine.clock();
        let hold = self.hold.as_mut()?;
        if hold.due(watchdog)? > until {
            return None;
        }
        let moment = clock.moment();
        let (now, deadline) = (moment.now, hold.deadline(moment));
        // A hold of fixed leases is only probed: for what is left, so that nothing grows. A key that somebody stripped
        // of its TTL gets the lease, so never less is asked for than the hold was promised.
        let until = hold.kept_back(watchdog).unwrap_or(deadline);
        let left = until.saturating_duration_since(now);
        let lease = if hold.watched() { watchdog.max(left) } else { left };
        let (bound, again) = (hold.bound(), hold.retry.is_some());
        let plain = hold.watched() && lease == watchdog && bound.is_none();
        let stands = if plain { Stands::InLine { deadline, again } } else { Stands::Apart };
        hold.renewing = true;
        hold.probe = false;
        Some(Due { entry: Arc::clone(&place.entry), number: hold.number, lease, bound, stands })
    }
}

type UnderWay = FuturesUnordered<Pending<Batch>>;

/// The watchdog's renewals stand in line; all else is sent at once, one call a group and lease.
fn line_up(engine: &Arc<Engine>, due: Vec<Due>, lines: &mut Lines, under_way: &UnderWay) {
    let now = engine.clock().now();
    // In an order that does not change from run to run.
    let mut groups: BTreeMap<(RenewalGroup, Duration), Vec<Due>> = BTreeMap::new();
    for due in due {
        if let Stands::InLine { deadline, again } = due.stands {
            let line = lines.entry(due.entry.protocol.renewal_group()).or_default();
            let waiting = if again { &mut line.again } else { &mut line.fresh };
            waiting.insert((deadline, due.entry.number), due);
        // A bound that may cut the lease cuts nobody else's.
        } else if due.bound.is_some_and(|bound| bound <= now + due.lease + SLEEP_CHECK) {
            under_way.push(batch(engine, vec![due], None));
        } else {
            groups.entry((due.entry.protocol.renewal_group(), due.lease)).or_default().push(due);
        }
    }
    for (_, mut group) in groups {
        while !group.is_empty() {
            let rest = group.split_off(group.len().min(BATCH));
            under_way.push(batch(engine, std::mem::replace(&mut group, rest), None));
        }
    }
}

/// Sends what stands in line as far as there are places, each batch with its own deadline.
fn send(engine: &Arc<Engine>, lines: &mut Lines, under_way: &UnderWay) {
    for (&group, line) in lines.iter_mut() {
        while line.under_way < UNDER_WAY && !line.is_empty() {
            line.under_way += 1;
            under_way.push(batch(engine, line.take(), Some(group)));
        }
    }
    lines.retain(|_, line| line.under_way > 0);
}

/// One call for holds of one lease. What is over by the time it leaves is not renewed: where one of them ends while they
/// wait for a link, none leaves, and the others are asked for anew.
fn batch(engine: &Arc<Engine>, mut holds: Vec<Due>, line: Option<RenewalGroup>) -> Pending<Batch> {
    let command_timeout = engine.settings().command_timeout;
    let clock = engine.clock().clone();
    Box::pin(async move {
        loop {
            holds.retain(|due| live(&mut due.entry.lock(), due.number, &clock).is_some());
            let bound = holds.iter().filter_map(|due| due.bound).min();
            let first = holds.first().map(|due| (Arc::clone(&due.entry.protocol), due.lease));
            // Less than a millisecond before its bound nothing is asked for.
            let asked = first.and_then(|(protocol, lease)| Some((protocol, Term::now(lease, bound, &clock)?)));
            let Some((protocol, term)) = asked else { return Batch { holds, line, answer: None } };
            let within = command_timeout.min(term.lease / 3);
            let calls: Vec<_> = holds.iter().map(|due| (Arc::clone(due.entry.protocol.key()), due.number)).collect();
            let dispatch = while_all_held(&holds, term.lease, &clock);
            match protocol.renew(&calls, term.lease, within, &dispatch).await {
                Err(Fault { kind: FaultKind::Withdrawn, .. }) => {}
                answer => return Batch { holds, line, answer: Some((term, answer)) },
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
    state.hold.as_mut().filter(|hold| hold.number == number && hold.lives(clock.moment()))
}

fn settle(engine: &Arc<Engine>, mut batch: Batch, lines: &mut Lines, under_way: &UnderWay) {
    let line = batch.line;
    if let Some(line) = line.and_then(|group| lines.get_mut(&group)) {
        line.under_way -= 1;
    }
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
            if let Some(group) = line {
                lines.entry(group).or_default().under_way += 2;
            }
            under_way.push(self::batch(engine, batch.holds, line));
            under_way.push(self::batch(engine, half, line));
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
                // The nearer the deadline, the sooner: a pause that outlasts it is a hold that is lost for nothing.
                let moment = clock.moment();
                let left = hold.deadline(moment).saturating_duration_since(moment.now);
                let longest = Pauses::longest_after(failures).min((left / 2).max(Pauses::longest_after(0)));
                let pause = longest.mul_f64(jitter);
                hold.retry = Some((failures.saturating_add(1), moment.now + pause));
                // A probe that had no answer is asked again; the watchdog's own are due anyway.
                hold.probe |= !hold.watched();
            }
        }
    });
}
