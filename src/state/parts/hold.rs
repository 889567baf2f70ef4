//! One hold of this process: its tickets, its deadline, its renewal, and how it was lost. It decides nothing about others.
//!
//! | date | what it says |
//! | --- | --- |
//! | `deadline` | until then its owner may believe in it: the sending of the last *answered* request + lease − margin |
//! | `renewed` | when the last answered request for the watchdog was decided on; the next is due a third of the watchdog later |
//! | `reached` | how far the lease reaches by what was asked for: a bound may have kept it short |
//! | `floor` | how far the fixed leases of its tickets were to reach, those of ended ones included |
//! | `kept` | how long the server may keep it by anything that was *sent*, answered or not |
//! | `taken` | since when its owner has it, for the log |

use std::time::Duration;

use super::{
    super::{
        command::{Fault, Note},
        deadline::{Instant, LeaseRequest, Margin, Span},
        effect::Cause,
        id::{HoldNumber, Id, Owner},
        wish::Lease,
    },
    beside::Beside,
    copies::Lost,
    counting::Counting,
    list::OneOrMany,
    origin::Origin,
    raising::Renewal,
    ticket::Ticket,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold<W, S> {
    pub(crate) number: HoldNumber,
    pub(crate) owner: Owner,
    pub(crate) share: S,
    pub(crate) tickets: OneOrMany<Ticket>,
    pub(super) beside: Option<Box<Beside<W>>>,
    pub(crate) deadline: Instant,
    /// A bound made the deadline sooner.
    cut: bool,
    lease: Span,
    renewed: Instant,
    reached: Instant,
    floor: Option<Instant>,
    pub(super) kept: Instant,
    pub(crate) taken: Instant,
    /// Commands that raise its TTL and left, less those that were answered: one of them may run late.
    pub(super) raising: u16,
    pub(crate) renewal: Renewal,
    /// Somebody asked for a look at the server now.
    pub(crate) probe: bool,
    /// Its lease became longer after it was taken: a server that knows of the hold may know nothing of that.
    pub(crate) grown: bool,
    /// Old copies of its acquire that may run.
    pub(crate) old: Lost,
    pub(crate) origin: Origin,
    /// Its name was told to somebody else, who could release the next owner's by it.
    pub(crate) shown: bool,
    /// Most have neither.
    said: Option<Box<Said>>,
}

/// What is said with a hold: by the server with its grant, and by its owner with its release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Said {
    fence: Option<u64>,
    note: Note,
}

impl<W, S> Hold<W, S> {
    /// A fresh one with its first ticket. `request` is what was asked for, and is answered now.
    pub(crate) fn new(
        number: HoldNumber,
        (owner, share): (Owner, S),
        first: Ticket,
        request: LeaseRequest,
        margin: Margin,
        now: Instant,
    ) -> Self {
        Self {
            number,
            owner,
            share,
            floor: first.floor,
            tickets: OneOrMany::One(first),
            beside: None,
            deadline: request.deadline(margin),
            cut: request.cut,
            lease: request.lease.into(),
            renewed: request.sent,
            reached: request.reached(),
            kept: now + request.lease,
            taken: now,
            raising: 0,
            renewal: Renewal::default(),
            probe: false,
            grown: false,
            old: Lost::None,
            origin: Origin::Given,
            shown: false,
            said: None,
        }
    }

    pub(crate) fn fence(&self) -> Option<u64> {
        self.said.as_ref()?.fence
    }

    pub(crate) fn fenced(&mut self, fence: Option<u64>) {
        if fence.is_some() || self.said.is_some() {
            self.said.get_or_insert_default().fence = fence;
        }
    }

    pub(crate) fn note(&self) -> Note {
        self.said.as_ref().map_or(Note::Unused, |said| said.note)
    }

    pub(crate) fn noted(&mut self, note: Note) {
        if note != Note::Unused || self.said.is_some() {
            self.said.get_or_insert_default().note = note;
        }
    }

    /// Guards and detached tickets.
    pub(crate) fn granted(&self) -> u32 {
        u32::try_from(self.tickets.as_slice().len()).unwrap_or(u32::MAX)
    }

    fn pending(&self) -> u32 {
        self.counted().map_or(0, Counting::pending)
    }

    /// Tickets and nested acquisitions under way: it does not end while there is one.
    pub(crate) fn count(&self) -> u32 {
        self.granted() + self.pending()
    }

    /// What the server counts, as far as answers told.
    pub(crate) fn told(&self) -> Option<u32> {
        self.counted().map_or(Some(1), |counting| counting.told)
    }

    pub(crate) fn ticket(&mut self, id: Id) -> Option<&mut Ticket> {
        self.tickets.as_mut_slice().iter_mut().find(|ticket| ticket.id == id)
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.tickets.as_slice().iter().any(|ticket| ticket.id == id)
    }

    /// The watchdog runs while one ticket asks for it.
    pub(crate) fn watched(&self) -> bool {
        self.tickets.as_slice().iter().any(|ticket| ticket.watched)
    }

    /// Nobody has it at hand, or asks for more, and nothing renews it: it was to end with its lease.
    pub(crate) fn was_to_end(&self) -> bool {
        let tickets = self.tickets.as_slice();
        self.pending() == 0 && tickets.iter().all(|ticket| ticket.is_detached() && !ticket.watched)
    }

    /// The smallest bound of the live tickets rules.
    pub(crate) fn bound(&self) -> Option<Instant> {
        self.tickets.as_slice().iter().filter_map(|ticket| ticket.bound).min()
    }

    /// Until then its owner may believe in it.
    pub(crate) fn until(&self) -> Instant {
        self.bound().map_or(self.deadline, |bound| bound.min(self.deadline))
    }

    /// Why it is over by now, if it is.
    pub(crate) fn over(&self, now: Instant) -> Option<Cause> {
        let bound = self.bound();
        if bound.is_some_and(|bound| bound <= now) {
            return Some(Cause::MaxHold);
        }
        let cause = if self.cut && bound.is_some() { Cause::MaxHold } else { Cause::Expired };
        (self.deadline <= now).then_some(cause)
    }

    /// A command that raises the TTL leaves.
    pub(crate) fn leaves(&mut self, request: LeaseRequest) {
        self.kept = self.kept.max(request.reached());
        self.raising = self.raising.saturating_add(1);
    }

    /// Such a command had no answer. One that never ran does not run late, if it was counted at all.
    pub(crate) fn unanswered(&mut self, request: LeaseRequest, fault: Fault) {
        if request.left && !fault.may_have_run {
            self.raising = self.raising.saturating_sub(1);
        }
    }

    /// Such a command was answered: it does not run late.
    pub(crate) fn is_answered(&mut self, request: LeaseRequest, now: Instant) {
        self.raising = self.raising.saturating_sub(1);
        self.kept = self.kept.max(now + request.lease);
    }

    /// It was answered, and raised the TTL: the deadline moves, never backwards.
    pub(crate) fn raised(&mut self, request: LeaseRequest, margin: Margin, now: Instant) {
        self.is_answered(request, now);
        let deadline = request.deadline(margin);
        if deadline > self.deadline {
            (self.deadline, self.cut, self.lease) = (deadline, request.cut, request.lease.into());
            self.grown = true;
        }
        self.reached = self.reached.max(request.reached());
    }

    /// The same for the watchdog: its next renewal counts from there.
    pub(crate) fn renewed(&mut self, request: LeaseRequest, decided: Instant, margin: Margin, now: Instant) {
        self.renewed = decided;
        self.raised(request, margin, now);
    }

    /// A nested acquisition was granted.
    pub(crate) fn joined(&mut self, ticket: Ticket, request: LeaseRequest, margin: Margin, now: Instant) {
        self.floor = self.floor.max(ticket.floor);
        if ticket.watched {
            self.renewed(request, request.sent, margin, now)
        } else {
            self.raised(request, margin, now)
        }
        self.tickets.push(ticket);
    }

    /// One of its tickets is on other terms, since then.
    pub(crate) fn settled(&mut self, id: Id, lease: Lease, max_hold: Option<Duration>, since: Instant) {
        if let Some(ticket) = self.ticket(id) {
            ticket.is_on(lease, max_hold, since);
            let floor = ticket.floor;
            self.floor = self.floor.max(floor);
        }
    }

    /// The next owner takes it over as it stands, number and deadline and all.
    pub(crate) fn passed_to(&mut self, owner: Owner, share: S, first: Ticket, now: Instant) {
        (self.owner, self.share, self.taken, self.origin) = (owner, share, now, Origin::Given);
        self.tickets = OneOrMany::One(first);
        self.take_counting();
        self.noted(Note::Unused);
    }

    /// How far the lease is to reach where a bound kept it shorter that is gone with its ticket. It is asked for at once.
    pub(crate) fn kept_back(&self, watchdog: Duration) -> Option<Instant> {
        self.kept_back_where(self.watched(), watchdog)
    }

    fn kept_back_where(&self, watched: bool, watchdog: Duration) -> Option<Instant> {
        let watched = watched.then_some(self.renewed + watchdog);
        let wanted = watched.max(self.floor)?;
        let wanted = self.bound().map_or(wanted, |bound| bound.min(wanted));
        // Bounds are cut to whole milliseconds.
        (self.reached + Duration::from_millis(1) <= wanted).then_some(wanted)
    }

    /// When a renewal has to leave. Who was offered it and did not take it gets what is left of the lease, and no more.
    pub(crate) fn due(&self, watchdog: Duration) -> Option<Instant> {
        if self.renewal.sent().is_some() || self.is_offered() {
            return None;
        }
        let watched = self.watched();
        let at_once = self.probe || self.kept_back_where(watched, watchdog).is_some();
        if !at_once && !watched {
            return None;
        }
        match self.renewal.retry() {
            Some(retry) => Some(retry.at),
            None if at_once => Some(self.renewed),
            None => Some(self.renewed + watchdog / 3),
        }
    }

    /// When the next renewal is due if the one under way is answered by then: whoever looks then need not be told once it is.
    pub(crate) fn due_after(&self, watchdog: Duration, now: Instant) -> Option<Instant> {
        let due = self.renewal.sent()?.decided + watchdog / 3;
        (now < due && self.watched()).then_some(due)
    }

    /// What it was promised for last.
    pub(crate) fn lease(&self) -> Duration {
        self.lease.into()
    }
}
