//! The one task that looks after every entry of a client: renewals, deadlines, bounds, reaps, and entries that can be
//! forgotten. What is due for one entry is decided by the entry; here is when, and in `batches.rs` together with whom.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::{
    HoldNumber, Renewal,
    batches::{
        BATCH, Batch, DueRenewal, LOOK, Placement, RenewalQueue, RenewalQueues, SentBatches, Together, batch, line_up,
        send,
    },
    circles::Circles,
    clock::Moment,
    date::Date,
    effects::Effects,
    era::Eras,
    hold::Hold,
    pause::Pauses,
    registry::{Entry, Place, State},
    schedule::Schedule,
    shared::Engine,
    term::Raised,
};
use crate::{
    backend::Fault,
    error::LostCause,
    rules::{Rule, without},
};

/// A renewal may leave by this part of the lease before it is due: to fill a batch that leaves anyway, or as one of a
/// whole batch, so that not all leave in one moment.
const EARLY: u32 = 12;

/// How often the driver looks whether the machine has slept, while there is anything to look after.
pub(super) const SLEEP_CHECK: Duration = Duration::from_secs(1);

/// The driver's life. It ends with the engine, which it does not keep alive. `slept` is what the machine had slept
/// before there was any hold.
pub(super) async fn drive(engine: Weak<Engine>, schedule: Arc<Schedule>, mut slept: Duration, mut eras: Eras) {
    let (mut under_way, mut lines) = (FuturesUnordered::new(), RenewalQueues::new());
    let mut check = Instant::now() + SLEEP_CHECK;
    let mut circles = Circles::new(Instant::now());
    let mut spread_next = Instant::now();
    loop {
        let next = schedule.next().map(Instant::from).into_iter().chain(eras.next()).min();
        let mut wake = next.map_or_else(|| Instant::now() + SLEEP_CHECK, |next| next.min(check));
        if let Some(early) = next_early(&engine, &schedule, &lines) {
            wake = wake.min(early.max(spread_next));
        }
        // Whichever comes first, what is due is looked at: none of them can hold up another.
        let answered = tokio::select! {
            biased;
            Some(over) = under_way.next() => Some(over),
            () = schedule.sooner.notified() => None,
            () = eras.changed() => None,
            () = sleep_until(wake), if next.is_some() => None,
        };
        if schedule.has_ended() {
            return;
        }
        let Some(engine) = engine.upgrade() else { return };
        if let Some(over) = answered {
            settle(&engine, over, &mut lines, &under_way);
        }
        let moment = engine.clock().moment();
        let now = moment.now;
        if check <= now {
            check = now + SLEEP_CHECK;
            circles.look(&engine, now);
            if next.is_some() {
                // A hold with a lease of its own sends nothing, and is to hear of a server that lost it all the same.
                engine.line().in_use();
            }
            let sleeps = moment.slept;
            if std::mem::replace(&mut slept, sleeps) < sleeps {
                for place in engine.places() {
                    place.update(|state, fx| state.expire(&place, fx));
                }
            }
        }
        let mut due = Vec::new();
        for (at, entry) in schedule.take_due(moment.date) {
            let place = Place { engine: Arc::clone(&engine), entry };
            due.extend(place.look(at, moment));
        }
        line_up(&engine, due, &mut lines, &under_way);
        line_up(&engine, eras.due(&engine, moment), &mut lines, &under_way);
        line_up(&engine, filling(&engine, &schedule, &lines, moment), &mut lines, &under_way);
        line_up(&engine, spread(&engine, &schedule, &lines, &mut spread_next, moment), &mut lines, &under_way);
        send(&engine, &mut lines, &under_way);
        drop(engine);
        eras.pause().await;
    }
}

/// How long before it is due a renewal may leave.
fn ahead(engine: &Engine) -> Duration {
    engine.settings().watchdog_timeout / EARLY
}

/// When a whole batch could leave early, while nothing that is due waits.
fn next_early(engine: &Weak<Engine>, schedule: &Schedule, lines: &RenewalQueues) -> Option<Instant> {
    let engine = engine.upgrade().filter(|_| lines.values().all(RenewalQueue::is_empty))?;
    Some((schedule.by(BATCH)? - ahead(&engine)).into())
}

/// What makes the last of the batches that go out anyway a whole one: holds that are due a little later, and together
/// from then on. Where there are too few nobody leaves before the time.
fn filling(
    engine: &Arc<Engine>,
    schedule: &Schedule,
    lines: &RenewalQueues,
    moment: Moment,
) -> Vec<(DueRenewal, Placement)> {
    let waiting: usize = lines.values().map(|line| line.fresh.len()).sum();
    let missing = waiting.next_multiple_of(BATCH) - waiting;
    early(engine, schedule, missing, moment)
}

/// A whole batch that leaves early, again and again within a third of the lease until it was everybody's turn: holds that
/// were taken in one moment are not due in one moment for ever. `next` is when that may be, and is moved.
fn spread(
    engine: &Arc<Engine>,
    schedule: &Schedule,
    lines: &RenewalQueues,
    next: &mut Instant,
    moment: Moment,
) -> Vec<(DueRenewal, Placement)> {
    let (now, until) = (moment.now, moment.date + ahead(engine));
    let busy = lines.values().any(|line| !line.is_empty());
    if now < *next || busy || schedule.by(BATCH).is_none_or(|last| until < last) {
        return Vec::new();
    }
    let share = BATCH as f64 / schedule.len().max(BATCH) as f64;
    *next = now + (engine.settings().watchdog_timeout / 3).mul_f64(share);
    early(engine, schedule, BATCH, moment)
}

/// The next so many renewals, a little before they are due: all of them, or none.
fn early(engine: &Arc<Engine>, schedule: &Schedule, count: usize, moment: Moment) -> Vec<(DueRenewal, Placement)> {
    let until = moment.date + ahead(engine);
    let entries = schedule.first(count, until);
    if count == 0 || entries.len() < count || !entries.iter().all(|entry| renews_by(engine, entry, until)) {
        return Vec::new();
    }
    let mut due = Vec::with_capacity(count);
    let taken = schedule.take_first(count, until);
    each(engine, taken, |place, at, state, _| {
        // It does not stand where it was due any more.
        state.taken_out(at);
        due.extend(state.renewal_due(place, until, moment, false));
    });
    due
}

/// Changes many entries, one after the other.
pub(super) fn each<T>(
    engine: &Arc<Engine>,
    entries: impl IntoIterator<Item = (T, Arc<Entry>)>,
    mut change: impl FnMut(&Place, T, &mut State, &mut Effects),
) {
    let entries = entries.into_iter();
    let mut moves = Vec::with_capacity(entries.size_hint().0);
    let (mut engine, mut fx) = (Arc::clone(engine), Effects::default());
    for (what, entry) in entries {
        let place = Place { engine, entry };
        let moved = place.update_with(&mut fx, |state, fx| change(&place, what, state, fx));
        engine = place.engine;
        moves.extend(moved.map(|(from, at)| (from, at, place.entry)));
    }
    // Only the driver, which is here, moves an entry to a later date: none that moves meanwhile comes to where it was.
    engine.schedule().put_all(moves);
}

/// Whether the watchdog's own renewal is due by then, for the first time.
fn renews_by(engine: &Engine, entry: &Entry, until: Date) -> bool {
    let watchdog = engine.settings().watchdog_timeout;
    let state = entry.lock();
    let plain = |hold: &&Hold| hold.watched() && hold.bounded().is_none() && !hold.retries();
    state.hold.as_ref().filter(plain).and_then(|hold| hold.due(watchdog)).is_some_and(|due| due <= until)
}

impl Place {
    /// The driver's look at an entry whose time has come: it stood in the schedule at `at`.
    fn look(&self, at: Date, moment: Moment) -> Option<(DueRenewal, Placement)> {
        let now = moment.now;
        let (due, idle) = self.update(|state, fx| {
            state.taken_out(at);
            state.expire_at(self, moment, fx);
            state.pass_over(self, moment.now, fx);
            state.forget_detached(self, fx);
            if let Some(reaps) = state.reaps_due(self, now) {
                fx.spawn(reaps);
            }
            (state.renewal_due(self, moment.date, moment, false), state.is_idle())
        });
        if idle {
            self.engine.forget(&self.entry, now);
        }
        due
    }
}

impl State {
    /// The schedule has it at `at` no more.
    fn taken_out(&mut self, at: Date) {
        self.scheduled.take_if(|scheduled| *scheduled == at);
    }

    /// The renewal that is due by then; one of `many` that are asked for together, each with another lease perhaps.
    pub(super) fn renewal_due(
        &mut self,
        place: &Place,
        until: Date,
        moment: Moment,
        many: bool,
    ) -> Option<(DueRenewal, Placement)> {
        let watchdog = place.engine.settings().watchdog_timeout;
        let hold = self.hold.as_mut()?;
        if hold.due(watchdog)? > until {
            return None;
        }
        let deadline = hold.deadline_at(moment);
        // A hold of fixed leases is only probed: for what is left, so that nothing grows. A key that somebody stripped
        // of its TTL gets the lease, so never less is asked for than the hold was promised. One of many is only looked at,
        // where its TTL came with the hold itself: it can be asked for with others, whatever is left of theirs.
        let kept_back = hold.kept_back(watchdog);
        let left = kept_back.unwrap_or(deadline).saturating_duration_since(moment.date);
        let lease = match hold.watched() {
            true => watchdog.max(left),
            false if kept_back.is_none() && !hold.grown && (many || hold.retries()) => LOOK,
            false => left,
        };
        let (bound, again) = (hold.bounded(), hold.retries());
        let plain = hold.watched() && lease == watchdog && bound.is_none();
        let placement = if plain { Placement::InLine { deadline, again } } else { Placement::Apart { lease } };
        hold.renewing = true;
        hold.probe = false;
        let until = hold.known_deadline();
        Some((DueRenewal { entry: Arc::clone(&place.entry), number: hold.number, bound, until }, placement))
    }
}

fn settle(engine: &Arc<Engine>, over: Batch, lines: &mut RenewalQueues, under_way: &SentBatches) {
    let Batch { mut asked, answer } = over;
    if let Some(line) = asked.line.and_then(|group| lines.get_mut(&group)) {
        line.under_way -= 1;
    }
    // Those that failed together are tried again together.
    let jitter = engine.chance().share();
    let moment = engine.clock().moment();
    let (raised, mut answers) = match answer {
        Some((term, answers)) => (Some(term.raised(moment)), answers),
        None => (None, Vec::new()),
    };
    if answers.iter().filter(|answer| is_refused(answer)).nth(1).is_some() {
        halve(engine, &mut asked, &mut answers, lines, under_way);
    }
    if let Some(fault) = answers.iter().find_map(|answer| answer.as_ref().err()) {
        let holds = answers.iter().filter(|answer| answer.is_err()).count();
        tracing::debug!(error = %fault.source, holds, "a renewal had no answer; it is tried again");
    }
    let heard = tracing::enabled!(tracing::Level::TRACE);
    let answers = answers.into_iter().map(Result::ok).chain(std::iter::repeat(None));
    let holds = asked.holds.into_iter().zip(answers).map(|(due, answer)| ((due.number, answer), due.entry));
    each(engine, holds, |place, (number, answer), state, fx| {
        state.renewal_answered(place, number, raised.zip(answer), Settling { jitter, moment, heard }, fx);
    });
}

/// Whether asking again would be answered the same.
fn is_refused(answer: &Result<Renewal, Fault>) -> bool {
    answer.as_ref().is_err_and(|fault| !fault.heals())
}

/// One key that the server refuses fails all of its call: those that failed are asked for anew, by halves, down to the one.
/// What was answered stays.
fn halve(
    engine: &Arc<Engine>,
    asked: &mut Together,
    answers: &mut Vec<Result<Renewal, Fault>>,
    lines: &mut RenewalQueues,
    under_way: &SentBatches,
) {
    let holds = std::mem::take(&mut asked.holds).into_iter().zip(std::mem::take(answers));
    let (refused, others): (Vec<_>, Vec<_>) = holds.partition(|(_, answer)| is_refused(answer));
    (asked.holds, *answers) = others.into_iter().unzip();
    let mut first: Vec<_> = refused.into_iter().map(|(due, _)| due).collect();
    let second = first.split_off(first.len() / 2);
    for holds in [first, second] {
        if let Some(group) = asked.line {
            lines.entry(group).or_default().under_way += 1;
        }
        under_way.push(batch(engine, Together { holds, lease: asked.lease, line: asked.line }));
    }
}

/// What holds that were asked for together have in common when they are answered.
#[derive(Clone, Copy)]
struct Settling {
    jitter: f64,
    moment: Moment,
    /// Somebody hears of renewals.
    heard: bool,
}

impl State {
    /// One hold's share of an answer. A hold that is over, or lost, or another one by now, is none of its business.
    fn renewal_answered(
        &mut self,
        place: &Place,
        number: HoldNumber,
        answer: Option<(Raised, Renewal)>,
        Settling { jitter, moment, heard }: Settling,
        fx: &mut Effects,
    ) {
        self.expire_at(place, moment, fx);
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.number == number) else { return };
        hold.renewing = false;
        match answer {
            Some((_, Renewal::Gone)) if !without(Rule::GoneIsLost) => self.lose(place, LostCause::Gone, fx),
            Some((raised, _)) => {
                hold.answered();
                if hold.watched() && raised.raises() {
                    hold.renewed(raised, moment);
                } else {
                    hold.raised(raised, moment);
                }
                fx.log_renewed(hold, heard);
            }
            None => {
                let failures = hold.failures();
                // The nearer the deadline, the sooner: a pause that outlasts it is a hold that is lost for nothing.
                let left = hold.deadline_at(moment).saturating_duration_since(moment.date);
                let longest = Pauses::longest_after(failures).min((left / 2).max(Pauses::longest_after(0)));
                let pause = longest.mul_f64(jitter);
                hold.failed(failures.saturating_add(1), moment.now + pause);
                // A probe that had no answer is asked again; the watchdog's own are due anyway.
                hold.probe |= !hold.watched();
            }
        }
    }
}
