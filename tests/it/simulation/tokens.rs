//! Names that are held by tokens: holds that are given away by them and go on elsewhere, and what ended without harm.

use std::{collections::BTreeSet, time::Duration};

use relatch::{Error, Released, Token, Uuid};

use super::{
    NAMES,
    fences::NEARLY_OVER,
    referee::{Book, Referee},
    shadow::{Field, Shadow},
};

/// What was given away, for whoever comes next.
#[derive(Debug)]
pub(super) struct Given {
    /// Whose it was.
    client: u64,
    name: usize,
    token: Token,
}

/// Somebody extended what it was given, and believes in it.
#[derive(Debug)]
pub(super) struct Claimed {
    field: Field,
    since: Duration,
    until: Duration,
}

/// All that is known of tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    given: Vec<Given>,
    /// Nobody of those who made them is behind them any more.
    pub(super) given_away: BTreeSet<Field>,
    /// When something of each name was given away last.
    pub(super) given_at: [Option<Duration>; NAMES.len()],
    claimed: [Option<Claimed>; NAMES.len()],
    /// How many holds were given away, how many of these were extended, and how many had run out without harm.
    pub(super) counts: [usize; 3],
}

impl Shadow {
    /// Whether a hold is one of this client's.
    pub(super) fn is_of(&self, field: &str, client: Uuid) -> bool {
        match field.get(..32).and_then(|begins| self.token_clients.get(begins)) {
            Some(owner) => *owner == client,
            None => field.starts_with(&client.to_string()),
        }
    }

    /// Whoever asks for a lock by a token is the client of all that begin alike.
    pub(super) fn asks_by_token(&mut self, token: &str, client: Uuid) {
        if let Some(begins) = token.get(..32) {
            self.token_clients.entry(begins.to_owned()).or_insert(client);
        }
    }

    /// Whether the server said that of a hold, or of what it was to be moved to, of which nobody may know.
    pub(super) fn has_run_out(&self, hold: &str) -> bool {
        let born = self.birth(hold).map_or(Duration::ZERO, |birth| birth.first);
        let mut of_client = self.ran_out.iter().filter(|(token, _)| token.get(..32) == hold.get(..32));
        of_client.any(|(token, at)| token == hold || born < *at)
    }

    /// A release or a hand-over by a token was answered that nobody has the lock.
    pub(super) fn finds_nobody(&mut self, name: usize, token: &str, at: Duration, at_rival: bool) {
        self.ran_out.insert(token.to_owned(), at);
        let holder = self.holders[name].as_ref().filter(|_| !at_rival);
        let there = holder.filter(|field| {
            self.birth(field).is_some_and(|birth| self.unsure[name] < birth.at && at + NEARLY_OVER < birth.until)
        });
        if let Some(there) = there {
            let what = format!("{token} was told so, while {there} had it");
            self.wrong = Some(("a lock is called free that somebody has", what));
        }
    }
}

impl Referee {
    /// Whether somebody has a name who is no client.
    pub(super) fn is_strangers(&self, name: usize) -> bool {
        let (kept, book) = (self.peek(name), self.up_to_date());
        kept.is_some_and(|kept| !book.clients.keys().any(|client| book.shadow.is_of(&kept.field, *client)))
    }

    /// A guard was given away as this token: whoever has that goes on with the hold.
    pub(super) fn gives(&self, number: u64, hold: Option<&Field>, token: Token) {
        let (now, mut book) = (self.now(), self.book());
        let Some(seat) = book.seats.get_mut(&number) else { return };
        let (client, name) = (seat.client, seat.name);
        (seat.guards, seat.tickets, seat.watched, seat.hold) = (0, 0, 0, None);
        let wrong = hold.is_none_or(|hold| hold != token.as_ref());
        book.tokens.given_away.insert(token.as_ref().to_owned());
        book.tokens.counts[0] += 1;
        book.tokens.given_at[name] = Some(now);
        book.tokens.given.push(Given { client, name, token });
        drop(book);
        if wrong {
            self.complain("a guard gives another's token", Some(name), format!("{hold:?}"));
        }
    }

    /// Something of this name that another client gave away, and that nobody has taken yet.
    pub(super) fn takes_given(&self, name: usize, client: u64) -> Option<Token> {
        let given = &mut self.book().tokens.given;
        let at = given.iter().position(|given| given.name == name && given.client != client)?;
        Some(given.swap_remove(at).token)
    }

    /// What was given away was extended, as was asked at `since`, and is believed in for so long.
    pub(super) fn claims(&self, name: usize, token: &Token, left: Option<Duration>, since: Duration) {
        let now = self.now();
        let mut book = self.up_to_date();
        book.tokens.counts[1] += 1;
        let until = now + left.unwrap_or_default();
        book.tokens.claimed[name] = Some(Claimed { field: token.as_ref().to_owned(), since, until });
        let lost = book.is_claimed(name, now).filter(|claimed| book.shadow.holders[name].as_ref() != Some(claimed));
        let wrong = lost.map(|claimed| format!("{claimed}, but {:?} has it", book.shadow.holders[name]));
        let others = || book.seats.values().filter(|seat| seat.name == name && seat.believes());
        let wrong = wrong.or_else(|| {
            let claimed = book.is_claimed(name, now)?;
            let mut others = others().filter(|seat| seat.hold.as_ref() != Some(claimed) && !book.is_excused(seat, now));
            Some(format!("{claimed} and {:?}", others.next()?.hold))
        });
        drop(book);
        if let Some(what) = wrong {
            self.complain("two believe in one name", Some(name), what);
        }
    }

    /// Whoever has what was given away lets go of it, or is told that it is over.
    pub(super) fn disclaims(&self, name: usize, token: &Token, lost: bool) {
        let now = self.now();
        let mut book = self.up_to_date();
        let wrong = book.is_claimed(name, now).filter(|claimed| lost && *claimed == token.as_ref()).cloned();
        let claimed = &mut book.tokens.claimed[name];
        *claimed = claimed.take().filter(|claimed| claimed.field != token.as_ref());
        drop(book);
        if let Some(field) = wrong {
            self.complain("what was given away is lost", Some(name), format!("{field}, and nothing befell it"));
        }
    }

    /// A release was answered: what is said to have run out without harm was found so by the server.
    pub(super) fn released(&self, name: usize, hold: Option<&str>, answer: &Result<Released, Error>) {
        if !matches!(answer, Ok(Released::AlreadyExpired)) {
            return;
        }
        let mut book = self.up_to_date();
        book.tokens.counts[2] += 1;
        let found = hold.is_some_and(|hold| book.shadow.has_run_out(hold));
        drop(book);
        if !found {
            self.complain(
                "a hold is said to have run out",
                Some(name),
                format!("{hold:?}, and the server never said so"),
            );
        }
    }
}

impl Book {
    /// What was given away and is believed in, unless the store may have lost it since, or somebody freed it.
    pub(super) fn is_claimed(&self, name: usize, now: Duration) -> Option<&Field> {
        let claimed = self.tokens.claimed[name].as_ref().filter(|claimed| now < claimed.until)?;
        let of_name = |of: Option<usize>| of.is_none_or(|of| of == name);
        let lost = self.losses.iter().any(|loss| of_name(loss.name) && claimed.since <= loss.until());
        let mut forces = self.forces.values().filter(|force| force.name == name);
        let forced = forces.any(|force| force.until.is_none_or(|until| claimed.since <= until));
        (!lost && !forced).then_some(&claimed.field)
    }
}
