//! What the world looks like when something happens: plain values, which a test writes down.

use std::time::Duration;

use super::{
    deadline::Instant,
    id::{Era, Link},
    wish::Lease,
};

/// What a client was built with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) watchdog: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) unreachable_after: Duration,
    /// How long the process may keep the name to itself. Zero: it never hands over.
    pub(crate) slice: Duration,
    /// How long others are let first after that.
    pub(crate) cool_down: Duration,
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
            slice: ms(10),
            cool_down: ms(10),
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

impl Shape {
    pub(crate) const PLAIN: Self =
        Self { succession: Succession::Pass, publishes: Publishes::Always, expired: Expired::IsLost };
}

/// The world at the moment of an event.
pub(crate) struct Env<'a> {
    /// Never goes back, and counts what the machine slept.
    pub(crate) now: Instant,
    /// The link that whatever is sent now goes out on.
    pub(crate) link: Link,
    /// Which servers answer now.
    pub(crate) era: Era,
    /// When the server answered anything of this client last.
    pub(crate) last_answer: Instant,
    /// So long an answer that is on its way may take: a few round trips, as they are measured.
    pub(crate) grace: Duration,
    /// A fresh random share of 65 535, for jitter.
    pub(crate) chance: u16,
    pub(crate) shape: Shape,
    pub(crate) settings: &'a Settings,
    /// Draws a number that this client never drew before.
    pub(crate) draw: &'a mut dyn FnMut() -> u64,
}

impl Env<'_> {
    /// An evenly drawn part of `bound`.
    pub(crate) fn part_of(&self, bound: Duration) -> Duration {
        bound.mul_f64(f64::from(self.chance) / f64::from(u16::MAX))
    }

    /// A pause after so many in a row: drawn from nothing up to a bound that doubles until it is at its longest.
    pub(crate) fn pause(&self, bounds: (Duration, Duration), so_far: u8) -> Duration {
        self.part_of(bound(bounds, so_far))
    }
}

/// So many doublings are enough for any bound.
const DOUBLINGS: u8 = 6;

/// The bound of the pause after so many in a row.
pub(crate) fn bound((first, longest): (Duration, Duration), so_far: u8) -> Duration {
    (first * (1 << so_far.min(DOUBLINGS))).min(longest)
}

/// One more in a row: counted for as long as that makes the bound longer.
pub(crate) fn one_more(bounds: (Duration, Duration), so_far: u8) -> u8 {
    so_far + u8::from(so_far < DOUBLINGS && bound(bounds, so_far) < bounds.1)
}
