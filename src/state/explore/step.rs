//! One step of a world, and how it happens.

use crate::state::{Event, Owner, Patience, Wish};

use super::{
    config::Waits,
    process::Run,
    promise::Promise,
    server::TICK,
    world::{Waiter, World},
};

/// What happens. The first number is a process, the second one of its tasks, the third a guard of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Ask(u8, u8),
    DropFuture(u8, u8),
    /// One that was called is polled.
    Come(u8, u8),
    Take(u8, u8),
    EndGuard(u8, u8, u8),
    /// An unlock that had no answer is asked for anew, or not.
    UnlockAgain(u8, u8),
    GiveUpUnlock(u8, u8),
    /// The first command of the outbox is sent; the first that was sent runs; its answer comes.
    Leave(u8),
    Run(u8),
    RunTwice(u8),
    Requeue(u8),
    Answer(u8),
    Cut(u8),
    /// The same for the other way of acquires that replicas are to know of.
    RunApart(u8),
    AnswerApart(u8),
    AnswerTooFew(u8),
    CutApart(u8),
    /// The subscription is confirmed, brings something, ends.
    Confirm(u8),
    Hear(u8),
    Interrupt(u8),
    Timer(u8),
    Die(u8),
    /// A client is about to end; it ends.
    WindDown(u8),
    Close(u8),
    /// The guard goes and the hold stays; a guard is made of it again; it ends without one.
    Detach(u8, u8, u8),
    Attach(u8, u8),
    EndDetached(u8, u8),
    Extend(u8, u8, u8),
    /// Another server follows, which has no key; a process is told.
    Failover,
    HearOfEra(u8),
    /// A copy of a command runs that was lost on its way.
    RunStray(u8),
    LoseKey,
    /// Somebody sees whose the lock is, and forces that later.
    Look,
    Force,
    /// Less than any margin is left before the next tick.
    AlmostTick,
    Tick,
}

impl World {
    /// The world after a step.
    pub(crate) fn after(&self, step: Step, run: &mut Run<'_>) -> Self {
        let mut next = self.clone();
        next.make(step, run);
        next.note_holds_that_are_over();
        next
    }

    /// Such a hold is lost, and nothing makes it anything else.
    fn note_holds_that_are_over(&mut self) {
        for at in 0..self.processes.len() {
            let (process, now) = (&self.processes[at], self.now_of(at));
            let believed = process.name.believed(now).map(|(_, number)| number);
            // Without a ticket nobody believes in it, whatever the time.
            let held = process.name.held().filter(|(_, tickets)| *tickets > 0).map(|(number, _)| number);
            let over = if believed.is_none() { held } else { None };
            if believed.is_some() && believed == process.over {
                self.broken = Some(Promise::ALostHoldStaysLost);
            }
            if over != self.processes[at].over {
                self.process(at).over = over;
            }
        }
    }

    fn make(&mut self, step: Step, run: &mut Run<'_>) {
        match step {
            Step::Ask(p, t) => self.ask(p.into(), t, run),
            Step::DropFuture(p, t) => self.drop_future(p.into(), t, run),
            Step::Come(p, t) => self.come(p.into(), t, run),
            Step::Take(p, t) => self.take(p.into(), t, run),
            Step::EndGuard(p, t, guard) => self.end_guard(p.into(), t, guard.into(), run),
            Step::UnlockAgain(p, t) => self.unlock_again(p.into(), t, run),
            Step::GiveUpUnlock(p, t) => self.give_up_unlock(p.into(), t, run),
            Step::Leave(p) => self.leave_next(p.into(), run),
            Step::Run(p) | Step::RunTwice(p) => self.run_next(p.into(), matches!(step, Step::RunTwice(_)), run),
            Step::Requeue(p) => {
                self.left.requeues -= 1;
                self.process(p.into()).sent.rotate_left(1);
            }
            Step::Answer(p) => self.answer_next(p.into(), run),
            Step::RunApart(p) => self.run_apart(p.into(), run),
            Step::AnswerApart(p) => self.answer_apart(p.into(), run),
            Step::AnswerTooFew(p) => self.answer_too_few(p.into(), run),
            Step::CutApart(p) => self.cut_apart(p.into()),
            Step::Cut(p) => self.cut(p.into()),
            Step::Confirm(p) => self.confirm(p.into()),
            Step::Hear(p) => self.hear(p.into(), run),
            Step::Interrupt(p) => self.interrupt(p.into(), run),
            Step::Timer(p) => self.fire(p.into(), run),
            Step::Die(p) => self.die(p.into()),
            Step::WindDown(p) => self.wind_down(p.into(), run),
            Step::Close(p) => self.close(p.into(), run),
            Step::Detach(p, t, guard) => self.detach(p.into(), t, guard.into(), run),
            Step::Attach(p, t) => self.attach(p.into(), t),
            Step::EndDetached(p, t) => self.end_detached(p.into(), t, run),
            Step::Extend(p, t, guard) => self.extend(p.into(), t, guard.into(), run),
            Step::Failover => self.fail_over(),
            Step::HearOfEra(p) => {
                self.process(p.into()).knows_era = true;
                self.on(p.into(), Event::NewEra, run);
            }
            Step::RunStray(at) => self.run_stray(at.into()),
            Step::LoseKey => self.lose_key(),
            Step::Look => self.seen_to_force = self.key.map(|key| key.number),
            Step::Force => self.force(run),
            Step::AlmostTick => self.almost_tick(run),
            Step::Tick => self.tick(run),
        }
    }

    fn ask(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        let now = self.now_of(p);
        let process = self.process(p);
        let id = process.draw_id(p);
        let task = &mut process.tasks[usize::from(t)];
        (task.left, task.asks) = (task.left - 1, Some(id));
        let patience = match run.config.waits {
            Waits::ForEver => Patience::ForEver,
            Waits::Once => Patience::Once,
            Waits::Ticks(ticks) => Patience::Until(now + u32::from(ticks) * TICK),
        };
        let max_hold = (run.config.max_hold > 0).then(|| u32::from(run.config.max_hold) * TICK);
        let wish = Wish { lease: run.config.lease(p, t.into()), max_hold, patience };
        let owner = Owner(u64::from(t) + 1);
        self.on(p, Event::Ask { id, owner, wish, waiter: Waiter::Task(t) }, run);
    }

    fn come(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        let process = self.process(p);
        // It is there: what it is given next is a turn of its own.
        (process.turn, process.parked) = (None, 0);
        let task = &mut process.tasks[usize::from(t)];
        task.called = false;
        if let Some(id) = task.asks {
            self.on(p, Event::Here { id }, run);
        }
    }

    fn drop_future(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        self.left.drops -= 1;
        let task = &mut self.process(p).tasks[usize::from(t)];
        task.called = false;
        if let Some(id) = task.asks.take().or(task.offered.take()) {
            self.on(p, Event::Dropped { id }, run);
        }
    }

    fn end_guard(&mut self, p: usize, t: u8, guard: usize, run: &mut Run<'_>) {
        let task = &mut self.process(p).tasks[usize::from(t)];
        let id = task.guards.remove(guard);
        let event = if run.config.unlock {
            task.unlocks += 1;
            Event::Unlock { id, waiter: Waiter::Unlock(t, id) }
        } else {
            Event::Dropped { id }
        };
        self.on(p, event, run);
    }

    fn unlock_again(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        let task = &mut self.process(p).tasks[usize::from(t)];
        let Some(id) = task.failed.pop() else { return };
        task.unlocks += 1;
        self.on(p, Event::Unlock { id, waiter: Waiter::Unlock(t, id) }, run);
    }

    fn give_up_unlock(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        if let Some(id) = self.process(p).tasks[usize::from(t)].failed.pop() {
            self.on(p, Event::Dropped { id }, run);
        }
    }

    fn take(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        let Some(id) = self.process(p).tasks[usize::from(t)].offered.take() else { return };
        let taken = self.take_offered(p, id, run);
        let task = &mut self.process(p).tasks[usize::from(t)];
        if taken {
            task.guards.push(id);
        } else {
            // It ran out meanwhile: what was offered is dropped, and asked for anew.
            task.left += 1;
            self.on(p, Event::Dropped { id }, run);
            self.ask(p, t, run);
        }
    }
}
