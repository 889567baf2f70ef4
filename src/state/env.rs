//! What the world looks like when something happens: what a client was built with, and what is known of the server.

use std::time::Duration;

use super::{
    deadline::{Instant, Margin},
    effect::Log,
    id::{Era, Link},
    wish::Lease,
};

/// What a client was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) unreachable_after: Duration,
    /// What was given is kept for so long for whoever does not come for it: at first, and after a turn that nobody took.
    pub(crate) turns: (Duration, Duration),
    /// How long a try may stand behind others whose grants replicas are to know of.
    pub(crate) in_line: Duration,
    /// However near the server is, an answer that is on its way when a wait ends may still come within this time.
    pub(crate) grace: Duration,
    /// How long the process may keep the name to itself. Zero: it never hands over.
    pub(crate) slice: Duration,
    /// How long others are let first after that, at least. Zero: they are not.
    pub(crate) cool_down: Duration,
    /// Whether replicas are to know of a grant.
    pub(crate) grants: Grants,
    /// What a holder gives up at the end of its lease.
    pub(crate) margin: Margin,
    /// The bound of the first pause after a fault, and of the longest.
    pub(crate) pauses: (Duration, Duration),
    /// The same between two tries that nothing would wake.
    pub(crate) polls: (Duration, Duration),
}

impl Default for Settings {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            watchdog: ms(30_000),
            command_timeout: ms(3_000),
            unreachable_after: ms(9_000),
            turns: (ms(15_000), ms(5)),
            in_line: Duration::ZERO,
            grace: ms(15),
            slice: ms(10),
            cool_down: ms(10),
            grants: Grants::Answered,
            margin: Margin::default(),
            pauses: (ms(20), ms(1_000)),
            polls: (ms(20), ms(250)),
        }
    }
}

impl Settings {
    /// How long a hold of this kind is promised for.
    pub(crate) fn lease(&self, lease: Lease) -> Duration {
        match lease {
            Lease::Watchdog => self.watchdog,
            Lease::Fixed(lease) => lease,
        }
    }
}

/// What makes a grant count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grants {
    /// Its answer.
    Answered,
    /// That replicas know of it. An acquire takes another way than all other commands then, and nothing is known of its order
    /// among them.
    Acknowledged,
    /// That a majority of several servers gave it. A number is asked for once: what one of them did of an earlier try would count in
    /// the next.
    Voted,
}

/// How a primitive differs from the plain lock: one value of its protocol. All of them have one holder at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) succession: Succession,
    pub(crate) publishes: Publishes,
    pub(crate) expired: Expired,
}

/// What may follow a hold inside the process while its slice lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Succession {
    /// The same hold for the next owner, without a word to the server; a hand-over where that cannot be.
    Pass,
    /// The same, and a release where that cannot be: nothing can be moved.
    PassOrRelease,
    /// The server has to hear of every new owner: it draws a fencing token, say.
    HandOver,
    /// Every hold is released.
    Release,
}

/// Whether those who wait are told when the key is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Publishes {
    /// By everybody who frees it.
    Always,
    /// By us, and perhaps not by others: whoever waits looks again every now and then.
    Sometimes,
    /// By nobody, and nobody listens.
    Never,
}

/// What the end of a hold means that had run out before, where nobody else has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Expired {
    /// It was lost.
    IsLost,
    /// It counts as released: its release says how it went.
    IsReleased,
}

#[cfg(any(test, relatch_explore))]
impl Shape {
    pub(crate) const PLAIN: Self =
        Self { succession: Succession::Pass, publishes: Publishes::Always, expired: Expired::IsLost };
}

/// The world at the moment of an event.
pub(crate) struct Env<'a> {
    /// Never goes back, and counts what the machine slept.
    pub(crate) now: Instant,
    pub(crate) server: &'a dyn Server,
    /// For jitter.
    pub(crate) chance: Chance<'a>,
    pub(crate) shape: Shape,
    pub(crate) settings: &'a Settings,
    /// What nobody hears is not told.
    pub(crate) log: Log,
    /// Draws a number that this client never drew before.
    pub(crate) draw: &'a mut dyn FnMut() -> u64,
}

/// A random share of 65 535.
#[derive(Clone, Copy)]
pub(crate) enum Chance<'a> {
    /// Drawn where it is asked for: few events ask.
    Fresh(&'a dyn Fn() -> u16),
    Drawn(u16),
}

impl Chance<'_> {
    fn share(self) -> u16 {
        match self {
            Self::Fresh(draw) => draw(),
            Self::Drawn(share) => share,
        }
    }
}

/// What a client knows of the server where the name is. Few events ask for it.
pub(crate) trait Server {
    /// The link that whatever is sent now goes out on.
    fn link(&self) -> Link;

    /// Which servers answer now.
    fn era(&self) -> Era;

    /// When the server answered anything of this client last.
    fn last_answer(&self) -> Instant;

    /// So long an answer that is on its way may take: a few round trips, as they are measured.
    fn grace(&self) -> Duration;

    /// How long a command takes that nothing holds up, as it was measured. Zero: unknown.
    fn round_trip(&self) -> Duration;
}

/// So long a way may have become before any answer says so.
const FAR: Duration = Duration::from_millis(300);

impl Env<'_> {
    /// Until when an answer to what was asked at `since` is waited for by somebody whose wait ends at `until`: where the
    /// server answers at all, it comes by then.
    pub(crate) fn cut_off(&self, until: Instant, since: Instant) -> Instant {
        (until.max(since) + self.settings.grace).max(since + self.server.grace())
    }

    /// The same for somebody who nests, who has the lock already: what it asked for is better waited for over a way that has
    /// just become longer than given up, since a command in doubt is one more for its hold to settle.
    pub(crate) fn cut_off_nested(&self, until: Instant, asked: Instant) -> Instant {
        self.cut_off(until, asked).max(asked + FAR.min(self.settings.command_timeout))
    }

    /// An evenly drawn part of `bound`.
    pub(crate) fn part_of(&self, bound: Duration) -> Duration {
        bound.mul_f64(f64::from(self.chance.share()) / f64::from(u16::MAX))
    }

    /// A pause after so many in a row: drawn from nothing up to a bound that doubles until it is at its longest.
    pub(crate) fn pause(&self, bounds: (Duration, Duration), so_far: u8) -> Duration {
        self.part_of(bound(bounds, so_far))
    }
}

/// So many doublings are enough for any bound.
const DOUBLINGS: u8 = 8;

/// The bound of the pause after so many in a row.
pub(crate) fn bound((first, longest): (Duration, Duration), so_far: u8) -> Duration {
    (first * (1 << so_far.min(DOUBLINGS))).min(longest)
}

/// One more in a row: counted for as long as that makes the bound longer.
pub(crate) fn one_more(bounds: (Duration, Duration), so_far: u8) -> u8 {
    so_far + u8::from(so_far < DOUBLINGS && bound(bounds, so_far) < bounds.1)
}
