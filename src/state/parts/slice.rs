//! How long this process keeps a name to itself, and when it may try again after it gave it up. Whom it lets go first then, and
//! how long it waits for them, stands in `turns.rs`.
//!
//! | state | event | next |
//! | --- | --- | --- |
//! | none | took the free key | running |
//! | running | took it back soon after the end of our own hold | running, not restarted |
//! | running | took it after busy, or a slice after that end | running, restarted |
//! | running | the hold is lost | running, not restarted: an end like any other |
//! | running, over | the hold ends by our own hand | cooling: unanswered |
//! | running, freed | busy: somebody else took what some listeners were told of | cooling: listeners |
//! | cooling: unanswered | took the key by a try that left before that end: of a hold that was lost | running, over as before |
//! | cooling: unanswered | not held: nobody was told | running, over as before |
//! | cooling: unanswered | no listeners | none |
//! | cooling: unanswered | some listeners, or unknown | cooling: listeners, for one cool-down |
//! | cooling: listeners | somebody else's message, or the cool-down is over | none |
//! | cooling: listeners | took the key all the same: a wait was nearly over | over |
//!
//! All who wait hear the same message, and the first to try gets the lock. So that it is not the same few again and again,
//! those whose own slice is over for longer go first: a process that was told how many others listened lets so many have
//! their turn, and tries a little later until then.
//!
//! A process is far where its round trip is longer than a quarter of a slice: after a message its try comes when those that are
//! near have taken the key again. So what a process gives to others, cool-down and steps, changes with each turn that it takes,
//! and its own slice with it:
//!
//! | of those who listened | the key lay free | what it gives |
//! | --- | --- | --- |
//! | all were heard | | falls by an eighth |
//! | some were not | for all that it gives, and it took it | grows: by an eighth of its own turn at first, then twice as much each time, up to that turn |
//! | some were not | for less | stays: others give less, and theirs grows |
//!
//! So the least that anybody gives grows until those that are far come. It falls more slowly than it grows since messages can be
//! counted and senders cannot: whoever is heard twice is taken for two, and whoever came and went before it listened for none.
//!
//! A far process rests for some round trips when its turn is over, and lets those who listened go first when it listens again.

use std::time::Duration;

use super::{
    super::{deadline::Instant, env::Settings},
    gate::Gate,
    turns::{LONGEST, Others, Timing},
};

/// So many others go first at most, and once each: not all who listen want it, and of a crowd the order is left to chance.
const STEPS: u8 = 3;

/// A process that is far keeps the name for so many round trips at least: the key is on its way for one of them.
const KEEPS: u32 = 2;

/// What a round trip is noted in: far finer than the difference that it makes.
const DISTANCE: Duration = Duration::from_micros(100);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slice {
    started: Option<Instant>,
    /// When a hold of ours ended last, whichever way.
    ended: Option<Instant>,
    /// Most names are never given up while others listen.
    others: Option<Box<Others>>,
    /// How long the turn was that began the cool-down. Of more than fits, no more counts.
    had_ns: u32,
    /// How far the server was when the key was taken last, or nearer by what was measured since: in whole [`DISTANCE`]s.
    round_trip: u16,
    cooling: Cooling,
    /// How many others listened to the last release that was answered, as far as they go first.
    listeners: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Cooling {
    #[default]
    None,
    Unanswered,
    Listeners,
}

/// How a hold of this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Turn {
    /// The slice is still running: a waiter of this process may have it next.
    Keep,
    /// The slice is over: free the key, and let others try first.
    Yield,
}

/// Who heard the message of a release, apart from ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listeners {
    /// There was none: nothing was freed.
    Untold,
    None,
    Some(u32),
    /// Nobody could count: taken for one.
    Unknown,
}

impl Listeners {
    fn count(self) -> u8 {
        match self {
            Self::Untold | Self::None => 0,
            Self::Some(others) => u8::try_from(others).unwrap_or(STEPS).min(STEPS),
            Self::Unknown => 1,
        }
    }
}

impl Slice {
    fn timing(&self, settings: &Settings) -> Timing {
        Timing::of(settings, DISTANCE * u32::from(self.round_trip))
    }

    fn is_far(&self, settings: &Settings) -> bool {
        self.timing(settings).far.is_some()
    }

    /// How long it is by now. One of no length is none, however far the server is.
    pub(crate) fn length(&self, settings: &Settings) -> Duration {
        let asked = settings.slice;
        if asked.is_zero() {
            return asked;
        }
        if let Some(round_trip) = self.timing(settings).far {
            return asked.max(round_trip * KEEPS);
        }
        self.others.as_ref().map_or(asked, |others| (asked + others.longer()).min(LONGEST).max(asked))
    }

    /// An acquire of ours took the free key, where a round trip is so long.
    pub(crate) fn taken(&mut self, now: Instant, round_trip: Duration, settings: &Settings) {
        let took_back = self.ended.is_some_and(|ended| now < ended + self.length(settings));
        if self.started.is_none() || !took_back {
            self.started = Some(now);
        }
        // In the time of others: its own is over with this hold.
        if self.cool_down(settings).is_some_and(|(_, at)| now < at) {
            self.started = None;
        }
        self.cooling = Cooling::None;
        self.round_trip = distances(round_trip);
        let timing = self.timing(settings);
        self.others.take_if(|others| !others.taken(now, timing));
    }

    /// A try that left at `sent` was answered busy: others have their turn, or had it.
    pub(crate) fn busy(&mut self, sent: Instant, settings: &Settings) {
        let soon = self.ended.filter(|ended| sent < *ended + self.length(settings) && !self.awaits_answer());
        let listened = self.listeners > 0 && !settings.cool_down.is_zero();
        if let Some((started, ended)) = self.started.zip(soon).filter(|_| listened) {
            self.others.get_or_insert_default().turn_ended(ended, self.listeners.into(), ended - started);
            self.cooling = Cooling::Listeners;
        }
        (self.started, self.ended) = (None, None);
    }

    /// A hold ends now.
    pub(crate) fn turn(&self, now: Instant, settings: &Settings) -> Turn {
        match self.started {
            Some(started) if now < started + self.length(settings) => Turn::Keep,
            _ => Turn::Yield,
        }
    }

    /// The same for one that nobody of this process has next. Whoever is far gives the key up for a round trip anyway, so
    /// it was its turn.
    pub(crate) fn turn_of_last(&self, turn: Turn, settings: &Settings) -> Turn {
        if self.is_far(settings) && self.listeners > 0 { Turn::Yield } else { turn }
    }

    /// The release that a hold ends with was decided, of its owner's will or by force. When its slice began is not forgotten
    /// before the answer: a try that left while that hold was lost already may find the key free, and then goes on with it.
    pub(crate) fn released(&mut self, now: Instant, turn: Turn) {
        self.ended = Some(now);
        if turn == Turn::Yield {
            let had = self.started.map_or(Duration::ZERO, |started| now - started);
            self.had_ns = u32::try_from(had.as_nanos()).unwrap_or(u32::MAX);
            self.cooling = Cooling::Unanswered;
        }
    }

    /// A release that began no cool-down was answered.
    pub(crate) fn counted(&mut self, listeners: Listeners) {
        if listeners != Listeners::Untold {
            self.listeners = listeners.count();
        }
    }

    /// The release that began the cool-down was answered, or given up as unknown. Where nobody was told the turn is as little
    /// over as where a hold is lost.
    pub(crate) fn answered(&mut self, now: Instant, listeners: Listeners, settings: &Settings) {
        self.counted(listeners);
        if !self.awaits_answer() {
            return;
        }
        self.cooling = Cooling::None;
        if listeners == Listeners::Untold {
            return;
        }
        self.started = None;
        if listeners == Listeners::None || settings.cool_down.is_zero() {
            self.others = None;
            return;
        }
        let had = Duration::from_nanos(self.had_ns.into());
        self.others.get_or_insert_default().turn_ended(now, self.listeners.into(), had);
        self.cooling = Cooling::Listeners;
    }

    /// Somebody else's release was heard.
    pub(crate) fn heard_other(&mut self, now: Instant, settings: &Settings) {
        let timing = self.timing(settings);
        if let Some(others) = &mut self.others {
            others.heard(now, timing);
        }
        if self.cooling == Cooling::Listeners && self.rests_until(settings).is_none_or(|rest| rest <= now) {
            self.cooling = Cooling::None;
        }
    }

    /// A hold was lost, and nobody here freed it. Nobody was told, so nobody counted who else waits: it does not cool down, and
    /// the next end makes up for it.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.ended = Some(now);
    }

    /// A release that is to tell who listens is not answered yet.
    fn awaits_answer(&self) -> bool {
        self.cooling == Cooling::Unanswered
    }

    /// Answers take no longer than this at present, if that is known: whoever was held up, and is not far after all, rests no
    /// longer.
    pub(crate) fn comes_nearer(&mut self, round_trip: Duration) {
        if !round_trip.is_zero() {
            self.round_trip = self.round_trip.min(distances(round_trip));
        }
    }

    pub(crate) fn gate(&self, now: Instant, settings: &Settings) -> Gate {
        if let Some(rest) = self.rests_until(settings).filter(|rest| now < *rest && !self.awaits_answer()) {
            return Gate::Rest(rest);
        }
        match (self.cooling, self.cool_down(settings)) {
            (Cooling::Unanswered, _) if !self.tries_behind(settings) => return Gate::Unanswered,
            (Cooling::Listeners, Some((soon, at))) if now < at => return Gate::Until { soon, at },
            _ => {}
        }
        let goes = self.others.as_ref().and_then(|others| others.goes_after(self.timing(settings)));
        goes.filter(|at| now < *at).map_or(Gate::Open, Gate::After)
    }

    /// It is far, and nobody listened the last time: its try goes right behind its release, this once.
    fn tries_behind(&self, settings: &Settings) -> bool {
        self.is_far(settings) && self.listeners == 0
    }

    /// A try leaves, since the gate is open to it. Right behind its release it begins a turn of its own.
    pub(crate) fn tries(&mut self, settings: &Settings) {
        if self.awaits_answer() && self.tries_behind(settings) {
            self.started = None;
        }
    }

    /// How long those who were told are waited for: at least, and at most.
    fn cool_down(&self, settings: &Settings) -> Option<(Instant, Instant)> {
        let others = self.others.as_ref().filter(|_| self.cooling == Cooling::Listeners)?;
        others.come_by(self.timing(settings))
    }

    /// Until when a far process lets the others alone.
    fn rests_until(&self, settings: &Settings) -> Option<Instant> {
        let others = self.others.as_ref().filter(|_| self.is_far(settings))?;
        others.listens_at(self.timing(settings))
    }

    /// Until when there is something to remember although nobody holds or waits.
    pub(crate) fn remembers_until(&self, settings: &Settings) -> Option<Instant> {
        let cooling = self.cool_down(settings).map(|(_, at)| at);
        let ended = self.ended.map(|ended| ended + self.length(settings));
        cooling.max(ended).max(self.rests_until(settings))
    }

    /// Nothing is to be remembered any more.
    pub(crate) fn is_idle(&self, now: Instant, settings: &Settings) -> bool {
        !self.awaits_answer() && self.remembers_until(settings).is_none_or(|until| until <= now)
    }
}

fn distances(round_trip: Duration) -> u16 {
    u16::try_from(round_trip.as_micros() / DISTANCE.as_micros()).unwrap_or(u16::MAX)
}
