//! One section of a task: how it takes a lock, what it does inside, how it lets go; all of it drawn, and all of it
//! written down. It never judges: what must not be is the checker's.

use std::{sync::Arc, time::Duration};

use relatch::{Lease, LockGuard};
use tokio::time::{Instant, sleep, timeout};

use super::{
    NAMES,
    log::{DROPPED, Event, GRANTED, Line, What},
    name,
    plan::Random,
    servers::Kind,
    worker::{Manners, Worker},
};
use crate::harness::{
    clock::monotonic,
    either::{Detached, Either, Named, Terms, released, word},
};

/// What is drawn so many times in a thousand sections, acquisitions or endings.
const MUTEX: usize = 300;
const DROPPED_WHILE_ASKED: usize = 120;
const BOUNDED: usize = 80;
const BARGED: usize = 60;
const COUNTS: usize = 400;
/// So many steps inside a section of a million.
const FORCED: usize = 20;

/// A section that is about to run.
pub(super) struct Section {
    worker: Arc<Worker>,
    task: u64,
    number: u64,
    name: usize,
    lock: Either,
    depth: usize,
    random: Random,
}

/// A guard, as the section believes in it.
struct Held {
    number: u64,
    grip: Grip,
    /// A loss was seen, and it may not be held again.
    lost: bool,
    bounded: bool,
}

enum Grip {
    Guard(LockGuard),
    Detached(Detached),
    /// Nothing at all.
    Bluff,
}

/// Something that was asked and must end.
struct Asked<'a> {
    section: &'a Section,
    number: u64,
    ended: bool,
}

impl Section {
    pub(super) fn draw(worker: Arc<Worker>, (task, number): (u64, u64), random: &mut Random) -> Self {
        let (which, random) = (random.below(NAMES), Random::new(random.next(), &[]));
        let mut random = random;
        let lock = if random.once_in_a_while(MUTEX) {
            Either::Mutex(worker.locks.mutex(name(which)))
        } else {
            Either::Named(Named::Plain(worker.locks.lock(name(which))))
        };
        let deepest = if matches!(lock, Either::Mutex(_)) { 1 } else { random.pick(&[1, 1, 1, 2, 2, 3]) };
        Self { worker, task, number, name: which, lock, depth: deepest, random }
    }

    /// Of a sheltered process and a name that it has to itself.
    pub(super) fn kept(worker: Arc<Worker>, which: usize, (task, number): (u64, u64), random: &mut Random) -> Self {
        let (lock, random) =
            (Either::Named(Named::Plain(worker.locks.lock(name(which)))), Random::new(random.next(), &[]));
        Self { worker, task, number, name: which, lock, depth: 1, random }
    }

    /// Holds it for most of a fixed lease, which nobody renews: that it is lost is told or found out at the end.
    pub(super) async fn keep(mut self) {
        let asked = self.asked(self.worker.number(), What::Lock, None);
        let (number, lease) = (asked.number, self.worker.longest_lease);
        let answer = self.lock.acquire(Terms { lease: lease.into(), bound: None, wait: None }, None).await;
        asked.end(&answer.as_ref().map_or_else(word, |_| GRANTED.to_owned()));
        let Ok(Some(guard)) = answer else { return };
        let mut held = Held { number, grip: Grip::Guard(guard), lost: false, bounded: true };
        let until = Instant::now() + lease * 9 / 10;
        while Instant::now() < until && !held.lost && !self.worker.rests() {
            self.look(&mut held).await;
            sleep(self.random.millis(5, 20)).await;
        }
        let Grip::Guard(guard) = held.grip else { return };
        self.unlock(&guard).await;
    }

    pub(super) async fn run(mut self) {
        let mut held = Vec::new();
        for _ in 0..self.depth {
            let Some(entered) = self.enter().await else { break };
            held.push(entered);
            let length = self.length();
            if !self.stay(&mut held, length).await {
                break;
            }
        }
        while !held.is_empty() {
            let inner_first = self.random.once_in_a_while(800);
            let next = held.remove(if inner_first { held.len() - 1 } else { 0 });
            self.leave(next, held.is_empty()).await;
            if !held.is_empty() {
                let length = self.random.millis(0, 3);
                self.stay(&mut held, length).await;
            }
        }
    }

    /// Mostly short, sometimes beyond a lease; where others have a failover to live through, sometimes as long as one. What a master
    /// forgets harms those alone who hold meanwhile.
    fn length(&mut self) -> Duration {
        match self.random.below(1000) {
            0..4 if !self.worker.sheltered => self.worker.longest_lease + self.random.millis(0, 400),
            0..30 if self.worker.sheltered => self.random.millis(1_000, 5_000),
            4..30 if self.worker.kind == Kind::Masters => self.random.millis(500, 2_500),
            4..30 => self.random.millis(50, 400),
            _ => self.random.millis(0, 16),
        }
    }

    async fn enter(&mut self) -> Option<Held> {
        let number = self.worker.number();
        let lease = match self.random.below(10) {
            0..6 => Lease::Watchdog,
            6..9 => self.random.millis(20, 250).into(),
            _ => self.random.millis(250, self.worker.longest_lease.as_millis() as u64).into(),
        };
        let bound = self.random.once_in_a_while(BOUNDED).then(|| self.random.millis(10, 300));
        let wait = match self.random.below(10) {
            0..5 => None,
            5..8 => Some(self.random.millis(1, 400)),
            _ => Some(Duration::ZERO),
        };
        let patience = self.random.once_in_a_while(DROPPED_WHILE_ASKED).then(|| self.random.millis(0, 50));
        if self.worker.manners == Manners::Barging && self.random.once_in_a_while(BARGED) {
            self.asked(number, What::Lock, Some(Duration::ZERO)).end(GRANTED);
            return Some(Held { number, grip: Grip::Bluff, lost: false, bounded: true });
        }
        let asked = self.asked(number, What::Lock, wait);
        let acquiring = self.lock.acquire(Terms { lease, bound, wait }, None);
        // Dropped before `asked` is told how it ended.
        let answer = timeout(patience.unwrap_or(Duration::MAX), acquiring).await.ok()?;
        asked.end(&match &answer {
            Ok(Some(_)) => GRANTED.to_owned(),
            Ok(None) => "busy".to_owned(),
            Err(error) => word(error),
        });
        let guard = answer.ok()??;
        Some(Held { number, grip: Grip::Guard(guard), lost: false, bounded: bound.is_some() })
    }

    /// Stays for so long, looking all the while whether the hold is still there; says whether the newest one is.
    async fn stay(&mut self, held: &mut [Held], length: Duration) -> bool {
        let until = Instant::now() + length;
        let barged = held.iter().any(|held| matches!(held.grip, Grip::Bluff));
        let mut counts = barged || self.random.once_in_a_while(COUNTS);
        loop {
            if !self.look_at_all(held).await {
                return false;
            }
            if std::mem::take(&mut counts) && !self.count(held).await {
                return false;
            }
            if Instant::now() >= until {
                return true;
            }
            self.pass_time(held).await;
        }
    }

    /// Something that takes a few milliseconds, or is asked for inside a section.
    async fn pass_time(&mut self, held: &mut [Held]) {
        let (length, draw) = (self.random.millis(1, 4), self.random.below(1000));
        let bounded = held.iter().any(|held| held.bounded);
        let more = self.random.millis(50, self.worker.longest_lease.as_millis() as u64);
        let Some(newest) = held.last_mut() else { return };
        let Grip::Guard(guard) = &newest.grip else { return sleep(length).await };
        match draw {
            0..60 => {
                let stopped = guard.protect(sleep(length)).await.is_err();
                assert!(!(stopped && guard.is_held()), "work was stopped while the hold was believed in");
            }
            60..90 if !bounded => {
                let asked = self.asked(self.worker.number(), What::Extend, None);
                let extended = guard.extend(more).await;
                asked.end(&extended.map_or_else(|error| word(&error), |()| "ok".to_owned()));
            }
            90..110 => {
                let asked = self.asked(self.worker.number(), What::Look, None);
                let locked = self.worker.locks.lock(name(self.name)).is_locked().await;
                asked.end(&locked.map_or_else(|error| word(&error), |locked| locked.to_string()));
            }
            _ => sleep(length).await,
        }
        if self.random.below(1_000_000) < FORCED && self.worker.kind.forces() {
            let asked = self.asked(self.worker.number(), What::Force, None);
            let forced = self.worker.locks.lock(name(self.name)).force_unlock().await;
            asked.end(&forced.map_or_else(|error| word(&error), |seen| seen.to_string()));
        }
    }

    async fn look_at_all(&self, held: &mut [Held]) -> bool {
        for held in held.iter_mut() {
            self.look(held).await;
        }
        held.last().is_some_and(|newest| !newest.lost)
    }

    /// Writes down that the hold is believed in; or, once, that it is lost, and why.
    async fn look(&self, held: &mut Held) {
        let at = monotonic();
        let is_held = match &held.grip {
            Grip::Guard(guard) => guard.is_held(),
            Grip::Detached(detached) => detached.lock.is_held_by(&detached.owner),
            Grip::Bluff => true,
        };
        let seen = monotonic();
        assert!(!(held.lost && is_held), "a hold that was lost is held again");
        if is_held {
            self.note(at, Event::Held { guard: held.number, seen });
        } else if !std::mem::replace(&mut held.lost, true)
            && let Grip::Guard(guard) = &held.grip
        {
            let asked = self.asked(self.worker.number(), What::Told, None);
            asked.end(&word(&guard.lost().await));
        }
    }

    /// Raises the counter under the newest hold; says whether it was believed in to the end.
    async fn count(&mut self, held: &mut [Held]) -> bool {
        let Some(newest) = held.last_mut() else { return false };
        let counter = &self.worker.counters[self.name];
        let from = counter.read();
        if self.random.once_in_a_while(500) {
            sleep(self.random.millis(0, 4)).await;
            self.look(newest).await;
        }
        if newest.lost {
            return false;
        }
        counter.write(from, self.worker.guard(newest.number));
        self.look(newest).await;
        let sure = !newest.lost;
        self.note(monotonic(), Event::Counted { guard: newest.number, from, sure });
        sure
    }

    async fn leave(&mut self, held: Held, last: bool) {
        let Grip::Guard(guard) = held.grip else { return };
        match self.random.below(100) {
            0..40 => {
                if !self.unlock(&guard).await && self.random.once_in_a_while(500) {
                    self.unlock(&guard).await;
                }
            }
            40..50 => {
                let patience = self.random.millis(0, 3);
                let _ = timeout(patience, self.unlock(&guard)).await;
                if self.random.once_in_a_while(300) {
                    self.unlock(&guard).await;
                }
            }
            50..60 if last => self.leave_detached(guard, held.number, held.lost).await,
            _ => drop(guard),
        }
    }

    async fn unlock(&self, guard: &LockGuard) -> bool {
        let asked = self.asked(self.worker.number(), What::Unlock, None);
        let answer = guard.unlock().await;
        asked.end(&released(&answer));
        answer.is_ok()
    }

    async fn leave_detached(&mut self, guard: LockGuard, number: u64, lost: bool) {
        let lock = Named::Plain(self.worker.locks.lock(name(self.name)));
        let detached = Detached { lock: lock.clone(), owner: guard.detach() };
        let owner = detached.owner.clone();
        let mut held = [Held { number, grip: Grip::Detached(detached), lost, bounded: true }];
        let length = self.random.millis(0, 5);
        self.stay(&mut held, length).await;
        if self.random.once_in_a_while(300) {
            if let Some(guard) = lock.attach(&owner) {
                self.unlock(&guard).await;
            }
        } else {
            let asked = self.asked(self.worker.number(), What::UnlockDetached, None);
            asked.end(&released(&lock.unlock(&owner).await));
        }
    }

    fn asked(&self, number: u64, what: What, within: Option<Duration>) -> Asked<'_> {
        self.note(monotonic(), Event::Asked { number, what, name: self.name, within });
        Asked { section: self, number, ended: false }
    }

    fn note(&self, at: Duration, event: Event) {
        self.worker.log.note(&Line { at, task: self.task, section: self.number, event });
    }
}

impl Asked<'_> {
    fn end(mut self, answer: &str) {
        self.ended = true;
        self.note(answer);
    }

    fn note(&self, answer: &str) {
        self.section.note(monotonic(), Event::Ended { number: self.number, answer: answer.to_owned() });
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.note(DROPPED);
        }
    }
}
