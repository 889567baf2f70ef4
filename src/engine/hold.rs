//! One hold of this process: its tickets, its count, its deadline and how it was lost. It sends nothing and waits for
//! nothing; whoever changes it does so under the entry's mutex.
//!
//! | state | event | next |
//! | --- | --- | --- |
//! | held | a nested acquisition starts | held, one more pending |
//! | held, pending | it is granted | held, one more ticket |
//! | held, pending | it is answered gone or busy | lost (Gone); it goes on as a fresh one |
//! | held | one of several tickets ends | held, the server is told the newest count |
//! | held | the last ticket ends | passed on, handed over or released: `hand_over.rs` |
//! | held | nobody works under it for too long | lost (Expired), one release: `parked.rs` |
//! | held | a renewal is answered renewed | held, the deadline moves |
//! | held | a renewal is answered gone | lost (Gone) |
//! | held | the deadline passes, or the machine slept past it | lost (Expired, or `MaxHold` where that bound cut it) |
//! | held | the smallest `max_hold` is reached | lost (`MaxHold`), one release |
//! | held | forced away here, or the client is closed | lost (Forced, Closed) |
//! | lost | anything | lost; with its last ticket it is forgotten, released once if Expired or Forced |

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    HoldNumber,
    clock::{self, Clock, Moment},
    counting::Counting,
    date::{Date, nanos},
    tenure::{End, Loss, Tenure},
    term::{Deadline, Raised},
    ticket::Tickets,
};
pub(crate) use super::{term::Term, ticket::Ticket};
use crate::{
    error::LostCause,
    owner::Owner,
    rules::{Rule, without},
};

/// A hold that lives, or one that was lost and still has tickets. There may be very many: what few of them have is boxed.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) number: HoldNumber,
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) tickets: Tickets,
    pub(super) counting: Counting,
    aside: Option<Box<HoldExtras>>,
    /// When the lease was last raised for the watchdog: the next renewal is due a third of it later.
    renewed: Date,
    /// How far the lease reaches by what was asked for: bounds may have kept it short.
    reached: Date,
    /// How far the fixed leases of its tickets were to reach, those of ended ones included.
    pub(super) floor: Date,
    /// How long the server may keep it, by anything that was sent, answered or not.
    kept: Date,
    pub(super) taken: Date,
    deadline: Deadline,
    /// Commands that raise its TTL and left, less those that were answered.
    raising: u16,
    /// Its deadline was moved after the grant: a server that knows of the grant may have missed what moved it.
    pub(super) grown: bool,
    /// A renewal is on its way.
    pub(crate) renewing: bool,
    /// Somebody asked for a look at the server now.
    pub(crate) probe: bool,
    /// One of its acquires was sent and never answered: an old copy may still run.
    pub(crate) unclean: bool,
}

/// What most holds never have.
#[derive(Debug, Default)]
struct HoldExtras {
    /// Failed renewals in a row, for their back-off, and when the next try is due.
    retry: Option<(u32, Date)>,
    /// Set with the loss.
    wake: Option<Wake>,
}

/// What is left of a lost hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// How long its detached tickets are remembered, so that `unlock` can say how it ended.
    pub(crate) until: Date,
    /// Its field may still be on the server: released once, with the last ticket.
    pub(crate) release: bool,
}

impl Hold {
    /// A fresh hold with its first ticket. `term` is what was asked for, and when; the answer came at this moment.
    pub(crate) fn new(number: HoldNumber, tenure: Arc<Tenure>, first: Ticket, term: Term, moment: Moment) -> Self {
        let raised = term.raised(moment);
        Self {
            number,
            tenure,
            floor: first.floor,
            tickets: Tickets::One(first),
            counting: Counting::default(),
            aside: None,
            renewed: raised.sent,
            reached: raised.reached,
            kept: raised.kept(moment),
            taken: moment.date,
            deadline: raised.deadline,
            raising: 0,
            grown: false,
            renewing: false,
            probe: false,
            unclean: false,
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.tenure.owner
    }

    /// Live guards, detached tickets and nested acquisitions under way.
    pub(crate) fn count(&self) -> u32 {
        if without(Rule::PendingIsTicket) { self.granted() } else { self.granted() + self.counting.pending() }
    }

    /// Live guards and detached tickets.
    pub(crate) fn granted(&self) -> u32 {
        u32::try_from(self.tickets.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn ticket(&self, id: u64) -> Option<&Ticket> {
        self.tickets.iter().find(|ticket| ticket.id == id)
    }

    /// The watchdog runs while one ticket asks for it.
    pub(crate) fn watched(&self) -> bool {
        let tickets = if without(Rule::WatchdogForAnyTicket) { self.tickets.len().saturating_sub(1) } else { 0 };
        self.tickets[tickets..].iter().any(|ticket| ticket.watched)
    }

    /// The smallest bound of the live tickets rules.
    pub(crate) fn bound(&self) -> Option<Instant> {
        self.bounded().map(Instant::from)
    }

    pub(super) fn bounded(&self) -> Option<Date> {
        self.tickets.iter().filter_map(Ticket::bound).min()
    }

    /// A command that raises the TTL leaves now.
    pub(crate) fn leaves(&mut self, until: Date) {
        self.kept = self.kept.max(until);
        self.raising = self.raising.saturating_add(1);
        if without(Rule::DeadlineMovesWithAnswer) {
            self.deadline.at = self.deadline.at.max(until);
        }
    }

    /// What an extension by this much from now asks for; `None` if it would reach beyond a bound, and may not be cut there.
    pub(crate) fn extends(&self, lease: Duration, within_bound: bool, clock: &Clock) -> Option<(HoldNumber, Term)> {
        let term = Term::now(lease, self.bound(), clock).filter(|term| within_bound || !term.cut)?;
        Some((self.number, term))
    }

    /// How much longer the server keeps it, if all that left for it ran at once, answered or not.
    pub(crate) fn kept_for(&self, now: impl Into<Date>) -> Duration {
        self.kept.saturating_duration_since(now.into())
    }

    /// How long its end may have to be repeated until nothing of it is left on the server, but for what runs late.
    pub(crate) fn may_last(&self, now: Instant) -> Duration {
        self.lease().max(self.kept_for(now))
    }

    /// By how much longer the server may keep it then: what has no answer may run for as long as the server keeps the hold,
    /// and raises its life anew.
    pub(crate) fn runs_late(&self) -> Duration {
        if self.raising > 0 { self.lease() } else { Duration::ZERO }
    }

    /// Whether nothing of it can be on the server any more.
    pub(crate) fn is_past(&self, now: Instant) -> bool {
        self.kept + self.runs_late() <= now.into()
    }

    /// A command that raised the TTL was answered.
    pub(super) fn is_answered(&mut self, raised: Raised, moment: Moment) {
        self.raising = self.raising.saturating_sub(1);
        self.kept = self.kept.max(raised.kept(moment));
    }

    /// A command that raised the TTL was answered: the deadline moves, never backwards.
    pub(super) fn raised(&mut self, raised: Raised, moment: Moment) {
        self.is_answered(raised, moment);
        if raised.deadline.at > self.deadline.effective(moment) {
            self.deadline = raised.deadline;
            self.grown = true;
        }
        self.reached = self.reached.max(raised.reached);
    }

    /// A nested acquisition was granted.
    pub(crate) fn entered(&mut self, ticket: Ticket, term: Term, clock: &Clock) {
        self.floor = self.floor.max(ticket.floor);
        let moment = clock.moment();
        let (raised, watched) = (term.raised(moment), ticket.watched);
        self.tickets.push(ticket);
        self.counting.joined();
        if watched {
            self.renewed(raised, moment);
        } else {
            self.raised(raised, moment);
        }
    }

    /// The lease was raised for the watchdog.
    pub(super) fn renewed(&mut self, raised: Raised, moment: Moment) {
        self.renewed = raised.sent;
        self.raised(raised, moment);
    }

    /// A renewal had no answer, so many in a row.
    pub(super) fn failures(&self) -> u32 {
        self.retry().map_or(0, |(failures, _)| failures)
    }

    /// It is tried again then.
    pub(super) fn failed(&mut self, failures: u32, again: Instant) {
        self.aside.get_or_insert_default().retry = Some((failures, again.into()));
    }

    /// It was answered.
    pub(super) fn answered(&mut self) {
        if let Some(aside) = &mut self.aside {
            aside.retry = None;
        }
    }

    fn retry(&self) -> Option<(u32, Date)> {
        self.aside.as_ref()?.retry
    }

    /// Whether the latest renewal had no answer.
    pub(super) fn retries(&self) -> bool {
        self.retry().is_some()
    }

    /// Whether the server was asked for more after this date, and answered.
    pub(super) fn answered_since(&self, date: Date) -> bool {
        date < self.renewed
    }

    /// The server is to be asked for it now, whatever went wrong before.
    pub(super) fn ask_now(&mut self) {
        self.probe = true;
        self.answered();
    }

    /// Lost, and still to be remembered or let go of.
    pub(super) fn leave(&mut self, wake: Wake) {
        self.aside.get_or_insert_default().wake = Some(wake);
    }

    /// Whether its field is to be released with its last ticket.
    pub(super) fn is_to_release(&self) -> bool {
        self.wake().is_some_and(|wake| wake.release)
    }

    /// It was released.
    pub(super) fn let_go(&mut self) {
        if let Some(wake) = self.aside.as_mut().and_then(|aside| aside.wake.as_mut()) {
            wake.release = false;
        }
    }

    fn wake(&self) -> Option<Wake> {
        self.aside.as_ref()?.wake
    }

    /// How long its owner has had it.
    pub(super) fn held_for(&self, now: impl Into<Date>) -> Duration {
        now.into().saturating_duration_since(self.taken)
    }

    /// When the hold is over unless it is renewed.
    pub(crate) fn deadline(&self, moment: Moment) -> Instant {
        self.deadline_at(moment).into()
    }

    /// The same, or its bound where that comes first.
    pub(super) fn end(&self, moment: Moment) -> Instant {
        let deadline = self.deadline_at(moment);
        self.bounded().map_or(deadline, |bound| bound.min(deadline)).into()
    }

    pub(super) fn deadline_at(&self, moment: Moment) -> Date {
        self.over_at(self.deadline.effective(moment))
    }

    /// The same, by the sleep that is known of: the driver looks for more every now and then, and notes it.
    pub(crate) fn known_deadline(&self) -> Date {
        self.over_at(self.deadline.at)
    }

    fn over_at(&self, at: Date) -> Date {
        match self.renewing {
            _ if without(Rule::LossAtDeadline) => at + self.lease() * 1_000,
            true if without(Rule::NoLifeAfterDeadline) => at + self.lease(),
            _ => at,
        }
    }

    /// The lease that the deadline stands for.
    pub(crate) fn lease(&self) -> Duration {
        self.deadline.lease()
    }

    /// Takes what the machine slept off the deadline.
    pub(crate) fn note_sleep(&mut self, moment: Moment) {
        self.deadline.note_sleep(moment);
    }

    /// Why the hold is over by now, if it is. Notes how long the machine slept.
    pub(crate) fn expires(&mut self, moment: Moment) -> Option<LostCause> {
        self.deadline.note_sleep(moment);
        self.over(self.known_deadline(), moment.date)
    }

    /// Why the hold is over at `now`, if it is.
    fn over(&self, deadline: Date, now: Date) -> Option<LostCause> {
        let bound = self.bounded();
        if bound.is_some_and(|bound| bound <= now) {
            return Some(LostCause::MaxHold);
        }
        let cause = if self.deadline.cut && bound.is_some() { LostCause::MaxHold } else { LostCause::Expired };
        (deadline <= now).then_some(cause)
    }

    /// Whether its lease is all that was ever to end it: nobody has a guard, and nobody renews it.
    pub(super) fn was_to_end(&self) -> bool {
        self.counting.pending() == 0 && self.tickets.iter().all(|ticket| ticket.detached && !ticket.watched)
    }

    /// Whether it was lost by its deadline, or to a forced release of ours: the server may still have it.
    pub(crate) fn may_be_there(&self) -> bool {
        matches!(self.tenure.end(), Some(End::Lost(Loss { cause: LostCause::Expired | LostCause::Forced, .. })))
    }

    /// Whether it is not over by now.
    pub(crate) fn lives(&self, moment: Moment) -> bool {
        self.over(self.deadline_at(moment), moment.date).is_none()
    }

    /// When the watchdog has to renew it; `None` for a hold of fixed leases.
    pub(super) fn due(&self, watchdog: Duration) -> Option<Date> {
        if self.renewing || self.untaken_since().is_some() {
            return None;
        }
        let watched = self.watched();
        let short = self.kept_back_of(watched, watchdog).is_some();
        if !short && !self.probe && !watched {
            return None;
        }
        if let Some((_, at)) = self.retry() {
            return Some(at);
        }
        if short || self.probe { Some(self.renewed) } else { Some(self.renewed.after(nanos(watchdog) / 3)) }
    }

    /// How far the lease is to reach where a bound kept it shorter that is gone with its ticket: it is asked for now.
    pub(super) fn kept_back(&self, watchdog: Duration) -> Option<Date> {
        self.kept_back_of(self.watched(), watchdog)
    }

    fn kept_back_of(&self, watched: bool, watchdog: Duration) -> Option<Date> {
        let wanted = if watched { self.floor.max(self.renewed + watchdog) } else { self.floor };
        let wanted = self.bounded().map_or(wanted, |bound| bound.min(wanted));
        // Bounds are cut to whole milliseconds.
        (self.reached + Duration::from_millis(1) <= wanted).then_some(wanted)
    }

    /// A lost hold that only detached tickets keep is forgotten then.
    pub(super) fn remembered_until(&self) -> Option<Date> {
        let only_detached = self.counting.pending() == 0 && self.tickets.iter().all(|ticket| ticket.detached);
        self.wake().filter(|_| only_detached).map(|wake| wake.until)
    }

    /// The next owner takes the same hold over, number and deadline and all.
    pub(crate) fn pass_to(&mut self, tenure: Arc<Tenure>, first: Ticket, now: Date) {
        if without(Rule::PassKeepsDeadline) {
            self.deadline.at = clock::deadline(now.into(), self.lease()).into();
        }
        self.tenure = tenure;
        self.counting.passed();
        self.tickets = Tickets::One(first.untaken());
        self.taken = now;
    }
}
