//! One process of a world: an event goes in, and what its state decides is done.

use std::time::Duration;

use crate::state::{
    Cause, Chance, Command, Effect, End, Env, Era, Event, Fault, Id, Instant, Link, Log, LogEvent, Settings, Shape,
    Told, Verb,
};

use super::{
    config::Config,
    fixed::Fixed,
    promise::Promise,
    world::{Channel, DRAWN, Process, Waiter, World},
};

/// So much time an answer may take that is on its way: next to nothing, for links are cut where it shall not come.
const GRACE: Duration = Duration::from_nanos(1);

/// What a step is taken with.
pub(crate) struct Run<'a> {
    pub(crate) config: &'a Config,
    pub(crate) settings: Settings,
    /// What a story tells: the events and what followed from them.
    pub(crate) told: Option<Vec<String>>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(config: &'a Config) -> Self {
        Self { config, settings: config.settings(), told: None }
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            told.push(what());
        }
    }
}

impl Process {
    pub(crate) fn draw_id(&mut self, p: usize) -> Id {
        Id(draw(&mut self.drawn, p))
    }

    /// Whether what the state says of itself is true, in words if not.
    pub(crate) fn contradicts_itself(&self, now: Instant, settings: &Settings) -> Option<&'static str> {
        let mut none = || 0;
        self.name.check(&env(now, &fixed_server(now, self.link, self.era), settings, &mut none)).err()
    }
}

impl World {
    pub(crate) fn on(&mut self, p: usize, event: Event<Waiter>, run: &mut Run<'_>) {
        self.on_at(p, event, self.now_of(p), run);
    }

    pub(crate) fn on_at(&mut self, p: usize, event: Event<Waiter>, now: Instant, run: &mut Run<'_>) {
        run.tell(|| format!("process {p} is told {event:?}"));
        let ahead = Some(now).filter(|now| *now > self.now());
        self.process(p).ahead = ahead;
        let mut effects = Vec::new();
        let Process { name, drawn, link, era, .. } = self.process(p);
        let mut draw = || draw(drawn, p);
        name.on(event, &mut env(now, &fixed_server(now, *link, *era), &run.settings, &mut draw), &mut effects);
        self.perform_all(p, effects, now, run);
    }

    /// One to whom a hold was offered takes it; false if it ran out meanwhile.
    pub(crate) fn take_offered(&mut self, p: usize, id: Id, run: &mut Run<'_>) -> bool {
        let now = self.now_of(p);
        let mut effects = Vec::new();
        let Process { name, drawn, link, era, .. } = self.process(p);
        let mut draw = || draw(drawn, p);
        let taken =
            name.take(id, &mut env(now, &fixed_server(now, *link, *era), &run.settings, &mut draw), &mut effects);
        self.perform_all(p, effects, now, run);
        taken
    }

    fn perform_all(&mut self, p: usize, effects: Vec<Effect<Waiter, ()>>, now: Instant, run: &mut Run<'_>) {
        for effect in effects {
            run.tell(|| format!("    {effect:?}"));
            self.perform(p, effect, now, run);
        }
    }

    fn perform(&mut self, p: usize, effect: Effect<Waiter, ()>, now: Instant, run: &mut Run<'_>) {
        let process = self.process(p);
        match effect {
            Effect::Send(command) | Effect::Renew(command, _) if run.config.lag => process.outbox.push_back(command),
            Effect::Send(command) | Effect::Renew(command, _) => self.leave(p, command, run),
            Effect::Withdraw(command) => process.outbox.retain(|it| it.id != command),
            Effect::Tell(Waiter::Task(t), Told::Granted { id, .. }) => self.granted(p, t, id, now, run),
            Effect::Tell(Waiter::Task(t), Told::PassedOver) => {
                let task = &mut process.tasks[usize::from(t)];
                (task.asks, task.called, task.left) = (None, false, task.left + 1);
            }
            Effect::Tell(Waiter::Task(t), told) => {
                let task = &mut process.tasks[usize::from(t)];
                (task.asks, task.called) = (None, false);
                let untouched = self.harmed.is_none() && !self.stray_ran;
                if matches!(told, Told::Busy) && run.config.is_lonely() && untouched {
                    self.broken = Some(Promise::WhoIsAloneIsNeverBusy);
                }
            }
            Effect::Call(id, ()) if run.config.late_callers => {
                let called = process.tasks.iter_mut().find(|task| task.asks == Some(id));
                called.into_iter().for_each(|task| task.called = true);
            }
            Effect::Call(id, ()) => self.on_at(p, Event::Here { id }, now, run),
            Effect::Tell(Waiter::Unlock(t, id), told) => {
                let task = &mut process.tasks[usize::from(t)];
                let expected = task.unlocks > 0;
                task.unlocks = task.unlocks.saturating_sub(1);
                if let Told::Failed(_) = told {
                    task.failed.push(id);
                }
                if !expected {
                    self.broken = Some(Promise::AnUnlockIsAnsweredOnce);
                }
            }
            Effect::Tell(Waiter::Extension(t), _) => {
                let extensions = &mut process.tasks[usize::from(t)].extensions;
                *extensions = extensions.saturating_sub(1);
            }
            Effect::Ended((), End::Lost(Cause::Expired)) => {
                // Who was offered it and does not take it gets the lease, and no more.
                let is_offered = self.processes[p].tasks.iter().any(|task| task.offered.is_some());
                if run.config.keeps_holds() && self.is_untouched(run.config) && !is_offered {
                    self.broken = Some(Promise::AKeptHoldIsNotLost);
                }
            }
            Effect::Log(LogEvent::Granted(_) | LogEvent::Passed(_) | LogEvent::HandedOver(_)) if process.ending => {
                self.broken = Some(Promise::NobodyIsLetInAtTheEnd);
            }
            Effect::Log(LogEvent::Passed(id) | LogEvent::HandedOver(id)) => process.left_to = Some(id),
            Effect::Listen => process.channel = Channel::Asked,
            Effect::Unlisten => {
                process.channel = Channel::Closed;
                process.heard.clear();
            }
            // Unless a sooner one was asked for: whoever takes what it was granted may have asked in between.
            Effect::WakeAt(at) => process.armed = Some(process.armed.map_or(at, |armed| armed.min(at))),
            // Nobody in a world watches a hold, reads the log or waits for a forced release.
            _ => {}
        }
    }

    /// A hold is told to a task, which comes for it at once, or later.
    fn granted(&mut self, p: usize, t: u8, id: Id, now: Instant, run: &mut Run<'_>) {
        let process = self.process(p);
        let task = &mut process.tasks[usize::from(t)];
        if task.asks != Some(id) {
            // Nobody is there to receive it.
            return self.on_at(p, Event::Dropped { id }, now, run);
        }
        (task.asks, task.called) = (None, false);
        let comes_later = process.left_to.take_if(|left_to| *left_to == id).is_some();
        if comes_later {
            task.offered = Some(id);
        } else {
            task.guards.push(id);
        }
        if !process.name.is_held(id, now) {
            self.broken = Some(Promise::WhatIsGrantedIsHeld);
        }
        if !comes_later {
            self.take_offered(p, id, run);
        }
    }

    /// A command leaves, if it is still wanted.
    pub(crate) fn leave(&mut self, p: usize, command: Command, run: &mut Run<'_>) {
        let now = self.now_of(p);
        let process = self.process(p);
        let mut none = || 0;
        if process
            .name
            .leaves(command.id, &env(now, &fixed_server(now, process.link, process.era), &run.settings, &mut none))
        {
            let apart = run.config.acknowledged && matches!(command.verb, Verb::Acquire { holds: 1, .. });
            let way = if apart { &mut process.apart } else { &mut process.sent };
            way.push_back(command);
        } else {
            run.tell(|| format!("    {:?} does not leave", command.id));
            self.process(p).answers.push_back((command.id, Err(Fault::WITHDRAWN)));
        }
    }
}

fn draw(drawn: &mut u64, p: usize) -> u64 {
    *drawn += 1;
    DRAWN | (p as u64) << 32 | *drawn
}

fn env<'a>(now: Instant, server: &'a Fixed, settings: &'a Settings, draw: &'a mut dyn FnMut() -> u64) -> Env<'a> {
    Env { now, server, chance: Chance::Drawn(0), shape: Shape::PLAIN, settings, log: Log::Details, draw }
}

fn fixed_server(now: Instant, link: u8, era: u8) -> Fixed {
    let (link, era) = (Link(link.into()), Era(era.into()));
    Fixed { link, era, last_answer: now, grace: GRACE, round_trip: Duration::ZERO }
}
