//! The end of a client: nobody is let in any more, then nobody holds any more.
//!
//! | | who waits, and asks | nested acquisitions of who holds | holds | what is sent |
//! | --- | --- | --- | --- | --- |
//! | open | waits | go on | renewed, released, passed on | everything |
//! | ending | closed | go on | renewed and released, passed on no more | everything but tries |
//! | closed | closed | closed | lost; released where nobody had taken it yet | releases that were decided |

use super::{
    cx::Cx,
    effect::{Cause, Failure, Share, Told},
    name::{Client, Name},
    parts::{queue::Waiting, tenant::Tenant},
};

impl<W, S: Share<W>> Name<W, S> {
    /// The client is about to end. Whoever has nothing yet gets nothing any more.
    pub(crate) fn wind_down(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if self.client == Client::Open {
            self.client = Client::Ending;
        }
        self.queue.take_all().for_each(|who| cx.fail(who.waiter, Failure::Closed));
        self.end_contender(Some(Told::Failed(Failure::Closed)), cx);
        // The hand-over goes on, and what it brings is released.
        if let Tenant::HandingOver(going) = &mut self.tenant {
            going.successor.take().into_iter().for_each(|who| cx.fail(who.waiter, Failure::Closed));
        }
    }

    /// Holds that live are told, and neither renewed nor released, since their work may still run.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.client = Client::Closed;
        self.wind_down(cx);
        self.leave_untaken(cx);
        self.lose(Cause::Closed, cx);
    }

    /// Nobody works under a hold that was offered and not taken, or while there are others missing.
    fn leave_untaken(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Some(hold) = self.tenant.hold_mut().filter(|hold| hold.is_unused()) else { return };
        let nested = hold.counted_mut().map(|counting| counting.take_nested().collect::<Vec<_>>());
        nested.into_iter().flatten().for_each(|who| cx.fail(who.waiter, Failure::Closed));
        self.end_hold(None, None, cx);
    }

    /// One that lost through no fault of its own what it had, or was about to have, is the next, if anybody is.
    pub(crate) fn goes_first(&mut self, who: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        match self.client {
            Client::Open => self.queue.push_front(who),
            Client::Ending | Client::Closed => cx.fail(who.waiter, Failure::Closed),
        }
    }
}
