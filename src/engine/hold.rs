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
//! | held | a renewal is answered renewed | held, the deadline moves |
//! | held | a renewal is answered gone | lost (Gone) |
//! | held | the deadline passes, or the machine slept past it | lost (Expired, or `MaxHold` where that bound cut it) |
//! | held | the smallest `max_hold` is reached | lost (`MaxHold`), one release |
//! | held | forced away here, or the client is closed | lost (Forced, Closed) |
//! | lost | anything | lost; with its last ticket it is forgotten, released once if Expired or Forced |

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use super::{
    HoldNumber,
    clock::{self, Clock, Moment},
    nest::Teller,
    tenure::{End, Loss, Tenure},
};
use crate::{
    error::LostCause,
    lease::Lease,
    owner::Owner,
    rules::{Rule, without},
};

/// A hold that lives, or one that was lost and still has tickets.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) number: HoldNumber,
    pub(crate) tenure: Arc<Tenure>,
    /// Live guards and detached tickets, in the order of their acquisition.
    pub(crate) tickets: Vec<Ticket>,
    /// Nested acquisitions under way; a hold does not end while there is one.
    pub(crate) pending: u32,
    /// The count on the server as far as answers told; `None` while one is missing.
    pub(crate) told: Option<u32>,
    /// The newest count-changing command: the answers to older ones tell nothing any more.
    pub(crate) asked: u64,
    /// When the lease was last raised for the watchdog: the next renewal is due a third of it later.
    renewed: Instant,
    /// How far the lease reaches by what was asked for: bounds may have kept it short.
    reached: Instant,
    /// How far the fixed leases of its tickets were to reach, those of ended ones included.
    floor: Instant,
    /// How long the server may keep it, by anything that was sent, answered or not.
    kept: Instant,
    /// A renewal is on its way.
    pub(crate) renewing: bool,
    /// Failed renewals in a row, for their back-off, and when the next try is due.
    pub(crate) retry: Option<(u32, Instant)>,
    /// Somebody asked for a look at the server now.
    pub(crate) probe: bool,
    /// One of its acquires was sent and never answered: an old copy may still run.
    pub(crate) unclean: bool,
    /// Who tells the server the newest count in the background: one at a time.
    pub(crate) teller: Teller,
    /// Count-changing commands go one at a time; made when the first nested acquisition comes.
    pub(crate) commands: Option<Arc<Semaphore>>,
    pub(crate) taken: Instant,
    /// Passed on or handed over, and its new owner has not looked yet.
    pub(crate) untaken: bool,
    /// Set with the loss.
    pub(crate) wake: Option<Wake>,
    deadline: Deadline,
}

/// What is left of a lost hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake {
    /// How long its detached tickets are remembered, so that `unlock` can say how it ended.
    pub(crate) until: Instant,
    /// Its field may still be on the server: released once, with the last ticket.
    pub(crate) release: bool,
}

/// The promise of the hold: good until then, unless told otherwise.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    /// What the machine had slept when it was set; sleep since then shortens it.
    slept: Duration,
    /// The lease it stands for.
    lease: Duration,
    /// `max_hold` made the lease shorter than was asked for.
    cut: bool,
}

/// One acquisition's share of a hold.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) id: u64,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Instant>,
    pub(crate) detached: bool,
}

impl Hold {
    /// A fresh hold with its first ticket. `sent` is the instant before the request left, `lease` what it asked for.
    pub(crate) fn new(number: HoldNumber, tenure: Arc<Tenure>, first: Ticket, term: Term, clock: &Clock) -> Self {
        let moment = clock.moment();
        Self {
            number,
            tenure,
            floor: first.floor(term.sent),
            tickets: vec![first],
            pending: 0,
            told: Some(1),
            asked: 0,
            renewed: term.sent,
            reached: term.sent + term.lease,
            kept: term.sent + term.lease,
            renewing: false,
            retry: None,
            probe: false,
            unclean: false,
            teller: Teller::None,
            commands: None,
            taken: moment.now,
            untaken: false,
            wake: None,
            deadline: Deadline::by(term, moment),
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.tenure.owner
    }

    /// Live guards, detached tickets and nested acquisitions under way.
    pub(crate) fn count(&self) -> u32 {
        if without(Rule::PendingIsTicket) { self.granted() } else { self.granted() + self.pending }
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
        self.tickets[tickets..].iter().any(|ticket| matches!(ticket.lease, Lease::Watchdog))
    }

    /// The smallest bound of the live tickets rules.
    pub(crate) fn bound(&self) -> Option<Instant> {
        self.tickets.iter().filter_map(|ticket| ticket.max_hold).min()
    }

    /// A command that raises the TTL leaves now.
    pub(crate) fn leaves(&mut self, until: Instant) {
        self.kept = self.kept.max(until);
        if without(Rule::DeadlineMovesWithAnswer) {
            self.deadline.at = self.deadline.at.max(until);
        }
    }

    /// What an extension by this much from now asks for; `None` if it would reach beyond a bound.
    pub(crate) fn extends(&self, lease: Duration, clock: &Clock) -> Option<(HoldNumber, Term)> {
        let term = Term::now(lease, self.bound(), clock).filter(|term| !term.cut)?;
        Some((self.number, term))
    }

    /// How much longer the server may keep it, whatever was answered.
    pub(crate) fn kept_for(&self, now: Instant) -> Duration {
        self.kept.saturating_duration_since(now)
    }

    /// How long its end may have to be repeated until nothing of it is left on the server.
    pub(crate) fn may_last(&self, now: Instant) -> Duration {
        self.lease().max(self.kept_for(now))
    }

    /// A command that raised the TTL was answered: the deadline moves, never backwards.
    pub(crate) fn extended(&mut self, term: Term, clock: &Clock) {
        let moment = clock.moment();
        let fresh = Deadline::by(term, moment);
        if fresh.at > self.deadline.effective(moment) {
            self.deadline = fresh;
        }
        self.reached = self.reached.max(term.sent + term.lease);
    }

    /// A nested acquisition was granted.
    pub(crate) fn entered(&mut self, ticket: Ticket, term: Term, clock: &Clock) {
        self.floor = self.floor.max(ticket.floor(term.sent));
        if matches!(ticket.lease, Lease::Watchdog) {
            self.renewed(term);
        }
        self.tickets.push(ticket);
        self.extended(term, clock);
    }

    /// The lease was raised for the watchdog.
    pub(crate) fn renewed(&mut self, term: Term) {
        self.renewed = term.sent;
        self.reached = self.reached.max(term.sent + term.lease);
    }

    /// When the hold is over unless it is renewed.
    pub(crate) fn deadline(&self, moment: Moment) -> Instant {
        self.over_at(self.deadline.effective(moment))
    }

    /// The same, by the sleep that is known of: the driver looks for more every now and then, and notes it.
    pub(crate) fn known_deadline(&self) -> Instant {
        self.over_at(self.deadline.at)
    }

    fn over_at(&self, at: Instant) -> Instant {
        match self.renewing {
            _ if without(Rule::LossAtDeadline) => at + self.deadline.lease * 1_000,
            true if without(Rule::NoLifeAfterDeadline) => at + self.deadline.lease,
            _ => at,
        }
    }

    /// The lease that the deadline stands for.
    pub(crate) fn lease(&self) -> Duration {
        self.deadline.lease
    }

    /// Takes what the machine slept off the deadline.
    pub(crate) fn note_sleep(&mut self, moment: Moment) {
        self.deadline.note_sleep(moment);
    }

    /// Why the hold is over by now, if it is. Notes how long the machine slept.
    pub(crate) fn expires(&mut self, moment: Moment) -> Option<LostCause> {
        self.note_sleep(moment);
        self.over(self.known_deadline(), moment.now)
    }

    /// Why the hold is over at `now`, if it is.
    fn over(&self, deadline: Instant, now: Instant) -> Option<LostCause> {
        if self.bound().is_some_and(|bound| bound <= now) {
            return Some(LostCause::MaxHold);
        }
        let cause = if self.deadline.cut && self.bound().is_some() { LostCause::MaxHold } else { LostCause::Expired };
        (deadline <= now).then_some(cause)
    }

    /// Whether it was lost by its deadline, or to a forced release of ours: the server may still have it.
    pub(crate) fn may_be_there(&self) -> bool {
        matches!(self.tenure.end(), Some(End::Lost(Loss { cause: LostCause::Expired | LostCause::Forced, .. })))
    }

    /// Whether it is not over by now.
    pub(crate) fn lives(&self, moment: Moment) -> bool {
        self.over(self.deadline(moment), moment.now).is_none()
    }

    /// When the watchdog has to renew it; `None` for a hold of fixed leases.
    pub(crate) fn due(&self, watchdog: Duration) -> Option<Instant> {
        if self.renewing {
            return None;
        }
        let short = self.kept_back(watchdog).is_some();
        if !short && !self.probe && !self.watched() {
            return None;
        }
        if let Some((_, at)) = self.retry {
            return Some(at);
        }
        if short || self.probe { Some(self.renewed) } else { Some(self.renewed + watchdog / 3) }
    }

    /// How far the lease is to reach where a bound kept it shorter that is gone with its ticket: it is asked for now.
    pub(crate) fn kept_back(&self, watchdog: Duration) -> Option<Instant> {
        let wanted = if self.watched() { self.floor.max(self.renewed + watchdog) } else { self.floor };
        let wanted = self.bound().map_or(wanted, |bound| bound.min(wanted));
        // Bounds are cut to whole milliseconds.
        (self.reached + Duration::from_millis(1) <= wanted).then_some(wanted)
    }

    /// A lost hold that only detached tickets keep is forgotten then.
    pub(crate) fn remembered_until(&self) -> Option<Instant> {
        let only_detached = self.pending == 0 && self.tickets.iter().all(|ticket| ticket.detached);
        self.wake.filter(|_| only_detached).map(|wake| wake.until)
    }

    /// The next owner takes the same hold over, number and deadline and all.
    pub(crate) fn pass_to(&mut self, tenure: Arc<Tenure>, first: Ticket, now: Instant) {
        if without(Rule::PassKeepsDeadline) {
            self.deadline.at = clock::deadline(now, self.deadline.lease);
        }
        self.tenure = tenure;
        // The old tenure's finds that its hold is over.
        self.teller = Teller::None;
        self.tickets.clear();
        self.tickets.push(first);
        self.taken = now;
        self.untaken = true;
    }
}

/// What a command asked for, and when it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) sent: Instant,
    /// What the machine had slept when it left.
    pub(crate) slept: Duration,
    pub(crate) lease: Duration,
    pub(crate) cut: bool,
}

impl Term {
    /// A lease that is asked for now. It never reaches beyond `bound`; `None` if nothing is left before it.
    pub(crate) fn now(lease: Duration, bound: Option<Instant>, clock: &Clock) -> Option<Self> {
        let Moment { now: sent, slept } = clock.moment();
        let left = bound.map_or(Duration::MAX, |bound| bound.saturating_duration_since(sent));
        // Whole milliseconds are sent, rounded down here: the bound is a promise.
        let left = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        if left.is_zero() {
            return None;
        }
        Some(Self { sent, slept, lease: lease.min(left), cut: left < lease })
    }

    /// Whether an answer that comes now still stands for something.
    pub(crate) fn holds(&self, clock: &Clock) -> bool {
        let moment = clock.moment();
        moment.now < Deadline::of(*self).effective(moment)
    }
}

impl Deadline {
    fn of(term: Term) -> Self {
        let from = if without(Rule::DeadlineFromSending) { Instant::now() } else { term.sent };
        let lease = if without(Rule::DeadlineHasMargin) { term.lease * 5 / 4 } else { term.lease };
        Self { at: clock::deadline(from, lease), slept: term.slept, lease: term.lease, cut: term.cut }
    }

    /// The same, with all sleep until now taken off: whoever looks at it later need not ask for that again.
    fn by(term: Term, moment: Moment) -> Self {
        let mut deadline = Self::of(term);
        deadline.note_sleep(moment);
        deadline
    }

    fn note_sleep(&mut self, moment: Moment) {
        self.at = self.effective(moment);
        self.slept = self.slept.max(moment.slept);
    }

    fn effective(&self, moment: Moment) -> Instant {
        let slept = moment.slept.saturating_sub(self.slept);
        if slept.is_zero() { self.at } else { self.at.checked_sub(slept).unwrap_or(moment.now) }
    }
}

impl Ticket {
    pub(crate) fn new(id: u64, lease: Lease, max_hold: Option<Duration>, now: Instant) -> Self {
        Self { id, lease, max_hold: max_hold.map(|bound| now + bound), detached: false }
    }

    /// How far a fixed lease was to make the hold last.
    fn floor(&self, sent: Instant) -> Instant {
        match self.lease {
            Lease::Watchdog => sent,
            Lease::Fixed(lease) => self.max_hold.map_or(sent + lease, |bound| bound.min(sent + lease)),
        }
    }
}
