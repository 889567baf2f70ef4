//! What befalls the commands of a world: links, strays, the server and the subscriptions that it tells.

use std::{collections::VecDeque, sync::Arc};

use crate::state::{Answer, Command, Event, Fault, FaultKind, Heard, HoldNumber, Verb};

use super::{
    config::ForcedBy,
    process::Run,
    promise::Promise,
    server,
    world::{Channel, Process, Waiter, World},
};

impl World {
    pub(crate) fn leave_next(&mut self, p: usize, run: &mut Run<'_>) {
        if let Some(command) = self.process(p).outbox.pop_front() {
            self.leave(p, command, run);
        }
    }

    pub(crate) fn answer_next(&mut self, p: usize, run: &mut Run<'_>) {
        if let Some((command, answer)) = self.process(p).answers.pop_front() {
            self.on(p, Event::Answered { command, answer }, run);
        }
    }

    pub(crate) fn run_next(&mut self, p: usize, again: bool, run: &Run<'_>) {
        let Some(command) = self.process(p).sent.pop_front() else { return };
        if again {
            self.left.repeats -= 1;
            self.stray(command);
        }
        let answer = self.run_at_server(command.number, command.verb);
        let orderly = !self.stray_ran && self.left.requeues == run.config.requeues;
        let process = &self.processes[p];
        let frees = |it: &Command| matches!(it.verb, Verb::Release { holds: 0, .. });
        let comes = |number| process.sent.iter().any(|it| it.number == number && frees(it));
        let lets_go = |number| process.name.is_released(number) && !comes(number);
        let met_own =
            matches!(answer, Answer::Busy { .. }) && self.key.is_some_and(|key| lets_go(HoldNumber(key.number)));
        if met_own && orderly {
            self.broken = Some(Promise::OwnReleaseGoesFirst);
        }
        self.process(p).answers.push_back((command.id, Ok(answer)));
    }

    /// The same of the other way, which knows no order.
    pub(crate) fn run_apart(&mut self, p: usize, run: &Run<'_>) {
        let Some(command) = self.process(p).apart.pop_front() else { return };
        let answer = self.run_at_server(command.number, command.verb);
        // Where nothing is lost every release is answered before.
        let orderly = run.config.cuts == 0 && run.config.ticks == 0 && !self.stray_ran;
        let lets_go = |key: server::Key| self.processes[p].name.is_released(HoldNumber(key.number));
        if orderly && matches!(answer, Answer::Busy { .. }) && self.key.is_some_and(lets_go) {
            self.broken = Some(Promise::OwnReleaseGoesFirst);
        }
        self.process(p).apart_answers.push_back((command.id, Ok(answer)));
    }

    pub(crate) fn answer_apart(&mut self, p: usize, run: &mut Run<'_>) {
        if let Some((command, answer)) = self.process(p).apart_answers.pop_front() {
            self.on(p, Event::Answered { command, answer }, run);
        }
    }

    /// It was granted, and the replicas do not know.
    pub(crate) fn answer_too_few(&mut self, p: usize, run: &mut Run<'_>) {
        self.left.too_few -= 1;
        let fault = Fault { kind: FaultKind::TooFewReplicas, may_have_run: true };
        if let Some((command, _)) = self.process(p).apart_answers.pop_front() {
            self.on(p, Event::Answered { command, answer: Err(fault) }, run);
        }
    }

    /// The other way is given up: answers are lost, and what did not run may run late.
    pub(crate) fn cut_apart(&mut self, p: usize) {
        self.left.cuts -= 1;
        self.lose_apart(p).into_iter().for_each(|command| self.stray(command));
    }

    pub(crate) fn lose_apart(&mut self, p: usize) -> VecDeque<Command> {
        let fault = Fault { kind: FaultKind::Silent, may_have_run: true };
        let process = self.process(p);
        process.apart_answers.iter_mut().for_each(|(_, answer)| *answer = Err(fault));
        let lost = std::mem::take(&mut process.apart);
        process.apart_answers.extend(lost.iter().map(|command| (command.id, Err(fault))));
        lost
    }

    /// The link is replaced: answers are lost, and what did not run may run late.
    pub(crate) fn cut(&mut self, p: usize) {
        self.left.cuts -= 1;
        let fault = Fault { kind: FaultKind::Silent, may_have_run: true };
        let process = self.process(p);
        process.link += 1;
        process.answers.iter_mut().for_each(|(_, answer)| *answer = Err(fault));
        let sent = std::mem::take(&mut process.sent);
        process.answers.extend(sent.iter().map(|command| (command.id, Err(fault))));
        sent.into_iter().for_each(|command| self.stray(command));
    }

    pub(crate) fn confirm(&mut self, p: usize) {
        let process = self.process(p);
        process.channel = Channel::Open;
        process.heard.push_back(Heard::Subscribed);
    }

    pub(crate) fn interrupt(&mut self, p: usize, run: &mut Run<'_>) {
        self.left.interruptions -= 1;
        let process = self.process(p);
        process.channel = Channel::Asked;
        process.heard.clear();
        self.on(p, Event::Heard(Heard::Interrupted), run);
    }

    pub(crate) fn hear(&mut self, p: usize, run: &mut Run<'_>) {
        let Some(heard) = self.process(p).heard.pop_front() else { return };
        let held = self.processes[p].name.held().map(|(number, _)| number.0);
        let of_another = held.is_some() && held != self.key.map(|key| key.number);
        self.notified |= heard == Heard::Message && of_another;
        self.on(p, Event::Heard(heard), run);
    }

    pub(crate) fn die(&mut self, p: usize) {
        self.left.deaths -= 1;
        let process = self.process(p);
        let mut sent = std::mem::take(&mut process.sent);
        sent.append(&mut process.apart);
        let link = process.link;
        self.processes[p] = Arc::new(Process::dead(link));
        sent.into_iter().for_each(|command| self.stray(command));
    }

    pub(crate) fn force(&mut self, run: &mut Run<'_>) {
        let Some(number) = self.seen_to_force.take().map(HoldNumber) else { return };
        self.left.forces -= 1;
        let by_process = run.config.forced_by == ForcedBy::FirstProcess;
        for _ in u8::from(by_process)..run.config.copies {
            self.strays.push((number, Verb::Force));
        }
        if by_process {
            self.forced = Some(number.0);
            self.on(0, Event::Force { seen: vec![number], waiter: Waiter::Force }, run);
        }
    }

    pub(crate) fn run_stray(&mut self, at: usize) {
        let (number, verb) = self.strays.remove(at);
        self.stray_ran |= verb != Verb::Force;
        self.run_at_server(number, verb);
    }

    fn run_at_server(&mut self, number: HoldNumber, verb: Verb) -> Answer {
        let number = number.0;
        let believed = self.believers().any(|(_, it)| it == number);
        let what = |key: Option<server::Key>| key.map(|key| (key.number, key.count));
        let before = what(self.key);
        let answered = server::run(&mut self.key, number, verb, self.late);
        if believed && before != what(self.key) {
            match verb {
                Verb::Release { holds: 0, .. } => self.broken = Some(Promise::NobodyFreesABelievedHold),
                Verb::HandOver { .. } => self.broken = Some(Promise::NobodyMovesABelievedHold),
                _ => {}
            }
        }
        if self.key.is_some() {
            self.free = 0;
        }
        if before.is_some() && self.key.is_none() {
            self.silent = false;
            if verb == Verb::Force {
                self.harmed = Some(0);
            }
        }
        server::told(answered, || self.publish())
    }

    /// How many hear it.
    fn publish(&mut self) -> u32 {
        let listens = |process: &Process| !process.dead && process.channel == Channel::Open;
        let all: Vec<usize> = (0..self.processes.len()).filter(|at| listens(&self.processes[*at])).collect();
        all.iter().for_each(|at| self.process(*at).heard.push_back(Heard::Message));
        all.len() as u32
    }
}
