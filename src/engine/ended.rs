//! How a hold ended for its owner: set once, and read by whoever shares it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::time::Instant;

use super::compact_instant::CompactInstant;
use crate::error::{Error, LostCause};

/// How a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Released, passed on or handed over.
    Over,
    Lost(Loss),
}

/// How and when a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) cause: LostCause,
    pub(crate) since: std::time::Instant,
}

/// An [`End`] that is set once, in eight bytes: how it ended in the lowest bits, above them the nanoseconds since the
/// process's first [`CompactInstant`]. Zero is none.
#[derive(Debug, Default)]
pub(super) struct OnceEnd(AtomicU64);

impl OnceEnd {
    const KIND_BITS: u32 = 3;
    const OVER: u64 = 1;
    /// Each stands for its place, from 2 on.
    const CAUSES: [LostCause; 5] =
        [LostCause::Expired, LostCause::Gone, LostCause::Forced, LostCause::MaxHold, LostCause::Closed];

    /// The first one counts.
    pub(super) fn set(&self, end: End) {
        let word = match end {
            End::Over => Self::OVER,
            End::Lost(loss) => {
                let place = Self::CAUSES.iter().position(|cause| *cause == loss.cause).unwrap_or(0);
                let since = CompactInstant::from(Instant::from_std(loss.since)).since_first();
                (since << Self::KIND_BITS) | (place as u64 + Self::OVER + 1)
            }
        };
        let _ = self.0.compare_exchange(0, word, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> Option<End> {
        let word = self.0.load(Ordering::SeqCst);
        let since = || Instant::from(CompactInstant::after_first(word >> Self::KIND_BITS)).into_std();
        match word & ((1 << Self::KIND_BITS) - 1) {
            0 => None,
            Self::OVER => Some(End::Over),
            kind => {
                let place = usize::try_from(kind - Self::OVER - 1).unwrap_or(0);
                Some(End::Lost(Loss { cause: Self::CAUSES[place], since: since() }))
            }
        }
    }
}

impl Loss {
    pub(crate) fn error(self, name: &Arc<str>) -> Error {
        Error::Lost { name: Arc::clone(name), cause: self.cause, since: self.since }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_read_as_it_was_set_and_the_first_one_counts() {
        // Not before the process's first date, which is set where one is asked for.
        CompactInstant::from(Instant::now()).since_first();
        let since = Instant::from(CompactInstant::from(Instant::now())).into_std();
        let lost = OnceEnd::CAUSES.map(|cause| End::Lost(Loss { cause, since }));
        for end in lost.into_iter().chain([End::Over]) {
            let once = OnceEnd::default();
            assert_eq!(once.get(), None);
            once.set(end);
            once.set(End::Over);
            once.set(lost[0]);
            assert_eq!(once.get(), Some(end));
        }
    }
}
