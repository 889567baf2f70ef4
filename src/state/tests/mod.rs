//! Events in, effects out, compared as values: each test is a story of one name, and each file is about one event. What must
//! always be true is checked after every event.

mod acknowledged;
mod answered;
mod asked;
mod closed;
mod deadlines;
mod detached;
mod dropped;
mod ending;
mod extended;
mod forced;
mod gated;
mod given_away;
mod handed_over;
mod heard;
mod leaving;
mod memory;
mod missed;
mod nested;
mod new_era;
mod noted;
mod replicas;
mod settled;
mod slice;
mod split;
mod ticked;
mod turns;
mod unlocked;
mod untaken;
mod waits;

#[allow(clippy::duplicate_mod, reason = "the explorer compiles these stories beside its own")]
#[path = "../explore/fixed.rs"]
mod fixed;

use std::time::Duration;

use self::fixed::Fixed;
use super::{
    Answer, Beyond, Cause, Chance, Command, CommandId, Effect, End, Env, Era, Event, Failure, Fault, FaultKind, Grants,
    Heard, HoldNumber, Id, Instant, Lease, LeaseRequest, Link, Log, LogEvent, Margin, Name, Note, Owner, Patience,
    Published, Raises, Settings, Shape, Share, Told, Unlockable, Verb, WATCHED, Wish,
};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(30);
const FIXED: Lease = Lease::Fixed(LEASE);
const FRESH: Verb = Verb::Acquire { lease: LEASE, holds: 1 };
const FREE: Verb = Verb::Release { holds: 0, note: Note::Unused };
const OURS: Answer = Answer::Granted { holds: 1, fence: None };
const BUSY: Answer = Answer::Busy { retry_in: Some(LEASE) };
/// Nobody else listened.
const FREED: Answer = Answer::Released { holds: 0, published: Published::To(0) };
const RENEWED: Answer = Answer::Done { published: Published::No };

/// What guards share: who asked for the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of(&'static str);

impl Share<&'static str> for Of {
    fn of(waiter: &&'static str) -> Self {
        Self(waiter)
    }
}

type Effects = Vec<Effect<&'static str, Of>>;

/// One name, and the world around it as a test wants it. Numbers are drawn from one on.
struct Story {
    name: Name<&'static str, Of>,
    settings: Settings,
    shape: Shape,
    ms: u64,
    grace: Duration,
    round_trip: Duration,
    drawn: u64,
    link: u32,
    era: u32,
    chance: u16,
    /// In milliseconds; just now, if nothing is said.
    last_answer: Option<u64>,
    /// Commands that are to be sent stay here, instead of leaving at once.
    waits: Option<Vec<Command>>,
    /// What the last renewal was for. Renewals are shown as any command that is sent.
    raises: Option<Raises>,
    logged: Vec<LogEvent>,
    ended: Vec<End>,
    wakes_at: Option<u64>,
    /// Neither for what they are given, nor when they are called.
    nobody_comes: bool,
    missed: Vec<&'static str>,
}

impl Story {
    /// Its slice is so long that it is never over by itself.
    fn new() -> Self {
        Self {
            name: Name::default(),
            settings: Settings { slice: Duration::from_secs(600), ..Settings::default() },
            shape: Shape::PLAIN,
            ms: 1_000,
            grace: 15 * MS,
            round_trip: Duration::ZERO,
            drawn: 0,
            link: 1,
            era: 1,
            chance: 0,
            last_answer: None,
            waits: None,
            raises: None,
            logged: Vec::new(),
            ended: Vec::new(),
            wakes_at: None,
            nobody_comes: false,
            missed: Vec::new(),
        }
    }

    /// One whose slice is over whenever a hold ends.
    fn yielding() -> Self {
        let mut story = Self::new();
        story.settings.slice = Duration::ZERO;
        story
    }

    /// Commands wait for their sending.
    fn waiting(mut self) -> Self {
        self.waits = Some(Vec::new());
        self
    }

    fn now(&self) -> Instant {
        at(self.ms)
    }

    fn with<R>(&mut self, ask: impl FnOnce(&mut Name<&'static str, Of>, &mut Env<'_>) -> R) -> R {
        let now = self.now();
        let last_answer = self.last_answer.map_or(now, at);
        let Self { name, settings, shape, grace, chance, round_trip, drawn, link, era, .. } = self;
        let mut draw = || {
            *drawn += 1;
            *drawn
        };
        let server = Fixed { link: Link(*link), era: Era(*era), last_answer, grace: *grace, round_trip: *round_trip };
        let log = Log::Details;
        let mut env =
            Env { now, server: &server, chance: Chance::Drawn(*chance), shape: *shape, settings, log, draw: &mut draw };
        ask(name, &mut env)
    }

    /// What happens, and what is done about it. Log lines, ends and timers are kept apart.
    fn on(&mut self, event: Event<&'static str>) -> Effects {
        let mut effects = Vec::new();
        self.with(|name, env| name.on(event, env, &mut effects));
        self.perform(effects)
    }

    /// Whoever asked comes at once for what its own command brought, and when it is called; and later for what others left it.
    fn perform(&mut self, effects: Effects) -> Effects {
        let (mut by_others, mut comes, mut called) = (false, Vec::new(), Vec::new());
        for effect in &effects {
            match effect {
                Effect::Call(id, _) => called.push(*id),
                Effect::Missed(of) => self.missed.push(of.0),
                Effect::Log(event @ (LogEvent::Passed(_) | LogEvent::HandedOver(_))) => {
                    by_others = true;
                    self.logged.push(*event);
                }
                Effect::Tell(_, Told::Granted { id, .. }) if !std::mem::take(&mut by_others) => {
                    comes.push(id.0 - 1_000);
                }
                Effect::Send(command) => self.sends(*command),
                Effect::Renew(command, raises) => {
                    self.raises = Some(*raises);
                    self.sends(*command);
                }
                Effect::Log(event) => self.logged.push(*event),
                Effect::Ended(_, end) => self.ended.push(*end),
                Effect::WakeAt(at) => self.wakes_at = Some(at.as_nanos() / 1_000_000),
                Effect::Withdraw(_) | Effect::Tell(..) | Effect::Listen | Effect::Unlisten => {}
            }
        }
        if !self.nobody_comes {
            comes.into_iter().for_each(|id| assert!(self.take(id)));
        }
        let is_kept = |effect: &Effect<_, _>| {
            matches!(
                effect,
                Effect::Log(_) | Effect::WakeAt(_) | Effect::Ended(..) | Effect::Call(..) | Effect::Missed(_)
            )
        };
        let shows = |effect| if let Effect::Renew(command, _) = effect { Effect::Send(command) } else { effect };
        let mut shown: Effects = effects.into_iter().filter(|effect| !is_kept(effect)).map(shows).collect();
        if !self.nobody_comes {
            shown.extend(called.into_iter().flat_map(|id| self.on(Event::Here { id })));
        }
        shown
    }

    fn sends(&mut self, command: Command) {
        match &mut self.waits {
            Some(waits) => waits.push(command),
            None => assert!(self.leaves(command.id.0), "{command:?} is not wanted"),
        }
    }

    fn leaves(&mut self, command: u64) -> bool {
        self.with(|name, env| name.leaves(CommandId(command), env))
    }

    fn take(&mut self, id: u64) -> bool {
        let mut effects = Vec::new();
        let taken = self.with(|name, env| name.take(Id(1_000 + id), env, &mut effects));
        self.perform(effects);
        taken
    }

    fn asks(&mut self, who: &'static str, id: u64, wish: Wish) -> Effects {
        self.on(Event::Ask { id: Id(1_000 + id), owner: Owner(id), wish, waiter: who })
    }

    fn ask(&mut self, who: &'static str, id: u64, lease: Lease, patience: Patience) -> Effects {
        self.asks(who, id, Wish { lease, max_hold: None, patience })
    }

    fn locks(&mut self, who: &'static str, id: u64) -> Effects {
        self.ask(who, id, Lease::Watchdog, Patience::ForEver)
    }

    /// The same owner asks once more.
    fn nests(&mut self, who: &'static str, owner: u64, id: u64) -> Effects {
        let wish = Wish { lease: Lease::Watchdog, max_hold: None, patience: Patience::ForEver };
        self.on(Event::Ask { id: Id(1_000 + id), owner: Owner(owner), wish, waiter: who })
    }

    /// `a` has the lock, as hold 1 by command 2.
    fn held(mut self) -> Self {
        self.locks("a", 1);
        assert_eq!(self.answered(2, OURS), [granted("a", 1)]);
        self
    }

    /// The same with a fixed lease.
    fn held_fixed(mut self) -> Self {
        self.ask("a", 1, FIXED, Patience::ForEver);
        assert_eq!(self.answered(2, OURS), [granted("a", 1)]);
        self
    }

    fn answered(&mut self, command: u64, answer: Answer) -> Effects {
        self.on(Event::Answered { command: CommandId(command), answer: Ok(answer) })
    }

    fn failed(&mut self, command: u64, kind: FaultKind, may_have_run: bool) -> Effects {
        self.on(Event::Answered { command: CommandId(command), answer: Err(Fault { kind, may_have_run }) })
    }

    fn silent(&mut self, command: u64) -> Effects {
        self.failed(command, FaultKind::Silent, true)
    }

    fn dropped(&mut self, id: u64) -> Effects {
        self.on(Event::Dropped { id: Id(1_000 + id) })
    }

    fn unlocks(&mut self, who: &'static str, id: u64) -> Effects {
        self.on(Event::Unlock { id: Id(1_000 + id), waiter: who })
    }

    fn hears(&mut self, heard: Heard) -> Effects {
        self.on(Event::Heard(heard))
    }

    /// The time passes that the runtime was asked to wake us at.
    fn tick_at(&mut self, ms: u64) -> Effects {
        self.ms = ms;
        self.on(Event::Tick)
    }

    fn gives_away(&mut self, id: u64) -> (Option<u64>, Effects) {
        let mut effects = Vec::new();
        let number = self.with(|name, env| name.give_away(Id(1_000 + id), env, &mut effects));
        (number.map(|number| number.0), self.perform(effects))
    }

    fn is_held(&self, id: u64) -> bool {
        self.name.is_held(Id(1_000 + id), self.now())
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn until(ms: u64) -> Patience {
    Patience::Until(at(ms))
}

fn send(id: u64, number: u64, verb: Verb) -> Effect<&'static str, Of> {
    Effect::Send(Command { id: CommandId(id), number: HoldNumber(number), verb })
}

fn tell(who: &'static str, told: Told<Of>) -> Effect<&'static str, Of> {
    Effect::Tell(who, told)
}

fn failed(who: &'static str, failure: Failure) -> Effect<&'static str, Of> {
    tell(who, Told::Failed(failure))
}

fn granted(who: &'static str, id: u64) -> Effect<&'static str, Of> {
    tell(who, Told::Granted { id: Id(1_000 + id), share: Of(who), fence: None })
}

/// To an owner that holds since `a` asked.
fn joined(who: &'static str, id: u64) -> Effect<&'static str, Of> {
    tell(who, Told::Granted { id: Id(1_000 + id), share: Of("a"), fence: None })
}

fn offered(who: &'static str, id: u64) -> Effect<&'static str, Of> {
    tell(who, Told::Granted { id: Id(1_000 + id), share: Of(who), fence: None })
}

fn withdraw(command: u64) -> Effect<&'static str, Of> {
    Effect::Withdraw(CommandId(command))
}

fn hand_over(to: u64, lease: Duration) -> Verb {
    Verb::HandOver { to: HoldNumber(to), lease }
}

fn nested(holds: u32) -> Verb {
    Verb::Acquire { lease: LEASE, holds }
}
