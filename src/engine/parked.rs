//! Turns that nobody takes. An acquisition may be neither polled nor dropped: what it was given is taken back after a while,
//! as if it had been dropped. Then all who wait are called, and the first who is there gets it: any number of those who are
//! not costs the others one turn. Polled again, each starts over.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    HoldNumber,
    admit::{Contender, ContenderSlot},
    apart::{ApartTry, GoesBehind},
    clock::Moment,
    date::Date,
    effects::{Effects, LogEvent},
    hand_over::Ending,
    hold::Hold,
    outcome::Outcome,
    queue::Told,
    reap::OldCopies,
    registry::{Place, State},
    release::Why,
};
use crate::{backend::Dispatch, owner::Owner};

/// So many turns are given for half as long as the one before, and then each for this part of a watchdog timeout, if that is
/// no longer than enough: those who are polled between two turns, and then not, are to have less than one watchdog timeout
/// together as long as they are few.
const HALVINGS: u8 = 3;
const SHORT: u32 = 64;

/// A task that was woken takes its turn within this on a busy machine, and within that on most.
const ENOUGH: Duration = Duration::from_millis(50);
const SHORTEST: Duration = Duration::from_millis(5);

/// How long a turn is kept for somebody who does not take it, after so many who did not.
fn patience(watchdog: Duration, missed: u8) -> Duration {
    let turn = if missed < HALVINGS { watchdog / (2 << missed) } else { (watchdog / SHORT).min(ENOUGH) };
    turn.max(SHORTEST)
}

/// Turns in a row that nobody took. A watchdog timeout after the latest they are forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissedTurns {
    turns: u8,
    latest: Date,
}

impl MissedTurns {
    fn turns(self, at: Date, watchdog: Duration) -> u8 {
        if at < self.latest + watchdog { self.turns } else { 0 }
    }
}

/// A try that a contender sent, and perhaps never hears of.
#[derive(Debug)]
pub(super) struct SentTry {
    pub(super) number: HoldNumber,
    pub(super) lease: Duration,
    pub(super) dispatch: Arc<Dispatch>,
    /// Those of its earlier tries.
    pub(super) old_copies: OldCopies,
    pub(super) apart: Option<Arc<ApartTry>>,
}

/// By when a contender is polled again, if it is polled at all.
#[derive(Clone, Copy, Debug)]
pub(super) enum PollDue {
    /// Or as soon as it is nudged: it waits at the gate, or sleeps.
    Nudge(Date),
    /// Its try left at `sent`, and nothing but the answer wakes it.
    Answer { sent: Date, by: Date },
}

impl Hold {
    /// Since when nobody works under it: whoever was given it has not looked yet, or nested acquisitions are all that keeps
    /// it. It is not renewed.
    pub(super) fn untaken_since(&self) -> Option<Date> {
        let nobody = self.tickets.iter().all(|ticket| ticket.untaken);
        nobody.then(|| self.counting.alone_since().unwrap_or(self.taken))
    }

    /// Whether nobody works under it, or ever did.
    fn is_unused(&self) -> bool {
        self.untaken_since().is_some() || self.tickets.iter().all(|ticket| ticket.untaken || ticket.gathered)
    }

    /// Perhaps the last one who worked under it is gone.
    pub(super) fn left_alone(&mut self, now: Date) {
        if self.untaken_since().is_some() {
            self.counting.left_alone(now);
        }
    }

    /// The guard of this ticket is there, and nobody has taken it yet.
    pub(super) fn left_untaken(&mut self, id: u64, now: Date) {
        let mut gathered = false;
        for ticket in self.tickets.iter_mut().filter(|ticket| ticket.id == id) {
            (ticket.untaken, gathered) = (true, ticket.gathered);
        }
        if gathered && self.untaken_since().is_some() {
            self.counting.left_with_others(now);
        } else {
            self.left_alone(now);
        }
    }

    /// Somebody came for the guard of this ticket.
    pub(super) fn taken_up(&mut self, id: u64) {
        self.tickets.iter_mut().filter(|ticket| ticket.id == id).for_each(|ticket| {
            (ticket.untaken, ticket.gathered) = (false, false);
        });
    }
}

impl State {
    fn missed_turns(&self, at: Date, watchdog: Duration) -> u8 {
        self.missed.as_ref().map_or(0, |missed| missed.turns(at, watchdog))
    }

    /// When a turn is over that somebody could have taken since this date.
    fn turn_over(&self, since: Date, place: &Place) -> Date {
        let watchdog = place.engine.settings().watchdog_timeout;
        since + patience(watchdog, self.missed_turns(since, watchdog))
    }

    /// When the live hold is taken back, if nobody works under it.
    pub(super) fn taken_back_at(&self, place: &Place) -> Option<Date> {
        let since = self.hold.as_ref()?.untaken_since()?;
        Some(self.turn_over(since, place))
    }

    /// Whether nobody worked under the live hold for too long.
    pub(super) fn is_left(&self, place: &Place, moment: Moment) -> bool {
        self.taken_back_at(place).is_some_and(|at| at <= moment.date)
    }

    /// The contender may have been granted more than a watchdog timeout, for nobody.
    pub(super) fn may_keep_others_out(&self, watchdog: Duration) -> bool {
        let asked = self.contender.as_ref().filter(|contender| contender.trying.is_some());
        asked.and_then(|contender| contender.asked.as_ref()).is_some_and(|asked| asked.lease > watchdog)
    }

    /// When the next one contends, unless the contender polls before.
    pub(super) fn passed_over_at(&self, place: &Place) -> Option<Date> {
        match self.contender.as_ref()?.due? {
            PollDue::Nudge(at) => Some(self.turn_over(at, place)),
            PollDue::Answer { sent, by } => {
                // Nobody here knows when the answer came, so all of it counts from the question.
                let enough = place.engine.settings().watchdog_timeout.saturating_sub(ENOUGH);
                Some(self.turn_over(by, place).min(sent + enough).max(by + ENOUGH))
            }
        }
    }

    /// The clock is read only where there is a contender that waits.
    pub(super) fn pass_over_now(&mut self, place: &Place, fx: &mut Effects) {
        if self.contender.as_ref().is_some_and(|contender| contender.due.is_some()) {
            self.pass_over(place, place.engine.clock().now(), fx);
        }
    }

    /// The contender should have been polled long ago: it is one no more, and what it asked for is undone, as if it had been
    /// dropped.
    pub(super) fn pass_over(&mut self, place: &Place, now: Instant, fx: &mut Effects) {
        if self.passed_over_at(place).is_none_or(|at| Date::from(now) < at) {
            return;
        }
        let Some(contender) = self.contender.take() else { return };
        let Contender { owner, trying, asked, .. } = *contender;
        self.turn_missed(&owner, place, now, fx);
        // It may stand first among those who are to be nudged: whoever contends from now on is to hear of the next one.
        fx.nudge();
        // What was answered busy left nothing.
        if let Some(SentTry { number, lease, dispatch, mut old_copies, apart }) = asked.filter(|_| trying.is_some())
            && !dispatch.withdraw()
        {
            old_copies.add_try(Some(&dispatch), apart.as_deref());
            let why = Why::ended(number, lease, old_copies);
            let mut job = self.release(place, why, Arc::new(Outcome::default()), now);
            job.behind = GoesBehind::a_try(apart);
            fx.release(job);
        }
        self.promote(place, fx);
    }

    fn contender_of(&mut self, id: u64) -> Option<&mut Contender> {
        self.contender.as_deref_mut().filter(|contender| contender.id == id)
    }

    /// This contender's try leaves now; by `due` it is answered. `None` if others went first.
    pub(super) fn tries(&mut self, id: u64, asked: SentTry, now: Instant, due: Instant) -> Option<()> {
        let contender = self.contender_of(id)?;
        let due = PollDue::Answer { sent: now.into(), by: due.into() };
        (contender.asked, contender.trying, contender.due) = (Some(asked), Some(now.into()), Some(due));
        Some(())
    }

    /// By when this contender is polled again.
    pub(super) fn polls_by(&mut self, id: u64, due: Option<Date>) {
        if let Some(contender) = self.contender_of(id) {
            contender.due = due.map(PollDue::Nudge);
        }
    }

    /// The contender is nudged: if it waits for that, it is to look now. The clock is read only then.
    pub(super) fn nudges_contender(&mut self, place: &Place) {
        if let Some(Contender { due: Some(PollDue::Nudge(at)), .. }) = self.contender.as_deref_mut() {
            *at = (*at).min(place.engine.clock().now().into());
        }
    }

    /// The client ends: what nobody works under is let go of, as if it had been dropped.
    pub(super) fn leave_untaken(&mut self, place: &Place, fx: &mut Effects) {
        let moment = place.engine.clock().moment();
        self.expire_at(place, moment, fx);
        if self.hold.as_ref().is_some_and(Hold::is_unused)
            && let Ending::Release(job) = self.end_hold(place, None, moment, fx)
        {
            fx.release(job);
        }
    }

    /// A turn was taken: the next one is kept for as long as ever.
    pub(super) fn turn_taken(&mut self) {
        self.missed = None;
    }

    /// Somebody did not take its turn.
    pub(super) fn turn_missed(&mut self, owner: &Owner, place: &Place, now: Instant, fx: &mut Effects) {
        let latest = Date::from(now);
        let before = self.missed_turns(latest, place.engine.settings().watchdog_timeout);
        self.missed = Some(Box::new(MissedTurns { turns: before.saturating_add(1), latest }));
        // Whoever is not there is in nobody's way until it is polled again. For whoever is, that was all the waiting.
        for waiter in self.queue.drain(false) {
            fx.deliver(waiter.turn, Told::Called);
        }
        if place.engine.first_time("parked", place.name()) {
            fx.log(LogEvent::Parked { owner: owner.clone() });
        }
    }
}

impl ContenderSlot {
    /// Whoever was given the turn looks at it; false if that was too late.
    pub(super) fn take(&self) -> bool {
        self.place.update(|state, _| {
            let stands = state.contender_of(self.id).map(|contender| contender.due = None).is_some();
            if stands {
                state.turn_taken();
            }
            stands
        })
    }

    /// Whether it is still the one that tries.
    pub(super) fn stands(&self) -> bool {
        self.place.update(|state, _| state.contender_of(self.id).is_some())
    }

    /// Right before it waits.
    pub(super) fn polls_by(&self, at: Option<Instant>) {
        self.place.update(|state, _| state.polls_by(self.id, at.map(Date::from)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ones_that_miss_their_turns_have_a_watchdog_timeout_together_and_none_has_next_to_no_time() {
        let watchdog = Duration::from_secs(30);
        let each: Vec<_> = (0..=u8::MAX).map(|missed| patience(watchdog, missed)).collect();
        assert_eq!(each[..3], [watchdog / 2, watchdog / 4, watchdog / 8]);
        assert!(each[..75].iter().sum::<Duration>() < watchdog);
        assert!(each.iter().all(|each| *each >= ENOUGH));
        let short = Duration::from_millis(960);
        let each = (0..10).map(|missed| patience(short, missed));
        assert!(each.clone().sum::<Duration>() < short && each.into_iter().all(|each| each >= short / SHORT));
        assert_eq!(patience(Duration::from_millis(100), 9), SHORTEST);
    }

    #[test]
    fn misses_are_forgotten_a_watchdog_timeout_after_the_latest() {
        let (watchdog, latest) = (Duration::from_secs(30), Date::from(Instant::now()));
        let missed = MissedTurns { turns: 7, latest };
        assert_eq!(missed.turns(latest + watchdog - Duration::from_nanos(1), watchdog), 7);
        assert_eq!(missed.turns(latest + watchdog, watchdog), 0);
    }
}
