//! Pauses between attempts at several locks, and waits that end before their answer.

use std::{pin::pin, time::Duration};

use futures_util::{FutureExt, future::Either};
use tokio::time::{Instant, timeout_at};

use super::entry_ref::EntryRef;
use crate::{
    backend::Fault,
    chance::Chance,
    error::{Error, Op},
};

/// The bound of the first pause after a fault, and of the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses that are drawn evenly from nothing up to a bound, which doubles each time until it is at its longest: those who
/// failed together do not come back together, and the longer it goes on the fewer come. A short one that is drawn does
/// not keep the next bound from growing.
#[derive(Debug)]
pub(super) struct Pauses {
    chance: Chance,
    bound: Duration,
    longest: Duration,
}

impl Pauses {
    pub(super) fn after_faults(chance: &Chance) -> Self {
        Self { chance: chance.clone(), bound: FIRST_PAUSE, longest: LONGEST_PAUSE }
    }

    pub(super) fn next(&mut self) -> Duration {
        let pause = self.draw();
        self.grow();
        pause
    }

    /// A pause of this bound, which stays as it is.
    fn draw(&self) -> Duration {
        self.chance.part_of(self.bound)
    }

    fn grow(&mut self) {
        self.bound = (self.bound * 2).min(self.longest);
    }
}

pub(super) fn unanswered(place: &EntryRef, may_have_run: bool, why: &'static str) -> Error {
    Error::from_fault(Fault::timeout(may_have_run, why), place.name(), Op::Acquire)
}

/// The future's output, unless `until` comes first, which may come later by then than it seemed: more is known of the way to
/// the server.
pub(super) fn bounded_by<F: Future>(
    until: impl Fn() -> Option<Instant>,
    future: F,
) -> impl Future<Output = Option<F::Output>> {
    let Some(mut over) = until() else { return Either::Right(future.map(Some)) };
    Either::Left(Box::pin(async move {
        let mut future = pin!(future);
        loop {
            if let Ok(output) = timeout_at(over, future.as_mut()).await {
                return Some(output);
            }
            over = until().filter(|later| over < *later)?;
        }
    }))
}
