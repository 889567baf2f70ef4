//! The counter that the lock guards is exact: who believed in its hold from the reading to after the writing has
//! written what comes next, unless somebody wrote between who had lost the lock (or was killed) inside its section.

use std::{collections::HashMap, time::Duration};

use super::{Chronicle, Complaint, Findings, Guard};
use crate::storm::log::Event;

pub(super) fn check(chronicle: &Chronicle, findings: &mut Findings) {
    let sure = sure(chronicle);
    for (name, history) in chronicle.counters.iter().enumerate() {
        findings.raises += history.len();
        for (at, raise) in history.iter().enumerate() {
            let Some(when) = sure.get(&(raise.by, raise.from)) else { continue };
            let read = usize::try_from(raise.from).unwrap_or(usize::MAX);
            let between = history.get(read..at).unwrap_or_default();
            let culprit = between.iter().find(|other| sure.contains_key(&(other.by, other.from)));
            if read <= at && culprit.is_none() || chronicle.is_excused(name, *when, *when) {
                continue;
            }
            let by = culprit.map_or("nobody".to_owned(), |culprit| format!("{:?}", culprit.by));
            let what = format!(
                "an update of the counter of name {name} is lost: number {at} is {raise:?}, raised by {by} meanwhile"
            );
            findings.complaints.push(Complaint { what, excerpt: chronicle.excerpt(name, *when, *when) });
        }
    }
}

/// Raises under a hold that was believed in to their end, and when that was.
fn sure(chronicle: &Chronicle) -> HashMap<(Guard, u64), Duration> {
    let mut sure = HashMap::new();
    for life in &chronicle.lives {
        for line in &life.lines {
            if let Event::Counted { guard, from, sure: true } = line.event {
                sure.insert((Guard { process: life.process, life: life.life, number: guard }, from), line.at);
            }
        }
    }
    sure
}
