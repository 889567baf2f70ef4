//! One command between its caller and its link: still to be withdrawn, or gone. It sends nothing and waits for nothing.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Call, Fault, FaultKind};

/// What the caller and the backend tell each other about one command.
///
/// A command may wait for a link, and things change meanwhile. So the backend asks in the moment in which it hands the
/// command to a link, and not before; and a caller that stops waiting can know whether it ever got so far.
pub(crate) struct Dispatch<W: ?Sized = dyn Fn(Way) -> bool + Send + Sync> {
    stage: Mutex<Stage>,
    wanted: W,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Left,
    /// The same, and its caller did not wait for what became of it: it is not sent again.
    LeftBehind,
    Withdrawn,
}

impl Dispatch {
    /// For a command that is pointless once `wanted` says no, which is told the way that it is to take. Called by the backend, with
    /// no mutex of its own held.
    pub(crate) fn new(wanted: impl Fn(Way) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Dispatch { stage: Mutex::new(Stage::Waiting), wanted })
    }

    /// The backend's question, right before each sending: whether the command may go, on this way. From the first yes on it has left.
    pub(crate) fn leaves(&self, way: Way) -> bool {
        if !(self.wanted)(way) {
            return false;
        }
        let mut stage = self.stage();
        if *stage == Stage::Waiting {
            *stage = Stage::Left;
        }
        *stage == Stage::Left
    }

    /// Whether its caller waits for what becomes of it, as far as it said.
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(*self.stage(), Stage::Waiting | Stage::Left)
    }

    /// The backend's word: it was refused unseen by whoever it was sent to, and runs nowhere. It may leave once more, for
    /// another server.
    pub(crate) fn came_back(&self) {
        let mut stage = self.stage();
        if *stage == Stage::Left {
            *stage = Stage::Waiting;
        }
    }

    /// The caller wants it no more: whether it never left, and now never will. One that left is not sent again.
    pub(crate) fn withdraw(&self) -> bool {
        let mut stage = self.stage();
        *stage = match *stage {
            Stage::Waiting => Stage::Withdrawn,
            Stage::Left => Stage::LeftBehind,
            over => over,
        };
        *stage == Stage::Withdrawn
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dispatch").field(&*self.stage()).finish()
    }
}

/// Whom to ask whether a command, or a pipeline of them, may still go. Asked in the same poll that sends.
#[derive(Clone, Debug)]
pub(super) struct Dispatches {
    /// Most commands are alone, and need no list.
    first: Option<Arc<Dispatch>>,
    others: Vec<Arc<Dispatch>>,
    /// Of what changes more often than the link that is taken at present: what counts is the later of the two.
    since: Way,
}

/// The way that a command takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Its [`Line::era`](super::Line::era).
    pub(crate) era: u64,
    /// Its [`Line::link`](super::Line::link): what is sent on the same one later comes later.
    pub(crate) link: u64,
}

impl Way {
    /// Over the link of this number, and nothing else is to be said of it.
    pub(crate) fn over(link: u64) -> Self {
        Self { era: link, link }
    }

    /// Another one than that of all that follows, which may come before.
    pub(crate) fn apart(self) -> Self {
        Self { link: u64::MAX, ..self }
    }

    fn or_later(self, other: Self) -> Self {
        Self { era: self.era.max(other.era), link: self.link.max(other.link) }
    }
}

impl Dispatches {
    pub(super) fn of<'a>(calls: impl IntoIterator<Item = &'a Call<'a>>) -> Self {
        let mut dispatches = calls.into_iter().filter_map(|call| call.dispatch).map(Arc::clone);
        Self { first: dispatches.next(), others: dispatches.collect(), since: Way::default() }
    }

    /// The same on a way that is what it is since then.
    pub(super) fn since(self, since: Way) -> Self {
        Self { since, ..self }
    }

    /// Whether there is nobody to ask.
    #[cfg(feature = "embedded")]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Over the link of this number.
    pub(super) fn leave(&self, link: u64) -> Result<(), Fault> {
        let way = Way::over(link).or_later(self.since);
        if self.first.iter().chain(&self.others).all(|dispatch| dispatch.leaves(way)) {
            return Ok(());
        }
        Err(Fault::of(FaultKind::Withdrawn, false, "it was withdrawn before it was sent"))
    }

    /// They were refused unseen.
    pub(super) fn came_back(&self) {
        self.first.iter().chain(&self.others).for_each(|dispatch| dispatch.came_back());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_left_cannot_be_withdrawn_and_what_was_withdrawn_does_not_leave() {
        let gone = Dispatch::new(|_| true);
        assert!(gone.leaves(Way::over(1)) && gone.leaves(Way::over(2)));
        assert!(!gone.withdraw() && !gone.leaves(Way::over(2)) && !gone.withdraw(), "nobody sends it again");
        let kept = Dispatch::new(|_| true);
        assert!(kept.withdraw() && !kept.leaves(Way::over(1)) && kept.withdraw());
    }

    #[test]
    fn what_came_back_may_leave_for_another_server_or_be_withdrawn() {
        let sent_on = Dispatch::new(|_| true);
        assert!(sent_on.leaves(Way::over(1)));
        sent_on.came_back();
        assert!(sent_on.leaves(Way::over(7)));
        sent_on.came_back();
        assert!(sent_on.withdraw() && !sent_on.leaves(Way::over(8)), "it runs nowhere");
        let given_up = Dispatch::new(|_| true);
        assert!(given_up.leaves(Way::over(1)) && !given_up.withdraw());
        given_up.came_back();
        assert!(!given_up.leaves(Way::over(2)), "nobody waits for it");
    }

    #[test]
    fn of_a_way_with_numbers_of_its_own_the_later_ones_count() {
        let taken = Arc::new(Mutex::new(Way::default()));
        let asked = Arc::clone(&taken);
        let dispatch = Dispatch::new(move |way| {
            *asked.lock().expect("no panic") = way;
            true
        });
        let slot = Way { era: 3, link: 7 };
        for (since, link, way) in [
            (Way::default(), 5, Way::over(5)),
            (slot, 2, slot),
            (slot, 5, Way { era: 5, link: 7 }),
            (slot, 9, Way::over(9)),
            (slot.apart(), 5, Way { era: 5, link: u64::MAX }),
        ] {
            let dispatches =
                Dispatches { first: Some(Arc::clone(&dispatch)), others: Vec::new(), since: Way::default() };
            dispatches.since(since).leave(link).expect("it is wanted");
            assert_eq!(*taken.lock().expect("no panic"), way, "{since:?} {link}");
        }
    }

    #[test]
    fn what_is_not_wanted_does_not_leave_and_is_asked_for_anew_each_time() {
        let wanted = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&wanted);
        let dispatch = Dispatch::new(move |_| asked.load(Ordering::Relaxed));
        assert!(!dispatch.leaves(Way::over(1)));
        wanted.store(true, Ordering::Relaxed);
        assert!(dispatch.leaves(Way::over(1)));
        wanted.store(false, Ordering::Relaxed);
        assert!(!dispatch.leaves(Way::over(1)) && !dispatch.withdraw());
    }
}
