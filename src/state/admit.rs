//! Who may enter: an owner that holds nests, one task of the process tries at the server, everybody else stands in the queue.

use super::{
    attempt::Comes,
    cx::Cx,
    effect::{Failure, LogEvent, Share, Told},
    name::{Client, Name},
    parts::queue::Waiting,
};

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn ask(&mut self, mut who: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        if let Some(hold) = self.tenant.hold().filter(|hold| hold.owner == who.owner) {
            // However fast the server is: two branches of one task that ask in one turn are to find each other asking.
            if hold.is_asked_for() {
                return cx.fail(who.waiter, Failure::AskedTwice);
            }
            return self.nest(who, cx);
        }
        if self.client != Client::Open {
            return cx.fail(who.waiter, Failure::Closed);
        }
        if self.tenant.is_asked_by(who.owner) || self.queue.has(who.owner) {
            return cx.fail(who.waiter, Failure::AskedTwice);
        }
        // What is left of a lost hold of its own is not to keep it out.
        self.release_lost_of(who.owner, cx);
        if self.tenant.is_nobody() && self.queue.is_empty() {
            return self.contend(who, Comes::Now, cx);
        }
        say_contended(&mut who, cx);
        if who.wish.patience.asks_once() {
            return cx.tell(who.waiter, Told::Busy);
        }
        self.queue.push(who);
    }

    /// Nobody of this process holds or tries any more: the head of the queue does.
    pub(crate) fn promote(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if !self.tenant.is_nobody() {
            return;
        }
        match self.queue.pop() {
            Some(who) => self.contend(who, Comes::IfCalled, cx),
            None => {
                while let Some(over) = self.queue.pop_over() {
                    self.tell_over(over, cx);
                }
            }
        }
    }
}

/// Somebody else has the name: said once an acquisition.
pub(crate) fn say_contended<W, S>(who: &mut Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
    if !std::mem::replace(&mut who.contended, true) {
        cx.log(LogEvent::Contended(who.id));
    }
}
