//! The numbers that a name tells things apart by. Each kind has a type of its own, so that none is taken for another.

use std::fmt;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($of:ty)),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) $of);
    )* };
}

numbers!(
    /// One acquisition, drawn when it is asked for. It names the future, the waiter, the ticket and the guard in turn.
    Id(u64),
    /// One command of this process.
    CommandId(u64),
    /// One hold: its name on the server. Never drawn twice by a client.
    HoldNumber(u64),
    /// Who may re-enter. Local, and never sent.
    Owner(u64),
    /// One command link to the server. A link that replaces another has a number of its own.
    /// Names keep many of these: half a word is enough, since no process ever has so many.
    Link(u32),
    /// Which servers answer. It changes when another one may answer for the name, or the same one may have forgotten it.
    Era(u32),
);

impl fmt::Display for HoldNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Link {
    /// Another way than all other commands: nothing that is answered says what became of what left on it.
    pub(crate) const APART: Self = Self(u32::MAX);
}
