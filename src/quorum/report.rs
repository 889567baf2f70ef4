//! What each master said, for people: in errors, and in a survey. It decides nothing.

use std::{error::Error as StdError, fmt, time::Duration};

use crate::error::Error;

/// What one master of a [`RedLock`](crate::RedLock) said to one question, and how long that took. Of an error: [`Error::votes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vote {
    /// Which master, by its address, or by its place among those that were given where it has none.
    pub master: String,
    /// What it said.
    pub said: Said,
    /// From the question to the answer, or to when none was waited for any longer.
    pub took: Duration,
}

/// A master's word.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Said {
    /// Yes.
    Granted,
    /// Somebody else has it.
    Busy {
        /// For so long, unless it is renewed; `None` where the key has no TTL.
        remaining: Option<Duration>,
    },
    /// It knows of no such hold.
    Gone,
    /// Yes, and that counts for nothing: it restarted, and may have forgotten what it promised before. See
    /// [`restart_quarantine`](crate::RedLockBuilder::restart_quarantine).
    Young {
        /// It counts again after this time.
        for_another: Duration,
    },
    /// It will not; its own words.
    Refused(String),
    /// No answer as long as one was waited for, though there is a connection.
    Silent,
    /// Nothing yet, when the others had decided it.
    NotWaitedFor,
    /// There is no connection; why.
    Unreachable(String),
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted => f.write_str("granted"),
            Self::Busy { remaining: Some(remaining) } => write!(f, "busy for another {remaining:.0?}"),
            Self::Busy { remaining: None } => f.write_str("busy without an end"),
            Self::Gone => f.write_str("knows of no such hold"),
            Self::Young { for_another } => write!(
                f,
                "young for another {for_another:.0?} (restart_quarantine(Duration::ZERO) is for masters that forget nothing)"
            ),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Silent => f.write_str("silent"),
            Self::NotWaitedFor => f.write_str("not waited for"),
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
        }
    }
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({:.1?})", self.master, self.said, self.took)
    }
}

/// All of them: the source of an error.
#[derive(Clone, Debug)]
pub(crate) struct Votes {
    pub(super) needed: usize,
    pub(super) votes: Vec<Vote>,
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} masters needed: ", self.needed, self.votes.len())?;
        for (at, vote) in self.votes.iter().enumerate() {
            write!(f, "{}{vote}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl StdError for Votes {}

impl Error {
    /// What each master said, where a [`RedLock`](crate::RedLock) could not do something for want of a majority; `None` of any other
    /// error. The same in words is the [`source`](StdError::source).
    #[must_use]
    pub fn votes(&self) -> Option<&[Vote]> {
        let (Self::Unreachable { source, .. } | Self::Refused { source, .. }) = self else { return None };
        source.downcast_ref::<Votes>().map(|votes| &votes.votes[..])
    }
}
