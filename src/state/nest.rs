//! Nested acquisitions of an owner that holds, and the count that the server is told. Counts are set, never counted: each
//! command says what shall be afterwards. One count-changing command of a hold is in flight at a time, and the next one says
//! the newest count. What ends the hold waits for none of them, for zero frees whatever the count is.

use super::{
    command::{Answer, Fault, FaultKind, Note, Verb},
    cx::Cx,
    deadline::LeaseRequest,
    effect::{Cause, Failure, LogEvent, Share, Told},
    env::one_more,
    id::{CommandId, Id, Owner},
    name::{Client, Name},
    parts::{
        counting::{CountChange, CountCommand, Counting, Nested},
        queue::Waiting,
        ticket::Ticket,
    },
};

impl<W, S: Share<W>> Name<W, S> {
    fn counting(&mut self) -> Option<&mut Counting<W>> {
        self.tenant.hold_mut()?.counted_mut()
    }

    /// Takes part in the hold: from now on it does not end.
    pub(crate) fn nest(&mut self, who: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        let Some(hold) = self.tenant.hold_mut() else { return };
        hold.counting().nested.push_back(Nested::new(who, cx.now()));
    }

    /// Sends the newest count, if the server does not know it and nothing is in flight.
    pub(crate) fn send_count(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Some(hold) = self.tenant.hold_mut() else { return };
        if hold.counted().is_none() {
            return;
        }
        let (number, count, bound, left) = (hold.number, hold.count(), hold.bound(), hold.deadline - now);
        let Some(counting) = hold.counted_mut() else { return };
        if counting.command.is_some() {
            return;
        }
        let before = counting.told;
        let (resting, last_answer) = (!counting.nested.is_empty(), cx.env.server.last_answer());
        let (verb, what) = if let Some(nested) = counting.next_nested(now) {
            nested.is_asked_for(last_answer);
            let who = &nested.who;
            let own = who.wish.max_hold.map(|max_hold| now + max_hold);
            let bound = [bound, own].into_iter().flatten().min();
            // A key that somebody stripped of its TTL gets the lease: never less than what the hold was promised.
            let lease = cx.env.settings.lease(who.wish.lease).max(left);
            // Less than a millisecond before its bound it is over.
            let Some(request) = LeaseRequest::new(lease, bound, now) else { return self.lose(Cause::MaxHold, cx) };
            // At least two: a free key is not to be taken by it.
            let verb = Verb::Acquire { lease: request.lease, holds: count.max(2) };
            (verb, CountChange::Up { id: who.id, request })
        } else if counting.again.is_some_and(|again| now < again) {
            return;
        } else if before.is_none() && resting && counting.telling.is_empty() {
            // The next of those that rest will tell. What is due by now would stay so.
            counting.again = None;
            return;
        } else if before.is_none_or(|told| count < told) {
            counting.again = None;
            let waiters = std::mem::take(&mut counting.telling);
            (Verb::Release { holds: count, note: Note::Unused }, CountChange::Down { waiters })
        } else {
            // The server knows: nothing was asked for in between.
            counting.unlocked = false;
            counting.again = None;
            let waiters = std::mem::take(&mut counting.telling);
            return waiters.into_iter().for_each(|(waiter, left)| cx.tell(waiter, Told::StillHeld(left)));
        };
        counting.told = None;
        let id = cx.send(number, verb);
        counting.command = Some(CountCommand { id, before, what });
    }

    /// An owner asks how often it still holds, once the server knows.
    pub(crate) fn recount(&mut self, owner: Owner, waiter: W, cx: &mut Cx<'_, '_, W, S>) {
        match self.tenant.hold_mut().filter(|hold| hold.owner == owner) {
            Some(hold) => {
                let left = hold.count();
                hold.counting().telling.push((waiter, left));
            }
            None => cx.tell(waiter, Told::NotHeld),
        }
    }

    /// Whether the answer was for a count.
    pub(crate) fn counted(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> bool {
        let Some(counting) = self.counting() else { return false };
        let Some(count) = counting.command.take_if(|count| count.id == command) else { return false };
        match (answer, count.what) {
            (Ok(Answer::Granted { holds, .. }), CountChange::Up { id, request }) => self.joins(id, request, holds, cx),
            (Ok(Answer::Released { holds, .. }), CountChange::Down { waiters }) => {
                (counting.told, counting.faults) = (Some(holds), 0);
                waiters.into_iter().for_each(|(waiter, left)| cx.tell(waiter, Told::StillHeld(left)));
            }
            // Somebody else's, or nobody's: the outer hold is gone, and what nests goes on as a fresh acquisition.
            (Ok(_), what) => {
                if let CountChange::Down { waiters } = what {
                    counting.telling.extend(waiters);
                }
                self.lose(Cause::Gone, cx);
            }
            (Err(fault), what) => self.count_failed(fault, count.before, what, cx),
        }
        true
    }

    /// The nested acquisition was granted.
    fn joins(&mut self, id: Id, request: LeaseRequest, holds: u32, cx: &mut Cx<'_, '_, W, S>) {
        let (now, outdated) = (cx.now(), request.era != cx.env.server.era());
        let Some(hold) = self.tenant.hold_mut() else { return };
        let counting = hold.counting();
        counting.faults = 0;
        // What an earlier server counts says nothing of the present one, which is asked, too.
        counting.told = (!outdated).then_some(holds);
        let nested = if outdated { None } else { counting.take(id) };
        let Some(Nested { who, .. }) = nested else {
            // Or it came to nothing meanwhile, and the count is told anew.
            return hold.is_answered(request, now);
        };
        hold.joined(Ticket::new(id, &who.wish, request.sent, now), request, cx.env.settings.margin, now);
        cx.log(LogEvent::Nested(id));
        let told = Told::Granted { id, share: hold.share.clone(), fence: hold.fence() };
        cx.tell(who.waiter, told);
    }

    fn count_failed(&mut self, fault: Fault, before: Option<u32>, what: CountChange<W>, cx: &mut Cx<'_, '_, W, S>) {
        let pauses = cx.env.settings.pauses;
        let Some(hold) = self.tenant.hold_mut() else { return };
        if let CountChange::Up { request, .. } = &what {
            hold.unanswered(*request, fault);
        }
        let counting = hold.counting();
        if !fault.may_have_run {
            counting.told = before;
        }
        match what {
            CountChange::Down { waiters } => {
                counting.again = Some(cx.now() + cx.env.pause(pauses, counting.faults));
                counting.faults = one_more(pauses, counting.faults);
                waiters.into_iter().for_each(|(it, left)| match fault.kind {
                    // Zero frees whatever the count is, so one that is too high does no harm.
                    FaultKind::Full => cx.tell(it, Told::StillHeld(left)),
                    _ => cx.fail(it, fault.into()),
                });
            }
            CountChange::Up { id, .. } => {
                let goes_on = counting.nested(id).is_none_or(|nested| nested.rests(cx.env) && fault.kind.heals());
                if !goes_on && let Some(Nested { who, .. }) = counting.take(id) {
                    cx.fail(who.waiter, fault.into());
                    self.nested_ended(cx);
                }
            }
        }
    }

    /// The outer hold is gone. The oldest goes on as a fresh acquisition, before everybody else; those of its owner beside it ask for
    /// what that one asks for, and would wait behind it for themselves. `nested`: the newest first.
    pub(crate) fn outer_gone(&mut self, mut nested: Vec<Waiting<W>>, cx: &mut Cx<'_, '_, W, S>) {
        let Some(oldest) = nested.pop() else { return };
        let beside = if self.client == Client::Open { Failure::AskedTwice } else { Failure::Closed };
        self.goes_first(oldest, cx);
        nested.into_iter().rev().for_each(|who| cx.fail(who.waiter, beside));
    }

    /// A nested acquisition came to nothing, by its caller's will.
    pub(crate) fn unnest(&mut self, id: Id, cx: &mut Cx<'_, '_, W, S>) {
        let Some(counting) = self.counting() else { return };
        if counting.take(id).is_none() {
            return;
        }
        self.withdraw_count(id, cx);
        self.nested_ended(cx);
    }

    /// The waits of nested acquisitions may be over.
    pub(crate) fn look_at_nested(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        loop {
            let Some(counting) = self.counting() else { return };
            let Some(Nested { who, .. }) = counting.take_over(cx.env) else { return };
            let left = self.withdraw_count(who.id, cx);
            // The lock is held already: what is missing is an answer.
            cx.fail(who.waiter, Failure::Unreachable { may_have_run: left == Withdrawn::TooLate });
            self.nested_ended(cx);
        }
    }

    /// The command for this acquisition shall not leave any more, if it has not.
    fn withdraw_count(&mut self, of: Id, cx: &mut Cx<'_, '_, W, S>) -> Withdrawn {
        let Some(counting) = self.counting() else { return Withdrawn::InTime };
        let of_it = |count: &CountCommand<W>| match count.what {
            CountChange::Up { id, request } if id == of => Some(request.left),
            CountChange::Up { .. } | CountChange::Down { .. } => None,
        };
        match counting.command.as_ref().and_then(of_it) {
            None => Withdrawn::InTime,
            Some(true) => Withdrawn::TooLate,
            Some(false) => {
                if let Some(count) = counting.command.take() {
                    counting.told = count.before;
                    cx.withdraw(count.id);
                }
                Withdrawn::InTime
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Withdrawn {
    InTime,
    /// It left.
    TooLate,
}
