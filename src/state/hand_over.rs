//! A hold goes to the head of the local queue by a command that moves it. Without an answer that counts it is undone in order:
//! the old number first, since a late copy can move only what is still there.

use super::{
    command::{Answer, Fault, Published, Verb},
    cx::Cx,
    deadline::LeaseRequest,
    effect::{Cause, LogEvent, Share, Told},
    end::Onward,
    id::CommandId,
    name::Name,
    parts::{
        handing_over::HandingOver, hold::Hold, queue::Waiting, release::Why, subscription::OwnMessage, tenant::Tenant,
        ticket::Ticket,
    },
};

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn hand_over(&mut self, why: Why<W>, next: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Why { number: from, lease, late, old, ending, .. } = why;
        let wished = cx.env.settings.lease(next.wish.lease);
        let request = LeaseRequest::first(wished, next.wish.max_hold, now);
        let to = cx.draw_hold();
        let command = cx.send(from, Verb::HandOver { to, lease: request.lease });
        self.tenant = Tenant::HandingOver(Box::new(HandingOver {
            from,
            to,
            command,
            request,
            successor: Some(next),
            ending,
            lease: lease.max(request.lease),
            late,
            old,
            own: self.subscription.expect_own(),
            forced: false,
        }));
    }

    /// The successor's wait may be over; the hold goes its way without it.
    pub(crate) fn look_at_hand_over(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Tenant::HandingOver(going) = &mut self.tenant else { return };
        if let Some(who) = going.successor.take_if(|who| who.until().is_some_and(|until| until <= cx.now())) {
            cx.tell(who.waiter, Told::Busy);
        }
    }

    /// Whether the answer was for it.
    pub(crate) fn handed_over(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> bool {
        if !matches!(&self.tenant, Tenant::HandingOver(going) if going.command == command) {
            return false;
        }
        let Tenant::HandingOver(going) = self.tenant.take() else { return false };
        let mut going = *going;
        let told = match answer {
            Ok(Answer::Moved { published, .. }) => published != Published::No,
            Ok(_) => false,
            Err(fault) => fault.may_have_run,
        };
        if !told {
            self.subscription.unexpect(going.own);
            going.own = OwnMessage::None;
        }
        match answer {
            Ok(Answer::Moved { fence, .. }) => {
                // For the one before it is over, whatever becomes of the rest.
                self.becomes(&mut going.ending, Told::Freed, cx);
                going.ending.freed = true;
                let in_time = cx.now() < going.request.deadline(cx.env.settings.margin);
                let counts = in_time && going.request.era == cx.env.server.era();
                // What came too late, or of a server that answers no more, is worth nothing; nor is what is freed by force.
                if counts && !going.forced {
                    self.moved(going, fence, cx);
                } else {
                    going.own = OwnMessage::None;
                    self.undo_hand_over(going, Undo::Both, cx);
                }
            }
            Ok(gone @ (Answer::Gone | Answer::Expired)) => {
                self.slice.lost(cx.now());
                let told = if gone == Answer::Gone { Told::Lost(Cause::Gone) } else { Told::AlreadyExpired };
                self.becomes(&mut going.ending, told, cx);
                self.old.reap(going.from, going.old, going.lease, cx.env.settings.watchdog, cx.now());
                going.successor.into_iter().for_each(|who| self.goes_first(who, cx));
            }
            Ok(_) => self.undo_hand_over(going, Undo::Both, cx),
            Err(fault) => {
                going.ending.take_of_one().for_each(|unlocker| cx.fail(unlocker, fault.into()));
                let undo = if fault.may_have_run { Undo::Both } else { Undo::OnlyOld };
                self.undo_hand_over(going, undo, cx);
            }
        }
        true
    }

    /// The hold is there, under its new number.
    fn moved(&mut self, going: HandingOver<W>, fence: Option<u64>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let HandingOver { from, to, request, successor, old, lease, .. } = going;
        self.old.reap(from, old, lease, cx.env.settings.watchdog, now);
        // What an old acquire makes again, an old hand-over may move.
        let Some(who) = successor else {
            // It waits no more, and nobody has what was moved.
            let (turn, next) = self.next_owner(Onward::Moves, cx);
            return self.free(Why { turn, old, ..Why::over(to, request.lease) }, next, cx);
        };
        let share = S::of(&who.waiter);
        let ticket = Ticket::new(who.id, &who.wish, request.sent, now);
        let mut hold = Hold::new(to, (who.owner, share.clone()), ticket, request, cx.env.settings.margin, now);
        hold.old = old;
        hold.fenced(fence);
        self.tenant = Tenant::Hold(hold);
        cx.log(LogEvent::HandedOver(who.id));
        cx.tell(who.waiter, Told::Granted { id: who.id, share, fence });
    }

    fn undo_hand_over(&mut self, going: HandingOver<W>, undo: Undo, cx: &mut Cx<'_, '_, W, S>) {
        let (now, watchdog) = (cx.now(), cx.env.settings.watchdog);
        let HandingOver { from, to, request, successor, ending, lease, late, old, own, .. } = going;
        // What may have run may run late, too.
        let (then, late) = match undo {
            Undo::OnlyOld => (None, late),
            Undo::Both => (Some(to), late + request.lease),
        };
        self.old.reap(from, old, lease, watchdog, now);
        if let Some(to) = then {
            self.old.reap(to, old, lease, watchdog, now);
        }
        let why = Why { then, late, moved_own: own, ending, ..Why::over(from, lease) };
        self.release(why, cx);
        successor.into_iter().for_each(|who| self.goes_first(who, cx));
    }
}

/// How much of a hand-over may be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    OnlyOld,
    Both,
}
