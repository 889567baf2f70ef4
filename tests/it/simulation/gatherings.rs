//! Names that are asked for together: while some are missing whoever asks may have the others, by the order that all keep, and
//! wakes for the first that is missing. Nobody waits in a circle, and nothing is kept behind one that is missing.

use std::time::Duration;

use relatch::{Error, Released, Uuid};

use super::{
    COMMAND, NAMES,
    referee::{AT_ONCE, Asking, Book, Kept, Referee, Seat},
    shadow::Field,
};

/// What is asked for behind one that is missing is answered and let go of within this, on a day without weather.
const FOR_A_MOMENT: Duration = COMMAND.saturating_add(AT_ONCE);

/// The seats of names that are asked for together, in the order in which everybody takes them.
#[derive(Debug)]
pub(super) struct Several(Vec<(usize, u64)>);

/// An acquisition of several names that has no answer yet.
#[derive(Debug)]
pub(super) struct Gathering {
    several: Several,
    client: Uuid,
    waits: bool,
    /// The first that is missing, and since when.
    awaits: Option<(usize, Duration)>,
    /// Since when none is missing.
    complete: Option<Duration>,
    /// One that is kept behind the first that is missing, and since when.
    behind: Option<(usize, Duration)>,
}

/// Until it is dropped the acquisition is under way.
pub(super) struct UnderWay<'a> {
    referee: &'a Referee,
    number: u64,
}

impl Several {
    pub(super) fn of(seats: impl Iterator<Item = (usize, u64)>) -> Self {
        let mut seats: Vec<_> = seats.collect();
        seats.sort_by_key(|(name, _)| NAMES[*name]);
        Self(seats)
    }
}

impl Referee {
    pub(super) fn gathers(&self, several: Several, asking: Asking) -> UnderWay<'_> {
        for (_, seat) in &several.0 {
            self.asks(*seat, asking);
            // It stands in the queue of one of them at a time.
            self.change(*seat, |seat| (seat.queues, seat.gathers) = (false, true));
        }
        let mut book = self.book();
        book.drawn += 1;
        let number = book.drawn;
        let client = several.0.first().and_then(|(_, seat)| book.seats.get(seat)).map_or(Uuid::nil(), |seat| seat.id);
        let waits = !asking.once;
        let gathering = Gathering { several, client, waits, awaits: None, complete: None, behind: None };
        book.gatherings.insert(number, gathering);
        drop(book);
        UnderWay { referee: self, number }
    }

    /// Looks how far all have come who ask for several.
    pub(super) fn probe_gatherings(&self) {
        let (now, calm) = (self.now(), self.is_calm());
        let kept: [_; NAMES.len()] = std::array::from_fn(|name| self.peek(name));
        let mut book = self.up_to_date();
        let mut gatherings = std::mem::take(&mut book.gatherings);
        let wrong = gatherings.values_mut().filter(|_| calm).find_map(|gathering| gathering.probe(&book, &kept, now));
        if !calm {
            for gathering in gatherings.values_mut() {
                (gathering.awaits, gathering.complete, gathering.behind) = (None, None, None);
            }
        }
        book.gatherings = gatherings;
        drop(book);
        if let Some((rule, name, what)) = wrong {
            self.complain(rule, Some(name), what);
        }
    }

    /// A release of several was answered: one of them ran out without harm if they are said to have.
    pub(super) fn released_together(&self, parts: &[(usize, Option<Field>)], answer: &Result<Released, Error>) {
        if !matches!(answer, Ok(Released::AlreadyExpired)) {
            return;
        }
        let book = self.up_to_date();
        let found = parts.iter().any(|(_, hold)| hold.as_ref().is_some_and(|hold| book.shadow.has_run_out(hold)));
        drop(book);
        if !found {
            self.complain("a hold is said to have run out", None, format!("{parts:?}, and the server never said so"));
        }
    }

    /// Whoever takes one of several again has the token of that.
    pub(super) fn has_token(&self, name: usize, hold: Option<&Field>, fence: Option<u64>, fenced: bool) {
        let book = self.up_to_date();
        let birth = hold.and_then(|hold| book.shadow.birth(hold));
        let wrong = match (fence, birth) {
            (Some(fence), Some(birth)) => !fenced || !birth.fences.contains(&fence),
            (fence, _) => fenced != fence.is_some(),
        };
        let what = format!("{fence:?} of {hold:?}, which got {:?}", birth.map(|birth| &birth.fences));
        drop(book);
        if wrong {
            self.complain("a guard has another's token", Some(name), what);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let gathering = self.referee.book().gatherings.remove(&self.number);
        for (_, seat) in gathering.iter().flat_map(|gathering| &gathering.several.0) {
            self.referee.change(*seat, |seat| seat.gathers = false);
        }
    }
}

impl Book {
    /// Whoever gathers names and waits for this one now, and since when.
    pub(super) fn awaiting(&self, name: usize) -> impl Iterator<Item = (Uuid, Duration)> {
        let of_it = move |gathering: &Gathering| gathering.awaits.filter(|(awaited, _)| *awaited == name);
        self.gatherings.values().filter_map(move |gathering| Some((gathering.client, of_it(gathering)?.1)))
    }

    /// Whether a name can be nobody's but this seat's.
    fn is_of(&self, name: usize, number: u64, client: Uuid, kept: Option<&Kept>) -> bool {
        let Some(kept) = kept.filter(|kept| self.shadow.is_of(&kept.field, client)) else { return false };
        let of_client = |it: &Seat| (it.id, it.name) == (client, name);
        let idle = |it: &Seat| it.guards == 0 && it.waits.is_none() && !it.nests && !it.bridges && !it.gathers;
        let others = self.seats.iter().filter(|(other, it)| **other != number && of_client(it));
        let given_away = self.tokens.given_away.contains(&kept.field);
        let made = self.shadow.birth(&kept.field).is_some_and(|birth| birth.ghost.is_none() && !birth.copied);
        made && !given_away && !self.dead.contains(&client) && others.into_iter().all(|(_, it)| idle(it))
    }
}

impl Gathering {
    fn probe(
        &mut self,
        book: &Book,
        kept: &[Option<Kept>; NAMES.len()],
        now: Duration,
    ) -> Option<(&'static str, usize, String)> {
        let of_it = |name: usize, seat: u64| book.is_of(name, seat, self.client, kept[name].as_ref());
        let missing = self.several.0.iter().position(|(name, seat)| !of_it(*name, *seat));
        // While another task of the client is there too nobody knows whose a name is that the client has: it may be there.
        let of_client = |kept: &Kept| book.shadow.is_of(&kept.field, self.client);
        let absent = self.several.0.iter().position(|(name, _)| !kept[*name].as_ref().is_some_and(of_client));
        let behind = absent.and_then(|at| {
            let mut behind = self.several.0[at + 1..].iter();
            // What it had before it asked it keeps.
            let had = |seat: u64| book.seats.get(&seat).is_some_and(|seat| seat.guards > 0);
            behind.find(|(name, seat)| !had(*seat) && of_it(*name, *seat)).map(|(name, _)| *name)
        });
        let absent = absent.map(|at| self.several.0[at].0);
        let missing = missing.map(|at| self.several.0[at].0);
        let still = |before: Option<(usize, Duration)>, name| match before {
            Some((same, since)) if same == name => (same, since),
            _ => (name, now),
        };
        self.awaits = missing.filter(|_| self.waits).map(|name| still(self.awaits, name));
        self.behind = behind.map(|name| still(self.behind, name));
        self.complete = if missing.is_none() { self.complete.or(Some(now)) } else { None };
        let over = |since: Duration| book.is_settled(since) && since + FOR_A_MOMENT < now;
        if let Some((name, since)) = self.behind.filter(|(_, since)| over(*since)) {
            let what = format!("since {since:?}, {} is missing", absent.map_or("none", |name| NAMES[name]));
            return Some(("one is kept behind one that is missing", name, what));
        }
        let since = self.complete.filter(|since| over(*since))?;
        Some(("all are held and nobody is told", self.several.0[0].0, format!("since {since:?}")))
    }
}
