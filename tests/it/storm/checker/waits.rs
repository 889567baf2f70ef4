//! Everything that was asked has ended, in time and with an answer that it may have.

use std::{collections::HashMap, time::Duration};

use super::{Chronicle, Complaint, Findings, Life};
use crate::storm::log::{Event, Line, What};

/// What a busy machine may add to any end.
const SLACK: Duration = Duration::from_secs(3);
/// How long somebody may wait for a lock that others use all the time.
const LONGEST: Duration = Duration::from_secs(30);

/// Something that was asked and not yet answered.
struct Open<'a> {
    line: &'a Line,
    what: What,
    name: usize,
    within: Option<Duration>,
}

pub(super) fn check(chronicle: &Chronicle, findings: &mut Findings) {
    for life in &chronicle.lives {
        let mut open: HashMap<u64, Open<'_>> = HashMap::new();
        let forces = life.lines.iter().any(|line| matches!(line.event, Event::Asked { what: What::Force, .. }));
        for line in &life.lines {
            match &line.event {
                Event::Asked { number, what, name, within } => {
                    open.insert(*number, Open { line, what: *what, name: *name, within: *within });
                }
                Event::Ended { number, answer } => {
                    let Some(asked) = open.remove(number) else { continue };
                    asked.ended(chronicle, life, (line.at, answer), findings);
                    if !may_be(asked.what, answer, forces) {
                        asked.complain(chronicle, life, line.at, &format!("is answered {answer}"), findings);
                    }
                }
                Event::Held { .. } | Event::Counted { .. } => {}
            }
        }
        let mut left: Vec<Open<'_>> = open.into_values().collect();
        left.sort_by_key(|open| open.line.at);
        for asked in left {
            match life.killed {
                Some(killed) => asked.in_time(chronicle, life, killed, findings),
                None => asked.complain(chronicle, life, asked.line.at, "never ends", findings),
            }
        }
    }
}

/// Which answers there are. Nobody asks for what is invalid, nobody closes a client that works, and a guard's hold is
/// lost or held.
fn may_be(what: What, answer: &str, forces: bool) -> bool {
    if answer.starts_with("lost-") {
        return what != What::Lock
            && what != What::Look
            && (forces || answer != "lost-Forced")
            && answer != "lost-Closed";
    }
    let wrong = answer.starts_with("refused") || answer.starts_with("Invalid") || answer.starts_with("Protocol");
    !wrong && answer != "closed" && (answer != "not-held" || what == What::UnlockDetached) && what != What::Told
        || answer == "dropped"
}

impl Open<'_> {
    fn ended(&self, chronicle: &Chronicle, life: &Life, (at, answer): (Duration, &str), findings: &mut Findings) {
        *findings.ends.entry(format!("{:?} {answer}", self.what)).or_default() += 1;
        self.in_time(chronicle, life, at, findings);
    }

    fn in_time(&self, chronicle: &Chronicle, life: &Life, at: Duration, findings: &mut Findings) {
        let took = at.saturating_sub(self.line.at);
        let awake = took.saturating_sub(chronicle.frozen(life.process, self.line.at, at));
        let late = awake.saturating_sub(self.within.unwrap_or_default());
        let latest = findings.latest.entry(self.kind()).or_default();
        *latest = late.max(*latest);
        if awake > self.bound(chronicle.bounds.command) {
            self.complain(chronicle, life, at, &format!("takes {awake:?}"), findings);
        }
    }

    fn kind(&self) -> String {
        let wait = match self.within {
            Some(Duration::ZERO) => " at once",
            Some(_) => " in time",
            None => "",
        };
        format!("{:?}{wait}", self.what)
    }

    /// A command has one deadline, and it may have to wait for the turn of another that has one too.
    fn bound(&self, command: Duration) -> Duration {
        let called = match self.what {
            What::Lock => self.within.map_or(LONGEST, |within| within + command),
            What::Unlock | What::UnlockDetached | What::Force => command * 2,
            What::Extend | What::Look => command,
            What::Told => Duration::ZERO,
        };
        called + SLACK
    }

    fn complain(&self, chronicle: &Chronicle, life: &Life, at: Duration, how: &str, findings: &mut Findings) {
        let Life { process, life, .. } = life;
        let what = format!("in process {process}.{life}, {how}: {}", self.line);
        let asked = chronicle.excerpt(self.name, self.line.at, self.line.at);
        let excerpt =
            if at == self.line.at { asked } else { asked + "\n…\n" + &chronicle.excerpt(self.name, at, at) };
        findings.complaints.push(Complaint { what, excerpt });
    }
}
