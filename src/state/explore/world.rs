//! What a world is: processes, the commands on their way, the key, the time, and what may still befall it.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    sync::Arc,
};

use crate::state::{Answer, Command, CommandId, Fault, Heard, HoldNumber, Id, Instant, Name, Share, Verb};

use super::{
    config::Config,
    process::Run,
    promise::Promise,
    search::Worlds,
    server::{Key, TICK},
    step::Step,
};

/// Numbers with this bit were drawn, and are renamed by a fingerprint.
pub(crate) const DRAWN: u64 = 1 << 63;

/// A world that is late has so much left before the next tick: less than the margin of any lease.
const LATE_NANOS: u64 = 30_000_000;

/// No instant is smaller than so many ticks: whoever looks back in time finds some.
const FIRST_TICK: u64 = 100;

/// Guards share nothing here.
impl<W> Share<W> for () {
    fn of(_: &W) -> Self {}
}

/// Who waits for an answer of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    Task(u8),
    Unlock(u8, Id),
    Extension(u8),
    Force,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    /// So often it will ask.
    pub(crate) left: u8,
    pub(crate) asks: Option<Id>,
    pub(crate) offered: Option<Id>,
    /// It is its turn to try.
    pub(crate) called: bool,
    pub(crate) guards: Vec<Id>,
    /// Tickets without a guard.
    pub(crate) detached: Vec<Id>,
    /// Extensions that were not answered.
    pub(crate) extensions: u8,
    /// Unlocks that were not answered.
    pub(crate) unlocks: u8,
    /// Unlocks that failed: somebody may try again.
    pub(crate) failed: Vec<Id>,
}

/// A process's subscription, as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    Closed,
    Asked,
    Open,
}

#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) name: Name<Waiter, ()>,
    pub(crate) tasks: Vec<Task>,
    /// Decided, and not sent.
    pub(crate) outbox: VecDeque<Command>,
    /// On their way to the server, in order, and the answers on their way back.
    pub(crate) sent: VecDeque<Command>,
    pub(crate) answers: VecDeque<(CommandId, Result<Answer, Fault>)>,
    /// The same of acquires whose grants replicas are to know of: they take another way.
    pub(crate) apart: VecDeque<Command>,
    pub(crate) apart_answers: VecDeque<(CommandId, Result<Answer, Fault>)>,
    pub(crate) link: u8,
    /// Which server answers, and whether the state was told.
    pub(crate) era: u8,
    pub(crate) knows_era: bool,
    pub(crate) channel: Channel,
    pub(crate) heard: VecDeque<Heard>,
    pub(crate) armed: Option<Instant>,
    /// When something happened to it last, if that is later than the tick: its time never goes back.
    pub(crate) ahead: Option<Instant>,
    /// The live hold whose time is over although nobody said so yet.
    pub(crate) over: Option<HoldNumber>,
    /// Whom a hold is about to be left to, who comes for it later: what its own command brought is taken at once.
    pub(crate) left_to: Option<Id>,
    /// Who was offered a hold and does not take it, and for how many ticks.
    pub(crate) turn: Option<(Id, u8)>,
    /// So many ticks a hold has been offered to somebody who does not take it.
    pub(crate) parked: u8,
    pub(crate) drawn: u64,
    pub(crate) ending: bool,
    pub(crate) closed: bool,
    pub(crate) dead: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) time: u8,
    pub(crate) late: bool,
    pub(crate) key: Option<Key>,
    /// A step touches one of them; the others are shared with the world that it was taken in.
    pub(crate) processes: Vec<Arc<Process>>,
    /// Copies of commands that may run at any time.
    pub(crate) strays: Vec<(HoldNumber, Verb)>,
    pub(crate) left: Left,
    pub(crate) seen_to_force: Option<u64>,
    /// What the first process has forced.
    pub(crate) forced: Option<u64>,
    /// So many ticks ago the server lost a key, or somebody forced it.
    pub(crate) harmed: Option<u8>,
    pub(crate) stray_ran: bool,
    /// The key went without a message.
    pub(crate) silent: bool,
    /// A process whose hold was forced has heard of it.
    pub(crate) notified: bool,
    /// So many ticks the key has been free while somebody waits and nothing is under way.
    pub(crate) free: u8,
    pub(crate) broken: Option<Promise>,
}

/// What may still befall a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) cuts: u8,
    pub(crate) interruptions: u8,
    pub(crate) drops: u8,
    pub(crate) server_losses: u8,
    pub(crate) deaths: u8,
    pub(crate) repeats: u8,
    pub(crate) requeues: u8,
    pub(crate) endings: u8,
    pub(crate) closes: u8,
    pub(crate) failovers: u8,
    pub(crate) detaches: u8,
    pub(crate) extensions: u8,
    pub(crate) forces: u8,
    pub(crate) too_few: u8,
}

impl Hash for Process {
    /// How much was drawn is no part of what a process is.
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.name.hash(h);
        self.tasks.hash(h);
        (&self.outbox, &self.sent, &self.answers).hash(h);
        (&self.apart, &self.apart_answers).hash(h);
        (self.era, self.knows_era, self.ending, self.closed).hash(h);
        (self.link, self.channel, &self.heard, self.armed, self.ahead, self.over, self.parked, self.dead).hash(h);
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.key.hash(h);
        self.processes.hash(h);
        (&self.strays, &self.left, (self.seen_to_force, self.forced)).hash(h);
        (self.time, self.late, self.harmed, self.stray_ran, self.silent).hash(h);
        (self.notified, self.free, self.broken).hash(h);
    }
}

impl Worlds for Config {
    type World = World;
    type Step = Step;
    type Promise = Promise;
    type Run<'a> = Run<'a>;

    fn first(&self) -> World {
        World::new(self)
    }

    fn run(&self) -> Run<'_> {
        Run::new(self)
    }

    fn choices(&self, world: &World, out: &mut Vec<Step>) {
        world.choices(self, out);
    }

    fn after(&self, world: &World, step: Step, run: &mut Run<'_>) -> World {
        world.after(step, run)
    }

    fn breaks(&self, world: &World, run: &Run<'_>) -> Option<Promise> {
        world.breaks(&run.settings)
    }

    fn panicked(text: &'static str) -> Promise {
        Promise::NothingPanics(text)
    }
}

impl Process {
    fn new(asks: &[u8]) -> Self {
        let task = |&left| Task { left, ..Task::default() };
        Self {
            name: Name::default(),
            tasks: asks.iter().map(task).collect(),
            outbox: VecDeque::new(),
            sent: VecDeque::new(),
            answers: VecDeque::new(),
            apart: VecDeque::new(),
            apart_answers: VecDeque::new(),
            link: 0,
            era: 0,
            knows_era: true,
            channel: Channel::Closed,
            heard: VecDeque::new(),
            armed: None,
            ahead: None,
            over: None,
            left_to: None,
            turn: None,
            parked: 0,
            drawn: 0,
            ending: false,
            closed: false,
            dead: false,
        }
    }

    /// What is left of one that died.
    pub(crate) fn dead(link: u8) -> Self {
        Self { dead: true, link, ..Self::new(&[]) }
    }

    /// Commands or answers are on their way.
    pub(crate) fn is_under_way(&self) -> bool {
        let apart = self.apart.is_empty() && self.apart_answers.is_empty();
        !(self.outbox.is_empty() && self.sent.is_empty() && self.answers.is_empty() && apart)
    }

    /// Nothing will come to it but time.
    pub(crate) fn is_quiet(&self) -> bool {
        let hears = !self.heard.is_empty() || self.channel == Channel::Asked;
        self.knows_era && !self.is_under_way() && !hears && self.name.is_quiet()
    }
}

impl Left {
    fn of(config: &Config) -> Self {
        Self {
            cuts: config.cuts,
            interruptions: config.interruptions,
            drops: config.drops,
            server_losses: config.server_losses,
            deaths: config.deaths,
            repeats: config.repeats,
            requeues: config.requeues,
            endings: config.endings,
            closes: config.closes,
            failovers: config.failovers,
            detaches: config.detaches,
            extensions: config.extensions,
            forces: config.forces,
            too_few: config.too_few,
        }
    }
}

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            time: 0,
            late: false,
            key: None,
            processes: config.tasks.iter().map(|asks| Arc::new(Process::new(asks))).collect(),
            strays: Vec::new(),
            left: Left::of(config),
            seen_to_force: None,
            forced: None,
            harmed: None,
            stray_ran: false,
            silent: false,
            notified: false,
            free: 0,
            broken: None,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        let tick = u64::try_from(TICK.as_nanos()).unwrap_or(u64::MAX);
        let began = tick * (u64::from(self.time) + FIRST_TICK);
        Instant::from_nanos(if self.late { began + tick - LATE_NANOS } else { began })
    }

    /// A timer that is due at once fires a moment later than the tick.
    pub(crate) fn now_of(&self, p: usize) -> Instant {
        self.processes[p].ahead.unwrap_or_else(|| self.now())
    }

    pub(crate) fn process(&mut self, at: usize) -> &mut Process {
        Arc::make_mut(&mut self.processes[at])
    }

    /// Those that live.
    pub(crate) fn living(&self) -> impl Iterator<Item = (usize, &Process)> {
        self.processes.iter().enumerate().map(|(at, process)| (at, &**process)).filter(|(_, process)| !process.dead)
    }

    /// Which processes believe in a hold now, and in which.
    pub(crate) fn believers(&self) -> impl Iterator<Item = (usize, u64)> {
        self.living().filter_map(|(at, process)| Some((at, process.name.believed(self.now_of(at))?.1.0)))
    }

    /// Nothing has befallen it yet.
    pub(crate) fn is_untouched(&self, config: &Config) -> bool {
        self.left == Left::of(config)
    }

    /// Some process will see to it that this hold does not stay.
    pub(crate) fn answers_for(&self, number: u64) -> bool {
        self.living().any(|(_, process)| process.name.answers_for(HoldNumber(number)))
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.living().all(|(_, process)| process.is_quiet())
    }

    /// A copy of a command may run at any time from now on. Equal ones stand together.
    pub(crate) fn stray(&mut self, command: Command) {
        let copy = (command.number, command.verb);
        let at = self.strays.iter().position(|stray| *stray == copy).unwrap_or(self.strays.len());
        self.strays.insert(at, copy);
    }
}
