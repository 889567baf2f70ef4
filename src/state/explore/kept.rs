//! What tasks do with holds beyond taking and ending them, and ends of clients and servers.

use std::time::Duration;

use crate::state::{Beyond, Event, Fault, FaultKind, Heard, Owner};

use super::{
    process::Run,
    server::TICK,
    world::{Channel, Waiter, World},
};

/// Longer than the watchdog's lease.
const EXTENDED: Duration = Duration::from_secs(5 * TICK.as_secs());

impl World {
    pub(crate) fn detach(&mut self, p: usize, t: u8, guard: usize, run: &mut Run<'_>) {
        self.left.detaches -= 1;
        let task = &mut self.process(p).tasks[usize::from(t)];
        let id = task.guards.remove(guard);
        task.detached.push(id);
        self.on(p, Event::Detached { id }, run);
    }

    /// What was lost and forgotten meanwhile cannot be attached to.
    pub(crate) fn attach(&mut self, p: usize, t: u8) {
        let process = self.process(p);
        let attached = process.name.attach(Owner(u64::from(t) + 1));
        let task = &mut process.tasks[usize::from(t)];
        task.detached.pop();
        task.guards.extend(attached.map(|(id, ())| id));
    }

    pub(crate) fn end_detached(&mut self, p: usize, t: u8, run: &mut Run<'_>) {
        if let Some(id) = self.process(p).tasks[usize::from(t)].detached.pop() {
            self.on(p, Event::Dropped { id }, run);
        }
    }

    pub(crate) fn extend(&mut self, p: usize, t: u8, guard: usize, run: &mut Run<'_>) {
        self.left.extensions -= 1;
        let task = &mut self.process(p).tasks[usize::from(t)];
        task.extensions += 1;
        let id = task.guards[guard];
        self.on(p, Event::Extend { id, lease: EXTENDED, beyond: Beyond::Refused, waiter: Waiter::Extension(t) }, run);
    }

    pub(crate) fn close(&mut self, p: usize, run: &mut Run<'_>) {
        self.left.closes -= 1;
        self.process(p).closed = true;
        self.on(p, Event::Closed, run);
    }

    pub(crate) fn wind_down(&mut self, p: usize, run: &mut Run<'_>) {
        self.left.endings -= 1;
        self.process(p).ending = true;
        self.on(p, Event::Ending, run);
    }

    pub(crate) fn lose_key(&mut self) {
        self.left.server_losses -= 1;
        (self.key, self.harmed, self.silent) = (None, Some(0), true);
    }

    /// What the old server had, and what was on its way to it, is gone. Its answers may still come.
    pub(crate) fn fail_over(&mut self) {
        self.left.failovers -= 1;
        (self.key, self.harmed, self.silent) = (None, Some(0), true);
        let fault = Fault { kind: FaultKind::Silent, may_have_run: true };
        for at in 0..self.processes.len() {
            if self.processes[at].dead {
                continue;
            }
            let process = self.process(at);
            (process.link, process.era, process.knows_era) = (process.link + 1, process.era + 1, false);
            let sent = std::mem::take(&mut process.sent);
            process.answers.extend(sent.iter().map(|command| (command.id, Err(fault))));
            self.lose_apart(at);
            let process = self.process(at);
            if process.channel == Channel::Open {
                process.heard.clear();
                process.heard.push_back(Heard::Interrupted);
            }
            if process.channel != Channel::Closed {
                process.channel = Channel::Asked;
            }
        }
    }
}
