//! Where a dropped future is undone, and an ended guard: whatever an id stands for at the moment is over.
//!
//! | it stands for | what follows |
//! | --- | --- |
//! | a waiter in the queue | it leaves the queue |
//! | the contender, before its try left | the try is withdrawn |
//! | the contender, after its try left | released behind it; its answer, or the lack of one, is watched for |
//! | the contender, where an earlier try may have run | released; old copies are reaped |
//! | the successor of a hand-over | the hand-over goes on, and what it brings is released or goes to the next |
//! | a nested acquisition | the server is told the count that remains |
//! | a ticket of a live hold | `end.rs` |
//! | a ticket of a lost hold | what may be there is released with the last one: `loss.rs` |
//! | nothing any more | whoever asks is told what became of it |

use super::{
    cx::Cx,
    effect::Told,
    id::Id,
    name::Name,
    parts::{
        contender::Stage,
        copies::Lost,
        release::{EndedBy, Why},
        tenant::Tenant,
    },
};

impl<W, S: Clone + Default> Name<W, S> {
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
        self.given_up.retain(|release| release.ending.id != Some(id));
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
            release.ended_by = EndedBy::Unlock;
            release.ending.waiters.push(waiter);
        } else if let Tenant::HandingOver(going) = &mut self.tenant
            && going.ending.id == Some(id)
        {
            going.ending.waiters.push(waiter);
        } else if let Some(waiter) = self.resume_release(id, waiter, cx) {
            cx.tell(waiter, Told::NotHeld);
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
        let lost = contender.copies.lost();
        match awaited {
            // As long as its own answer may come there is nothing to be guessed.
            Some(command) if lost.is_none() => self.old.await_answer(number, command, lease),
            Some(_) => self.old.reap(number, Lost::Anywhere, lease, cx.env.settings.watchdog, cx.now()),
            None => self.old.reap(number, lost, lease, cx.env.settings.watchdog, cx.now()),
        }
        if contender.uncertain {
            self.release(Why::over(number, lease), cx);
        }
        if let Some(told) = told {
            cx.tell(contender.who.waiter, told);
        }
    }
}
