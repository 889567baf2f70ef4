//! Names that are fenced: which token each hold has, and when tokens may begin anew. They may where the server
//! that counts them lost what it had: it came back empty, or another one took over that lacks the newest writes.

use std::time::Duration;

use super::{
    kinds::counter,
    referee::{Book, Kept, Referee, Seat},
    shadow::{Field, Shadow},
};

/// A lease that is over by less than that may have been there still.
pub(super) const NEARLY_OVER: Duration = Duration::from_millis(2);

impl Referee {
    /// How far the store has counted a name's holders.
    pub(super) fn counted(&self, name: usize) -> u64 {
        self.store.string(counter(name)).and_then(|counted| counted.parse().ok()).unwrap_or_default()
    }
}

/// A token that an answer had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn<'a> {
    pub(super) name: usize,
    pub(super) field: &'a str,
    pub(super) fence: u64,
    pub(super) at: Duration,
}

impl Shadow {
    /// An answer said under which token a hold is there; what is there is asked again under the same one.
    pub(super) fn draws(&mut self, Drawn { name, field, fence, at }: Drawn<'_>) {
        let known = self.birth(field).filter(|_| self.holders[name].as_deref() == Some(field));
        let had = known.map(|birth| &birth.fences);
        // What ran out was made anew, and nobody said so.
        let over = known.is_none_or(|birth| birth.until <= at + NEARLY_OVER || birth.at <= self.unsure[name]);
        if had.is_some_and(|had| had.contains(&fence)) {
            return;
        }
        if let Some(had) = had.filter(|_| !over) {
            let what = format!("{field} had {had:?}, and was asked for again with {fence}");
            self.wrong = Some(("a hold has two tokens", what));
        } else if fence <= self.counted[name] {
            let what = format!("{field} got {fence}, after {}", self.counted[name]);
            self.wrong = Some(("a token does not grow", what));
        }
        self.counted[name] = self.counted[name].max(fence);
    }

    /// The store has counted a name's holders so far, whatever it had before.
    pub(super) fn counts_from(&mut self, name: usize, counted: u64) {
        self.counted[name] = counted;
    }
}

impl Book {
    /// Tokens that were given out may come again from here on.
    pub(super) fn begins_anew(&mut self, name: usize, counted: u64) {
        self.shadow.counts_from(name, counted);
        self.fences[name] = self.fences[name].min(counted);
    }

    /// A guard has the token that the store drew for its hold, and no other: it is greater than all that others were given.
    pub(super) fn has_wrong_token(
        &mut self,
        number: u64,
        fence: Option<u64>,
        fresh: bool,
        now: Duration,
    ) -> Option<(&'static str, String)> {
        let seat = self.seats.get(&number)?;
        let hold = seat.hold.clone()?;
        let Some(fence) = fence.filter(|_| seat.fenced) else {
            let what = || format!("{hold} has {fence:?}");
            return (seat.fenced || fence.is_some())
                .then(|| ("a token is there where none was drawn, or none", what()));
        };
        let birth = self.shadow.birth(&hold)?;
        if !birth.fences.contains(&fence) {
            return Some(("a guard has another's token", format!("{fence} of {hold}, which got {:?}", birth.fences)));
        }
        if self.is_excused(seat, now) {
            return None;
        }
        let (name, newest) = (seat.name, self.fences[seat.name]);
        self.fences[name] = newest.max(fence);
        (fresh && fence <= newest)
            .then(|| ("a token does not grow over guards", format!("{fence} of {hold}, after {newest}")))
    }

    /// While a hold is there nobody else moves the counter: as it stands it is the hold's token.
    pub(super) fn is_outcounted(
        &self,
        seat: &Seat,
        kept: Option<&Kept>,
        counted: u64,
        now: Duration,
    ) -> Option<(&'static str, String)> {
        let there = |hold: &&Field| kept.is_some_and(|kept| kept.field == **hold);
        let (hold, fence) = (seat.hold.as_ref().filter(there)?, seat.fence?);
        // One that came to be twice has a token for each time, and the guard that of one of them.
        let birth = self.shadow.birth(hold).filter(|birth| birth.fences.len() == 1 && !birth.at_rival)?;
        let wrong = fence != counted && !self.is_excused(seat, now);
        wrong
            .then(|| ("a holder's token is not the newest", format!("{fence} of {hold}, {counted} counted; {birth:?}")))
    }
}
