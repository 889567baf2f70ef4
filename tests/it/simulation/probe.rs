//! What must be true of the store while nobody says anything: no hold without anybody behind it stays, and no lock is free
//! while somebody waits, nobody listens for nobody. Asked again and again while nothing befalls anybody.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use relatch::{Uuid, embedded::Road};

use super::referee::{AT_ONCE, Book, Kept, Referee, Seat};

/// Whoever is told of nothing looks again after so long at most.
const LONGEST_POLL: Duration = Duration::from_millis(250);

impl Referee {
    pub(super) fn probe(&self) {
        let now = self.now();
        if !self.is_calm() {
            let mut book = self.book();
            book.orphans = Default::default();
            book.idle = Default::default();
            book.overheard = Default::default();
            drop(book);
            self.probe_gatherings();
            return;
        }
        self.probe_gatherings();
        let listeners: BTreeMap<_, _> = self.store.listeners().into_iter().collect();
        for (name, channel) in self.channels.iter().enumerate() {
            let listeners = listeners.get(channel).copied();
            let kept = self.peek(name);
            let mut book = self.up_to_date();
            let wrong = match &kept {
                None => book.is_idle(name, now),
                Some(kept) => book.is_orphan(name, kept, now),
            };
            let wrong = wrong.or_else(|| book.is_overheard(name, listeners.unwrap_or(0), now));
            drop(book);
            if let Some((rule, what)) = wrong {
                self.complain(rule, Some(name), what);
            }
        }
    }
}

impl Book {
    fn is_idle(&mut self, name: usize, now: Duration) -> Option<(&'static str, String)> {
        self.orphans[name] = None;
        // Of each process its contender is the one that is to wake.
        let mut waits: BTreeMap<Uuid, Duration> = BTreeMap::new();
        for seat in self.seats.values().filter(|seat| seat.name == name && seat.queues) {
            if let Some(since) = seat.waits {
                waits.entry(seat.id).and_modify(|longest| *longest = since.min(*longest)).or_insert(since);
            }
        }
        for (client, since) in self.awaiting(name) {
            waits.entry(client).and_modify(|longest| *longest = since.min(*longest)).or_insert(since);
        }
        if waits.is_empty() {
            self.idle[name] = None;
            return None;
        }
        let free = *self.idle[name].get_or_insert(now);
        // A message that was lost in a storm is made up for within what anybody sleeps.
        let heard = self.calm? + self.habits.settled().max(self.habits.watchdog);
        let asleep = self.asleep_until(name).max(heard);
        waits.into_iter().find_map(|(client, longest)| {
            let leaves = self.shadow.leaves(client, name) + self.habits.leaves(self.gives(client, name));
            let looks = if self.habits.silent[name] { LONGEST_POLL } else { Duration::ZERO };
            let over = now > free.max(longest).max(asleep).max(leaves) + looks + AT_ONCE;
            let what = || format!("free since {free:?}, one of {client} waits since {longest:?}");
            over.then(|| ("a lock is free and nobody wakes", what()))
        })
    }

    /// Of a loss nobody is told, nor that the clock leapt: who waits sleeps for the time that it was told before, and for no
    /// longer than a watchdog's lease.
    fn asleep_until(&self, name: usize) -> Duration {
        let losses = self.losses.iter().filter(|loss| loss.name.is_none_or(|lost| lost == name));
        losses.map(|loss| loss.until() + self.habits.watchdog).max().unwrap_or_default()
    }

    /// Whoever waits no more listens no more, once a cool-down is over.
    fn is_overheard(&mut self, name: usize, listeners: usize, now: Duration) -> Option<(&'static str, String)> {
        let asks = |seat: &&Seat| seat.waits.is_some() || seat.nests && !seat.believes();
        let waits = self.seats.values().filter(|seat| seat.name == name).filter(asks);
        let waiting: BTreeSet<Uuid> = waits.map(|seat| seat.id).collect();
        // What a client that crashed had goes on until its last release is given up.
        let crashed = self.crashed(now);
        if listeners <= waiting.len() + crashed {
            self.overheard[name] = None;
            return None;
        }
        let since = *self.overheard[name].get_or_insert(now);
        let gives = self.clients.keys().map(|client| self.gives(*client, name)).max().unwrap_or_default();
        let over = self.is_settled(since) && now > since + self.habits.leaves(gives) + AT_ONCE;
        over.then(|| ("somebody listens for nobody", format!("{listeners} since {since:?}, {} wait", waiting.len())))
    }

    fn is_orphan(&mut self, name: usize, kept: &Kept, now: Duration) -> Option<(&'static str, String)> {
        self.idle[name] = None;
        let client = |seat: &Seat| self.shadow.is_of(&kept.field, seat.id);
        let its = |seat: &Seat| seat.hold.as_ref() == Some(&kept.field) || seat.bridges && client(seat);
        let kept_by = self
            .seats
            .values()
            .any(|seat| seat.name == name && (seat.keeps() && its(seat) || seat.gathers && client(seat)));
        let ours = self.clients.iter().find(|(id, _)| self.shadow.is_of(&kept.field, **id));
        let dead = self.dead.iter().any(|id| self.shadow.is_of(&kept.field, *id));
        let given_away = self.tokens.given_away.contains(&kept.field);
        let birth = self.shadow.birth(&kept.field);
        // Of a command that was answered nobody expects a copy.
        let copied = birth.is_some_and(|birth| birth.ghost == Some(Road::Copy));
        let Some((_, watchdog)) =
            ours.filter(|_| !kept_by && !dead && !given_away && !copied && now >= self.clock_back)
        else {
            self.orphans[name] = None;
            return None;
        };
        // What came over a link that had ended is looked for every third of a lease.
        let looked_for = match birth.filter(|birth| birth.ghost == Some(Road::OldLink)) {
            Some(birth) => birth.until.saturating_sub(birth.at).min(*watchdog) / 3,
            None => Duration::ZERO,
        };
        let fresh = self.orphans[name].as_ref().is_none_or(|(field, _)| *field != kept.field);
        if fresh {
            self.orphans[name] = Some((kept.field.clone(), now));
        }
        let (field, since) = self.orphans[name].clone()?;
        // What is left over from faults has had its time before; what comes in a calm has a command's.
        let over = self.is_settled(now) && now > since + looked_for + Duration::from_millis(400);
        over.then(|| ("a hold is left to nobody", format!("{field} since {since:?}")))
    }
}
