//! The one way to wait for a lock: try, listen, try again, sleep. Who may do so for this process is decided first:
//! one contender a name talks to the server, everybody else stands in the local queue or nests.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    Attempt, Protocol,
    guard::LockGuard,
    half_built::HalfBuilt,
    hold::{Hold, Tenure, Term, Ticket},
    nest::{Nest, Nested},
    queue::{QueuePlace, Told, Waiter},
    registry::{Effects, Engine, Place, State},
    slice::Gate,
    wake::Hearing,
};
use crate::{
    backend::{Fault, FaultKind},
    error::{Error, Op, Result},
    lease::Lease,
    name::Shown,
    owner::Owner,
};

/// A try that is on its way when a wait ends may still be answered within this time.
pub(super) const GRACE: Duration = Duration::from_millis(25);

/// Where there is no live subscription, the first and the longest pause between two tries, before jitter.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_millis(250);

/// The first and the longest pause after an error that may heal, before jitter.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// So many answers in a row may come later than their own lease before the acquisition gives up.
const LATE_ANSWERS: u32 = 5;

/// What a caller wants.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) owner: Owner,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) patience: Patience,
}

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One try, no queue.
    Once,
    Until(Instant),
    /// As long as the server answers.
    ForEver,
}

/// The task that tries at the server for this process.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
}

/// Being the contender of a name. Dropped, the next in the queue is.
#[derive(Debug)]
pub(crate) struct ContenderSlot {
    place: Place,
    id: u64,
}

enum Admission {
    Nest(Nest),
    Contend(ContenderSlot),
    Queue(QueuePlace),
    Busy,
    Refused(Error),
}

/// Acquires, for as long as the caller waits. `Ok(None)`: somebody else has it.
pub(crate) async fn acquire(
    engine: &Arc<Engine>,
    protocol: &Arc<dyn Protocol>,
    ask: &Ask,
) -> Result<Option<LockGuard>> {
    loop {
        let admission = engine.at(protocol, |place, state, fx| state.admit(place, ask, fx))?;
        let granted = match admission {
            Admission::Busy => return Ok(None),
            Admission::Refused(error) => return Err(error),
            Admission::Contend(slot) => return contend(slot, ask).await,
            Admission::Nest(nest) => match nest.acquire(ask).await? {
                Nested::Granted(guard) => guard,
                Nested::Busy => return Ok(None),
                Nested::OuterLost => continue,
            },
            Admission::Queue(mut waiting) => {
                let told = match ask.patience {
                    Patience::Until(until) => match timeout_at(until, waiting.turn()).await {
                        Ok(told) => told,
                        Err(_) => return waiting.wait_over(),
                    },
                    Patience::Once | Patience::ForEver => waiting.turn().await,
                };
                match told {
                    None => return Err(Error::Closed),
                    Some(Told::Failed(error)) => return Err(error),
                    Some(Told::Contend(slot)) => return contend(slot, ask).await,
                    Some(Told::Granted(guard)) => guard,
                }
            }
        };
        // What was passed may have run out before it was taken: that is nobody's fault, so start over.
        if granted.is_held() {
            return Ok(Some(granted));
        }
    }
}

impl State {
    fn admit(&mut self, place: &Place, ask: &Ask, fx: &mut Effects) -> Admission {
        if place.engine.is_closed() {
            return Admission::Refused(Error::Closed);
        }
        self.expire(place, fx);
        if let Some(hold) = self.held_by(&ask.owner) {
            return Admission::Nest(Nest::begin(place, hold));
        }
        if self.is_asked_by(&ask.owner) {
            return Admission::Refused(asked_twice(place));
        }
        self.release_lost_of(&ask.owner, place);
        if !self.is_taken() {
            return Admission::Contend(self.contend(place, place.engine.draw(), ask.owner.clone()));
        }
        if ask.patience == Patience::Once {
            return Admission::Busy;
        }
        let (turn, told) = oneshot::channel();
        let id = place.engine.draw();
        self.queue.push(Waiter {
            id,
            owner: ask.owner.clone(),
            lease: ask.lease,
            max_hold: ask.max_hold,
            for_ever: ask.patience == Patience::ForEver,
            turn,
        });
        Admission::Queue(QueuePlace::new(place.clone(), id, told))
    }

    fn contend(&mut self, place: &Place, id: u64, owner: Owner) -> ContenderSlot {
        self.contender = Some(Contender { id, owner });
        ContenderSlot { place: place.clone(), id }
    }

    /// Nobody of this process holds or tries any more: the head of the queue does.
    pub(super) fn promote(&mut self, place: &Place, fx: &mut Effects) {
        let nobody = self.hold.is_none() && self.contender.is_none() && self.handing.is_none();
        if nobody && let Some(waiter) = self.queue.pop() {
            self.promote_waiter(waiter, place, fx);
        }
    }

    pub(super) fn promote_waiter(&mut self, waiter: Waiter, place: &Place, fx: &mut Effects) {
        let slot = self.contend(place, waiter.id, waiter.owner);
        fx.deliver(waiter.turn, Told::Contend(slot));
    }
}

fn asked_twice(place: &Place) -> Error {
    Error::invalid(
        "owner",
        format!(
            "this owner is already acquiring lock {}: branches of one task are one owner; use client.mutex(name), \
             wrap each branch in Owner::new().scope(..), or give each acquisition an .owner(..)",
            Shown(place.name())
        ),
    )
}

impl QueuePlace {
    /// The wait is over: busy, unless the name's contender gets no answers.
    fn wait_over(self) -> Result<Option<LockGuard>> {
        let trouble = self.place().update(|state, _| state.trouble.as_ref().map(|trouble| trouble.error.clone()));
        trouble.map_or(Ok(None), Err)
    }
}

impl Drop for ContenderSlot {
    fn drop(&mut self) {
        self.place.update(|state, fx| {
            if state.contender.as_ref().is_some_and(|contender| contender.id == self.id) {
                state.contender = None;
                state.promote(&self.place, fx);
            }
        });
    }
}

/// Tries of one name that were not answered, since the first of them was sent. Kept from contender to contender.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) since: Instant,
    pub(crate) error: Error,
}

/// What came of one try.
enum Tried {
    Granted(LockGuard),
    Busy {
        retry_in: Option<Duration>,
    },
    /// The answer came later than its own lease.
    Late,
    Fault(Fault),
    /// The wait ended before the answer.
    CutOff,
    /// The client was closed meanwhile.
    Closed,
}

enum Opened {
    Yes,
    /// Others are to have their turn first, and the caller does not wait for that.
    Busy,
    WaitOver,
}

/// The contender's life. What it leaves half done is undone by [`HalfBuilt`] and [`ContenderSlot`], in that order.
async fn contend(slot: ContenderSlot, ask: &Ask) -> Result<Option<LockGuard>> {
    let place = &slot.place;
    let mut half = half_built(place, ask);
    let (mut late, mut pause, mut poll) = (0, FIRST_PAUSE, FIRST_POLL);
    loop {
        match slot.gate(ask).await? {
            Opened::Yes => {}
            Opened::Busy | Opened::WaitOver => return Ok(None),
        }
        match slot.attempt(ask, &mut half).await {
            Tried::Granted(guard) => return Ok(Some(guard)),
            Tried::Busy { retry_in } => {
                pause = FIRST_PAUSE;
                if ask.patience == Patience::Once || slot.sleep(ask, retry_in, &mut poll).await? == Slept::WaitOver {
                    return Ok(None);
                }
            }
            Tried::Late => {
                late += 1;
                if late == LATE_ANSWERS {
                    return Err(unanswered(place, true, "every answer came later than the lease it was for"));
                }
                // Finished: its release is on the way, and it is never asked for again.
                half = half_built(place, ask);
            }
            Tried::Closed => return Err(Error::Closed),
            Tried::CutOff => {
                let error = unanswered(place, true, "no answer before the wait was over");
                return Err(slot.give_up(ask, error));
            }
            Tried::Fault(fault) => {
                let error = Error::from_fault(fault.clone(), place.name(), Op::Acquire);
                if !fault.kind.heals() || ask.patience == Patience::Once {
                    return Err(error);
                }
                slot.troubled(ask, &fault, error, &mut pause).await?;
            }
        }
    }
}

fn half_built(place: &Place, ask: &Ask) -> HalfBuilt {
    HalfBuilt::new(place.clone(), place.engine.draw_hold(), place.engine.lease(ask.lease))
}

pub(super) fn unanswered(place: &Place, may_have_run: bool, why: &'static str) -> Error {
    Error::from_fault(Fault::timeout(may_have_run, why), place.name(), Op::Acquire)
}

impl ContenderSlot {
    /// Waits until this process may try: the cool-down is over, and what was released is on its way.
    async fn gate(&self, ask: &Ask) -> Result<Opened> {
        let place = &self.place;
        let settings = place.engine.settings();
        let started = place.engine.clock().now();
        loop {
            let link = place.engine.backend().link();
            let now = place.engine.clock().now();
            let (gate, out) = place.update(|state, fx| {
                let gate = state.slice.gate(now);
                if let Gate::Until(_) = gate {
                    state.ear.open(fx);
                }
                (gate, state.releases_are_out(link))
            });
            if place.engine.is_closed() {
                return Err(Error::Closed);
            }
            let at = match gate {
                Gate::Open if out => return Ok(Opened::Yes),
                Gate::Until(_) if ask.patience == Patience::Once => return Ok(Opened::Busy),
                Gate::Until(at) => Some(at),
                Gate::Open | Gate::Unanswered => None,
            };
            let bound = match (ask.patience, gate) {
                (Patience::Until(until), _) => until,
                (Patience::ForEver, Gate::Until(at)) => at,
                (Patience::ForEver, _) => started + settings.unreachable_after,
                (Patience::Once, _) => started + settings.command_timeout,
            };
            if bound <= now {
                return match gate {
                    Gate::Until(_) => Ok(Opened::WaitOver),
                    _ => {
                        let error = unanswered(place, false, "an earlier release of this lock is not answered yet");
                        Err(self.give_up(ask, error))
                    }
                };
            }
            let _ = timeout_at(at.map_or(bound, |at| at.min(bound)), place.entry.nudge.notified()).await;
        }
    }

    /// One try, from the clearing of the wake flag to the guard.
    async fn attempt(&self, ask: &Ask, half: &mut HalfBuilt) -> Tried {
        let place = &self.place;
        let engine = &place.engine;
        let cut_off = self.cut_off(ask);
        let Some(Ok(_permit)) = bounded(cut_off, engine.tries().acquire()).await else { return Tried::CutOff };
        let bound = ask.max_hold.map(|max_hold| engine.clock().now() + max_hold);
        let Some(term) = Term::now(engine.lease(ask.lease), bound, engine.clock()) else { return Tried::Late };
        place.update(|state, _| state.ear.clear_flag());
        half.sent(&term);
        let answer = bounded(cut_off, place.entry.protocol.acquire(half.number(), term.lease, 1)).await;
        match answer {
            None => {
                half.unanswered(true);
                Tried::CutOff
            }
            Some(Err(fault)) => {
                half.unanswered(fault.may_have_run);
                Tried::Fault(fault)
            }
            Some(Ok(Attempt::Granted { fence, .. })) => {
                half.granted();
                if !term.holds(engine.clock()) {
                    return Tried::Late;
                }
                self.enter(ask, half, term, fence)
            }
            Some(Ok(Attempt::Busy { retry_in })) => {
                half.busy();
                place.update(|state, _| {
                    state.trouble = None;
                    state.slice.busy();
                });
                tracing::debug!(lock = %place.name(), owner = %ask.owner, "contended");
                Tried::Busy { retry_in }
            }
            // A fresh acquire cannot find its outer hold missing.
            Some(Ok(Attempt::Gone)) => {
                half.busy();
                Tried::Fault(Fault::unexpected("acquire", &Attempt::Gone))
            }
        }
    }

    /// The key was free and is ours.
    fn enter(&self, ask: &Ask, half: &mut HalfBuilt, term: Term, fence: Option<u64>) -> Tried {
        let place = &self.place;
        if place.engine.is_closed() {
            return Tried::Closed;
        }
        let number = half.number();
        let unclean = half.built();
        let tenure = Tenure::new(ask.owner.clone());
        let ticket = place.engine.draw();
        place.update(|state, _| {
            let now = place.engine.clock().now();
            state.trouble = None;
            state.contender = None;
            state.slice.taken(now);
            let first = Ticket::new(ticket, ask.lease, ask.max_hold, term.sent);
            let mut hold = Hold::new(number, Arc::clone(&tenure), first, term, place.engine.clock());
            hold.unclean = unclean;
            state.hold = Some(hold);
        });
        Tried::Granted(LockGuard::new(place.clone(), tenure, ticket, fence))
    }

    /// When a try is given up although its own deadline is later.
    fn cut_off(&self, ask: &Ask) -> Option<Instant> {
        match ask.patience {
            Patience::Once => None,
            Patience::Until(until) => Some(until.max(self.place.engine.clock().now()) + GRACE),
            Patience::ForEver => {
                let since = self.place.update(|state, _| state.trouble.as_ref().map(|trouble| trouble.since));
                since.map(|since| since + self.place.engine.settings().unreachable_after)
            }
        }
    }

    /// Sleeps until there is a reason to try again.
    async fn sleep(&self, ask: &Ask, retry_in: Option<Duration>, poll: &mut Duration) -> Result<Slept> {
        let place = &self.place;
        let clock = place.engine.clock();
        // A TTL that somebody stripped says nothing; an expired one may be a moment early.
        let ttl = retry_in.unwrap_or(place.engine.settings().watchdog_timeout);
        let ttl = ttl.max(Duration::from_millis(1)) + jittered((ttl / 64).clamp(Duration::from_millis(1), GRACE));
        let expires = clock.now() + ttl;
        let polls = clock.now() + *poll / 2 + jittered(*poll);
        let wait_over = match ask.patience {
            Patience::Until(until) => Some(until),
            Patience::Once | Patience::ForEver => None,
        };
        loop {
            let (awake, hearing) = place.update(|state, fx| {
                state.ear.open(fx);
                (state.ear.flag(), state.ear.hearing())
            });
            let now = clock.now();
            if place.engine.is_closed() {
                return Err(Error::Closed);
            }
            if wait_over.is_some_and(|until| until <= now) {
                return Ok(Slept::WaitOver);
            }
            if awake || expires <= now {
                return Ok(Slept::Awake);
            }
            let deaf = hearing != Hearing::Live;
            if deaf && polls <= now {
                *poll = (*poll * 2).min(LONGEST_POLL);
                return Ok(Slept::Awake);
            }
            let until = [Some(expires), wait_over, deaf.then_some(polls)].into_iter().flatten().min();
            let _ = timeout_at(until.unwrap_or(expires), place.entry.nudge.notified()).await;
        }
    }

    /// A try had no answer that counts. Pauses before the next one, or says that it is enough.
    async fn troubled(&self, ask: &Ask, fault: &Fault, error: Error, pause: &mut Duration) -> Result<()> {
        let place = &self.place;
        let settings = place.engine.settings();
        let now = place.engine.clock().now();
        let silent = matches!(fault.kind, FaultKind::Timeout | FaultKind::Dropped);
        let heard = silent.then(|| place.engine.backend().last_answer());
        let since = place.update(|state, _| {
            let since = state.trouble.as_ref().map_or(now, |trouble| trouble.since);
            let since = heard.map_or(since, |heard| since.max(heard.min(now)));
            state.trouble = Some(Trouble { since, error: error.clone() });
            since
        });
        if since + settings.unreachable_after <= now {
            return Err(self.give_up(ask, error));
        }
        let resume = now + jittered(*pause);
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        match ask.patience {
            Patience::Until(until) if until <= resume => {
                sleep_until(until).await;
                Err(error)
            }
            _ => {
                sleep_until(resume.min(since + settings.unreachable_after)).await;
                Ok(())
            }
        }
    }

    /// Ends this acquisition for want of an answer; where the server has been silent for too long, all who would wait
    /// for ever get the same verdict.
    fn give_up(&self, ask: &Ask, error: Error) -> Error {
        let place = &self.place;
        let now = place.engine.clock().now();
        place.update(|state, fx| {
            let since = state.trouble.get_or_insert_with(|| Trouble { since: now, error: error.clone() }).since;
            if ask.patience == Patience::ForEver || since + place.engine.settings().unreachable_after <= now {
                for waiter in state.queue.drain(true) {
                    fx.deliver(waiter.turn, Told::Failed(error.clone()));
                }
            }
        });
        error
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slept {
    Awake,
    WaitOver,
}

/// The future's output, unless `until` comes first.
pub(super) async fn bounded<F: Future>(until: Option<Instant>, future: F) -> Option<F::Output> {
    match until {
        Some(until) => timeout_at(until, future).await.ok(),
        None => Some(future.await),
    }
}

/// A random part of a pause, so that those who failed together do not come back together.
pub(super) fn jittered(longest: Duration) -> Duration {
    let random = RandomState::new().hash_one(0_u8);
    longest.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}
