//! Where a dropped future is undone, and an ended guard: whatever an id stands for at the moment is over.
//!
//! | it stands for | what follows |
//! | --- | --- |
//! | a waiter in the queue | it leaves the queue |
//! | the contender, before its try left | the try is withdrawn |
//! | the contender, after its try left | released behind it, where they take one way; or once it is answered; its answer, or the lack of one, is watched for |
//! | the contender, where an earlier try may have run | released; old copies are reaped |
//! | the successor of a hand-over | the hand-over goes on, and what it brings is released or goes to the next |
//! | a nested acquisition | the server is told the count that remains |
//! | a ticket of a live hold | `end.rs` |
//! | a ticket of a lost hold | what may be there is released with the last one: `loss.rs` |
//! | nothing any more | whoever asks is told what became of it |

use super::{
    cx::Cx,
    effect::{Share, Told},
    env::Grants,
    id::Id,
    name::Name,
    parts::{contender::Stage, ending::EndedBy, release::Why, releases::Unclaimed, tenant::Tenant},
};

impl<W, S: Share<W>> Name<W, S> {
    /// Whatever this id stands for is over. `waiter` wants to know how that goes.
    pub(crate) fn end(&mut self, id: Id, waiter: Option<W>, cx: &mut Cx<'_, '_, W, S>) {
        if self.tenant.hold().is_some_and(|hold| hold.has(id)) {
            return self.end_ticket(id, waiter, cx);
        }
        if self.lost.iter().any(|hold| hold.has(id)) {
            return self.end_lost_ticket(id, waiter, cx);
        }
        if let Some(waiter) = waiter {
            return self.ask_after(id, waiter, cx);
        }
        self.releases.forget(id);
        let handing = if let Tenant::HandingOver(going) = &mut self.tenant { Some(&mut going.ending) } else { None };
        let ended = handing.into_iter().chain(self.releases.iter_mut().map(|release| &mut release.ending));
        // Nobody will ask any more.
        ended.filter(|ending| ending.id == Some(id)).for_each(|ending| ending.ended_by = EndedBy::Drop);
        match &mut self.tenant {
            Tenant::Contender(contender) if contender.who.id == id => self.end_contender(None, cx),
            Tenant::HandingOver(going) if going.is_for(id) => going.successor = None,
            _ if self.queue.remove(id).is_some() => {}
            _ => self.unnest(id, cx),
        }
    }

    /// It ended before, and somebody asks again what becomes of it.
    fn ask_after(&mut self, id: Id, waiter: W, cx: &mut Cx<'_, '_, W, S>) {
        if let Some(release) = self.releases.iter_mut().find(|release| release.ending.id == Some(id)) {
            release.ending.asked_again(waiter);
        } else if let Tenant::HandingOver(going) = &mut self.tenant
            && going.ending.id == Some(id)
        {
            going.ending.asked_again(waiter);
        } else {
            match self.releases.claim(id) {
                Some(Unclaimed::Known(told)) => cx.tell(waiter, told),
                Some(Unclaimed::GivenUp(release)) => self.resume_release(*release, waiter, cx),
                None => cx.tell(waiter, Told::NotHeld),
            }
        }
    }

    /// Nobody wants what it tried for. What may be there is released, and that goes out before the next try.
    pub(crate) fn end_contender(&mut self, told: Option<Told<S>>, cx: &mut Cx<'_, '_, W, S>) {
        if !self.tenant.contends() {
            return;
        }
        let Tenant::Contender(mut contender) = self.tenant.take() else { return };
        let number = contender.number;
        let lease = cx.env.settings.lease(contender.who.wish.lease);
        let mut awaited = None;
        if let Stage::Trying(attempt) = contender.stage {
            cx.withdraw(attempt.command);
            awaited = attempt.request.left.then_some(attempt.command);
            contender.uncertain |= attempt.request.left;
        }
        let watchdog = cx.env.settings.watchdog;
        match awaited {
            Some(command) if cx.env.settings.grants == Grants::Acknowledged => {
                // Its release might overtake it on the other way: it leaves when the answer is there, or will not come.
                self.old.hold_back(number, command, lease, watchdog, cx.now());
                contender.uncertain = false;
            }
            Some(command) => {
                self.old.reap(number, contender.copies.given_up(), lease, watchdog, cx.now());
                // An answer to the last of them says nothing of those that will never be answered.
                if contender.copies.lost().is_none() {
                    self.old.await_answer(number, command);
                }
            }
            None => self.old.reap(number, contender.copies.lost(), lease, watchdog, cx.now()),
        }
        if contender.uncertain {
            self.release(Why::over(number, lease), cx);
        }
        if let Some(told) = told {
            cx.tell(contender.who.waiter, told);
        }
    }
}
