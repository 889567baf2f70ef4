//! What can happen next in a world.

use std::time::Duration;

use crate::state::Answer;

use super::{
    config::Config,
    step::Step,
    world::{Channel, Process, Task, World},
};

/// A timer that is due within this may fire at any time: its pause was drawn, and might have been nothing.
const AT_ANY_TIME: Duration = Duration::from_secs(1);

impl World {
    pub(crate) fn choices(&self, config: &Config, out: &mut Vec<Step>) {
        for (at, process) in self.living() {
            let at = at as u8;
            self.tasks_choose(at, process, config, out);
            self.commands_choose(at, process, out);
            self.messages_choose(at, process, out);
            if self.may_fire(process) {
                out.push(Step::Timer(at));
            }
            if self.left.deaths > 0 {
                out.push(Step::Die(at));
            }
            if self.left.endings > 0 && !process.ending && !process.closed {
                out.push(Step::WindDown(at));
            }
            if self.left.closes > 0 && !process.closed {
                out.push(Step::Close(at));
            }
            if !process.knows_era {
                out.push(Step::HearOfEra(at));
            }
        }
        self.server_chooses(out);
        let waits = config.idle_ticks && self.is_under_way() || config.late_timers && self.is_due();
        if self.time < config.ticks && !waits {
            out.push(if config.drift && !self.late { Step::AlmostTick } else { Step::Tick });
        }
    }

    /// A timer of this process may fire without time passing.
    pub(crate) fn may_fire(&self, process: &Process) -> bool {
        process.armed.is_some_and(|armed| armed <= self.now() + AT_ANY_TIME)
    }

    fn tasks_choose(&self, at: u8, process: &Process, config: &Config, out: &mut Vec<Step>) {
        for (task, it) in process.tasks.iter().enumerate() {
            let which = task as u8;
            let idle = it.asks.is_none() && it.offered.is_none();
            if idle && it.left > 0 && (it.guards.is_empty() || config.nest) {
                out.push(Step::Ask(at, which));
            }
            if !idle && self.left.drops > 0 {
                out.push(Step::DropFuture(at, which));
            }
            if it.called {
                out.push(Step::Come(at, which));
            }
            if it.offered.is_some() {
                out.push(Step::Take(at, which));
            }
            self.kept_holds_choose(at, which, it, out);
            if !it.failed.is_empty() {
                out.extend([Step::UnlockAgain(at, which), Step::GiveUpUnlock(at, which)]);
            }
            // A guard may be dropped elsewhere while its owner waits for a nested one.
            if idle || config.nest {
                out.extend((0..it.guards.len()).map(|guard| Step::EndGuard(at, which, guard as u8)));
            }
        }
    }

    fn kept_holds_choose(&self, at: u8, which: u8, task: &Task, out: &mut Vec<Step>) {
        let guards = 0..task.guards.len() as u8;
        if self.left.detaches > 0 {
            out.extend(guards.clone().map(|guard| Step::Detach(at, which, guard)));
        }
        if self.left.extensions > 0 {
            out.extend(guards.map(|guard| Step::Extend(at, which, guard)));
        }
        if !task.detached.is_empty() {
            out.extend([Step::Attach(at, which), Step::EndDetached(at, which)]);
        }
    }

    fn commands_choose(&self, at: u8, process: &Process, out: &mut Vec<Step>) {
        if !process.outbox.is_empty() {
            out.push(Step::Leave(at));
        }
        if !process.sent.is_empty() {
            out.push(Step::Run(at));
            if self.left.repeats > 0 {
                out.push(Step::RunTwice(at));
            }
            if self.left.requeues > 0 && process.sent.len() > 1 {
                out.push(Step::Requeue(at));
            }
        }
        if !process.answers.is_empty() {
            out.push(Step::Answer(at));
        }
        if !process.apart.is_empty() {
            out.push(Step::RunApart(at));
        }
        if let Some((_, answer)) = process.apart_answers.front() {
            out.push(Step::AnswerApart(at));
            if self.left.too_few > 0 && matches!(answer, Ok(Answer::Granted { .. })) {
                out.push(Step::AnswerTooFew(at));
            }
        }
        if self.left.cuts > 0 && !(process.apart.is_empty() && process.apart_answers.is_empty()) {
            out.push(Step::CutApart(at));
        }
        if self.left.cuts > 0 && !(process.sent.is_empty() && process.answers.is_empty()) {
            out.push(Step::Cut(at));
        }
    }

    fn messages_choose(&self, at: u8, process: &Process, out: &mut Vec<Step>) {
        if process.channel == Channel::Asked {
            out.push(Step::Confirm(at));
        }
        if !process.heard.is_empty() {
            out.push(Step::Hear(at));
        }
        if self.left.interruptions > 0 && process.channel == Channel::Open {
            out.push(Step::Interrupt(at));
        }
    }

    fn server_chooses(&self, out: &mut Vec<Step>) {
        // Equal copies stand together: the first is as good as any.
        let differs = |at: &usize| *at == 0 || self.strays[*at] != self.strays[*at - 1];
        out.extend((0..self.strays.len()).filter(differs).map(|at| Step::RunStray(at as u8)));
        if self.left.failovers > 0 {
            out.push(Step::Failover);
        }
        if self.key.is_some() {
            if self.left.server_losses > 0 {
                out.push(Step::LoseKey);
            }
            if self.left.forces > 0 && self.seen_to_force.is_none() {
                out.push(Step::Look);
            }
        }
        if self.seen_to_force.is_some() && !self.processes[0].dead {
            out.push(Step::Force);
        }
    }

    /// A timer is to fire before time goes on.
    fn is_due(&self) -> bool {
        self.living().any(|(_, process)| process.armed.is_some_and(|armed| armed <= self.now()))
    }

    fn is_under_way(&self) -> bool {
        self.living().any(|(_, process)| process.is_under_way() || !process.name.is_quiet())
    }
}
