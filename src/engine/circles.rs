//! Owners that wait for one another in a circle, each with a lock that the next one waits for. One client sees its own tasks
//! only: it looks now and then, says what it found, and resolves nothing.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use tokio::{task, time::Instant};

use super::shared::Engine;
use crate::{name::Field, owner::Owner};

/// How often a client looks, if anybody has queued since. What is a circle twice in a row is one.
const LOOK: Duration = Duration::from_secs(10);

/// What the driver knows of circles.
pub(super) struct Circles {
    next: Instant,
    /// The names of those that were seen at the last look, each in order.
    seen: HashSet<Vec<Arc<str>>>,
}

impl Circles {
    pub(super) fn new(now: Instant) -> Self {
        Self { next: now + LOOK, seen: HashSet::new() }
    }

    pub(super) fn look(&mut self, engine: &Engine, now: Instant) {
        if now < self.next {
            return;
        }
        self.next = now + LOOK;
        if !engine.queued.take() {
            self.seen.clear();
            return;
        }
        let waits: Vec<WaitsFor> = engine.entries().iter().flat_map(|entry| entry.waits()).collect();
        if !waits.is_empty() {
            engine.queued.note();
        }
        let found: HashSet<_> = circles(&waits).into_iter().collect();
        for names in found.intersection(&self.seen) {
            if engine.first_time("circle", &names[0]) {
                tracing::warn!(
                    locks = %Names(names),
                    "owners of these locks wait for one another, it seems for ever: take locks in one order everywhere, or \
                     wait with a bound"
                );
            }
        }
        self.seen = found;
    }
}

/// Somebody who waits for as long as it takes, and whoever has what it waits for.
pub(super) struct WaitsFor {
    pub(super) name: Arc<str>,
    pub(super) waiter: Party,
    pub(super) holder: Party,
}

/// A mutex has an owner of its own for each acquisition: there the task says whose they are.
#[derive(Clone)]
pub(super) struct Party {
    pub(super) owner: Owner,
    pub(super) task: Option<task::Id>,
}

/// The names of each circle, in order. Of circles that share a wait one is found.
fn circles(waits: &[WaitsFor]) -> Vec<Vec<Arc<str>>> {
    let (mut by_owner, mut by_task) = (HashMap::<_, Vec<usize>>::new(), HashMap::<_, Vec<usize>>::new());
    for (at, wait) in waits.iter().enumerate() {
        by_owner.entry(&wait.waiter.owner).or_default().push(at);
        if let Some(task) = wait.waiter.task {
            by_task.entry(task).or_default().push(at);
        }
    }
    // What whoever has it waits for in turn.
    let next = |at: usize| {
        let holder = &waits[at].holder;
        let of_task = holder.task.and_then(|task| by_task.get(&task));
        by_owner.get(&holder.owner).into_iter().chain(of_task).flatten().copied().collect::<Vec<_>>()
    };
    let (mut found, mut done) = (Vec::new(), vec![false; waits.len()]);
    for start in 0..waits.len() {
        // The way so far, each step with what is still to be followed from it.
        let mut way = if done[start] { Vec::new() } else { vec![(start, next(start))] };
        while let Some((at, rest)) = way.last_mut() {
            let Some(to) = rest.pop() else {
                done[*at] = true;
                way.pop();
                continue;
            };
            if let Some(first) = way.iter().position(|(at, _)| *at == to) {
                let mut names: Vec<_> = way[first..].iter().map(|(at, _)| Arc::clone(&waits[*at].name)).collect();
                names.sort_unstable();
                names.dedup();
                // Who waits for what its own task has is another matter.
                found.extend((names.len() > 1).then_some(names));
            } else if !done[to] {
                way.push((to, next(to)));
            }
        }
    }
    found
}

struct Names<'a>(&'a [Arc<str>]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}", Field(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(of: &[(&str, &Owner, &Owner)]) -> Vec<WaitsFor> {
        let party = |owner: &Owner| Party { owner: owner.clone(), task: None };
        let wait = |&(name, waiter, holder): &(&str, &Owner, &Owner)| WaitsFor {
            name: Arc::from(name),
            waiter: party(waiter),
            holder: party(holder),
        };
        of.iter().map(wait).collect()
    }

    #[test]
    fn a_circle_is_found_wherever_it_begins_and_a_line_is_none() {
        let [ann, ben, cid, dan, eve] = [(); 5].map(|()| Owner::new());
        let found =
            |of: &[(&str, &Owner, &Owner)]| circles(&waits(of)).iter().map(|names| names.join(" ")).collect::<Vec<_>>();
        let none: [&str; 0] = [];
        assert_eq!(found(&[]), none);
        assert_eq!(found(&[("a", &ann, &ben), ("b", &ben, &cid), ("a", &dan, &ben)]), none);
        assert_eq!(found(&[("a", &ann, &ben), ("b", &ben, &ann)]), ["a b"]);
        // Many wait for one of a circle, and one of the circle waits for something else as well.
        let circle = [("c", &dan, &cid), ("b", &ann, &ben), ("x", &ben, &eve), ("c", &ben, &cid), ("a", &cid, &ann)];
        assert_eq!(found(&circle), ["a b c"]);
        assert_eq!(found(&[("a", &ann, &ann)]), none, "one lock is no circle");
        let two = [("a", &ann, &ben), ("b", &ben, &ann), ("c", &cid, &dan), ("d", &dan, &cid)];
        assert_eq!(found(&two), ["a b", "c d"]);
    }
}
