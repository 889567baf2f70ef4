//! Judges what sections see, at the instant at which they see it: time is virtual and nothing runs beside it, so that what
//! two believe can be compared exactly. It looks at the store from outside, and never touches a lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use relatch::{EmbeddedStore, Owner, Uuid, embedded::Traced};
use tokio::{sync::Notify, time::Instant};

use super::{
    COMMAND, LONGEST_RELEASE, NAMES,
    crew::Mix,
    gatherings::Gathering,
    nodes::Replaced,
    shadow::{Field, Shadow},
    tokens::Tokens,
};
use crate::harness::either::Named;
use crate::storm::{
    checker::{self, Bounds, Chronicle, Life},
    counter::{Guard, Raise},
    log::{Event, Line},
};

/// What others are given, and what a process keeps, grows no further where nobody is heard.
pub(super) const LONGEST: Duration = Duration::from_millis(500);
/// So many others go first at most, and one of them did.
const STEPS: usize = 3;
/// A message to somebody, and a try back, on a day without weather.
const ROUND_TRIP: Duration = Duration::from_millis(10);
/// A lock that is free is taken within this by whoever waits and leaves it to nobody: a few ways there and back.
pub(super) const AT_ONCE: Duration = Duration::from_millis(110);
/// Whoever is far rests for so many round trips at most.
const RESTS: u32 = 12;
/// Nobody who waits is passed over by one other process for so long, and so often.
pub(super) const MONOPOLY: (Duration, usize) = (Duration::from_millis(900), 25);

/// What the slowest client does, as far as bounds come from it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    pub(super) watchdog: Duration,
    pub(super) slice: Duration,
    /// The longest way to the store, while nothing befalls anybody.
    pub(super) way: Duration,
    /// Some are far by that: four ways there and back take longer than a slice of theirs.
    pub(super) far: bool,
    /// Names that nobody is told of.
    pub(super) silent: [bool; NAMES.len()],
}

impl Habits {
    /// After so long without a fault everything that one left behind is over: a pause between links, a pause before a
    /// repetition, a command that waited, a third of a watchdog's lease.
    pub(super) fn settled(self) -> Duration {
        Duration::from_millis(2_350) + self.watchdog / 3
    }

    /// After its own turn, or another's, a process leaves a lock to others for no longer: a slice, or what it gives others that it
    /// did not hear. One that is far by the way of this day rests, and then gives them up to twice what it had and rested.
    pub(super) fn leaves(self, gives: Duration) -> Duration {
        let rest = 2 * self.way * RESTS;
        let far = if self.far { rest + (2 * (rest + gives)).min(LONGEST) } else { Duration::ZERO };
        self.slice.max(far).max(gives)
    }

    /// A process keeps a lock among its own tasks for no longer: where nobody comes, or for two round trips, of which none is
    /// longer than a command may take.
    fn longest_slice(self) -> Duration {
        self.slice.max(LONGEST).max(2 * COMMAND)
    }
}

/// What judges, and what it knows.
#[derive(Debug)]
pub(super) struct Referee {
    pub(super) store: EmbeddedStore,
    start: Instant,
    /// Somebody complained.
    pub(super) complained: Notify,
    /// Where those that wait listen.
    pub(super) channels: [String; NAMES.len()],
    book: Mutex<Book>,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) complaint: Option<Complaint>,
    pub(super) habits: Habits,
    pub(super) lines: Vec<(u64, Line)>,
    /// What befell the store and its clients.
    pub(super) faults: Vec<(Duration, String)>,
    pub(super) trace: Vec<Traced>,
    pub(super) holds: usize,
    pub(super) sections: usize,
    /// Of each name's counter.
    histories: [Vec<Raise>; NAMES.len()],
    /// Those raises whose hold the store may have lost.
    excused: BTreeSet<(usize, usize)>,
    /// How many lines there were when a client ended, and when.
    ends: BTreeMap<u64, (usize, Duration)>,
    pub(super) shadow: Shadow,
    pub(super) seats: BTreeMap<u64, Seat>,
    pub(super) drawn: u64,
    aims: bool,
    /// Since when nothing has befallen anybody.
    pub(super) calm: Option<Duration>,
    pub(super) losses: Vec<Loss>,
    /// When each client's links for commands were replaced, by node, and how much had happened by then.
    pub(super) links: BTreeMap<(Uuid, usize), Vec<(usize, Duration)>>,
    /// Since when nothing befalls anybody but that nodes fail over.
    pub(super) only_nodes: Option<Duration>,
    /// Holds that the store was seen to lose.
    pub(super) doomed: Vec<Doomed>,
    pub(super) forces: BTreeMap<u64, Force>,
    /// Every client, and its watchdog's lease.
    pub(super) clients: BTreeMap<Uuid, Duration>,
    pub(super) dead: BTreeSet<Uuid>,
    /// When clients crashed: nobody tells the store.
    pub(super) crashes: Vec<Duration>,
    /// Clients with a slice that is over before anybody else could come: they let nobody go first.
    pub(super) hasty: BTreeSet<u64>,
    /// Fields that their sections let go of, and when.
    pub(super) let_go: BTreeMap<Field, Duration>,
    /// Until then keys may outlive what their holders know.
    pub(super) clock_back: Duration,
    /// Since when there is no replica, where one is to know of grants.
    pub(super) no_replica: Option<Duration>,
    pub(super) orphans: [Option<(Field, Duration)>; NAMES.len()],
    pub(super) idle: [Option<Duration>; NAMES.len()],
    /// When one of a client's sections got a name last.
    pub(super) entered: BTreeMap<(u64, usize), Duration>,
    /// Since when more have listened than waited.
    pub(super) overheard: [Option<Duration>; NAMES.len()],
    pub(super) runs: [Run; NAMES.len()],
    /// The newest token that a section was given of each name.
    pub(super) fences: [u64; NAMES.len()],
    pub(super) tokens: Tokens,
    /// Acquisitions of several names that have no answer yet.
    pub(super) gatherings: BTreeMap<u64, Gathering>,
}

/// What must not be.
#[derive(Clone, Debug)]
pub(super) struct Complaint {
    pub(super) rule: &'static str,
    pub(super) what: String,
    pub(super) at: Duration,
    pub(super) name: Option<usize>,
}

/// The store lost what it had at this instant.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    pub(super) name: Option<usize>,
    pub(super) at: Duration,
    /// Where it was another master that took over.
    pub(super) replaced: Option<Replaced>,
}

/// A hold that the store was seen to lose.
#[derive(Debug)]
pub(super) struct Doomed {
    pub(super) field: Field,
    pub(super) at: Duration,
    /// How often it had come to be by then.
    pub(super) times: u32,
}

#[derive(Debug)]
pub(super) struct Force {
    pub(super) client: u64,
    pub(super) name: usize,
    /// It may run until then; not known while it is under way.
    pub(super) until: Option<Duration>,
}

/// One client took a name again and again.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) client: u64,
    pub(super) times: usize,
    pub(super) since: Duration,
}

/// One section, as the referee sees it.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) client: u64,
    pub(super) id: Uuid,
    pub(super) name: usize,
    pub(super) lock: Named,
    /// Its holds have tokens.
    pub(super) fenced: bool,
    /// That of the newest hold.
    pub(super) fence: Option<u64>,
    /// Whoever believes; of a mutex it is known with the guard.
    pub(super) owner: Option<Owner>,
    pub(super) watchdog: Duration,
    /// The longest lease that was asked for.
    pub(super) longest: Duration,
    /// Guards that were not let go of, of lost holds too.
    pub(super) guards: u32,
    /// Those of the hold that is believed in.
    pub(super) tickets: u32,
    pub(super) watched: u32,
    pub(super) bounded: bool,
    /// It waits in the open, at a free lock or in the queue, since then.
    pub(super) waits: Option<Duration>,
    /// It stands where it asked: nested ones and single tries have no place.
    pub(super) queues: bool,
    pub(super) asked: Duration,
    /// It asked within its own hold, and has no answer yet. If that hold is lost meanwhile it waits like anybody.
    pub(super) nests: bool,
    pub(super) hold: Option<Field>,
    /// Only a nested acquisition under way keeps the hold.
    pub(super) bridges: bool,
    /// It is asked for with others, and may be held while those are missing.
    pub(super) gathers: bool,
    pub(super) over: bool,
}

/// What the store has of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) field: Field,
    pub(super) count: u32,
}

/// How an acquisition asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) lease: Duration,
    pub(super) watched: bool,
    pub(super) bounded: bool,
    pub(super) nested: bool,
    pub(super) once: bool,
}

impl Referee {
    pub(super) fn new(store: EmbeddedStore, mix: &Mix) -> Self {
        let habits = mix.habits();
        store.start_trace();
        Self {
            store,
            start: Instant::now(),
            complained: Notify::new(),
            channels: std::array::from_fn(|name| mix.channel(name)),
            book: Mutex::new(Book { habits, ..Book::default() }),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The book, with everything that has happened at the store by now.
    pub(super) fn up_to_date(&self) -> MutexGuard<'_, Book> {
        let trace = self.store.take_trace();
        let mut book = self.book();
        for traced in trace {
            book.shadow.hear(&traced);
            book.hears_of_links(&traced);
            if let (Some((rule, what)), None) = (book.shadow.wrong.take(), &book.complaint) {
                book.complaint = Some(Complaint { rule, what, at: traced.at, name: None });
                self.complained.notify_one();
            }
            book.trace.push(traced);
        }
        book
    }

    pub(super) fn complain(&self, rule: &'static str, name: Option<usize>, what: impl fmt::Display) {
        let at = self.now();
        let mut book = self.book();
        if book.complaint.is_none() {
            book.complaint = Some(Complaint { rule, what: what.to_string(), at, name });
        }
        drop(book);
        self.complained.notify_one();
    }

    /// What befell somebody, for the reader.
    pub(super) fn tell(&self, fault: String) {
        let at = self.now();
        self.book().faults.push((at, fault));
    }

    pub(super) fn note(&self, client: u64, task: u64, section: u64, event: Event) {
        let at = self.now();
        self.book().lines.push((client, Line { at, task, section, event }));
    }

    /// What a counter that only its lock guards shows.
    pub(super) fn reads(&self, name: usize) -> u64 {
        self.book().histories[name].len() as u64
    }

    /// It is raised by one from what was read, under a guard of a section.
    pub(super) fn raises(&self, seat: u64, from: u64, number: u64) {
        let now = self.now();
        let mut guard = self.book();
        let book = &mut *guard;
        let Some((name, client)) = book.seats.get(&seat).map(|seat| (seat.name, seat.client)) else { return };
        let excused = book.is_excused(&book.seats[&seat], now);
        let at = book.histories[name].len();
        let read = usize::try_from(from).unwrap_or(usize::MAX);
        let lost = !excused && (read..at).any(|other| !book.excused.contains(&(name, other)));
        if excused {
            book.excused.insert((name, at));
        }
        book.histories[name].push(Raise { from, by: Guard { process: client, life: 0, number } });
        drop(guard);
        if lost {
            self.complain("an update is lost", Some(name), format!("there are {at}, section {seat} read {from}"));
        }
    }

    /// Asks the checker of the storm for what it finds in all that was written down.
    pub(super) fn check(&self, longest: Duration) {
        let chronicle = self.book().chronicle(longest);
        for found in checker::check(chronicle).complaints.into_iter().take(1) {
            self.complain("a complaint of the storm's checker", None, format!("{}\n{}", found.what, found.excerpt));
        }
    }

    pub(super) fn number(&self) -> u64 {
        let mut book = self.book();
        book.drawn += 1;
        book.drawn
    }

    /// Whether nothing befalls anybody now.
    pub(super) fn is_calm(&self) -> bool {
        self.book().calm.is_some()
    }

    /// Whether faults may meet what sections ask.
    pub(super) fn may_aim(&self) -> bool {
        self.book().aims
    }

    pub(super) fn aims(&self, aims: bool) {
        self.book().aims = aims;
    }

    /// From now on nothing befalls anybody; or it may again.
    pub(super) fn calm(&self, calm: bool) {
        let now = self.now();
        self.book().calm = calm.then_some(now);
    }

    /// Whether whatever befell anybody is over.
    pub(super) fn is_settled(&self) -> bool {
        let now = self.now();
        self.book().is_settled(now)
    }

    /// What the store has of a name at this instant.
    pub(super) fn peek(&self, name: usize) -> Option<Kept> {
        if let Some(field) = self.store.string(NAMES[name]) {
            return Some(Kept { field, count: 1 });
        }
        let (field, count) = self.store.hash(NAMES[name]).pop()?;
        Some(Kept { field, count: count.parse().unwrap_or(u32::MAX) })
    }
}

/// What befalls the store or a client, for whoever has to know.
impl Referee {
    /// The store is about to lose a name, or all of them and all that it counted.
    pub(super) fn loses(&self, name: Option<usize>) {
        let names = name.map_or(0..NAMES.len(), |name| name..name + 1);
        let seen: Vec<_> = names.filter_map(|name| self.peek(name)).collect();
        let at = self.now();
        let mut book = self.up_to_date();
        // Where an old master goes on, whoever asks that is told that all is well.
        let rivals = book.losses.iter().any(|loss| at <= loss.until());
        for Kept { field, .. } in seen.into_iter().filter(|_| !rivals) {
            let times = book.shadow.times(&field);
            book.doomed.push(Doomed { field, at, times });
        }
        book.losses.push(Loss { name, at, replaced: None });
        for holder in name.map_or(0..NAMES.len(), |name| name..name + 1) {
            book.shadow.holders[holder] = None;
            if name.is_none() {
                book.begins_anew(holder, 0);
            }
        }
    }

    /// The store's clock is set forward: its keys run out sooner, unless they are renewed.
    pub(super) fn leaps(&self) {
        let at = self.now();
        let mut book = self.up_to_date();
        book.losses.push(Loss { name: None, at, replaced: None });
        book.shadow.unsure = [at; NAMES.len()];
    }

    pub(super) fn falls_back(&self, longest: Duration) {
        let until = self.now() + longest;
        self.book().clock_back = until;
    }

    pub(super) fn comes(&self, number: u64, client: Uuid, watchdog: Duration, slice: Duration) {
        let mut book = self.book();
        book.clients.insert(client, watchdog);
        if slice < ROUND_TRIP {
            book.hasty.insert(number);
        }
    }

    pub(super) fn has_hasty(&self) -> bool {
        !self.book().hasty.is_empty()
    }

    /// A client is dropped where it is.
    pub(super) fn crashes(&self) {
        let now = self.now();
        self.book().crashes.push(now);
    }

    /// How many of those that crashed may still repeat what they let go of.
    pub(super) fn crashed(&self) -> usize {
        let now = self.now();
        self.book().crashed(now)
    }

    /// When the last of them has given up.
    pub(super) fn crashed_until(&self) -> Duration {
        let book = self.book();
        book.crashes.iter().map(|at| book.gives_up(*at)).max().unwrap_or_default()
    }

    pub(super) fn is_dead(&self, client: Uuid) -> bool {
        self.book().dead.contains(&client)
    }

    /// Whatever this client has is left to its lease, and nothing that it says counts any more.
    pub(super) fn dies(&self, number: u64, client: Uuid) {
        let now = self.now();
        let mut book = self.book();
        book.dead.insert(client);
        let lines = book.lines.len();
        book.ends.insert(number, (lines, now));
    }

    pub(super) fn forces(&self, number: u64, client: u64, name: usize) {
        self.book().forces.insert(number, Force { client, name, until: None });
    }

    /// A force came to its end: it freed the name, it found nothing, or nobody knows and it may run yet.
    pub(super) fn forced(&self, number: u64, freed: Option<bool>) {
        let now = self.now();
        let mut book = self.book();
        if freed == Some(false) {
            book.forces.remove(&number);
        }
        let until = if freed.is_none() { now + book.habits.settled() } else { now };
        if let Some(force) = book.forces.get_mut(&number) {
            force.until.get_or_insert(until);
        }
    }
}

impl Seat {
    pub(super) fn new(client: u64, id: Uuid, name: usize, lock: Named, watchdog: Duration) -> Self {
        let fenced = matches!(lock, Named::Fenced(_));
        Self {
            client,
            id,
            name,
            lock,
            fenced,
            fence: None,
            owner: None,
            watchdog,
            longest: watchdog,
            guards: 0,
            tickets: 0,
            watched: 0,
            bounded: false,
            waits: None,
            queues: false,
            asked: Duration::ZERO,
            nests: false,
            hold: None,
            bridges: false,
            gathers: false,
            over: false,
        }
    }

    /// Whether its owner believes to hold the name now.
    pub(super) fn believes(&self) -> bool {
        self.guards > 0 && self.owner.as_ref().is_some_and(|owner| self.lock.is_held_by(owner))
    }

    /// It keeps a field on the server, of a live hold or a lost one; who asks anew has nothing to keep.
    pub(super) fn keeps(&self) -> bool {
        self.bridges || self.guards > 0 && self.waits.is_none()
    }
}

impl Book {
    /// What a client gives others of a name while fewer of them are heard than listen: no more than it had itself, and once for
    /// each that goes first.
    pub(super) fn gives(&self, client: Uuid, name: usize) -> Duration {
        let others = self.clients.len().saturating_sub(1).min(STEPS) as u32;
        self.shadow.had(client, name).min(LONGEST) * others.saturating_sub(1).max(1)
    }

    /// When the store was seen to lose this hold, unless it was made anew since.
    pub(super) fn lost_at(&self, hold: &Field) -> impl Iterator<Item = Duration> {
        let times = self.shadow.times(hold);
        self.doomed.iter().filter(move |doomed| doomed.field == *hold && doomed.times == times).map(|doomed| doomed.at)
    }

    pub(super) fn crashed(&self, now: Duration) -> usize {
        self.crashes.iter().filter(|at| now < self.gives_up(**at)).count()
    }

    /// Who crashed at this instant has given up by then whatever it let go of.
    fn gives_up(&self, crashed: Duration) -> Duration {
        crashed + LONGEST_RELEASE + self.habits.settled()
    }

    /// What was written down, as the checker of the storm knows it: each client is a process.
    fn chronicle(&self, longest: Duration) -> Chronicle {
        let mut lives: BTreeMap<u64, Life> = BTreeMap::new();
        for (at, (client, line)) in self.lines.iter().enumerate() {
            let end = self.ends.get(client).copied();
            let life = lives.entry(*client).or_insert_with(|| Life {
                process: *client,
                killed: end.map(|(_, when)| when),
                ..Life::default()
            });
            if end.is_none_or(|(lines, _)| at < lines) {
                life.lines.push(line.clone());
            }
        }
        let lost = |loss: &Loss| checker::Loss {
            name: loss.name,
            from: loss.at,
            until: loss.until(),
            told: None,
            whole: false,
        };
        Chronicle {
            bounds: Bounds {
                lease: longest,
                command: COMMAND,
                holdup: self.habits.settled(),
                passing: self.habits.longest_slice(),
            },
            lives: lives.into_values().collect(),
            losses: self.losses.iter().map(lost).collect(),
            counters: self.histories.to_vec(),
            ..Chronicle::default()
        }
    }

    /// Everything in the order in which it happened: what befell the store, what it did, what sections saw.
    pub(super) fn story(&self) -> Vec<(Duration, String)> {
        let faults = self.faults.iter().map(|(at, fault)| (*at, format!("* {fault}")));
        let trace = self.trace.iter().map(|traced| (traced.at, traced.to_string()));
        let lines = self.lines.iter().map(|(client, line)| (line.at, format!("client {client}: {line}")));
        let mut story: Vec<_> = faults.chain(trace).chain(lines).collect();
        // A stable sort: what happened at one instant stays in its order.
        story.sort_by_key(|(at, _)| *at);
        story
    }
}
