//! The other driver: fixed latencies. Where anything may happen in any order somebody may always be overtaken; here each
//! process has its distance from the server. The near one wants the lock over and over, the far one once. How often does the
//! near one take the free key while the far one waits?

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt::Write,
    time::Duration,
};

use crate::state::{
    Answer, Chance, Command, CommandId, Effect, Env, Era, Event, Heard, Id, Instant, Lease, Link, Log, Name, Owner,
    Patience, Settings, Shape, Told, Verb, Wish,
};

use super::{
    fixed::Fixed,
    server::{self, Key},
};

const MS: u64 = 1_000_000;

/// Whoever is overtaken more often has no bound.
const MANY: u32 = 200;

/// The far one asks at so many moments, each a run of its own, this far apart: a span that is a part of nothing else.
const MOMENTS: u64 = 120;
const APART: u64 = 1_300_000;

/// It asks when the near ones are at it.
const WARM: u64 = 40 * MS;

/// A pause that is neither short nor long for its bound.
const CHANCE: u16 = u16::MAX / 2;

/// Who takes part. The near one comes first wherever both are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Near,
    Far,
}

/// What is to happen. Of what happens in the same nanosecond the first comes first: a release before a try, and the far
/// one's try before the near one's. So who is overtaken had no luck that could have helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Release(Who, u64),
    FarTry(u64),
    NearTry(u64),
    Subscribed(Who),
    Answered(Who, u64),
    Heard(Who, Word),
    Timer(Who),
    Ends(Who, u64),
    Asks(Who, u64),
}

/// What comes through a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Confirmed,
    Message,
}

/// A run: how many tasks the near one has, how long each section lasts, how far both are away, one way, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) tasks: u64,
    pub(crate) section: u64,
    pub(crate) near: u64,
    pub(crate) far: u64,
}

/// What became of the far one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) overtaken: u32,
    pub(crate) nanos: u64,
}

struct Road {
    course: Course,
    settings: Settings,
    now: u64,
    agenda: BinaryHeap<Reverse<(u64, Next)>>,
    names: [Name<u64, ()>; 2],
    listens: [bool; 2],
    commands: BTreeMap<u64, Command>,
    answers: BTreeMap<u64, Answer>,
    key: Option<Key>,
    drawn: u64,
    asked: Option<u64>,
    got: Option<u64>,
    overtaken: u32,
}

impl Road {
    fn new(course: Course) -> Self {
        Self {
            course,
            settings: Settings::default(),
            now: 0,
            agenda: BinaryHeap::new(),
            names: [Name::default(), Name::default()],
            listens: [false; 2],
            commands: BTreeMap::new(),
            answers: BTreeMap::new(),
            key: None,
            drawn: 0,
            asked: None,
            got: None,
            overtaken: 0,
        }
    }

    fn in_time(&mut self, span: u64, next: Next) {
        self.agenda.push(Reverse((self.now + span, next)));
    }

    fn away(&self, who: Who) -> u64 {
        match who {
            Who::Near => self.course.near,
            Who::Far => self.course.far,
        }
    }

    fn round_trip(&self, who: Who) -> Duration {
        Duration::from_nanos(2 * self.away(who))
    }

    fn on(&mut self, who: Who, event: Event<u64>) {
        // An instant before which nothing happened: some look back.
        let now = Instant::from_nanos(self.now + MS);
        let mut effects = Vec::new();
        let round_trip = self.round_trip(who);
        let Self { names, drawn, settings, .. } = self;
        let mut draw = || draw(drawn);
        names[who as usize].on(event, &mut env(now, &fixed_server(now, round_trip), settings, &mut draw), &mut effects);
        for effect in effects {
            self.perform(who, effect, now);
        }
    }

    fn take(&mut self, who: Who, id: Id, now: Instant) {
        let mut effects = Vec::new();
        let round_trip = self.round_trip(who);
        let Self { names, drawn, settings, .. } = self;
        let mut draw = || draw(drawn);
        names[who as usize].take(id, &mut env(now, &fixed_server(now, round_trip), settings, &mut draw), &mut effects);
        for effect in effects {
            self.perform(who, effect, now);
        }
    }

    fn perform(&mut self, who: Who, effect: Effect<u64, ()>, now: Instant) {
        let (away, round_trip) = (self.away(who), self.round_trip(who));
        match effect {
            Effect::Send(command) | Effect::Renew(command, _) => {
                let mut none = || 0;
                let wanted = self.names[who as usize]
                    .leaves(command.id, &env(now, &fixed_server(now, round_trip), &self.settings, &mut none));
                let id = command.id.0;
                let next = match (command.verb, who) {
                    (Verb::Release { .. }, _) => Next::Release(who, id),
                    (_, Who::Far) => Next::FarTry(id),
                    (_, Who::Near) => Next::NearTry(id),
                };
                if wanted {
                    self.commands.insert(id, command);
                    self.in_time(away, next);
                }
            }
            Effect::Tell(task, Told::Granted { id, .. }) => {
                self.take(who, id, now);
                self.in_time(self.course.section, Next::Ends(who, id.0));
                match who {
                    Who::Far => self.got = Some(self.now),
                    Who::Near => self.in_time(self.course.section, Next::Asks(who, task)),
                }
            }
            Effect::Call(id, ()) => self.on(who, Event::Here { id }),
            Effect::Listen => self.in_time(away, Next::Subscribed(who)),
            Effect::Unlisten => self.listens[who as usize] = false,
            Effect::WakeAt(at) => {
                let span = u64::try_from((at - now).as_nanos()).unwrap_or(u64::MAX / 2);
                self.in_time(span, Next::Timer(who));
            }
            _ => {}
        }
    }

    fn happens(&mut self, next: Next) {
        match next {
            Next::Release(who, id) => self.arrives(who, id),
            Next::FarTry(id) => self.arrives(Who::Far, id),
            Next::NearTry(id) => self.arrives(Who::Near, id),
            Next::Subscribed(who) => {
                self.listens[who as usize] = true;
                self.in_time(self.away(who), Next::Heard(who, Word::Confirmed));
            }
            Next::Answered(who, id) => {
                if let Some(answer) = self.answers.remove(&id) {
                    self.on(who, Event::Answered { command: CommandId(id), answer: Ok(answer) });
                }
            }
            Next::Heard(who, Word::Confirmed) => self.on(who, Event::Heard(Heard::Subscribed)),
            Next::Heard(who, Word::Message) => self.on(who, Event::Heard(Heard::Message)),
            Next::Timer(who) => self.on(who, Event::Tick),
            Next::Ends(who, id) => self.on(who, Event::Dropped { id: Id(id) }),
            Next::Asks(who, task) => {
                if who == Who::Far {
                    self.asked = Some(self.now);
                }
                self.drawn += 1;
                let wish = Wish { lease: Lease::Watchdog, max_hold: None, patience: Patience::ForEver };
                self.on(who, Event::Ask { id: Id(self.drawn), owner: Owner(task), wish, waiter: task });
            }
        }
    }

    fn arrives(&mut self, who: Who, id: u64) {
        let Some(command) = self.commands.remove(&id) else { return };
        let was_free = self.key.is_none();
        let answered = server::run(&mut self.key, command.number.0, command.verb, false);
        let took = was_free && self.key.is_some();
        self.overtaken += u32::from(took && who == Who::Near && self.asked.is_some());
        let answer = server::told(answered, || {
            let listens = |who: &Who| self.listens[*who as usize];
            let all: Vec<Who> = [Who::Near, Who::Far].into_iter().filter(listens).collect();
            all.iter().for_each(|who| self.in_time(self.away(*who), Next::Heard(*who, Word::Message)));
            all.len() as u32
        });
        self.answers.insert(id, answer);
        self.in_time(self.away(who), Next::Answered(who, id));
    }

    fn run(mut self, asks: u64) -> Option<Wait> {
        (1..=self.course.tasks).for_each(|task| self.in_time(0, Next::Asks(Who::Near, task)));
        self.in_time(asks, Next::Asks(Who::Far, 1));
        while let Some(Reverse((at, next))) = self.agenda.pop() {
            self.now = at;
            self.happens(next);
            if let Some(got) = self.got {
                return Some(Wait { overtaken: self.overtaken, nanos: got - asks });
            }
            if self.overtaken > MANY {
                return None;
            }
        }
        None
    }
}

/// The worst that becomes of the far one, whenever it asks; `None` where it is overtaken without a bound.
pub(crate) fn worst(course: Course) -> Option<Wait> {
    let waits = (0..MOMENTS).map(|moment| Road::new(course).run(WARM + moment * APART));
    waits.reduce(|a, b| {
        let (a, b) = (a?, b?);
        Some(Wait { overtaken: a.overtaken.max(b.overtaken), nanos: a.nanos.max(b.nanos) })
    })?
}

/// The courses of the table: tasks, milliseconds of a section, one way to both in tenths of a millisecond.
pub(crate) fn courses() -> impl Iterator<Item = Course> {
    let ways = [(1, 10), (1, 20), (1, 40), (1, 80), (1, 250), (4, 10)];
    let course =
        |tasks, section, (near, far)| Course { tasks, section: section * MS, near: near * MS / 10, far: far * MS / 10 };
    [1, 16].into_iter().flat_map(move |tasks| {
        [1, 20, 100].into_iter().flat_map(move |section| ways.into_iter().map(move |way| course(tasks, section, way)))
    })
}

pub(crate) fn table() -> String {
    let mut table =
        String::from("| tasks | section ms | near, one way ms | far | overtaken at most | waited at most ms |\n");
    table.push_str("| --- | --- | --- | --- | --- | --- |\n");
    let ms = |nanos: u64| nanos as f64 / MS as f64;
    for course in courses() {
        let Course { tasks, section, near, far } = course;
        let _ = write!(table, "| {tasks} | {} | {:.1} | {:.1} | ", ms(section), ms(near), ms(far));
        let _ = match worst(course) {
            Some(wait) => writeln!(table, "{} | {:.0} |", wait.overtaken, ms(wait.nanos)),
            None => writeln!(table, "no bound | – |"),
        };
    }
    table
}

fn draw(drawn: &mut u64) -> u64 {
    *drawn += 1;
    *drawn
}

fn env<'a>(now: Instant, server: &'a Fixed, settings: &'a Settings, draw: &'a mut dyn FnMut() -> u64) -> Env<'a> {
    Env { now, server, chance: Chance::Drawn(CHANCE), shape: Shape::PLAIN, settings, log: Log::Warnings, draw }
}

fn fixed_server(now: Instant, round_trip: Duration) -> Fixed {
    Fixed { link: Link(1), era: Era(0), last_answer: now, grace: Duration::from_millis(15), round_trip }
}
