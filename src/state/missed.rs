//! Turns that nobody takes. A caller may be neither polled nor dropped: what it was given is taken back after a while, and
//! where it was to try somebody else does. Then all who wait are told so, and whoever is there asks again, and stands where it
//! stood: any number of those who are not there cost the others one turn.

use super::{
    cx::Cx,
    effect::{Share, Told},
    id::Id,
    name::Name,
    parts::{contender::Stage, hold::Hold, queue::Waiting, tenant::Tenant, ticket::Guard, untaken::Untaken},
};

impl<W, S: Share<W>> Name<W, S> {
    /// Whoever has its turn may not have come for it in time.
    pub(crate) fn look_at_turn(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.take_back(cx);
        self.pass_over(cx);
    }

    /// Nobody came for what was given for so long.
    fn take_back(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let until = |hold: &Hold<W, S>| hold.kept_untaken_until(cx.env.settings, self.untaken);
        if self.tenant.hold().and_then(until).is_none_or(|until| cx.now() < until) {
            return;
        }
        let tickets = self.tenant.hold_mut().into_iter().flat_map(|hold| hold.tickets.as_mut_slice());
        let untaken: Vec<_> = tickets
            .map(|ticket| {
                ticket.guard = Guard::Missed;
                ticket.id
            })
            .collect();
        self.missed(cx);
        untaken.into_iter().rev().for_each(|id| self.end(id, None, cx));
    }

    /// The contender did not come when it was called.
    fn pass_over(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender() else { return };
        let Stage::Called { since } = contender.stage else { return };
        if cx.now() < since + self.untaken.turn(cx.env.settings) {
            return;
        }
        cx.missed(S::of(&contender.who.waiter));
        self.missed(cx);
        self.end_contender(Some(Told::PassedOver), cx);
    }

    /// Somebody did not come for its turn, by the end of that or of its lease. Nobody who waits is known to be there, but for
    /// those who say so now.
    pub(crate) fn missed(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.untaken = Untaken::Next;
        let now = cx.now();
        for who in self.queue.take_all() {
            let over = who.until().is_some_and(|until| until <= now);
            cx.tell(who.waiter, if over { Told::Busy } else { Told::PassedOver });
        }
    }

    /// One that was called is there.
    pub(crate) fn here(&mut self, id: Id, cx: &mut Cx<'_, '_, W, S>) {
        match &mut self.tenant {
            Tenant::Contender(contender) if contender.who.id == id => self.comes(cx),
            _ => {
                if let Some(who) = self.queue.remove_over(id) {
                    self.tell_over(who, cx);
                }
            }
        }
    }

    /// Those whose wait is over are called to be told so. Until they come they may have what nobody else here wants.
    pub(crate) fn look_at_queue(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        for who in self.queue.are_over(cx.now()) {
            cx.call(who.id, S::of(&who.waiter));
        }
    }

    pub(crate) fn tell_over(&mut self, who: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        let told = self.why_not(cx.env).map_or(Told::Busy, Told::Failed);
        cx.tell(who.waiter, told);
    }
}
