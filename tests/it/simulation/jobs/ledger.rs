//! What is known of a fleet: attempts that the server granted, bodies that ran for them, successes on record. Everything is judged here, at the
//! instant at which it is seen.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use relatch::{EmbeddedStore, Error, JobContext, Uuid, embedded::Traced};
use tokio::{sync::Notify, time::Instant};

use super::{
    Terms,
    reach::Reach,
    record::{Fact, Millis, Record, millis},
};
use crate::simulation::referee::Complaint;

/// What the clock of a store shows at its beginning.
const BEGINNING: Duration = Duration::from_secs(1_700_000_000);
/// What is left to timers, which round up.
const SLACK: Duration = Duration::from_millis(20);
/// After a storm everybody has asked again within this: the longest pause after a fault, and a moment.
pub(super) const SETTLED: Duration = Duration::from_secs(12);
/// Who was told that a job is free begins within this where nothing befalls anybody, though others are let go first.
const AT_ONCE: Duration = Duration::from_millis(700);

pub(super) struct Ledger {
    store: EmbeddedStore,
    pub(super) terms: Terms,
    started: Instant,
    book: Mutex<Book>,
    pub(super) complained: Notify,
}

#[derive(Default)]
pub(super) struct Book {
    pub(super) complaint: Option<Complaint>,
    lines: Vec<(Duration, Line)>,
    record: Record,
    grants: Vec<Grant>,
    bodies: Vec<Body>,
    /// How far the server's clock is ahead, and how far behind.
    stepped: [Duration; 2],
    /// What makes somebody believe in what is over, or forget what was: at that instant.
    excuses: Vec<Duration>,
    calm: Option<Duration>,
    /// Since when nobody is at what somebody should be at.
    idle: Option<Duration>,
    /// A server's clock went on by more than time did: who sleeps by it does not know yet.
    leapt: Option<Duration>,
    pub(super) successes: usize,
    /// Nodes that go on by themselves.
    pub(super) scheduled: usize,
    pub(super) reach: Reach,
    /// The newest period that was tried, and since when one is not that might be.
    tried_ms: Option<Millis>,
    untried: Option<(Millis, Duration)>,
}

/// An attempt, as the server granted it.
#[derive(Debug)]
struct Grant {
    era: u32,
    field: String,
    start_ms: Millis,
    attempt: u64,
    body: Option<usize>,
}

#[derive(Debug)]
struct Body {
    era: u32,
    start_ms: Millis,
    attempt: u64,
    fence: u64,
    /// Until it ends.
    context: Option<JobContext>,
    began: Duration,
    state: State,
    recorded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Works,
    Done,
    Failed,
    Dropped,
}

enum Line {
    Traced(Traced),
    Said(String),
}

/// A body at work; dropped before its end, it says so.
pub(super) struct AtWork {
    ledger: Arc<Ledger>,
    number: usize,
    /// Somebody drops the whole run, or ends the process.
    dropped: [Arc<AtomicBool>; 2],
}

impl Ledger {
    pub(super) fn new(store: &EmbeddedStore, terms: Terms) -> Arc<Self> {
        store.start_trace();
        let (store, started, book, complained) = (store.clone(), Instant::now(), Mutex::default(), Notify::new());
        Arc::new(Self { store, terms, started, book, complained })
    }

    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn complain(&self, rule: &'static str, what: impl fmt::Display) {
        let at = self.now();
        self.book().complains(rule, what.to_string(), at);
        self.complained.notify_one();
    }

    pub(super) fn tell(&self, what: String) {
        let line = (self.now(), Line::Said(what));
        self.book().lines.push(line);
    }

    /// The book, with everything that has happened at the server by now.
    pub(super) fn up_to_date(&self) -> MutexGuard<'_, Book> {
        let trace = self.store.take_trace();
        let mut book = self.book();
        for traced in trace {
            let now_ms = book.server_ms(traced.at);
            match book.record.hears(&self.terms, &traced, now_ms) {
                Ok(Some(fact)) => book.learns(fact, traced.at),
                Ok(None) => {}
                Err((rule, what)) => book.complains(rule, what, traced.at),
            }
            book.reach.hears(&traced);
            book.lines.push((traced.at, Line::Traced(traced)));
        }
        let now = self.now();
        let now_ms = book.server_ms(now);
        if let Some(what) = book.is_untried(&self.terms, now, now_ms) {
            book.complains("a period goes by without a try, and a node reaches the server", what, now);
        }
        if book.complaint.is_some() {
            self.complained.notify_one();
        }
        book
    }

    /// A body begins.
    pub(super) fn begins(
        self: &Arc<Self>,
        client: Uuid,
        context: JobContext,
        dropped: [&Arc<AtomicBool>; 2],
    ) -> AtWork {
        let start = context.period().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
        let (start_ms, attempt, fence, began) =
            (millis(start), u64::from(context.attempt()), context.fence(), self.now());
        let mut book = self.up_to_date();
        let number = book.bodies.len();
        book.lines.push((began, Line::Said(format!("body {number} of {client} begins, {start_ms} {attempt}"))));
        let of = |grant: &&mut Grant| {
            (grant.start_ms, grant.attempt) == (start_ms, attempt)
                && grant.body.is_none()
                && grant.field.starts_with(&client.to_string())
        };
        let grant = book.grants.iter_mut().rfind(of);
        let era = grant.map(|grant| {
            grant.body = Some(number);
            grant.era
        });
        let body = Body {
            era: era.unwrap_or_default(),
            start_ms,
            attempt,
            fence,
            context: Some(context),
            began,
            state: State::Works,
            recorded: false,
        };
        if era.is_none() {
            book.complains("work begins that was not granted", format!("{body:?}"), began);
        }
        book.judges_beginning(&self.terms, &body);
        book.bodies.push(body);
        if book.complaint.is_some() {
            self.complained.notify_one();
        }
        AtWork { ledger: Arc::clone(self), number, dropped: dropped.map(Arc::clone) }
    }

    /// A run was answered. `body`: what it did, if it began.
    pub(super) fn answered(&self, said: Said, body: Option<usize>) {
        let now = self.now();
        let mut book = self.up_to_date();
        let body = body.map(|number| &book.bodies[number]);
        let state = body.map(|body| (body.state, body.recorded));
        let wiped = body.is_some_and(|body| book.is_excused(&self.terms, body.began, now));
        let rule = match (&said, state) {
            (Said::Ran, Some((State::Done, true))) | (Said::Failed, Some((State::Failed, false))) => None,
            (Said::Unrecorded, Some((State::Done, _))) | (Said::Lost, Some((_, false)) | None) => None,
            (Said::Ran, Some((State::Done, false))) if wiped => None,
            (Said::Lost, Some((_, true))) if wiped => None,
            (Said::NotHere | Said::Fault(_), None) => None,
            (Said::Ran, _) => Some("work counts as done that is not on record"),
            (Said::Lost, _) => Some("work is lost that is on record"),
            (Said::NotHere | Said::Fault(_), _) => Some("work began that was refused"),
            _ => Some("an answer that cannot be"),
        };
        book.lines.push((now, Line::Said(format!("{said:?}, {state:?}"))));
        let rule = rule.or_else(|| {
            let silent = matches!(said, Said::Fault(ref error) if !matches!(error, Error::Closed));
            let calm = book.calm.is_some_and(|calm| calm + SETTLED < now);
            (silent && calm).then_some("nobody answers in a calm")
        });
        if let Some(rule) = rule {
            book.complains(rule, format!("{said:?}, and the work was {state:?}"), now);
            self.complained.notify_one();
        }
    }

    /// Nothing befalls anybody from now on, or something may.
    pub(super) fn calm(&self, calm: bool) {
        let now = self.now();
        let mut book = self.up_to_date();
        (book.calm, book.idle) = (calm.then_some(now), None);
    }

    pub(super) fn is_wiped(&self) {
        let now = self.now();
        let mut book = self.up_to_date();
        book.record.is_wiped();
        book.tried_ms = None;
        book.reach.all_are_hurt(now);
        book.excuses.push(now);
    }

    /// The server's clock is about to be set.
    pub(super) fn steps(&self, forward: bool, by: Duration) {
        let now = self.now();
        let mut book = self.up_to_date();
        book.stepped[usize::from(!forward)] += by;
        book.excuses.push(now);
        book.leapt = Some(now);
        book.reach.all_are_hurt(now);
        book.untried = None;
    }

    /// Whether the server's clock is a year ahead.
    pub(super) fn is_a_year_ahead(&self) -> bool {
        let book = self.book();
        book.stepped[0] > book.stepped[1] + Duration::from_secs(300 * 24 * 3600)
    }

    /// Whether the record has run out, however the clock was set.
    pub(super) fn is_over(&self) -> bool {
        let book = self.up_to_date();
        book.record.is_over(book.server_ms(self.now()))
    }

    /// Asked again and again: nobody may rest while there is something to do.
    pub(super) fn probe(&self) {
        let now = self.now();
        let mut book = self.up_to_date();
        let now_ms = book.server_ms(now);
        let wrong = book.is_idle(&self.terms, now, now_ms);
        if let Some(what) = wrong {
            book.complains("a job is free and nobody begins", what, now);
            self.complained.notify_one();
        }
    }

    /// At the very end nobody is at it.
    pub(super) fn check_end(&self) {
        let now = self.now();
        let mut book = self.up_to_date();
        let now_ms = book.server_ms(now);
        if let Some(run) = book.record.running(now_ms) {
            let what = format!("{run:?}");
            book.complains("an attempt is left to nobody", what, now);
        }
        if let Some(body) = book.bodies.iter().find(|body| body.state == State::Works) {
            let what = format!("{body:?}");
            book.complains("work goes on that nobody asks for", what, now);
        }
    }

    pub(super) fn counts(&self) -> [usize; 3] {
        let book = self.up_to_date();
        [book.bodies.len(), book.grants.len(), book.successes]
    }
}

/// What a run was answered.
#[derive(Debug)]
pub(super) enum Said {
    Ran,
    Failed,
    Lost,
    Unrecorded,
    /// Somebody else sees to it.
    NotHere,
    Fault(Error),
}

impl Book {
    fn complains(&mut self, rule: &'static str, what: String, at: Duration) {
        self.complaint.get_or_insert(Complaint { rule, what, at, name: None });
    }

    fn server_ms(&self, at: Duration) -> Millis {
        millis(BEGINNING + at + self.stepped[0] - self.stepped[1])
    }

    fn learns(&mut self, fact: Fact, at: Duration) {
        let era = self.record.era;
        match fact {
            Fact::Began { field, start_ms, attempt } => {
                self.tried_ms = Some(start_ms);
                self.grants.push(Grant { era, field, start_ms, attempt, body: None });
            }
            Fact::Succeeded { field, start_ms } => {
                self.successes += 1;
                let of = |grant: &&Grant| (&grant.field, grant.start_ms) == (&field, start_ms);
                let bodies = self.grants.iter().rev().filter(of).filter_map(|grant| grant.body);
                let done = bodies.into_iter().find(|number| self.bodies[*number].state == State::Done);
                let Some(done) = done else {
                    let what = format!("{field} in {start_ms}");
                    return self.complains("a success is on record whose work was not done", what, at);
                };
                let of_period = |body: &&Body| (body.era, body.start_ms) == (era, start_ms) && body.recorded;
                if self.bodies.iter().any(|body| of_period(&body)) {
                    self.complains("a period has two successes", format!("{:?}", self.bodies[done]), at);
                }
                self.bodies[done].recorded = true;
            }
            Fact::Forced => {
                self.excuses.push(at);
                self.reach.all_are_hurt(at);
            }
        }
    }

    /// Whether somebody who began then may not know yet, now, what befell the server.
    fn is_excused(&self, terms: &Terms, began: Duration, now: Duration) -> bool {
        self.excuses.iter().any(|at| began <= *at && now <= *at + terms.lease + SLACK)
    }

    fn judges_beginning(&mut self, terms: &Terms, body: &Body) {
        let (now, fence) = (body.began, body.fence);
        let same = |other: &&Body| (other.era, other.start_ms) == (body.era, body.start_ms);
        let of_era = self.bodies.iter().filter(|other| other.era == body.era);
        let begun = self.bodies.iter().filter(same).count() as u64;
        let believes = |other: &&Body| other.state == State::Works && other.believes();
        // A begin that was under way when the server's clock leapt is as good as one before.
        let excused = |began: Duration| self.is_excused(terms, began.saturating_sub(terms.lease), now);
        let wrong = if fence != (body.start_ms / 1000) << 16 | body.attempt {
            Some(("a fence is not that of its attempt", String::new()))
        } else if let Some(greater) = of_era.map(|other| other.fence).max().filter(|other| fence <= *other) {
            // What began late, because a clock leapt, has an earlier fence.
            (!excused(now)).then(|| ("a fence does not grow", greater.to_string()))
        } else if begun >= terms.max_attempts {
            Some(("more work begins than there are attempts", begun.to_string()))
        } else if let Some(other) =
            self.bodies.iter().filter(believes).find(|other| !self.is_excused(terms, other.began, now))
        {
            Some(("two are at work and believe in it", format!("{other:?}")))
        } else if let Some(done) = self.bodies.iter().filter(same).find(|other| other.recorded) {
            (!excused(now)).then(|| ("work begins that is done", format!("{done:?}")))
        } else {
            None
        };
        if let Some((rule, what)) = wrong {
            self.complains(rule, format!("{body:?}; {what}"), now);
        }
    }

    fn is_idle(&mut self, terms: &Terms, now: Duration, now_ms: Millis) -> Option<String> {
        let settled = self.calm.is_some_and(|calm| calm + SETTLED < now);
        let present_ms = terms.present(now_ms);
        // Who sleeps until the period that it knew of next does not see a clock leap.
        let leapt = self.leapt.is_some_and(|at| now < at + terms.every * 2 + SETTLED);
        let kept = self.record.kept.as_ref().filter(|kept| present_ms <= kept.start_ms);
        let over = kept.is_some_and(|kept| kept.done.is_some() || kept.attempts >= terms.max_attempts);
        let late = now_ms.saturating_sub(present_ms) > terms.within_ms();
        if !settled || leapt || over || late || self.scheduled == 0 || self.record.running(now_ms).is_some() {
            self.idle = None;
            return None;
        }
        let since = *self.idle.get_or_insert(now);
        // When a period begins they come one by one.
        let begun = Duration::from_millis(now_ms - present_ms);
        let apart = (terms.every / 20).min(Duration::from_secs(1));
        (now > since + AT_ONCE && begun > apart + AT_ONCE)
            .then(|| format!("since {since:?}, {begun:?} after its beginning, {:?}", self.record.kept))
    }

    /// Whether the present period has had time enough for a try, with a node that reaches the server, and has none.
    fn is_untried(&mut self, terms: &Terms, now: Duration, now_ms: Millis) -> Option<String> {
        let present_ms = terms.present(now_ms);
        let tried = self.tried_ms.is_some_and(|tried_ms| present_ms <= tried_ms);
        let late = now_ms.saturating_sub(present_ms) > terms.within_ms();
        if tried || late || self.record.running(now_ms).is_some() {
            self.untried = None;
            return None;
        }
        let (_, since) = *self.untried.take_if(|(of_ms, _)| *of_ms == present_ms).get_or_insert((present_ms, now));
        self.untried = Some((present_ms, since));
        let reached = self.reach.since(now)?;
        // When a period begins they come one by one; who was told that somebody is at it comes within the lease.
        let apart = (terms.every / 20).min(Duration::from_secs(1));
        (since.max(reached) + apart + terms.lease + AT_ONCE < now)
            .then(|| format!("{present_ms}, since {since:?}, reached since {reached:?}, {:?}", self.record.kept))
    }

    pub(super) fn story(&mut self) -> Vec<(Duration, String)> {
        let mut lines: Vec<_> = std::mem::take(&mut self.lines)
            .into_iter()
            .map(|(at, line)| match line {
                Line::Traced(traced) => (at, format!("{} {}", traced.client, traced.what)),
                Line::Said(said) => (at, said),
            })
            .collect();
        lines.sort_by_key(|(at, _)| *at);
        lines
    }
}

impl Body {
    /// Whether its attempt is not lost, by all that its client knows.
    fn believes(&self) -> bool {
        self.context.as_ref().is_some_and(|context| context.lost().now_or_never().is_none())
    }
}

impl AtWork {
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// How it ended, before anybody is told.
    pub(super) fn ends(self, state: State) {
        self.notes(state);
    }

    /// Whether the attempt was believed in to its end.
    fn notes(&self, state: State) -> bool {
        let now = self.ledger.now();
        let mut book = self.ledger.book();
        let body = &mut book.bodies[self.number];
        if body.state != State::Works {
            return false;
        }
        let believed = body.believes();
        body.state = state;
        let context = body.context.take();
        let line = format!("body {} is {state:?}", self.number);
        book.lines.push((now, Line::Said(line)));
        drop(book);
        drop(context);
        believed
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let believed = self.notes(State::Dropped);
        if believed && !self.dropped.iter().any(|dropped| dropped.load(Ordering::Relaxed)) {
            self.ledger.complain("work is dropped that is not lost", self.number);
        }
    }
}
