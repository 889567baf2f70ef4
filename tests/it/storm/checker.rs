//! What must be true of everything that was written down. It takes a chronicle and gives complaints; it knows no
//! process, no server and no clock, so that it can be shown chronicles that it must complain about, and those of a
//! simulation as well as those of a storm.

mod counts;
mod lost;
mod overlaps;
#[cfg(test)]
mod tests;
mod waits;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

use super::{
    COMMAND, LONGEST_HOLDUP, LONGEST_LEASE,
    counter::{Guard, Raise},
    log::{Event, Line, What},
    longest_slice,
};

/// Everything that happened, as processes and the test wrote it down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chronicle {
    pub(crate) bounds: Bounds,
    pub(crate) lives: Vec<Life>,
    pub(crate) losses: Vec<Loss>,
    /// Processes whose links nobody harassed.
    pub(crate) sheltered: BTreeSet<u64>,
    pub(crate) freezes: Vec<Freeze>,
    /// The history of each name's counter.
    pub(crate) counters: Vec<Vec<Raise>>,
}

/// How long things took at most where a chronicle was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// No hold was asked for longer at a time.
    pub(crate) lease: Duration,
    /// How long one command may take.
    pub(crate) command: Duration,
    /// How late a command may run that somebody sent and has no answer to.
    pub(crate) holdup: Duration,
    /// How long after a loss that nobody was told of the hold may still be passed on.
    pub(crate) passing: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { lease: LONGEST_LEASE, command: COMMAND, holdup: LONGEST_HOLDUP, passing: passing() }
    }
}

/// One process from its start to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) process: u64,
    pub(crate) life: u64,
    /// When it was gone, if it was killed.
    pub(crate) killed: Option<Duration>,
    pub(crate) lines: Vec<Line>,
}

/// The server lost what it had between these two instants: all of it, or one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) name: Option<usize>,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
    /// How long after that whoever held it may believe in it, where the links were left alone. Others have their deadline.
    pub(crate) told: Option<Duration>,
    /// Nothing that was there before is there afterwards.
    pub(crate) whole: bool,
}

impl Loss {
    fn covers(&self, name: usize, from: Duration, to: Duration, lease: Duration) -> bool {
        self.name.is_none_or(|lost| lost == name) && self.from <= from && to <= self.until + lease
    }
}

/// A process stood still for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freeze {
    pub(crate) process: u64,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

/// Something that must not be, with what happened around it.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    pub(crate) what: String,
    pub(crate) excerpt: String,
}

/// What the checker has looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) complaints: Vec<Complaint>,
    pub(crate) claims: usize,
    pub(crate) raises: usize,
    /// Pairs of claims that overlap because the server had lost one of the holds.
    pub(super) excused: usize,
    /// Holds that the server had lost, and whose holders were told in time.
    pub(super) lost: usize,
    /// Ends by what was asked and how it ended.
    pub(super) ends: BTreeMap<String, usize>,
    /// The latest end of each kind, after the time that it was given; what was spent frozen does not count.
    pub(super) latest: BTreeMap<String, Duration>,
}

/// Until when a guard's hold was believed in for sure, and from when.
#[derive(Clone, Copy, Debug)]
struct Claim {
    guard: Guard,
    name: usize,
    /// Guards of one section are one owner's.
    section: (u64, u64),
    asked: Duration,
    from: Duration,
    to: Duration,
}

/// A slice, and as much as a task that was woken may be late on a busy machine.
fn passing() -> Duration {
    longest_slice() + Duration::from_millis(20)
}

/// How much is shown around a complaint.
const BEFORE: Duration = Duration::from_millis(150);
const AFTER: Duration = Duration::from_millis(50);
const MOST_LINES: usize = 80;

/// Judges a chronicle.
pub(crate) fn check(chronicle: Chronicle) -> Findings {
    let chronicle = &chronicle.with_forced();
    let mut findings = Findings::default();
    let claims = claims(chronicle);
    findings.claims = claims.values().map(Vec::len).sum();
    for (name, claims) in &claims {
        overlaps::check(chronicle, *name, claims, &mut findings);
        lost::check(chronicle, *name, claims, &mut findings);
    }
    counts::check(chronicle, &mut findings);
    waits::check(chronicle, &mut findings);
    findings
}

impl Chronicle {
    /// Holds that a process forced away are lost as well. Its command may be held up on its way.
    fn with_forced(mut self) -> Self {
        for life in &self.lives {
            for line in &life.lines {
                let Event::Asked { number: asked, what: What::Force, name, .. } = line.event else { continue };
                let is_end = |line: &&Line| matches!(line.event, Event::Ended { number, .. } if number == asked);
                let ended = life.lines.iter().find(is_end).map(|line| line.at).or(life.killed);
                let until = ended.unwrap_or(Duration::MAX / 2) + self.bounds.holdup;
                self.losses.push(Loss { name: Some(name), from: line.at, until, told: None, whole: false });
            }
        }
        self
    }

    /// Whether the server had lost a hold of this name, and its holder may not have been told yet. The bound is the
    /// deadline that the holder had: one lease.
    fn is_excused(&self, name: usize, from: Duration, to: Duration) -> bool {
        self.losses.iter().any(|loss| loss.covers(name, from, to, self.bounds.lease))
    }

    /// As above, for two claims beside each other: one of them was there when the server lost its hold.
    fn are_excused(&self, claims: [&Claim; 2], from: Duration, to: Duration) -> bool {
        let covering = |loss: &&Loss| loss.covers(claims[0].name, from, to, self.bounds.lease);
        let is_told_later = |claim: &Claim, loss: &Loss| {
            let bound = loss.told.filter(|_| self.sheltered.contains(&claim.guard.process));
            bound.is_none_or(|told| to <= loss.until + told + self.frozen(claim.guard.process, loss.until, to))
        };
        let excuses = |loss| claims.iter().any(|claim| self.was_there(claim, loss) && is_told_later(claim, loss));
        self.losses.iter().filter(covering).any(excuses)
    }

    /// Whether a claim's hold may have been there when the server lost it. Its grant may have been on its way for as long
    /// as a command may take; and it may have been passed on within a slice by somebody who had not been told.
    fn was_there(&self, claim: &Claim, loss: &Loss) -> bool {
        let answer = if claim.asked <= loss.until { self.bounds.command } else { Duration::ZERO };
        claim.from
            <= loss.until + answer + self.bounds.passing + self.frozen(claim.guard.process, loss.until, claim.from)
    }

    /// How long a process stood still between two instants.
    fn frozen(&self, process: u64, from: Duration, to: Duration) -> Duration {
        let of_it = self.freezes.iter().filter(|freeze| freeze.process == process);
        of_it.map(|freeze| freeze.until.min(to).saturating_sub(freeze.from.max(from))).sum()
    }

    /// Everything about a name that was written down around an instant.
    fn excerpt(&self, name: usize, from: Duration, to: Duration) -> String {
        let (from, to) = (from.saturating_sub(BEFORE), to + AFTER);
        let mut shown: Vec<(Duration, String)> = Vec::new();
        for life in &self.lives {
            let names = life.names();
            let near = life.lines.iter().filter(|line| (from..=to).contains(&line.at));
            let about = near.filter(|line| names.get(&(line.task, line.section)) == Some(&name));
            let told = |line: &Line| (line.at, format!("process {}.{}: {line}", life.process, life.life));
            shown.extend(about.map(told));
            shown.extend(
                life.killed
                    .filter(|at| (from..=to).contains(at))
                    .map(|at| (at, format!("{} process {}.{} is killed", at.as_nanos(), life.process, life.life))),
            );
        }
        for Loss { name, from: at, until, .. } in
            self.losses.iter().filter(|loss| loss.from <= to && loss.until >= from)
        {
            let whose = name.map_or("all names".to_owned(), |name| format!("name {name}"));
            shown.push((*at, format!("{} the server loses {whose} until {}", at.as_nanos(), until.as_nanos())));
        }
        for Freeze { process, from: at, until } in self.freezes.iter().filter(|it| it.from <= to && it.until >= from) {
            shown.push((*at, format!("{} process {process} is frozen until {}", at.as_nanos(), until.as_nanos())));
        }
        shown.sort();
        let left_out = shown.len().saturating_sub(MOST_LINES);
        let mut text: Vec<String> = shown.into_iter().take(MOST_LINES).map(|(_, line)| line).collect();
        text.extend((left_out > 0).then(|| format!("… {left_out} more lines")));
        text.join("\n")
    }
}

impl Life {
    /// Which name each section is about.
    fn names(&self) -> HashMap<(u64, u64), usize> {
        let about = |line: &Line| match line.event {
            Event::Asked { name, what: What::Lock, .. } => Some(((line.task, line.section), name)),
            _ => None,
        };
        self.lines.iter().filter_map(about).collect()
    }
}

/// All claims, by name.
fn claims(chronicle: &Chronicle) -> BTreeMap<usize, Vec<Claim>> {
    let mut by_name: BTreeMap<usize, Vec<Claim>> = BTreeMap::new();
    for life in &chronicle.lives {
        let names = life.names();
        let mut of_guards: BTreeMap<u64, Claim> = BTreeMap::new();
        let mut asked: HashMap<u64, Duration> = HashMap::new();
        for line in &life.lines {
            if let Event::Asked { number, what: What::Lock, .. } = line.event {
                asked.insert(number, line.at);
            }
            let Event::Held { guard, seen } = line.event else { continue };
            let section = (line.task, line.section);
            // The first look proves from its end on, the last one up to its start.
            let claim = of_guards.entry(guard).or_insert_with(|| Claim {
                guard: Guard { process: life.process, life: life.life, number: guard },
                name: names.get(&section).copied().unwrap_or_default(),
                section,
                asked: asked.get(&guard).copied().unwrap_or(seen),
                from: seen,
                to: seen,
            });
            claim.to = line.at;
        }
        for claim in of_guards.into_values().filter(|claim| claim.from < claim.to) {
            by_name.entry(claim.name).or_default().push(claim);
        }
    }
    by_name
}

impl Claim {
    fn is_of_another_owner(&self, other: &Self) -> bool {
        let owner = |claim: &Self| (claim.guard.process, claim.guard.life, claim.section);
        owner(self) != owner(other)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Guard { process, life, number } = self.guard;
        let (task, section) = self.section;
        write!(f, "guard {number} of process {process}.{life} task {task} section {section}")?;
        write!(f, " from {} to {}", self.from.as_nanos(), self.to.as_nanos())
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n", self.what, self.excerpt)
    }
}
