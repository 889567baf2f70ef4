//! When each entry has to be looked at: the driver's list of dates. What is to be seen there, and done, is not known here.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry as Slot},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::{date::Date, registry::Entry};

/// Lists are made for so many at once, if so many are asked for.
const ROOM: usize = 100;

/// When each entry has to be looked at. An entry stands in it once, but for a moment in which it is moved along with
/// others: looked at too early, there is nothing to see.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    dates: Mutex<Dates>,
    /// There is something to look at before all that was known.
    pub(super) sooner: Notify,
    ended: AtomicBool,
}

/// What is renewed together is due together: far fewer dates than entries.
#[derive(Debug, Default)]
struct Dates {
    days: BTreeMap<Date, Day>,
    len: usize,
}

/// The entries of one date, the oldest first.
#[derive(Debug)]
enum Day {
    One(Arc<Entry>),
    /// Never empty.
    Many(Box<Crowd>),
}

/// Each with its number, so that none is looked up for it.
#[derive(Debug)]
struct Crowd(VecDeque<(u64, Arc<Entry>)>);

impl Schedule {
    /// Moves an entry from where it stood to `at`.
    pub(super) fn put(&self, from: Option<Date>, at: Date, entry: &Arc<Entry>) {
        let mut dates = self.lock();
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        dates.remove_all(from.map(|from| (from, entry.number)).into_iter());
        let first = dates.next().is_none_or(|first| at < first);
        dates.insert_all(std::iter::once((at, Arc::clone(entry))));
        drop(dates);
        if first {
            self.sooner.notify_one();
        }
    }

    /// The same for many of them.
    pub(super) fn put_all(&self, moves: Vec<(Option<Date>, Date, Arc<Entry>)>) {
        let mut dates = self.lock();
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        let known = dates.next();
        dates.remove_all(moves.iter().filter_map(|(from, _, entry)| Some(((*from)?, entry.number))));
        dates.insert_all(moves.into_iter().map(|(_, at, entry)| (at, entry)));
        let next = dates.next();
        drop(dates);
        if next.is_some_and(|next| known.is_none_or(|known| next < known)) {
            self.sooner.notify_one();
        }
    }

    /// Ends the driver, which leaves nothing to look at.
    pub(super) fn end(&self) {
        let mut dates = self.lock();
        self.ended.store(true, Ordering::Release);
        let forgotten = std::mem::take(&mut *dates);
        drop(dates);
        drop(forgotten);
        self.sooner.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn next(&self) -> Option<Date> {
        self.lock().next()
    }

    /// Takes out all that are looked at by now, and says where they stood.
    pub(super) fn take_due(&self, now: Date) -> Vec<(Date, Arc<Entry>)> {
        self.take_first(usize::MAX, now)
    }

    /// The same for so many of them.
    pub(super) fn take_first(&self, count: usize, until: Date) -> Vec<(Date, Arc<Entry>)> {
        self.lock().take_first(count, until)
    }

    /// The first of those that are looked at by then. They stay where they are.
    pub(super) fn first(&self, count: usize, until: Date) -> Vec<Arc<Entry>> {
        let dates = self.lock();
        let mut first = Vec::with_capacity(count.min(ROOM));
        first.extend(dates.days.range(..=until).flat_map(|(_, day)| day.iter()).take(count).map(Arc::clone));
        first
    }

    /// When so many of them will have been looked at.
    pub(super) fn by(&self, count: usize) -> Option<Date> {
        let mut missing = count;
        let dates = self.lock();
        let last = dates.days.iter().find(|(_, day)| {
            missing = missing.saturating_sub(day.len());
            missing == 0
        });
        last.map(|(&at, _)| at)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len
    }

    fn lock(&self) -> MutexGuard<'_, Dates> {
        self.dates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dates {
    fn next(&self) -> Option<Date> {
        self.days.first_key_value().map(|(&at, _)| at)
    }

    /// Those of one date, if they come one after the other, cost one look for it.
    fn insert_all(&mut self, entries: impl Iterator<Item = (Date, Arc<Entry>)>) {
        let mut entries = entries.peekable();
        while let Some((at, entry)) = entries.next() {
            let day = match self.days.entry(at) {
                Slot::Vacant(day) => {
                    self.len += 1;
                    day.insert(Day::One(entry))
                }
                Slot::Occupied(day) => {
                    let day = day.into_mut();
                    self.len += usize::from(day.insert(entry, 0));
                    day
                }
            };
            while let Some((_, entry)) = entries.next_if(|(next, _)| *next == at) {
                self.len += usize::from(day.insert(entry, entries.size_hint().0));
            }
        }
    }

    /// As for [`Dates::insert_all`].
    fn remove_all(&mut self, entries: impl Iterator<Item = (Date, u64)>) {
        let mut entries = entries.peekable();
        while let Some((at, number)) = entries.next() {
            match self.days.get_mut(&at) {
                None => {}
                Some(Day::One(entry)) if entry.number != number => {}
                Some(Day::One(_)) => {
                    self.days.remove(&at);
                    self.len -= 1;
                }
                Some(Day::Many(day)) => {
                    let mut number = Some(number);
                    while let Some(out) = number {
                        self.len -= usize::from(day.remove(out));
                        number = entries.next_if(|(next, _)| *next == at).map(|(_, number)| number);
                    }
                    if day.0.is_empty() {
                        self.days.remove(&at);
                    }
                }
            }
        }
    }

    fn take_first(&mut self, count: usize, until: Date) -> Vec<(Date, Arc<Entry>)> {
        let mut taken = Vec::with_capacity(count.min(ROOM));
        while let Some(mut first) = self.days.first_entry().filter(|first| *first.key() <= until) {
            let (at, missing) = (*first.key(), count - taken.len());
            match first.get_mut() {
                _ if missing == 0 => break,
                Day::Many(crowd) if crowd.0.len() > missing => {
                    taken.extend(crowd.0.drain(..missing).map(|(_, entry)| (at, entry)));
                }
                _ => match first.remove() {
                    Day::One(entry) => taken.push((at, entry)),
                    Day::Many(crowd) => taken.extend(crowd.0.into_iter().map(|(_, entry)| (at, entry))),
                },
            }
        }
        self.len -= taken.len();
        taken
    }
}

impl Crowd {
    /// Whether it was not there yet. Mostly it is the youngest.
    fn insert(&mut self, entry: Arc<Entry>) -> bool {
        let place = match self.0.back() {
            Some((last, _)) if *last < entry.number => Err(self.0.len()),
            _ => self.place(entry.number),
        };
        if let Err(place) = place {
            self.0.insert(place, (entry.number, entry));
        }
        place.is_err()
    }

    /// Whether it was there. Mostly it is the oldest.
    fn remove(&mut self, number: u64) -> bool {
        let place = match self.0.front() {
            Some((first, _)) if *first == number => Ok(0),
            _ => self.place(number),
        };
        place.ok().and_then(|place| self.0.remove(place)).is_some()
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(number, _)| *number)
    }
}

impl Day {
    /// Whether it was not there yet. So many `more` may follow.
    fn insert(&mut self, entry: Arc<Entry>, more: usize) -> bool {
        match self {
            Self::One(first) => {
                let mut crowd = Crowd(VecDeque::with_capacity(2 + more));
                crowd.insert(Arc::clone(first));
                let is_new = crowd.insert(entry);
                *self = Self::Many(Box::new(crowd));
                is_new
            }
            Self::Many(crowd) => crowd.insert(entry),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(crowd) => crowd.0.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let (one, many) = match self {
            Self::One(entry) => (Some(entry), None),
            Self::Many(crowd) => (None, Some(&crowd.0)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|entries| entries.iter().map(|(_, entry)| entry)))
    }
}
