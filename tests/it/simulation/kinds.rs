//! Of which kind the lock of each name is, and how each client takes it.

use std::time::Duration;

use relatch::Client;

use super::{NAMES, crew::Mix};
use crate::harness::{either::Named, random::Random};

/// What a name is in a whole simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Its holders have tokens that grow.
    Fenced,
    /// Its holders are known by tokens.
    Token(Manner),
}

/// How a token lock is taken by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// Nobody is told of anything.
    silent: bool,
    /// What somebody left for good is given a time.
    pub(super) repairs: bool,
}

/// Every so many clients one takes fenced names with plain locks.
const PLAIN: u64 = 5;
/// What somebody left for good is over after that, once somebody waits.
const ORPHANS: Duration = Duration::from_secs(1);

impl Mix {
    /// Kinds are drawn from a sequence of their own, so that stories of plain names stay what they are. Days for what plain locks do
    /// have no other names, and some days have but one kind.
    pub(super) fn with_kinds(mut self, seed: u64) -> Self {
        let mut random = Random::new(seed, &[2]);
        let mut token =
            || Kind::Token(Manner { silent: random.once_in_a_while(200), repairs: random.once_in_a_while(500) });
        let tokens = [(); NAMES.len()].map(|()| token());
        let drawn = tokens.map(|token| match random.below(1000) {
            0..300 => Kind::Fenced,
            300..600 => token,
            _ => Kind::Plain,
        });
        self.kinds = match seed % 16 {
            3 | 7 => [Kind::Plain; NAMES.len()],
            5 | 13 => [Kind::Fenced; NAMES.len()],
            1 | 9 => tokens,
            _ => drawn,
        };
        self
    }

    /// A name's lock, as this client takes it.
    pub(super) fn lock(&self, client: &Client, number: u64, name: usize) -> Named {
        let plain = client.lock(NAMES[name]);
        match self.kinds[name] {
            Kind::Fenced if !number.is_multiple_of(PLAIN) => Named::Fenced(client.fenced_lock(NAMES[name])),
            Kind::Plain | Kind::Fenced => Named::Plain(plain),
            Kind::Token(manner) => {
                let lock = client.token_lock(NAMES[name]);
                // Whoever looks again by itself and who only listens wait side by side.
                let lock = match (manner.silent, number.is_multiple_of(2)) {
                    (true, _) => lock.silent(),
                    (false, true) => lock.only_relatch(),
                    (false, false) => lock,
                };
                Named::Token(if manner.repairs { lock.repair_orphans(ORPHANS) } else { lock }, plain)
            }
        }
    }

    pub(super) fn silent(&self) -> [bool; NAMES.len()] {
        self.kinds.map(|kind| matches!(kind, Kind::Token(Manner { silent: true, .. })))
    }

    /// Where those that wait for a name listen.
    pub(super) fn channel(&self, name: usize) -> String {
        let begins = if let Kind::Token(_) = self.kinds[name] { "relatch_token" } else { "redisson_lock" };
        format!("{begins}__channel:{{{}}}", NAMES[name])
    }

    /// What may be left where nobody holds anything.
    pub(super) fn stays(&self, key: &str) -> bool {
        (0..NAMES.len()).any(|name| self.kinds[name] == Kind::Fenced && key == counter(name))
    }
}

/// The key that counts a name's holders.
pub(super) fn counter(name: usize) -> String {
    format!("redisson_lock_token:{{{}}}", NAMES[name])
}
