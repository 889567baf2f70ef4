//! The end of a ticket, and of a hold by the will of its owner. With the last ticket the head of the local queue gets the hold
//! without the key ever being free, by a pass or by a hand-over; where the slice is over, or nobody waits, it is released.

use super::{
    cx::Cx,
    effect::{Cause, End, LogEvent, Share, Told},
    env::Succession,
    id::Id,
    name::Name,
    parts::{
        ending::{EndedBy, Ending},
        hold::Hold,
        list::OneOrMany,
        queue::Waiting,
        release::Why,
        slice::Turn,
        tenant::Tenant,
        ticket::{Guard, Ticket},
        untaken::Untaken,
    },
    wish::Lease,
};

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn end_ticket(&mut self, id: Id, waiter: Option<W>, cx: &mut Cx<'_, '_, W, S>) {
        let Some(hold) = self.tenant.hold_mut() else { return };
        let newer = hold.tickets.as_slice().iter().rev().take_while(|ticket| ticket.id != id);
        let out_of_order = newer.filter(|ticket| !ticket.is_detached()).count() > 0;
        let ticket = hold.tickets.take_first(|ticket| ticket.id == id);
        if ticket.as_ref().is_some_and(|ticket| !matches!(ticket.guard, Guard::Offered | Guard::Outdated)) {
            hold.left_alone(cx.now());
        }
        if out_of_order {
            cx.log(LogEvent::OutOfOrder);
        }
        let unlocked = ticket.as_ref().is_some_and(|ticket| ticket.guard == Guard::Unlocked);
        match (hold.count(), waiter) {
            (0, waiter) => self.end_hold(ticket, waiter, cx),
            (left, Some(waiter)) => {
                let counting = hold.counting();
                counting.unlocked |= unlocked;
                counting.telling.push((waiter, left));
            }
            // The server is told the count that remains.
            (_, None) => {}
        }
    }

    /// The live hold ends for good. `last` is the ticket that it ends with, if it is not a nested acquisition.
    pub(crate) fn end_hold(&mut self, last: Option<Ticket>, waiter: Option<W>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Tenant::Hold(hold) = &mut self.tenant else { return };
        let missed = last.as_ref().is_some_and(|last| last.guard == Guard::Missed);
        let held = now - hold.taken;
        let said = if missed { LogEvent::Untaken } else { LogEvent::Ended { end: End::Over, held } };
        cx.ended(hold.share.clone(), End::Over, said);
        let told = hold.told();
        tell_of_count(hold, cx);
        let extensions = hold.take_extensions();
        let passes = self.queue.first().is_some_and(|next| passable(hold, told, last.as_ref(), next, cx));
        let way = if passes { Onward::Stays } else { Onward::Moves };
        let (turn, mut next) = self.next_owner(way, cx);
        let Tenant::Hold(hold) = &mut self.tenant else { return };
        if let Some(next) = next.take_if(|_| passes) {
            extensions.into_iter().for_each(|extension| cx.tell(extension.waiter, Told::NotHeld));
            waiter.into_iter().for_each(|waiter| cx.tell(waiter, Told::Freed));
            return pass(hold, next, cx);
        }
        let mut ending = ending_of(hold, last.as_ref(), waiter);
        extensions.into_iter().for_each(|extension| ending.beside.push(extension.waiter));
        let why = Why { turn, ending, ..of_hold(hold, cx) };
        self.tenant = Tenant::Nobody;
        self.free(why, next, cx);
    }

    /// Who has a hold next that ends now, if it is somebody of this process.
    pub(crate) fn next_owner(&mut self, onward: Onward, cx: &Cx<'_, '_, W, S>) -> (Turn, Option<Waiting<W>>) {
        let turn = self.slice.turn(cx.now(), cx.env.settings);
        let may_go_on = match cx.env.shape.succession {
            Succession::Pass | Succession::HandOver => true,
            Succession::PassOrRelease => onward == Onward::Stays,
            Succession::Release => false,
        };
        let goes_on = turn == Turn::Keep && may_go_on;
        let mut next = if goes_on { self.queue.pop() } else { None };
        if goes_on && next.is_none() {
            next = self.queue.pop_over();
            // Nobody waits longer for somebody who is late.
            self.untaken = if next.is_some() { Untaken::Next } else { self.untaken };
        }
        match next {
            None => (self.slice.turn_of_last(turn, cx.env.settings), None),
            next => (turn, next),
        }
    }

    /// A hold that nobody has any more, and that cannot be passed on as it stands, goes to the next owner or is released.
    pub(crate) fn free(&mut self, why: Why<W>, next: Option<Waiting<W>>, cx: &mut Cx<'_, '_, W, S>) {
        match next {
            None => self.release(why, cx),
            Some(next) => self.hand_over(why, next, cx),
        }
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

/// How the first of the queue would get a hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Onward {
    /// As it stands.
    Stays,
    /// By a move to another number.
    Moves,
}

/// The same hold, number and deadline and all, for the next owner. Nothing is sent.
fn pass<W, S: Share<W>>(hold: &mut Hold<W, S>, next: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
    let now = cx.now();
    let Waiting { id, owner, wish, waiter, .. } = next;
    let (share, fence) = (S::of(&waiter), hold.fence());
    hold.passed_to(owner, share.clone(), Ticket::new(id, &wish, now, now), now);
    cx.log(LogEvent::Passed(id));
    cx.tell(waiter, Told::Granted { id, share, fence });
}

/// Those are told who wait for something of a hold that is over by the will of its owner.
pub(crate) fn tell_of_end<W, S>(hold: &mut Hold<W, S>, cx: &mut Cx<'_, '_, W, S>) {
    tell_of_count(hold, cx);
    hold.take_extensions().into_iter().for_each(|extension| cx.tell(extension.waiter, Told::NotHeld));
}

fn tell_of_count<W, S>(hold: &mut Hold<W, S>, cx: &mut Cx<'_, '_, W, S>) {
    if let Some(counting) = hold.counted_mut() {
        counting.take_waiters().into_iter().for_each(|(waiter, left)| cx.tell(waiter, Told::StillHeld(left)));
    }
}

/// Why a hold of ours is released that is over.
pub(crate) fn of_hold<W, S>(hold: &Hold<W, S>, cx: &Cx<'_, '_, W, S>) -> Why<W> {
    let (lease, late) = (hold.may_last(cx.now()), hold.runs_late());
    Why { late, old: hold.old, note: hold.note(), ..Why::over(hold.number, lease) }
}

/// Whose end it is that a hold ends with, and who waits for what comes of it.
pub(crate) fn ending_of<W, S>(hold: &Hold<W, S>, last: Option<&Ticket>, waiter: Option<W>) -> Ending<W> {
    let unlocked = last.filter(|last| last.guard == Guard::Unlocked);
    Ending {
        // What nobody took nobody asks after, and its id may stand for something again.
        id: last
            .filter(|last| !matches!(last.guard, Guard::Offered | Guard::Outdated | Guard::Missed))
            .map(|last| last.id),
        detached_of: unlocked.map(|_| hold.owner),
        beside: OneOrMany::None,
        ended_by: if waiter.is_some() { EndedBy::Unlock } else { EndedBy::Drop },
        freed: false,
        waiters: waiter.map_or(OneOrMany::None, OneOrMany::One),
        later: OneOrMany::None,
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
    matches!(cx.env.shape.succession, Succession::Pass | Succession::PassOrRelease)
        && !hold.shown
        // Nothing of the old owner's is on its way, and the server counts as the next owner will.
        && told == Some(1)
        && last.is_some_and(|last| last.watched && last.guard != Guard::Outdated)
        && next.wish.lease == Lease::Watchdog
        // Less is too little to work with; more is what a longer lease inside left, and the next owner never asked for.
        && (watchdog / 2..=watchdog).contains(&(hold.deadline - now))
        && hold.kept_for(now) <= watchdog
}
