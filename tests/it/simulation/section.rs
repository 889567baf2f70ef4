//! One section of a task: how it takes a lock, what it does inside, how it lets go. All of it is drawn, and the referee is
//! told of all of it; nothing is judged here.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt;
use relatch::{Error, Lease, LockGuard, LostCause, Owner, Released, Result, Token};
use tokio::time::{Instant, sleep, timeout};

use super::{
    COMMAND, NAMES,
    crew::{Mix, Sailor},
    referee::{Asking, Referee, Seat},
    rules::TWO_COMMANDS,
    shadow::Field,
};
use crate::{
    harness::{
        either::{Detached, Either, Named, Terms, released, word},
        random::Random,
    },
    storm::log::{DROPPED, Event, GRANTED, What},
};

/// What is left to a clock that counts milliseconds, and to a try that waits for its last answer.
pub(super) const SLACK: Duration = Duration::from_millis(60);
/// How long somebody may wait for a lock that few want, since one of its process got it last: as long as a lease that nobody
/// renews, and a command, and a bit.
const LONGEST: Duration = Duration::from_secs(20);
/// What is given away lasts for no longer, unless it is extended.
const LONGEST_GIVEN: Duration = Duration::from_secs(1);
/// No section stays longer at a time.
pub(super) const LONGEST_LINGER: Duration = Duration::from_millis(1_800);

/// A section that is about to run.
pub(super) struct Section {
    sailor: Arc<Sailor>,
    referee: Arc<Referee>,
    seat: u64,
    task: u64,
    name: usize,
    lock: Either,
    /// Of the reentrant lock; a mutex has one for each acquisition.
    owner: Owner,
    mix: Mix,
    random: Random,
    /// What was asked and has not ended yet; never zero.
    open: AtomicU64,
}

struct Held {
    guard: LockGuard,
    number: u64,
    /// Its field on the store.
    hold: Option<Field>,
    watched: bool,
    bounded: bool,
    lost: bool,
}

impl Section {
    pub(super) fn draw(sailor: Arc<Sailor>, task: u64, own: &Owner, random: &mut Random) -> Self {
        let mix = sailor.mix;
        let name = random.below(mix.names);
        let lock = sailor.lock(name);
        let seat = Seat::new(sailor.number, sailor.client.id(), name, lock.clone(), sailor.watchdog);
        let referee = Arc::clone(&sailor.referee);
        let owner = if random.once_in_a_while(300) { Owner::new() } else { own.clone() };
        // A mutex is a plain lock.
        let lock = if random.once_in_a_while(mix.mutexes) && matches!(lock, Named::Plain(_)) {
            Either::Mutex(sailor.client.mutex(NAMES[name]))
        } else {
            Either::Named(lock)
        };
        let seat = referee.sits_down(seat);
        let random = Random::new(random.next(), &[]);
        Self { sailor, referee, seat, task, name, lock, owner, mix, random, open: AtomicU64::new(0) }
    }

    pub(super) async fn run(mut self) {
        if let Some(token) = self.referee.takes_given(self.name, self.sailor.number) {
            self.go_on(token).await;
        }
        self.visit().await;
        // It may come back in the very instant.
        if self.random.once_in_a_while(100) {
            self.visit().await;
        }
    }

    async fn visit(&mut self) {
        let mut held = Vec::new();
        let deepest = match &self.lock {
            Either::Named(lock) if lock.nests() && self.random.once_in_a_while(self.mix.nested) => {
                2 + self.random.below(2)
            }
            Either::Named(_) | Either::Mutex(_) => 1,
        };
        for depth in 0..deepest {
            let bridges = depth > 0 && self.random.once_in_a_while(150);
            let entered = if bridges { self.bridge(&mut held).await } else { self.enter(depth > 0).await };
            let Some(entered) = entered else { break };
            held.push(entered);
            let length = self.length();
            if !self.stay(&mut held, length).await {
                break;
            }
        }
        let is_owner = matches!(&self.lock, Either::Named(lock) if lock.nests());
        if is_owner && held.last().is_some_and(|newest| newest.lost) && self.random.once_in_a_while(500) {
            // Its lost guards stay while it asks again.
            if let Some(entered) = self.enter(false).await {
                held.push(entered);
                let length = self.length();
                self.stay(&mut held, length).await;
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

    fn length(&mut self) -> Duration {
        draw_length(&self.mix, &mut self.random)
    }

    fn terms(&mut self) -> Terms {
        draw_terms(&self.mix, &mut self.random)
    }

    async fn enter(&mut self, nested: bool) -> Option<Held> {
        let terms = self.terms();
        // Dropped at some poll or other, or soon.
        let dropped = self.random.once_in_a_while(self.mix.dropped);
        let patience = dropped.then(|| (self.random.below(6), self.random.millis(0, 40)));
        self.sailor.aim(&mut self.random);
        let (number, asking) = self.asks(terms, nested);
        let since = self.referee.now();
        let acquiring = self.lock.acquire(terms, Some(&self.owner));
        // Others, and servers, may change while nobody looks.
        let parks = self.mix.parked > 0 && !self.referee.is_calm() && self.random.once_in_a_while(self.mix.parked);
        let parked = if parks { self.random.millis(20, 900) } else { Duration::ZERO };
        let answer = match patience {
            None if parks => Some(after_a_while(acquiring, parked).await),
            None => Some(acquiring.await),
            Some((polls, until)) => timeout(until, after_polls(acquiring, polls)).await.ok().flatten(),
        };
        self.entered(answer, number, terms, asking, (since, parked))
    }

    /// A nested acquisition that is all that keeps the hold: the outer guards go while it is under way.
    async fn bridge(&mut self, held: &mut Vec<Held>) -> Option<Held> {
        let terms = Terms { wait: None, ..self.terms() };
        let (number, asking) = self.asks(terms, true);
        let since = self.referee.now();
        let mut acquiring = Box::pin(self.lock.acquire(terms, Some(&self.owner)));
        let at_once = poll_fn(|cx| Poll::Ready(acquiring.as_mut().poll(cx))).await;
        let answer = match at_once {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                // What runs out meanwhile may be somebody else's.
                let lasts = |held: &Held| held.guard.expires_in().is_some_and(|left| left > COMMAND / 2);
                let believed = held.iter().all(lasts) && terms.bound.is_none() && self.referee.is_settled();
                self.referee.change(self.seat, |seat| {
                    (seat.guards, seat.tickets, seat.watched, seat.bridges) = (0, 0, 0, believed && !seat.bounded);
                });
                held.clear();
                acquiring.await
            }
        };
        self.entered(Some(answer), number, terms, asking, (since, Duration::ZERO))
    }

    fn asks(&mut self, terms: Terms, nested: bool) -> (u64, Asking) {
        let number = self.referee.number();
        let watched = terms.lease == Lease::Watchdog;
        let lease = match terms.lease {
            Lease::Fixed(lease) => lease,
            _ => self.sailor.watchdog,
        };
        let once = terms.wait == Some(Duration::ZERO);
        let asking = Asking { lease, watched, bounded: terms.bound.is_some(), nested, once };
        self.note(Event::Asked { number, what: What::Lock, name: self.name, within: terms.wait });
        self.referee.asks(self.seat, asking);
        (number, asking)
    }

    fn entered(
        &self,
        answer: Option<Result<Option<LockGuard>>>,
        number: u64,
        terms: Terms,
        asking: Asking,
        (since, parked): (Duration, Duration),
    ) -> Option<Held> {
        let Some(answer) = answer else {
            self.ended(number, DROPPED.to_owned());
            self.referee.in_vain(self.seat);
            return None;
        };
        let said = match &answer {
            Ok(Some(_)) => GRANTED.to_owned(),
            Ok(None) => "busy".to_owned(),
            Err(error) => word(error),
        };
        self.ended(number, said);
        let bound = terms.wait.map_or_else(
            || {
                let waits = longest_wait(&self.referee, &self.mix) * self.mix.waits_for() as u32;
                self.referee.stands_still(self.seat, since) - since + waits
            },
            |wait| wait + TWO_COMMANDS + COMMAND,
        );
        self.referee.answered(self.seat, "lock", answer.as_ref().err(), since, bound + parked + SLACK);
        match answer {
            Ok(Some(guard)) => {
                let hold = self.referee.granted(self.seat, guard.owner(), guard.fence(), asking, since);
                Some(Held { guard, number, hold, watched: asking.watched, bounded: asking.bounded, lost: false })
            }
            Ok(None) if asking.once && !asking.nested => {
                self.referee.busy(self.seat, since);
                None
            }
            _ => {
                self.referee.in_vain(self.seat);
                None
            }
        }
    }

    /// Stays for so long, looking all the while whether the hold is still there; says whether the newest one is.
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

    /// Something that takes a few milliseconds, or is asked for inside a section.
    async fn pass_time(&mut self, held: &mut [Held], left: Duration) {
        let (length, draw) = (self.random.millis(1, 40).min(left), self.random.below(1000));
        let bounded = held.iter().any(|held| held.bounded);
        let Some(newest) = held.last_mut() else { return };
        match draw {
            0..40 => {
                let stopped = newest.guard.protect(sleep(length)).await.is_err();
                if stopped && newest.guard.is_held() {
                    self.referee.complain("work is stopped", Some(self.name), "while the hold is believed in");
                }
            }
            40..110 if !bounded => self.extend(newest).await,
            110..130 => {
                let since = self.referee.now();
                let locked = self.sailor.lock(self.name).is_locked().await;
                self.referee.answered(self.seat, "look", locked.as_ref().err(), since, COMMAND + SLACK);
            }
            130.. if draw - 130 < self.mix.forced => self.force().await,
            _ => sleep(length).await,
        }
    }

    async fn extend(&mut self, held: &mut Held) {
        let long = self.random.once_in_a_while(self.mix.long);
        let more = if long { self.random.millis(3_000, 8_000) } else { self.random.millis(50, 700) };
        let (number, since) = (self.referee.number(), self.referee.now());
        self.note(Event::Asked { number, what: What::Extend, name: self.name, within: None });
        self.referee.change(self.seat, |seat| seat.longest = seat.longest.max(more));
        let answer = held.guard.extend(more).await;
        self.ended(number, answer.as_ref().map_or_else(word, |()| "ok".to_owned()));
        match &answer {
            Ok(()) => self.referee.extended(self.seat, since),
            Err(error @ Error::Lost { .. }) => self.referee.told(self.seat, held.hold.as_ref(), error),
            Err(_) => {}
        }
        self.referee.answered(self.seat, "extend", answer.as_ref().err(), since, COMMAND + SLACK);
    }

    async fn force(&mut self) {
        self.sailor.aim(&mut self.random);
        let (number, since) = (self.referee.number(), self.referee.now());
        self.note(Event::Asked { number, what: What::Force, name: self.name, within: None });
        self.referee.forces(number, self.sailor.number, self.name);
        let struck = self.mix.struck > 0 && self.random.once_in_a_while(self.mix.struck);
        let lock = self.sailor.lock(self.name);
        let mut forcing = pin!(lock.force_unlock());
        // It looks first, and only frees what it saw.
        let answer = match poll_fn(|cx| Poll::Ready(forcing.as_mut().poll(cx))).await {
            Poll::Ready(answer) => answer,
            Poll::Pending => {
                if struck {
                    self.sailor.strike();
                }
                forcing.await
            }
        };
        self.ended(number, answer.as_ref().map_or_else(word, ToString::to_string));
        self.referee.forced(number, answer.as_ref().ok().copied());
        self.referee.answered(self.seat, "force", answer.as_ref().err(), since, TWO_COMMANDS + SLACK);
    }

    /// Looks at all guards; says whether the newest is believed in.
    fn look(&mut self, held: &mut [Held]) -> bool {
        for held in held.iter_mut() {
            let is_held = held.guard.is_held();
            if is_held && held.lost {
                self.referee.complain("a lost hold is held again", Some(self.name), "by the same guard");
            }
            if !is_held && !std::mem::replace(&mut held.lost, true) {
                let Some(error) = held.guard.lost().now_or_never() else {
                    self.referee.complain("a loss is not told", Some(self.name), "the guard holds nothing");
                    continue;
                };
                let number = self.referee.number();
                self.note(Event::Asked { number, what: What::Told, name: self.name, within: None });
                self.ended(number, word(&error));
                self.referee.told(self.seat, held.hold.as_ref(), &error);
            }
        }
        let Some(newest) = held.last() else { return false };
        if !newest.lost {
            let seen = self.referee.now();
            self.note(Event::Held { guard: newest.number, seen });
        }
        self.referee.looks(self.seat, !newest.lost);
        !newest.lost
    }

    /// Raises the counter under the newest hold; says whether it was believed in to the end.
    async fn count(&mut self, held: &mut [Held]) -> bool {
        let from = self.referee.reads(self.name);
        sleep(self.random.millis(0, 4)).await;
        let Some(newest) = held.last_mut() else { return false };
        if newest.guard.is_held() {
            let guard = newest.number;
            self.note(Event::Counted { guard, from, sure: true });
            self.referee.raises(self.seat, from, guard);
        }
        self.look(held)
    }

    async fn leave(&mut self, held: Held, last: bool) {
        let draw = self.random.below(100);
        self.referee.change(self.seat, |seat| {
            seat.guards -= u32::from(!last);
            seat.tickets -= u32::from(!held.lost).min(seat.tickets);
            seat.watched -= u32::from(held.watched && !held.lost).min(seat.watched);
        });
        let detaches = last && (55..65).contains(&draw);
        // Nobody may come who goes on with it: then it stays for what is left of its lease.
        let short = || held.guard.expires_in().is_none_or(|left| left < LONGEST_GIVEN);
        let by_token = matches!(&self.lock, Either::Named(Named::Token(..)));
        let gives = last && (65..75).contains(&draw) && by_token && short();
        // What is detached is kept until it is unlocked, and what is given away as long as its lease.
        if last && !detaches && !gives {
            self.referee.lets_go(self.seat);
        }
        let (guard, hold) = (held.guard, held.hold.as_ref());
        self.sailor.aim(&mut self.random);
        match draw {
            0..40 => {
                if !self.unlock(&guard, hold).await && self.random.once_in_a_while(500) {
                    self.unlock_again(&guard, hold).await;
                }
            }
            40..55 => {
                let (polls, until) = (self.random.below(4), self.random.millis(0, 3));
                let _ = timeout(until, after_polls(self.unlock(&guard, hold), polls)).await;
                if self.random.once_in_a_while(300) {
                    self.unlock_again(&guard, hold).await;
                }
            }
            _ if detaches => self.leave_detached(guard, hold).await,
            _ if gives => self.give_away(guard, hold),
            _ => drop(guard),
        }
    }

    async fn unlock(&self, guard: &LockGuard, hold: Option<&Field>) -> bool {
        self.unlock_as("unlock", guard, hold).await
    }

    async fn unlock_again(&self, guard: &LockGuard, hold: Option<&Field>) {
        self.unlock_as("unlock again", guard, hold).await;
    }

    async fn unlock_as(&self, what: &str, guard: &LockGuard, hold: Option<&Field>) -> bool {
        let (number, since) = (self.referee.number(), self.referee.now());
        self.note(Event::Asked { number, what: What::Unlock, name: self.name, within: None });
        let answer = guard.unlock().await;
        self.let_go(number, what, hold, &answer, since);
        answer.is_ok()
    }

    /// Whoever comes next of this name, of another client, goes on with the hold.
    fn give_away(&self, guard: LockGuard, hold: Option<&Field>) {
        let held = guard.is_held();
        match guard.into_token() {
            Ok(token) => self.referee.gives(self.seat, hold, token),
            Err(guard) => {
                if held {
                    self.referee.complain("a hold cannot be given away", Some(self.name), "it is believed in");
                }
                self.referee.lets_go(self.seat);
                drop(guard);
            }
        }
    }

    /// Somebody gave a hold away, which this one extends, perhaps, and releases.
    async fn go_on(&mut self, token: Token) {
        let Named::Token(lock, _) = self.sailor.lock(self.name) else { return };
        let held = lock.resume(token);
        for _ in 0..self.random.below(3) {
            self.sailor.aim(&mut self.random);
            let (number, since) = (self.referee.number(), self.referee.now());
            self.note(Event::Asked { number, what: What::Extend, name: self.name, within: None });
            let answer = held.extend(self.random.millis(50, 700)).await;
            self.ended(number, answer.as_ref().map_or_else(word, |()| "ok".to_owned()));
            self.referee.answered(self.seat, "extend", answer.as_ref().err(), since, COMMAND + SLACK);
            match answer {
                Ok(()) => self.referee.claims(self.name, held.token(), held.expires_in(), since),
                Err(Error::Lost { cause: LostCause::Gone, .. }) => {
                    self.referee.disclaims(self.name, held.token(), true)
                }
                Err(_) => {}
            }
            sleep(self.random.millis(0, 200)).await;
        }
        self.sailor.aim(&mut self.random);
        self.referee.disclaims(self.name, held.token(), false);
        let (number, since) = (self.referee.number(), self.referee.now());
        self.note(Event::Asked { number, what: What::Unlock, name: self.name, within: None });
        let answer = held.unlock().await;
        self.ended(number, released(&answer));
        self.referee.released(self.name, Some(held.token().as_ref()), &answer);
        self.referee.answered(self.seat, "unlock", answer.as_ref().err(), since, TWO_COMMANDS + SLACK);
    }

    async fn leave_detached(&mut self, guard: LockGuard, hold: Option<&Field>) {
        let (lock, fence) = (self.sailor.lock(self.name), guard.fence());
        let owner = guard.detach();
        let detached = Detached { lock: lock.clone(), owner: owner.clone() };
        sleep(self.random.millis(0, 5)).await;
        self.referee.lets_go(self.seat);
        if self.random.once_in_a_while(300) {
            if let Some(guard) = lock.attach(&owner) {
                if guard.fence() != fence {
                    let what = format!("{fence:?}, then {:?}", guard.fence());
                    self.referee.complain("a hold comes back with another token", Some(self.name), what);
                }
                self.unlock(&guard, hold).await;
            }
        } else {
            let (number, since) = (self.referee.number(), self.referee.now());
            self.note(Event::Asked { number, what: What::UnlockDetached, name: self.name, within: None });
            let answer = lock.unlock(&owner).await;
            self.let_go(number, "unlock detached", hold, &answer, since);
        }
        drop(detached);
    }

    fn let_go(&self, number: u64, what: &str, hold: Option<&Field>, answer: &Result<Released>, since: Duration) {
        self.ended(number, released(answer));
        self.referee.released(self.name, hold.map(String::as_str), answer);
        // Asked again, it tells of what became of a hand-over that was not answered.
        if let (Err(error), false) = (answer, what == "unlock again") {
            self.referee.told(self.seat, hold, error);
        }
        self.referee.answered(self.seat, what, answer.as_ref().err(), since, TWO_COMMANDS + SLACK);
    }

    fn note(&self, event: Event) {
        match event {
            Event::Asked { number, .. } => self.opens(number),
            Event::Ended { .. } => self.open.store(0, Ordering::Relaxed),
            Event::Held { .. } | Event::Counted { .. } => {}
        }
        self.write(event);
    }

    /// Whatever was asked before and has not ended was dropped.
    fn opens(&self, number: u64) {
        let dropped = self.open.swap(number, Ordering::Relaxed);
        if dropped != 0 {
            self.write(Event::Ended { number: dropped, answer: DROPPED.to_owned() });
            self.referee.forced(dropped, None);
        }
    }

    fn ended(&self, number: u64, answer: String) {
        self.note(Event::Ended { number, answer });
    }

    fn write(&self, event: Event) {
        self.referee.note(self.sailor.number, self.task, self.seat, event);
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        self.opens(0);
        self.referee.stands_up(self.seat);
    }
}

/// How long somebody may wait for one name whom nobody of its process passes by.
pub(super) fn longest_wait(referee: &Referee, mix: &Mix) -> Duration {
    // Where somebody lets nobody go first it is luck who comes next.
    let longest = if referee.has_hasty() { 2 * LONGEST } else { LONGEST };
    longest + mix.left_behind() + mix.crowd()
}

/// Mostly short, sometimes beyond a lease.
pub(super) fn draw_length(mix: &Mix, random: &mut Random) -> Duration {
    match random.below(1000) {
        long if long < mix.linger => random.millis(700, LONGEST_LINGER.as_millis() as u64),
        900.. => random.millis(50, 400),
        _ => random.millis(0, mix.stay),
    }
}

pub(super) fn draw_terms(mix: &Mix, random: &mut Random) -> Terms {
    let lease = match random.below(1000) {
        fixed if fixed >= mix.fixed => Lease::Watchdog,
        _ if random.once_in_a_while(mix.long) => random.millis(3_000, 8_000).into(),
        _ => random.millis(20, 300).into(),
    };
    let bound = random.once_in_a_while(mix.bounded).then(|| random.millis(30, 1_200));
    let wait = match random.below(10) {
        0..6 => None,
        6..8 => Some(random.millis(1, 400)),
        _ => Some(Duration::ZERO),
    };
    Terms { lease, bound, wait }
}

/// A future's output, where it is polled once and then not for so long.
pub(super) async fn after_a_while<F: Future>(future: F, long: Duration) -> F::Output {
    let mut future = pin!(future);
    match poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
        Poll::Ready(output) => output,
        Poll::Pending => {
            sleep(long).await;
            future.await
        }
    }
}

/// A future's output, unless it is polled so many times in vain.
pub(super) async fn after_polls<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
