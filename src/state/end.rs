//! The end of a ticket, and of a hold by the will of its owner. With the last ticket the head of the local queue gets the hold
//! without the key ever being free, by a pass or by a hand-over; where the slice is over, or nobody waits, it is released.

use super::{
    cx::Cx,
    effect::{Cause, End, LogEvent, Told},
    env::Succession,
    id::Id,
    name::Name,
    parts::{
        ending::Ending,
        hold::Hold,
        list::Few,
        queue::Waiting,
        release::Why,
        slice::Turn,
        tenant::Tenant,
        ticket::{Guard, Ticket},
    },
    wish::Lease,
};

impl<W, S: Clone + Default> Name<W, S> {
    pub(crate) fn end_ticket(&mut self, id: Id, waiter: Option<W>, cx: &mut Cx<'_, '_, W, S>) {
        let Some(hold) = self.tenant.hold_mut() else { return };
        let newer = hold.tickets.as_slice().iter().rev().take_while(|ticket| ticket.id != id);
        let out_of_order = newer.filter(|ticket| !ticket.is_detached()).count() > 0;
        let ticket = hold.tickets.take_first(|ticket| ticket.id == id);
        if out_of_order {
            cx.log(LogEvent::OutOfOrder);
        }
        match (hold.count(), waiter) {
            (0, waiter) => self.end_hold(ticket, waiter, cx),
            (left, Some(waiter)) => hold.counting().telling.push((waiter, left)),
            // The server is told the count that remains.
            (_, None) => {}
        }
    }

    /// The live hold ends for good. `last` is the ticket that it ends with, if it is not a nested acquisition.
    pub(crate) fn end_hold(&mut self, last: Option<Ticket>, waiter: Option<W>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Tenant::Hold(mut hold) = self.tenant.take() else { return };
        cx.ended(hold.share.clone(), End::Over, now - hold.taken);
        let told = hold.told();
        if let Some(counting) = &mut hold.counting {
            counting.take_waiters().into_iter().for_each(|(waiter, left)| cx.tell(waiter, Told::StillHeld(left)));
        }
        hold.extensions.take().into_iter().for_each(|extension| cx.tell(extension.waiter, Told::NotHeld));
        self.succeed(hold, told, last, waiter, cx);
    }

    /// Who has a hold next that nobody has any more. `told` is what the server counts, as far as answers told.
    pub(crate) fn succeed(
        &mut self,
        hold: Hold<W, S>,
        told: Option<u32>,
        last: Option<Ticket>,
        waiter: Option<W>,
        cx: &mut Cx<'_, '_, W, S>,
    ) {
        let turn = self.slice.turn(cx.now(), cx.env.settings.slice);
        let stays = turn == Turn::Keep && cx.env.shape.succession != Succession::Release && !self.closed;
        let next = if stays { self.queue.pop() } else { None };
        let passes = next.as_ref().is_some_and(|next| passable(&hold, told, last.as_ref(), next, cx));
        let mut ending = ending_of(&hold, last.as_ref(), waiter);
        match next {
            None => self.release(Why { turn, ending, ..of_hold(&hold, cx) }, cx),
            Some(next) if passes => {
                ending.waiters.take().for_each(|waiter| cx.tell(waiter, Told::Freed));
                self.pass(hold, next, cx);
            }
            Some(next) => self.hand_over(&hold, next, ending, cx),
        }
    }

    /// The same hold, number and deadline and all, for the next owner. Nothing is sent.
    fn pass(&mut self, mut hold: Hold<W, S>, next: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Waiting { id, owner, wish, waiter, .. } = next;
        let (share, fence) = (S::default(), hold.fence);
        hold.passed_to(owner, share.clone(), Ticket::new(id, &wish, now), now);
        self.tenant = Tenant::Hold(hold);
        cx.log(LogEvent::Passed(id));
        cx.tell(waiter, Told::Granted { id, share, offered: true, fence });
    }

    /// A nested acquisition came to nothing, which may have been all that kept the hold.
    pub(crate) fn nested_ended(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if self.tenant.hold().is_some_and(|hold| hold.count() == 0) {
            self.end_hold(None, None, cx);
        }
    }

    /// Loses the live hold if its time is over.
    pub(crate) fn expire(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let cause: Option<Cause> = self.tenant.hold().and_then(|hold| hold.over(cx.now()));
        if let Some(cause) = cause {
            self.lose(cause, cx);
        }
    }
}

/// Why a hold of ours is released that is over.
pub(crate) fn of_hold<W, S>(hold: &Hold<W, S>, cx: &Cx<'_, '_, W, S>) -> Why<W> {
    let (lease, late) = (hold.may_last(cx.now()), hold.runs_late());
    Why { late, old: hold.old, note: hold.note, ..Why::over(hold.number, lease) }
}

/// Whose end it is that a hold ends with, and who waits for what comes of it.
pub(crate) fn ending_of<W, S>(hold: &Hold<W, S>, last: Option<&Ticket>, waiter: Option<W>) -> Ending<W> {
    let unlocked = last.filter(|last| last.guard == Guard::Unlocked);
    Ending {
        id: last.map(|last| last.id),
        detached_of: unlocked.map(|_| hold.owner),
        waiters: waiter.map_or(Few::None, Few::One),
    }
}

/// Whether the next owner may have the hold as it stands, without a word to the server.
fn passable<W, S>(
    hold: &Hold<W, S>,
    told: Option<u32>,
    last: Option<&Ticket>,
    next: &Waiting<W>,
    cx: &Cx<'_, '_, W, S>,
) -> bool {
    let (now, watchdog) = (cx.now(), cx.env.settings.watchdog);
    cx.env.shape.succession == Succession::Pass
        && !hold.shown
        // Nothing of the old owner's is on its way, and the server counts as the next owner will.
        && told == Some(1)
        && last.is_some_and(|last| last.watched)
        && next.wish.lease == Lease::Watchdog
        // Less is too little to work with; more is what a longer lease inside left, and the next owner never asked for.
        && (watchdog / 2..=watchdog).contains(&(hold.deadline - now))
        && hold.kept_for(now) <= watchdog
}
