//! A section that takes several names at once: how it takes them, what it does inside, how it lets go. All of it is drawn, and
//! the referee is told of all of it; it judges only whether a guard of several says what its parts say.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use relatch::{Error, Lease, LockGuard, MultiLock, Owner, Part, Released, Result};
use tokio::time::{Instant, sleep, timeout};

use super::{
    COMMAND, NAMES,
    crew::{Mix, Sailor},
    gatherings::Several,
    referee::{Asking, Referee, Seat},
    rules::TWO_COMMANDS,
    section::{SLACK, after_a_while, after_polls, draw_length, draw_terms, longest_wait},
    shadow::Field,
};
use crate::harness::{
    either::{Detached, Either, Named, Terms, released, word},
    random::Random,
};

/// Whoever has some and asks for more waits for no longer: another one may do the opposite.
const LONGEST_INNER_WAIT: u64 = 400;

/// A section that is about to run.
pub(super) struct SectionOfSeveral {
    sailor: Arc<Sailor>,
    referee: Arc<Referee>,
    task: u64,
    /// One for each name.
    seats: [u64; NAMES.len()],
    locks: [Named; NAMES.len()],
    /// Names of plain locks that are taken as mutexes.
    mutexes: [bool; NAMES.len()],
    owner: Owner,
    mix: Mix,
    random: Random,
}

/// One acquisition, and what the store has of each of its names.
struct Held {
    guard: LockGuard,
    parts: Vec<(usize, Option<Field>)>,
    asking: Asking,
    lost: bool,
}

impl SectionOfSeveral {
    pub(super) fn draw(sailor: Arc<Sailor>, task: u64, own: &Owner, random: &mut Random) -> Self {
        let (mix, referee) = (sailor.mix, Arc::clone(&sailor.referee));
        let locks: [_; NAMES.len()] = std::array::from_fn(|name| sailor.lock(name));
        let seats = std::array::from_fn(|name| {
            let seat = Seat::new(sailor.number, sailor.client.id(), name, locks[name].clone(), sailor.watchdog);
            // There is no token for all of them.
            referee.sits_down(Seat { fenced: false, ..seat })
        });
        let owner = if random.once_in_a_while(300) { Owner::new() } else { own.clone() };
        let mutexes =
            std::array::from_fn(|name| random.once_in_a_while(mix.mutexes) && matches!(locks[name], Named::Plain(_)));
        let random = Random::new(random.next(), &[]);
        Self { sailor, referee, task, seats, locks, mutexes, owner, mix, random }
    }

    pub(super) async fn run(mut self) {
        let mut held = Vec::new();
        let names = self.some_of((0..self.mix.names).collect());
        let nests = self.nest(&names);
        let Some(outer) = self.enter(names.clone(), false).await else { return };
        held.push(outer);
        let length = draw_length(&self.mix, &mut self.random);
        let stays = self.stay(&mut held, length).await;
        if stays && nests && self.random.once_in_a_while(self.mix.nested) {
            let entered = if self.random.once_in_a_while(400) {
                let again = names[self.random.below(names.len())];
                self.enter_one(again).await
            } else {
                let inner = self.some_of((0..self.mix.names).collect());
                // With a mutex among them they would have an owner of their own, and wait for this one.
                if self.nest(&inner) { self.enter(inner, true).await } else { None }
            };
            if let Some(entered) = entered {
                held.push(entered);
                let length = draw_length(&self.mix, &mut self.random);
                self.stay(&mut held, length).await;
            }
        }
        while !held.is_empty() {
            let inner_first = self.random.once_in_a_while(800);
            let next = held.remove(if inner_first { held.len() - 1 } else { 0 });
            self.leave(next, &held).await;
            if !held.is_empty() {
                let length = self.random.millis(0, 3);
                self.stay(&mut held, length).await;
            }
        }
    }

    /// At least two of these, in any order.
    fn some_of(&mut self, mut names: Vec<usize>) -> Vec<usize> {
        for at in (1..names.len()).rev() {
            names.swap(at, self.random.below(at + 1));
        }
        let most = names.len();
        names.truncate(2 + self.random.below(most - 1));
        names
    }

    /// Whether whoever has these may enter again.
    fn nest(&self, names: &[usize]) -> bool {
        names.iter().all(|name| self.locks[*name].nests() && !self.mutexes[*name])
    }

    fn lock_of(&self, names: &[usize]) -> MultiLock {
        MultiLock::new(names.iter().map(|name| match &self.locks[*name] {
            Named::Plain(_) if self.mutexes[*name] => Part::from(self.sailor.client.mutex(NAMES[*name])),
            Named::Plain(lock) => Part::from(lock),
            Named::Fenced(lock) => Part::from(lock),
            Named::Token(lock, _) => Part::from(lock),
        }))
    }

    fn terms(&mut self, nested: bool) -> Terms {
        let terms = draw_terms(&self.mix, &mut self.random);
        let within = Duration::from_millis(LONGEST_INNER_WAIT);
        Terms { wait: if nested { terms.wait.or(Some(within)) } else { terms.wait }, ..terms }
    }

    fn asking(&self, terms: Terms, nested: bool) -> Asking {
        let watched = terms.lease == Lease::Watchdog;
        let lease = match terms.lease {
            Lease::Fixed(lease) => lease,
            _ => self.sailor.watchdog,
        };
        Asking { lease, watched, bounded: terms.bound.is_some(), nested, once: terms.wait == Some(Duration::ZERO) }
    }

    async fn enter(&mut self, names: Vec<usize>, nested: bool) -> Option<Held> {
        let terms = self.terms(nested);
        let dropped = self.random.once_in_a_while(self.mix.dropped);
        let patience = dropped.then(|| (self.random.below(6), self.random.millis(0, 60)));
        let parks = self.mix.parked > 0 && !self.referee.is_calm() && self.random.once_in_a_while(self.mix.parked);
        let parked = if parks { self.random.millis(20, 900) } else { Duration::ZERO };
        self.sailor.aim(&mut self.random);
        let asking = self.asking(terms, nested);
        let since = self.referee.now();
        self.tell(&format!("asks for {} on {terms:?}", said_of(&names)));
        let owner = self.nest(&names).then(|| self.owner.clone());
        let lock = self.lock_of(&names);
        let gathering = self.referee.gathers(Several::of(names.iter().map(|name| (*name, self.seats[*name]))), asking);
        let acquiring = acquire(&lock, terms, owner.as_ref());
        let answer = match patience {
            None if parks => Some(after_a_while(acquiring, parked).await),
            None => Some(acquiring.await),
            Some((polls, until)) => timeout(until, after_polls(acquiring, polls)).await.ok().flatten(),
        };
        let entered = self.entered(names, answer, terms, asking, (since, parked));
        drop(gathering);
        entered
    }

    /// One of those that it has once more, by itself: of a fenced one that tells the token.
    async fn enter_one(&mut self, name: usize) -> Option<Held> {
        let terms = self.terms(true);
        let asking = self.asking(terms, true);
        let since = self.referee.now();
        self.tell(&format!("asks for {} again on {terms:?}", NAMES[name]));
        self.referee.asks(self.seats[name], asking);
        let answer = Either::Named(self.locks[name].clone()).acquire(terms, Some(&self.owner)).await;
        let fence = answer.iter().flatten().find_map(LockGuard::fence);
        let entered = self.entered(vec![name], Some(answer), terms, asking, (since, Duration::ZERO));
        if let Some(Held { parts, .. }) = &entered {
            let fenced = matches!(self.locks[name], Named::Fenced(_));
            self.referee.has_token(name, parts[0].1.as_ref(), fence, fenced);
        }
        entered
    }

    fn entered(
        &self,
        names: Vec<usize>,
        answer: Option<Result<Option<LockGuard>>>,
        terms: Terms,
        asking: Asking,
        (since, parked): (Duration, Duration),
    ) -> Option<Held> {
        let answer = answer.unwrap_or(Err(Error::Closed));
        let said = match &answer {
            Ok(Some(_)) => "granted".to_owned(),
            Ok(None) => "busy".to_owned(),
            Err(error) => word(error),
        };
        self.tell(&format!("asked for {}: {said}", said_of(&names)));
        let for_ever = || longest_wait(&self.referee, &self.mix) * self.mix.waits_for() as u32;
        let bound = terms.wait.map_or_else(for_ever, |wait| wait + TWO_COMMANDS + COMMAND) + parked + SLACK;
        self.referee.answered(self.seats[names[0]], "lock of several", answer.as_ref().err(), since, bound);
        match answer {
            Ok(Some(guard)) => {
                let granted = |name| {
                    let nested = asking.nested;
                    let (owner, asking) = (guard.owner(), Asking { nested, ..asking });
                    (name, self.referee.granted(self.seats[name], owner, None, asking, since))
                };
                let parts = names.into_iter().map(granted).collect();
                return Some(Held { guard, parts, asking, lost: false });
            }
            Err(error @ Error::Lost { .. }) => {
                if terms.wait.is_none() {
                    self.referee.complain("whoever waits for ever is told of a loss", None, &error);
                }
                self.told(&names, &[], &error);
            }
            Ok(None) if terms.wait.is_none() => {
                self.referee.complain("an answer that cannot be", None, "busy for whoever waits for ever");
            }
            Ok(None) | Err(_) => {}
        }
        names.iter().for_each(|name| self.referee.in_vain(self.seats[*name]));
        None
    }

    /// A loss names the part that was lost.
    fn told(&self, names: &[usize], parts: &[(usize, Option<Field>)], error: &Error) {
        let Error::Lost { name: lost, .. } = error else { return };
        match names.iter().find(|name| NAMES[**name] == &**lost) {
            Some(name) => {
                let hold = parts.iter().find(|(of, _)| of == name).and_then(|(_, hold)| hold.as_ref());
                self.referee.told(self.seats[*name], hold, error);
            }
            None => self.referee.complain("a loss names none of them", None, error),
        }
    }

    /// Stays for so long, looking all the while whether all holds are still there; says whether those of the newest are.
    async fn stay(&mut self, held: &mut [Held], length: Duration) -> bool {
        let until = Instant::now() + length;
        let mut counts = self.random.once_in_a_while(400);
        loop {
            if !self.look(held) || std::mem::take(&mut counts) && !self.count(held).await {
                return false;
            }
            let now = Instant::now();
            if now >= until {
                return true;
            }
            self.pass_time(held, until - now).await;
        }
    }

    async fn pass_time(&mut self, held: &mut [Held], left: Duration) {
        let (length, draw) = (self.random.millis(1, 40).min(left), self.random.below(1000));
        let bounded = held.iter().any(|held| held.asking.bounded);
        let Some(newest) = held.last_mut() else { return };
        match draw {
            0..40 => {
                let stopped = newest.guard.protect(sleep(length)).await.is_err();
                if stopped && newest.guard.is_held() {
                    self.referee.complain("work is stopped", None, "while all holds are believed in");
                }
            }
            40..110 if !bounded => self.extend(newest).await,
            130.. if draw - 130 < self.mix.forced => {
                let name = newest.parts[self.random.below(newest.parts.len())].0;
                self.force(name).await;
            }
            _ => sleep(length).await,
        }
    }

    async fn extend(&mut self, held: &Held) {
        let long = self.random.once_in_a_while(self.mix.long);
        let more = if long { self.random.millis(3_000, 8_000) } else { self.random.millis(50, 700) };
        let since = self.referee.now();
        for (name, _) in &held.parts {
            self.referee.change(self.seats[*name], |seat| seat.longest = seat.longest.max(more));
        }
        let answer = held.guard.extend(more).await;
        let names: Vec<_> = held.parts.iter().map(|(name, _)| *name).collect();
        match &answer {
            Ok(()) => names.iter().for_each(|name| self.referee.extended(self.seats[*name], since)),
            Err(error) => self.told(&names, &held.parts, error),
        }
        self.referee.answered(self.seats[names[0]], "extend", answer.as_ref().err(), since, COMMAND + SLACK);
    }

    async fn force(&mut self, name: usize) {
        self.sailor.aim(&mut self.random);
        let forced = Forced { referee: &self.referee, number: self.referee.number() };
        let since = self.referee.now();
        self.tell(&format!("forces {}", NAMES[name]));
        self.referee.forces(forced.number, self.sailor.number, name);
        let answer = self.locks[name].force_unlock().await;
        self.referee.forced(forced.number, answer.as_ref().ok().copied());
        let bound = TWO_COMMANDS + SLACK;
        self.referee.answered(self.seats[name], "force", answer.as_ref().err(), since, bound);
    }

    /// Looks at all guards; says whether the newest is believed in.
    fn look(&self, held: &mut [Held]) -> bool {
        for held in held.iter_mut() {
            let is_held = held.guard.is_held();
            let missing: Vec<_> = held.parts.iter().filter(|(name, _)| !self.believes(*name)).collect();
            if is_held && held.lost {
                self.referee.complain("a lost hold is held again", None, "by the same guard");
            }
            if is_held && !missing.is_empty() {
                self.referee.complain("a loss of one is no loss of all", None, format!("{missing:?}"));
            }
            if !is_held && !std::mem::replace(&mut held.lost, true) {
                let names: Vec<_> = held.parts.iter().map(|(name, _)| *name).collect();
                match held.guard.lost().now_or_never() {
                    Some(error) => self.told(&names, &held.parts, &error),
                    None => self.referee.complain("a loss is not told", None, "the guard holds nothing"),
                }
                if !held.guard.cancellation().is_cancelled() {
                    self.referee.complain("a loss is not told", None, "nobody is told to stop");
                }
            }
        }
        let Some(newest) = held.last() else { return false };
        for (name, _) in &newest.parts {
            self.referee.looks(self.seats[*name], self.believes(*name));
        }
        !newest.lost
    }

    fn believes(&self, name: usize) -> bool {
        self.referee.book().seats.get(&self.seats[name]).is_some_and(Seat::believes)
    }

    /// Raises the counters under the newest holds; says whether all were believed in to the end.
    async fn count(&mut self, held: &mut [Held]) -> bool {
        let from: Vec<_> = (0..NAMES.len()).map(|name| self.referee.reads(name)).collect();
        sleep(self.random.millis(0, 4)).await;
        let Some(newest) = held.last_mut() else { return false };
        if newest.guard.is_held() {
            for (name, _) in &newest.parts {
                self.referee.raises(self.seats[*name], from[*name], self.referee.number());
            }
        }
        self.look(held)
    }

    async fn leave(&mut self, held: Held, others: &[Held]) {
        let draw = self.random.below(100);
        let names: Vec<_> = held.parts.iter().map(|(name, _)| *name).collect();
        let stays = |name: usize| others.iter().any(|other| other.parts.iter().any(|(it, _)| *it == name));
        let detaches = others.is_empty() && names.len() > 1 && (55..70).contains(&draw);
        for name in &names {
            let (last, believed) = (!stays(*name), self.believes(*name));
            self.referee.change(self.seats[*name], |seat| {
                seat.guards -= u32::from(!last).min(seat.guards);
                seat.tickets -= u32::from(believed).min(seat.tickets);
                seat.watched -= u32::from(held.asking.watched && believed).min(seat.watched);
            });
            // What is detached is kept until it is unlocked.
            if last && !detaches {
                self.referee.lets_go(self.seats[*name]);
            }
        }
        self.tell(&format!("lets go of {}", said_of(&names)));
        self.sailor.aim(&mut self.random);
        match draw {
            0..40 => {
                if !self.unlock(&held).await && self.random.once_in_a_while(500) {
                    self.unlock(&held).await;
                }
            }
            40..55 => {
                let (polls, until) = (self.random.below(4), self.random.millis(0, 3));
                let _ = timeout(until, after_polls(self.unlock(&held), polls)).await;
                if self.random.once_in_a_while(300) {
                    self.unlock(&held).await;
                }
            }
            _ if detaches => self.leave_detached(held, &names).await,
            _ => drop(held),
        }
    }

    async fn unlock(&self, held: &Held) -> bool {
        let since = self.referee.now();
        let answer = held.guard.unlock().await;
        self.let_go("unlock", &held.parts, &answer, since);
        answer.is_ok()
    }

    async fn leave_detached(&mut self, held: Held, names: &[usize]) {
        let Held { guard, parts, .. } = held;
        let owner = guard.detach();
        let detached = |name: &usize| Detached { lock: self.locks[*name].clone(), owner: owner.clone() };
        let detached: Vec<_> = names.iter().map(detached).collect();
        sleep(self.random.millis(0, 5)).await;
        names.iter().for_each(|name| self.referee.lets_go(self.seats[*name]));
        let lock = self.lock_of(names);
        let since = self.referee.now();
        let attaches = self.random.once_in_a_while(300);
        match lock.attach(&owner).filter(|_| attaches) {
            Some(guard) => {
                let answer = guard.unlock().await;
                self.let_go("unlock", &parts, &answer, since);
            }
            None => {
                let answer = lock.unlock().owner(&owner).await;
                self.let_go("unlock detached", &parts, &answer, since);
            }
        }
        drop(detached);
    }

    fn let_go(&self, what: &str, parts: &[(usize, Option<Field>)], answer: &Result<Released>, since: Duration) {
        let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
        self.tell(&format!("{what} of {}: {}", said_of(&names), released(answer)));
        self.referee.released_together(parts, answer);
        if let Err(error) = answer {
            self.told(&names, parts, error);
        }
        self.referee.answered(self.seats[names[0]], what, answer.as_ref().err(), since, TWO_COMMANDS + SLACK);
    }

    fn tell(&self, what: &str) {
        self.referee.tell(format!("client {} task {} of several: {what}", self.sailor.number, self.task));
    }
}

impl Drop for SectionOfSeveral {
    fn drop(&mut self) {
        self.seats.iter().for_each(|seat| self.referee.stands_up(*seat));
    }
}

/// A force that is dropped may run all the same.
struct Forced<'a> {
    referee: &'a Referee,
    number: u64,
}

impl Drop for Forced<'_> {
    fn drop(&mut self) {
        self.referee.forced(self.number, None);
    }
}

async fn acquire(lock: &MultiLock, terms: Terms, owner: Option<&Owner>) -> Result<Option<LockGuard>> {
    let Terms { lease, bound, wait } = terms;
    match wait {
        None => {
            let acquire = lock.lock().lease(lease);
            let acquire = if let Some(owner) = owner { acquire.owner(owner) } else { acquire };
            if let Some(bound) = bound { acquire.max_hold(bound).await } else { acquire.await }.map(Some)
        }
        Some(wait) => {
            let acquire = lock.try_lock().wait(wait).lease(lease);
            let acquire = if let Some(owner) = owner { acquire.owner(owner) } else { acquire };
            if let Some(bound) = bound { acquire.max_hold(bound).await } else { acquire.await }
        }
    }
}

fn said_of(names: &[usize]) -> String {
    names.iter().map(|name| NAMES[*name]).collect::<Vec<_>>().join(", ")
}
