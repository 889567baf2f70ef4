//! What must be true when a section asks, is answered, looks, and leaves. What must be true of the store while nobody says
//! anything is in `probe.rs`.

use std::time::Duration;

use relatch::{Error, LostCause, Owner};

use super::{
    COMMAND,
    referee::{Asking, Book, Force, Kept, MONOPOLY, Referee, Seat},
    shadow::Field,
};

/// A complaint's rule, and what it says.
type Wrong = Option<(&'static str, String)>;

impl Referee {
    pub(super) fn sits_down(&self, seat: Seat) -> u64 {
        let mut book = self.book();
        book.drawn += 1;
        book.sections += 1;
        let number = book.drawn;
        book.seats.insert(number, seat);
        number
    }

    pub(super) fn stands_up(&self, seat: u64) {
        self.lets_go(seat);
        self.book().seats.remove(&seat);
    }

    /// Something that only the seat needs to know.
    pub(super) fn change(&self, seat: u64, change: impl FnOnce(&mut Seat)) {
        if let Some(seat) = self.book().seats.get_mut(&seat) {
            change(seat);
        }
    }

    pub(super) fn asks(&self, number: u64, asking: Asking) {
        let now = self.now();
        self.change(number, |seat| {
            if !asking.nested || !seat.believes() {
                seat.waits = Some(now);
                seat.queues = !asking.once && !asking.nested;
                seat.asked = now;
                if seat.guards == 0 {
                    seat.longest = seat.watchdog;
                }
            } else {
                seat.nests = true;
            }
            seat.longest = seat.longest.max(asking.lease);
            seat.bounded |= asking.bounded;
        });
    }

    /// It was dropped, or came to nothing.
    pub(super) fn in_vain(&self, number: u64) {
        self.change(number, |seat| (seat.waits, seat.nests, seat.bridges) = (None, false, false));
    }

    /// A single try was answered that somebody else has the lock. One that has to wait for an answer to a release gives
    /// up when a command would.
    pub(super) fn busy(&self, number: u64, since: Duration) {
        let now = self.now();
        if now >= since + COMMAND {
            return self.in_vain(number);
        }
        let book = self.up_to_date();
        let wrong = book.seats.get(&number).filter(|_| now >= book.clock_back).and_then(|seat| {
            let (at, field) = book.shadow.met.get(&(seat.id, seat.name))?;
            let field = field.as_ref().filter(|field| *at >= since && book.shadow.is_of(field, seat.id))?;
            // Where it is over by now, by its release or by its lease, others are let go first: that is why it was told busy.
            let there = book.shadow.holders[seat.name].as_ref() == Some(field);
            let born = book.shadow.birth(field).filter(|born| there && !born.copied && now < born.until)?;
            let of_process = |it: &Seat| (it.client, it.name) == (seat.client, seat.name);
            let others = || book.seats.iter().filter(|(other, it)| **other != number && of_process(it));
            // Where another one of its process waits it was that one's try, and this one was never sent. After a forced release
            // without an answer somebody else may have been told, and goes first.
            if others().any(|(_, it)| it.waits.is_some()) || book.forces_unheard(seat, now) {
                return None;
            }
            // Nobody of it may have been given the hold.
            let alone = others().all(|(_, it)| it.guards == 0);
            let own = alone && seat.hold.as_ref() == Some(field) && born.at < seat.asked;
            let let_go = || book.let_go.get(field).is_some_and(|let_go| born.at < *let_go && *let_go < since);
            (own || let_go()).then(|| format!("a try that was asked at {since:?} met {field}, born at {:?}", born.at))
        });
        let name = book.seats.get(&number).map(|seat| seat.name);
        drop(book);
        if let Some(what) = wrong {
            self.complain("a process waits for its own release", name, what);
        }
        self.in_vain(number);
    }

    /// An acquisition gave a guard; whose field is behind it.
    pub(super) fn granted(
        &self,
        number: u64,
        owner: &Owner,
        fence: Option<u64>,
        asking: Asking,
        since: Duration,
    ) -> Option<Field> {
        let now = self.now();
        let name = self.book().seats.get(&number)?.name;
        let (kept, counted) = (self.peek(name), self.counted(name));
        let mut up_to_date = self.up_to_date();
        let book = &mut *up_to_date;
        let seat = book.seats.get_mut(&number)?;
        let fresh = !asking.nested || seat.waits.is_some();
        let id = seat.id;
        let newest = book.shadow.newest(id, name).cloned();
        let another = seat.hold != newest;
        // A nested one that found its outer hold gone goes on as a fresh one.
        let renewed = fresh || another;
        // Of several each was to stand where it asked.
        let waited = (if fresh { seat.waits } else { None }, seat.queues || seat.gathers && !asking.once);
        let gathered = seat.gathers;
        (seat.waits, seat.nests, seat.bridges) = (None, false, false);
        book.entered.insert((seat.client, name), now);
        seat.guards += 1;
        seat.tickets += 1;
        seat.watched += u32::from(asking.watched);
        seat.owner = Some(owner.clone());
        let hold = seat.hold.clone();
        let passed = newest.as_ref().is_some_and(|field| book.let_go.contains_key(field));
        if renewed {
            // Passed on, it is held anew.
            book.let_go.retain(|field, _| newest.as_ref() != Some(field));
            (seat.hold, seat.fence, seat.over, seat.tickets) = (newest, fence, false, 1);
            seat.watched = u32::from(asking.watched);
            book.holds += 1;
        }
        let seat = &book.seats[&number];
        let believed = seat.believes();
        let wrong = book
            .grown_from_nothing(renewed, hold.as_ref(), since)
            .or_else(|| if believed && renewed { book.overlaps(number, seat, now) } else { None })
            .or_else(|| if let (Some(since), true) = waited { book.overtakes(number, seat, since, now) } else { None });
        // One of several was granted some time ago, and is looked at as any hold.
        let tried = renewed && !passed && !gathered;
        let wrong = wrong.or_else(|| if tried { book.is_outdated(seat, kept.as_ref(), since, now) } else { None });
        let wrong = wrong.or_else(|| if renewed { book.keeps_to_itself(name, number, now) } else { None });
        let wrong = wrong.or_else(|| if renewed { book.is_unknown(book.seats[&number].hold.as_ref()) } else { None });
        let wrong = wrong.or_else(|| book.has_wrong_token(number, fence, renewed, now));
        let wrong = wrong.or_else(|| book.is_outcounted(&book.seats[&number], kept.as_ref(), counted, now));
        let hold = book.seats[&number].hold.clone();
        drop(up_to_date);
        if let Some((rule, what)) = wrong {
            self.complain(rule, Some(name), what);
        }
        hold
    }

    /// A section looks at its guards: `held` says which of them believe. Says whether the store agrees.
    pub(super) fn looks(&self, number: u64, held: bool) {
        let Some(name) = self.book().seats.get(&number).map(|seat| seat.name) else { return };
        if !held {
            self.change(number, |seat| seat.over = true);
            return;
        }
        let (kept, counted) = (self.peek(name), self.counted(name));
        let now = self.now();
        let book = self.up_to_date();
        let Some(seat) = book.seats.get(&number) else { return };
        let wrong = seat.over.then(|| ("a lost hold is held again", String::new()));
        let wrong = wrong.or_else(|| book.believes_rightly(seat, kept.as_ref(), now));
        let wrong = wrong.or_else(|| book.overlaps(number, seat, now));
        let wrong = wrong.or_else(|| book.is_outcounted(seat, kept.as_ref(), counted, now));
        drop(book);
        if let Some((rule, what)) = wrong {
            self.complain(rule, Some(name), what);
        }
    }

    /// An extension was answered well.
    pub(super) fn extended(&self, number: u64, since: Duration) {
        let book = self.up_to_date();
        let Some(seat) = book.seats.get(&number) else { return };
        let wrong = book.grown_from_nothing(false, seat.hold.as_ref(), since);
        let name = seat.name;
        drop(book);
        if let Some((rule, what)) = wrong {
            self.complain(rule, Some(name), what);
        }
    }

    /// A section was told why its hold is lost.
    pub(super) fn told(&self, number: u64, hold: Option<&Field>, error: &Error) {
        let Error::Lost { cause, .. } = error else { return };
        let now = self.now();
        let book = self.up_to_date();
        let Some(seat) = book.seats.get(&number) else { return };
        let wrong = book.why_not(seat, hold, *cause, now);
        let name = seat.name;
        drop(book);
        if let Some(why) = wrong {
            self.complain("a cause that cannot be", Some(name), format!("{cause:?}: {why}"));
        }
    }

    /// The last guard is let go of.
    pub(super) fn lets_go(&self, number: u64) {
        let now = self.now();
        let mut book = self.book();
        let Some(seat) = book.seats.get_mut(&number) else { return };
        let last = seat.guards > 0;
        (seat.guards, seat.tickets, seat.watched) = (0, 0, 0);
        if let (Some(hold), true) = (seat.hold.clone(), last) {
            book.let_go.insert(hold, now);
        }
    }

    /// Since when nobody has got further in the queue in which this one stands since `since`: when somebody of its process
    /// got the name, it was nearer to its own turn.
    pub(super) fn stands_still(&self, number: u64, since: Duration) -> Duration {
        let book = self.book();
        let entered = book.seats.get(&number).and_then(|seat| book.entered.get(&(seat.client, seat.name)));
        entered.map_or(since, |entered| since.max(*entered))
    }

    /// An answer that needs a store that does not answer, or one that took too long.
    pub(super) fn answered(&self, number: u64, what: &str, error: Option<&Error>, since: Duration, bound: Duration) {
        let now = self.now();
        let book = self.book();
        let name = book.seats.get(&number).map(|seat| seat.name);
        let settled = book.is_settled(since);
        drop(book);
        match error {
            Some(Error::Unreachable { .. } | Error::TooFewReplicas { .. }) if !settled => {}
            None | Some(Error::Lost { .. } | Error::Closed) => {}
            Some(Error::NotHeld { .. }) if what == "unlock detached" => {}
            Some(error) => self.complain("an answer that cannot be", name, format!("{what}: {error:?}")),
        }
        if now > since + bound {
            self.complain("an answer that takes too long", name, format!("{what} took {:?}", now - since));
        }
    }
}

impl Book {
    /// Whether whatever befell anybody was over by then.
    pub(super) fn is_settled(&self, by: Duration) -> bool {
        self.settled_for(by, Duration::ZERO)
    }

    /// Whether it has been over for so long.
    pub(super) fn settled_for(&self, now: Duration, long: Duration) -> bool {
        self.calm.is_some_and(|calm| calm + self.habits.settled() + long <= now)
    }

    /// Two believe at once.
    fn overlaps(&self, number: u64, seat: &Seat, now: Duration) -> Wrong {
        let claimed = self.is_claimed(seat.name, now).filter(|claimed| seat.hold.as_ref() != Some(claimed));
        if let Some(claimed) = claimed.filter(|_| !self.is_excused(seat, now)) {
            return Some(("two believe in one name", format!("section {number} and whoever was given {claimed}")));
        }
        let others = self.seats.iter().filter(|(other, it)| **other != number && it.name == seat.name);
        for (other, it) in others {
            if it.believes() && !self.is_excused(it, now) && !self.is_excused(seat, now) {
                return Some(("two believe in one name", format!("section {number} and section {other}")));
            }
            if it.bridges && self.is_settled(now) && !self.is_excused(it, now) {
                let what = format!("section {number} while section {other} was nested");
                return Some(("somebody came between", what));
            }
        }
        None
    }

    /// Whether the store may have lost this hold, and the section need not know yet.
    pub(super) fn is_excused(&self, seat: &Seat, now: Duration) -> bool {
        let born = seat.hold.as_ref().and_then(|hold| self.shadow.birth(hold)).map_or(seat.asked, |birth| birth.first);
        let lost = self
            .losses
            .iter()
            .any(|loss| self.covers(loss, seat, seat.hold.as_ref(), born) && now <= self.told_of_by(loss, seat));
        let forced = || {
            let mut of_it = self.forces.values().filter(|force| force.name == seat.name);
            of_it.any(|force| force.until.is_none_or(|until| born <= until && now <= until + seat.longest))
        };
        lost || forced()
    }

    /// A forced release of its process may have told others of it, and they are given their time.
    fn forces_unheard(&self, seat: &Seat, now: Duration) -> bool {
        let of_it = |force: &&Force| (force.client, force.name) == (seat.client, seat.name);
        let given = self.habits.leaves(self.gives(seat.id, seat.name));
        let answered = |until: Duration| until.saturating_sub(self.habits.settled());
        self.forces.values().filter(of_it).any(|force| force.until.is_none_or(|until| now < answered(until) + given))
    }

    /// The store has what a section believes in, as often as it does.
    fn believes_rightly(&self, seat: &Seat, kept: Option<&Kept>, now: Duration) -> Wrong {
        let hold = seat.hold.as_ref()?;
        if let Some(at) = self.lost_at(hold).find(|at| now > *at + seat.longest) {
            return Some(("a loss is told too late", format!("{hold} was lost at {at:?}")));
        }
        match kept {
            Some(kept) if kept.field == *hold => {
                let (most, lowered) = self.shadow.birth(hold).map_or((1, false), |birth| (birth.most, birth.lowered));
                let least = if lowered { 1 } else { seat.tickets };
                let fits = (least..=most).contains(&kept.count);
                let what = || format!("{} on the store, {} guards, {most} asked for", kept.count, seat.tickets);
                (!fits).then(|| ("the count is wrong", what()))
            }
            _ if self.is_excused(seat, now) => None,
            kept => Some(("a hold is believed in that the store has not", format!("{hold}, but there is {kept:?}"))),
        }
    }

    /// A nested acquisition or an extension was granted for a hold that had been lost before it was asked.
    fn grown_from_nothing(&self, renewed: bool, hold: Option<&Field>, since: Duration) -> Wrong {
        let hold = hold.filter(|_| !renewed)?;
        let at = self.lost_at(hold).find(|at| *at < since)?;
        Some(("more of a hold that is not there", format!("{hold} was lost at {at:?}, asked for more at {since:?}")))
    }

    /// Somebody of the same process who has waited for longer is still waiting.
    fn overtakes(&self, number: u64, seat: &Seat, since: Duration, now: Duration) -> Wrong {
        if !self.is_settled(since) {
            return None;
        }
        let mut earlier = self
            .seats
            .iter()
            .filter(|(other, it)| **other != number && (it.client, it.name) == (seat.client, seat.name) && it.queues);
        let (other, first) = earlier.find(|(_, it)| it.waits.is_some_and(|waits| waits < since))?;
        let waits = now.saturating_sub(first.waits.unwrap_or_default());
        Some(("somebody is overtaken in the queue", format!("section {number} before {other}, which waits {waits:?}")))
    }

    /// One process takes a name again and again while another waits for it.
    fn keeps_to_itself(&mut self, name: usize, number: u64, now: Duration) -> Wrong {
        // Where nobody hears of others it is luck who comes next.
        let client = self.seats.get(&number).filter(|_| !self.habits.silent[name])?.client;
        // What it took while something befell the others is not held against it.
        let settled = self.is_settled(self.runs[name].since);
        let run = &mut self.runs[name];
        if run.client != client || run.times == 0 || !settled {
            (run.client, run.times, run.since) = (client, 0, now);
        }
        run.times += 1;
        let (times, since) = (run.times, run.since);
        let (long, often) = MONOPOLY;
        // Whoever gives a hold away begins a turn anew.
        if self.tokens.given_at[name].is_some_and(|given| since <= given + MONOPOLY.0) {
            return None;
        }
        if times < often || self.hasty.contains(&client) || !self.settled_for(now, long) || now < since + long {
            return None;
        }
        let others = self.seats.values().filter(|it| it.name == name && it.client != client && it.queues);
        let longest = others.filter_map(|it| it.waits).min().filter(|waits| *waits + long <= now)?;
        Some((
            "one process keeps a lock to itself",
            format!("{times} times since {since:?}; one waits since {longest:?}"),
        ))
    }

    /// Why a cause cannot be the one.
    fn why_not(&self, seat: &Seat, hold: Option<&Field>, cause: LostCause, now: Duration) -> Option<&'static str> {
        let born = hold.and_then(|hold| self.shadow.birth(hold)).map_or(seat.asked, |birth| birth.first);
        let mut forces = self.forces.values().filter(|force| force.name == seat.name);
        match cause {
            LostCause::MaxHold => (!seat.bounded).then_some("no bound was asked for"),
            LostCause::Forced => {
                let by_us =
                    forces.any(|force| force.client == seat.client && force.until.is_none_or(|until| born <= until));
                (!by_us).then_some("nobody of this process forced it")
            }
            LostCause::Gone => {
                let lost = self.losses.iter().any(|loss| self.covers(loss, seat, hold, born));
                let forced = forces.any(|force| force.until.is_none_or(|until| born <= until));
                let birth = hold.and_then(|hold| self.shadow.birth(hold));
                let over = birth.is_none_or(|birth| birth.ran_out || birth.until <= now);
                let copied = hold.is_some_and(|hold| self.shadow.freed_by_copy.contains(hold));
                (!lost && !forced && !over && !copied).then_some("the store lost nothing")
            }
            LostCause::Expired => {
                let same = hold == seat.hold.as_ref();
                // A whole lease without a fault: it was renewed by then.
                let renewed = same && seat.watched > 0 && !seat.bounded && self.settled_for(now, seat.watchdog);
                renewed.then_some("a watchdog had it, and nothing befell its renewals")
            }
            _ => None,
        }
    }
}

/// How long a command may take that has to wait for another's turn.
pub(super) const TWO_COMMANDS: Duration = COMMAND.saturating_mul(2);
