//! What is found of a lock or a job. It asks nobody.

use std::{fmt, sync::Arc, time::Duration};

use super::HolderId;
use crate::locks::JobRecord;

/// A lock that is held, or a periodic job with a record, as the server has it.
///
/// It is how things stood a moment ago. To act on it, name the holder that was seen:
/// [`Client::force_unlock_held`](crate::Client::force_unlock_held).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// The name, without the client's prefix.
    pub name: Arc<str>,
    /// What it is.
    pub kind: Kind,
    /// Who holds it: one holder; none of a job at which nobody is. There are several only where something else than a lock wrote to
    /// the key.
    pub holders: Vec<Holder>,
    /// How many processes listen for its release; `None` where the server does not say: see
    /// [`operate`](crate::operate#rights).
    pub listeners: Option<u64>,
    /// How long the key lives if nobody renews it; of a job, its record. `None`: it has no TTL, and no death of a holder frees it.
    pub ttl: Option<Duration>,
    /// The newest token of a fenced lock.
    pub fence: Option<u64>,
    /// What is known of a periodic job.
    pub job: Option<JobRecord>,
}

/// Who holds a lock, or is at a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// Which client, and which of its holds.
    pub id: HolderId,
    /// How often it is held; 1 where it cannot be held more than once.
    pub count: u32,
    /// What the holder's process calls itself: [`ClientBuilder::label`](crate::ClientBuilder::label). `None` where no connection of it
    /// is in the server's list, or the server does not show that: see [`operate`](crate::operate#rights). A server with more than 1000
    /// connections is not asked, because the list would keep it busy for long; a search asks each server once, so that a client which
    /// connects later has none there.
    pub label: Option<String>,
}

/// What a name stands for.
///
/// A string that is not a token of this crate is told by its looks alone: see [`Client::find`](crate::Client::find).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A plain lock: [`Client::lock`](crate::Client::lock), [`Client::mutex`](crate::Client::mutex), or Redisson's `getLock`.
    Plain,
    /// A plain lock for which tokens are counted: [`Client::fenced_lock`](crate::Client::fenced_lock), or Redisson's.
    Fenced,
    /// A token lock: [`Client::token_lock`](crate::Client::token_lock), or that of another library.
    Token,
    /// A periodic job: [`Client::periodic_job`](crate::Client::periodic_job).
    Job,
}

impl Kind {
    /// A word that stays as it is, for programs: `plain`, `fenced`, `token` or `job`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Fenced => "fenced",
            Self::Token => "token",
            Self::Job => "job",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain lock",
            Self::Fenced => "fenced lock",
            Self::Token => "token lock",
            Self::Job => "periodic job",
        })
    }
}

/// What came of [`Client::force_unlock_held`](crate::Client::force_unlock_held).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForcedRelease {
    /// That hold is over, and those who wait were told.
    Ended,
    /// Somebody else holds it by now, and goes on doing so.
    #[non_exhaustive]
    Changed {
        /// Who that is: of the lock, or of the attempt at the job where nobody holds a lock of this name.
        now: HolderId,
        /// Who is at the job of this name, if anybody is.
        at_job: Option<HolderId>,
    },
    /// Several hold it at once, which no lock lets anybody do: something else wrote to its key. None of them was ended, for all would
    /// be.
    #[non_exhaustive]
    Several {
        /// Who they are.
        holders: Vec<HolderId>,
    },
    /// Nobody holds it.
    Free,
}
