//! When the contender of a name may try, and when it gives up: the gate before a try, the sleep after a busy answer, the
//! pause after a fault. What a try is, and what comes of it, is in `acquire.rs`.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, FutureExt};
use tokio::time::{Instant, timeout_at};

use super::{
    Told,
    admit::ContenderSlot,
    ask::{Ask, Patience},
    distance::GRACE,
    queue,
    registry::{Place, State},
    slice::Gate,
    wake::Hearing,
};
use crate::{
    backend::Fault,
    chance::Chance,
    error::{Error, Op, Result},
};

/// Whoever sleeps for a TTL sleeps longer by chance, but by no more than this.
const LONGEST_JITTER: Duration = Duration::from_millis(15);

/// Where there is no live subscription, the bound of the first pause between two tries, and of the longest.
const FIRST_POLL: Duration = Duration::from_millis(20);
const LONGEST_POLL: Duration = Duration::from_millis(250);

/// The bound of the first pause after an error that may heal, and of the longest: for tries, renewals and releases.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Tries of one name that were not answered, since the first of them was sent. Kept from contender to contender.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) since: Instant,
    /// When the last of them was over.
    pub(super) at: Instant,
    pub(crate) error: Error,
    /// There was no answer at all, rather than one that says that the server cannot now.
    pub(crate) silent: bool,
}

impl Trouble {
    /// Whether it is still so where an answer was heard last at `heard`: a silence ends with any answer.
    pub(super) fn lasts(&self, heard: Instant) -> bool {
        !self.silent || heard <= self.since
    }
}

/// Pauses that are drawn evenly from nothing up to a bound, which doubles each time until it is at its longest: those who
/// failed together do not come back together, and the longer it goes on the fewer come. A short one that is drawn does
/// not keep the next bound from growing.
#[derive(Debug)]
pub(super) struct Pauses {
    chance: Chance,
    bound: Duration,
    longest: Duration,
}

impl Pauses {
    pub(super) fn after_faults(chance: &Chance) -> Self {
        Self { chance: chance.clone(), bound: FIRST_PAUSE, longest: LONGEST_PAUSE }
    }

    pub(super) fn between_polls(chance: &Chance) -> Self {
        Self { chance: chance.clone(), bound: FIRST_POLL, longest: LONGEST_POLL }
    }

    /// The bound of the pause after one fault more than so many.
    pub(super) fn longest_after(faults: u32) -> Duration {
        let mut pauses = Self::after_faults(&Chance::default());
        (0..faults.min(16)).for_each(|_| pauses.grow());
        pauses.bound
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.draw();
        self.grow();
        pause
    }

    /// A pause of this bound, which stays as it is.
    fn draw(&self) -> Duration {
        self.chance.part_of(self.bound)
    }

    fn grow(&mut self) {
        self.bound = (self.bound * 2).min(self.longest);
    }
}

/// Whether this process may try.
pub(super) enum Opened {
    /// It may, since this instant.
    At(Instant),
    /// Others are to have their turn first, and the caller does not wait for that.
    Busy,
    WaitOver,
}

/// How far this process's releases of the name must have come before a try.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Releases {
    Sent,
    Answered,
}

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slept {
    Awake,
    WaitOver,
}

impl Gate {
    /// What it is to whoever waits for so long.
    fn to(self, patience: Patience, now: Instant) -> Self {
        match self {
            // Who asks once, or does not wait for so long, gives those that were told no more than a slice.
            Self::Until { soon, at } if soon <= now && patience.ends_by(at) => Self::Open,
            Self::Until { soon, at } if patience.ends_by(at) => Self::Until { soon, at: soon },
            // Who asks once asks now, and so does who would have no time left to.
            Self::After(at) if patience.ends_by(at + GRACE) => Self::Open,
            Self::Rest(at) if patience.ends_by(at) => Self::Open,
            gate => gate,
        }
    }
}

impl ContenderSlot {
    /// Waits until this process may try: the cool-down is over, and what was released is as far as it must be. For an
    /// answer it waits as a try does: a wait that ends meanwhile is over with the answer, and unanswered where none comes.
    pub(super) async fn gate(&self, ask: &Ask, releases: Releases) -> Result<Opened> {
        let place = &self.place;
        let settings = place.engine.settings();
        let (started, mut distance) = (place.engine.clock().now(), place.distance());
        let mut now = started;
        // Nothing but a release of ours that had to leave kept it from asking, and nobody has said that the lock is busy.
        let mut held_up = false;
        loop {
            let link = place.link();
            let (gate, out) = place.update(|state, fx| {
                state.slice.comes_nearer(distance.shortest());
                let gate = state.slice.gate(now);
                match gate {
                    Gate::Until { .. } if !ask.patience.asks_once() => state.listens(place, fx),
                    Gate::Rest(at) if !ask.patience.ends_by(at) => state.listening.close(fx),
                    _ => {}
                }
                let out = match releases {
                    // The only way on which a try comes behind what is on its way.
                    Releases::Sent if settings.replicas.is_none() => state.releases_are_out(link),
                    _ => state.releases.is_empty(),
                };
                if !out || gate == Gate::Unanswered {
                    state.waits_for_an_answer(now);
                } else {
                    // From here on it waits for others, and no longer for the server.
                    state.trying(None);
                }
                (gate, out)
            });
            if place.engine.is_ending() {
                return Err(Error::Closed);
            }
            let gate = gate.to(ask.patience, now);
            let at = match gate {
                Gate::Open if out => {
                    let over = ask.patience.until().is_some_and(|until| until.max(started) < now);
                    return Ok(if over && !held_up { Opened::WaitOver } else { Opened::At(now) });
                }
                Gate::Until { .. } if ask.patience.asks_once() => return Ok(Opened::Busy),
                Gate::Until { at, .. } | Gate::After(at) | Gate::Rest(at) => Some(at),
                Gate::Open | Gate::Unanswered => None,
            };
            let bound = match (ask.patience, gate) {
                (
                    Patience::Until(until) | Patience::OnceBy(until),
                    Gate::Until { .. } | Gate::After(_) | Gate::Rest(_),
                ) => until,
                // It was answered busy before.
                (Patience::Until(until) | Patience::OnceBy(until), _) if releases == Releases::Answered => until,
                (Patience::Until(until) | Patience::OnceBy(until), _) => distance.cut_off(until, started),
                (Patience::ForEver, Gate::Until { at, .. } | Gate::After(at) | Gate::Rest(at)) => at,
                (Patience::ForEver, _) => started + settings.unreachable_after,
                (Patience::Once, _) => started + settings.command_timeout,
            };
            if bound <= now {
                return match gate {
                    Gate::Until { .. } | Gate::After(_) | Gate::Rest(_) => Ok(Opened::WaitOver),
                    // It was answered busy before.
                    _ if releases == Releases::Answered && ask.patience != Patience::ForEver => Ok(Opened::WaitOver),
                    _ => {
                        let error = unanswered(place, false, "an earlier release of this lock is not answered yet");
                        Err(self.give_up(ask, error, started))
                    }
                };
            }
            held_up = gate == Gate::Open && releases == Releases::Sent;
            let until = at.map_or(bound, |at| at.min(bound));
            // Other names may tell meanwhile that the server is nearer than it seemed.
            let until = if matches!(gate, Gate::Rest(_)) { until.min(now + LONGEST_POLL) } else { until };
            self.polls_by(Some(until));
            let _ = Box::pin(timeout_at(until, place.entry.nudged())).await;
            (now, distance) = (place.engine.clock().now(), place.distance());
        }
    }

    /// The wait ended where nothing was asked for: busy, unless the last try had no answer.
    pub(super) fn wait_over<T>(&self) -> Result<Option<T>> {
        let heard = self.place.last_answer();
        let trouble = self.place.update(|state, _| state.trouble_at(heard));
        trouble.map_or(Ok(None), Err)
    }

    /// What the server said last of this name, if it was that it cannot now.
    pub(super) fn refused_before(&self) -> Option<Error> {
        let refused = |state: &mut State| state.trouble.as_ref().filter(|it| !it.silent).map(|it| it.error.clone());
        self.place.update(|state, _| refused(state))
    }

    /// When a try that leaves now is given up although its own deadline is later. `troubled`: since when earlier ones had no
    /// answer.
    pub(super) fn cut_off(&self, ask: &Ask, now: Instant, troubled: Option<Instant>) -> Option<Instant> {
        match ask.patience {
            Patience::Once => None,
            Patience::Until(until) | Patience::OnceBy(until) => Some(self.place.distance().cut_off(until, now)),
            Patience::ForEver => {
                let since = troubled?.max(self.place.last_answer());
                let over = since + self.place.engine.settings().unreachable_after;
                // Trouble of before: a try that leaves now has its time all the same.
                Some(self.place.distance().cut_off(over, now))
            }
        }
    }

    /// Sleeps until there is a reason to try again.
    pub(super) async fn sleep(&self, ask: &Ask, retry_in: Option<Duration>, polls: &mut Pauses) -> Result<Slept> {
        let place = &self.place;
        let clock = place.engine.clock();
        // A TTL that somebody stripped says nothing, and a long one may not be true any more: a deletion, an eviction and
        // a server's stepped clock send no message. An expired one may be a moment early.
        let longest = place.engine.settings().watchdog_timeout;
        let ttl = retry_in.map_or(longest, |told| told.min(longest));
        let jitter = (ttl / 64).clamp(Duration::from_millis(1), LONGEST_JITTER);
        let ttl = ttl.max(Duration::from_millis(1)) + place.engine.chance().part_of(jitter);
        let expires = clock.now() + ttl;
        let mut polled = None;
        let wait_over = ask.patience.until();
        loop {
            let (awake, hearing) = place.update(|state, fx| {
                state.listens(place, fx);
                (state.listening.flag(), state.listening.hearing())
            });
            let now = clock.now();
            if place.engine.is_ending() {
                return Err(Error::Closed);
            }
            if wait_over.is_some_and(|until| until <= now) {
                return Ok(Slept::WaitOver);
            }
            if awake || expires <= now {
                return Ok(Slept::Awake);
            }
            // All who hear of one interruption would ask in one moment, had they drawn when they began to sleep.
            let deaf = hearing != Hearing::Live || place.entry.protocol.told() == Told::Sometimes;
            polled = deaf.then(|| polled.unwrap_or_else(|| now + polls.draw()));
            if polled.is_some_and(|at| at <= now) {
                polls.grow();
                return Ok(Slept::Awake);
            }
            let until = [Some(expires), wait_over, polled].into_iter().flatten().min();
            let until = until.unwrap_or(expires);
            self.polls_by(Some(until));
            let _ = timeout_at(until, place.entry.nudged()).await;
        }
    }

    /// A try had no answer that counts. Pauses before the next one, or says that it is enough.
    pub(super) async fn troubled(
        &self,
        ask: &Ask,
        fault: Fault,
        error: Error,
        asked: Instant,
        pauses: &mut Pauses,
    ) -> Result<()> {
        let place = &self.place;
        let settings = place.engine.settings();
        let now = place.engine.clock().now();
        let silent = fault.is_silence();
        let heard = silent.then(|| place.last_answer());
        let since = place.update(|state, _| {
            let since = state.trouble.as_ref().map_or(asked, |trouble| trouble.since);
            let since = heard.map_or(since, |heard| since.max(heard.min(now)));
            state.trouble = Some(Box::new(Trouble { since, at: now, error: error.clone(), silent }));
            since
        });
        let over = since + settings.unreachable_after;
        let end = ask.patience.until().unwrap_or(over);
        if over <= now {
            self.tell_endless_waiters(&error);
        }
        let resume = now + pauses.next();
        // A try that nobody would wait for is not sent: what the server said last is the answer.
        if end <= resume {
            self.rest_until(end).await?;
            return Err(self.give_up(ask, error, asked));
        }
        self.rest_until(if now < over { resume.min(over) } else { resume }).await
    }

    /// Nothing but the end of the client cuts it short.
    async fn rest_until(&self, at: Instant) -> Result<()> {
        loop {
            self.polls_by(Some(at));
            if self.place.engine.is_ending() {
                return Err(Error::Closed);
            }
            if timeout_at(at, self.place.entry.nudged()).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Ends this acquisition for want of an answer to what it asked at `asked`. Whoever just did not wait long enough is no
    /// trouble for others: that is a server which answered nobody since, and lasts no longer. Where it has been silent for too
    /// long, all who would wait for ever get the same verdict.
    pub(super) fn give_up(&self, ask: &Ask, error: Error, asked: Instant) -> Error {
        let place = &self.place;
        let (now, heard) = (place.engine.clock().now(), place.last_answer());
        let since = place.update(|state, _| {
            if state.trouble_at(heard).is_none() {
                state.trouble = Some(Box::new(Trouble { since: asked, at: now, error: error.clone(), silent: true }));
            }
            state.trouble.as_ref().filter(|trouble| trouble.lasts(heard)).map(|trouble| trouble.since)
        });
        let over = since.is_some_and(|since| since + place.engine.settings().unreachable_after <= now);
        if ask.patience == Patience::ForEver || over {
            self.tell_endless_waiters(&error);
        }
        error
    }

    /// Those who wait for as long as the server answers need not find out one by one that it does not.
    fn tell_endless_waiters(&self, error: &Error) {
        self.place.update(|state, fx| {
            for waiter in state.queue.drain(true) {
                fx.deliver(waiter.turn, queue::Told::Failed(error.clone()));
            }
        });
    }
}

impl State {
    /// Why tries of this name have no answer, if they still have none.
    pub(super) fn trouble_at(&self, heard: Instant) -> Option<Error> {
        self.trouble.as_ref().filter(|trouble| trouble.lasts(heard)).map(|trouble| trouble.error.clone())
    }
}

pub(super) fn unanswered(place: &Place, may_have_run: bool, why: &'static str) -> Error {
    Error::from_fault(Fault::timeout(may_have_run, why), place.name(), Op::Acquire)
}

/// The future's output, unless `until` comes first.
pub(super) fn bounded<F: Future>(until: Option<Instant>, future: F) -> impl Future<Output = Option<F::Output>> {
    match until {
        Some(until) => Either::Left(Box::pin(timeout_at(until, future)).map(std::result::Result::ok)),
        None => Either::Right(future.map(Some)),
    }
}

/// The same where `until` may come later by then than it seemed: more is known of the way to the server.
pub(super) fn bounded_by<F: Future>(
    until: impl Fn() -> Option<Instant>,
    future: F,
) -> impl Future<Output = Option<F::Output>> {
    let Some(mut over) = until() else { return Either::Right(future.map(Some)) };
    Either::Left(Box::pin(async move {
        let mut future = pin!(future);
        loop {
            if let Ok(output) = timeout_at(over, future.as_mut()).await {
                return Some(output);
            }
            over = until().filter(|later| over < *later)?;
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(mut pauses: Pauses, count: usize) -> Vec<u128> {
        let bounds = (0..count).map(|_| {
            let bound = pauses.bound;
            assert!(pauses.next() <= bound);
            bound.as_millis()
        });
        bounds.collect()
    }

    #[test]
    fn bounds_double_up_to_their_cap_whatever_is_drawn() {
        let chance = Chance::default();
        assert_eq!(bounds(Pauses::after_faults(&chance), 9), [20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
        assert_eq!(bounds(Pauses::between_polls(&chance), 6), [20, 40, 80, 160, 250, 250]);
        let after = [0, 1, 5, 6, 40, u32::MAX].map(|faults| Pauses::longest_after(faults).as_millis());
        assert_eq!(after, [20, 40, 640, 1000, 1000, 1000]);
    }

    #[test]
    fn pauses_are_drawn_evenly_from_nothing_to_their_bound() {
        let chance = Chance::default();
        for pauses in [Pauses::after_faults(&chance), Pauses::between_polls(&chance)] {
            let mut quarters = [0; 4];
            for _ in 0..4000 {
                let share = pauses.draw().div_duration_f64(pauses.bound);
                quarters[(share * 4.0) as usize] += 1;
            }
            // By chance one is off by a fifth in less than one run of a billion.
            assert!(quarters.iter().all(|count| (800..1200).contains(count)), "{quarters:?}");
        }
    }
}
