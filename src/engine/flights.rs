//! Commands of a name that were sent and not answered: a list, and whether somebody polls them. How that is done is in `flying.rs`.

use std::{
    iter::successors,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::replying::Replying;
use crate::{
    backend::{Dispatch, Fault},
    state::{Answer, CommandId, ThinVec},
};

/// Nobody polls them, and none was woken.
const ASLEEP: u8 = 0;
/// Somebody polls them, or is about to.
const POLLED: u8 = 1;
/// The same, and one was woken meanwhile: they are polled again.
const WOKEN: u8 = 2;

/// So many that were given up are waited for. One more, and the first of them counts as lost.
const GIVEN_UP: usize = 64;

#[derive(Default)]
pub(super) struct Flights(Mutex<UnderWay>);

/// Whether somebody polls them. Apart from them, where a byte has room.
#[derive(Default)]
pub(super) struct Polling(AtomicU8);

#[derive(Default)]
pub(super) struct UnderWay {
    pub(super) all: List,
    /// They are out of the list while they are polled: these are to be withdrawn once they are back.
    pub(super) withdrawn: ThinVec<CommandId>,
}

/// One command that is about to be sent.
pub(super) struct Sending {
    pub(super) command: CommandId,
    /// Of those that can be withdrawn.
    pub(super) dispatch: Option<Arc<Dispatch>>,
    pub(super) reply: Replying,
    /// It is a try, of which so many are under way at a time.
    pub(super) tried: Option<Tried>,
}

/// One that was sent.
pub(super) struct Flight {
    pub(super) command: CommandId,
    pub(super) dispatch: Option<Arc<Dispatch>>,
    pub(super) reply: Replying,
    pub(super) sent: Instant,
    pub(super) tried: Option<Tried>,
    /// Nobody waits for it any more, but for the sake of what it may leave.
    pub(super) given_up: bool,
    /// What was sent is waited for though the client was dropped.
    #[expect(dead_code, reason = "it is kept, and never looked at")]
    pub(super) client: Arc<dyn Send + Sync>,
    /// What was sent after it.
    pub(super) next: List,
}

/// Few names have any at a time, and then mostly one: a word where there is none, and no piece of memory but their own.
#[derive(Default)]
pub(super) struct List(Option<Box<Flight>>);

impl List {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn iter(&self) -> impl Iterator<Item = &Flight> {
        successors(self.0.as_deref(), |flight| flight.next.0.as_deref())
    }

    /// The first for which it is true.
    pub(super) fn find(&mut self, is_it: impl Fn(&Flight) -> bool) -> Option<&mut Flight> {
        let mut at = self.0.as_deref_mut();
        while let Some(flight) = at {
            if is_it(flight) {
                return Some(flight);
            }
            at = flight.next.0.as_deref_mut();
        }
        None
    }

    /// Puts these behind all others.
    pub(super) fn append(&mut self, mut last: Self) {
        let mut at = &mut self.0;
        while let Some(flight) = at {
            at = &mut flight.next.0;
        }
        *at = last.0.take();
    }

    pub(super) fn push(&mut self, flight: Flight) {
        self.append(Self(Some(Box::new(flight))));
    }

    /// Takes out each for which it is true; the others stay in their order.
    pub(super) fn take_where(&mut self, mut is_it: impl FnMut(&mut Flight) -> bool) {
        let mut at = &mut self.0;
        while let Some(mut flight) = at.take() {
            if is_it(&mut flight) {
                *at = flight.next.0.take();
            } else {
                at = &mut at.insert(flight).next.0;
            }
        }
    }

    /// Takes out the first for which it is true; the others stay in their order.
    fn take_first(&mut self, is_it: impl Fn(&Flight) -> bool) -> Option<Box<Flight>> {
        let mut at = &mut self.0;
        while at.as_ref().is_some_and(|flight| !is_it(flight)) {
            at = &mut at.as_mut()?.next.0;
        }
        let mut taken = at.take()?;
        *at = taken.next.0.take();
        Some(taken)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // One after the other, however many there are.
        let mut next = self.0.take();
        while let Some(mut flight) = next {
            next = flight.next.0.take();
        }
    }
}

/// A try that was sent.
#[derive(Clone, Copy)]
pub(super) struct Tried {
    /// Where it is counted.
    pub(super) at: u32,
    pub(super) lease: Duration,
}

impl UnderWay {
    /// The first of those that were given up, where there are too many to wait for them all.
    pub(super) fn one_too_many(&mut self) -> Option<Flight> {
        let given_up = self.all.iter().filter(|flight| flight.given_up).count();
        if given_up <= GIVEN_UP {
            return None;
        }
        self.all.take_first(|flight| flight.given_up).map(|flight| *flight)
    }

    /// Takes it out.
    pub(super) fn take(&mut self, command: CommandId) -> Option<Box<Flight>> {
        self.all.take_first(|flight| flight.command == command)
    }
}

/// One that was answered, or will not be.
pub(super) struct Landed {
    pub(super) command: CommandId,
    pub(super) answer: Result<Answer, Fault>,
    pub(super) tried: Option<Tried>,
    pub(super) sent: Instant,
}

/// A try that was answered.
pub(super) struct TryOver {
    pub(super) tried: Tried,
    pub(super) granted: bool,
    pub(super) sent: Instant,
}

impl Flights {
    pub(super) fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }
}

impl Polling {
    /// Whether it is this caller who has to poll.
    pub(super) fn begin(&self) -> bool {
        let next = |stage| Some(if stage == ASLEEP { POLLED } else { WOKEN });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(ASLEEP)
    }

    /// Whether one was woken meanwhile: then whoever polled has to poll again.
    pub(super) fn end(&self) -> bool {
        let woken = self.0.compare_exchange(POLLED, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_err();
        if woken {
            self.0.store(POLLED, Ordering::Release);
        }
        woken
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASLEEP
    }
}

impl Landed {
    /// What is known of the try that this answers, if it is one.
    pub(super) fn try_over(&self) -> Option<TryOver> {
        let granted = matches!(self.answer, Ok(Answer::Granted { .. }));
        self.tried.map(|tried| TryOver { tried, granted, sent: self.sent })
    }
}
