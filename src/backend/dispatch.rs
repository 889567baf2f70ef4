//! One command between its caller and its link: still to be withdrawn, or gone. It sends nothing and waits for nothing.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{Call, Fault, FaultKind};

/// What the caller and the backend tell each other about one command.
///
/// A command may wait for a link, and things change meanwhile. So the backend asks in the moment in which it hands the
/// command to a link, and not before; and a caller that stops waiting can know whether it ever got so far.
pub(crate) struct Dispatch<W: ?Sized = dyn Fn(u64) -> bool + Send + Sync> {
    stage: Mutex<Stage>,
    /// The link that it was handed to; none while it is not known to be there.
    link: AtomicU64,
    wanted: W,
}

/// Of no link.
const NOWHERE: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// For the server that answered in this era.
    Left(u64),
    /// The same, and its caller did not wait for what became of it: it is not sent again.
    LeftBehind(u64),
    Withdrawn,
}

impl Dispatch {
    /// For a command that is pointless once `wanted` says no. Called by the backend, with no mutex of its own held.
    pub(crate) fn new(wanted: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Self> {
        Self::asked_in(move |_| wanted())
    }

    /// The same, told in which era it is to leave.
    pub(crate) fn asked_in(wanted: impl Fn(u64) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Dispatch { stage: Mutex::new(Stage::Waiting), link: AtomicU64::new(NOWHERE), wanted })
    }

    /// The backend's question, right before each sending: whether the command may go, in this [`Line::era`](super::Line::era).
    /// From the first yes on it has left.
    pub(crate) fn leaves(&self, era: u64) -> bool {
        if !(self.wanted)(era) {
            return false;
        }
        let mut stage = self.stage();
        if *stage == Stage::Waiting {
            *stage = Stage::Left(era);
        }
        let leaves = matches!(*stage, Stage::Left(_));
        if leaves {
            // Under the mutex: who withdraws it from here on finds no link before it is handed over.
            self.link.store(NOWHERE, Ordering::Relaxed);
        }
        leaves
    }

    /// The backend's word: it was refused unseen by whoever it was sent to, and runs nowhere. It may leave once more, for
    /// another server.
    pub(crate) fn came_back(&self) {
        let mut stage = self.stage();
        if let Stage::Left(_) = *stage {
            *stage = Stage::Waiting;
        }
    }

    /// The backend's word, right after each sending: what is sent over the link of this number from now on comes after it.
    pub(crate) fn is_with(&self, link: u64) {
        self.link.store(link, Ordering::Release);
    }

    /// In which era it left first, if it did.
    pub(crate) fn left_in(&self) -> Option<u64> {
        match *self.stage() {
            Stage::Left(era) | Stage::LeftBehind(era) => Some(era),
            Stage::Waiting | Stage::Withdrawn => None,
        }
    }

    /// Over which link it left last. `None` as long as it may still come behind what is sent now. What was not withdrawn may
    /// be sent again.
    pub(crate) fn left_on(&self) -> Option<u64> {
        let link = self.link.load(Ordering::Acquire);
        (link != NOWHERE).then_some(link)
    }

    /// The caller wants it no more: whether it never left, and now never will. One that left is not sent again.
    pub(crate) fn withdraw(&self) -> bool {
        let mut stage = self.stage();
        *stage = match *stage {
            Stage::Waiting => Stage::Withdrawn,
            Stage::Left(era) => Stage::LeftBehind(era),
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
    since: Since,
}

/// The numbers of a way that changes more often than the link that it takes at present: what counts is the greater of the two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Since {
    pub(super) era: u64,
    pub(super) link: u64,
}

impl Since {
    /// What takes another way than all that follows comes before nothing of it.
    pub(super) fn apart(self) -> Self {
        Self { link: NOWHERE, ..self }
    }
}

impl Dispatches {
    pub(super) fn of<'a>(calls: impl IntoIterator<Item = &'a Call<'a>>) -> Self {
        let mut dispatches = calls.into_iter().filter_map(|call| call.dispatch).map(Arc::clone);
        Self { first: dispatches.next(), others: dispatches.collect(), since: Since::default() }
    }

    /// The same on such a way.
    pub(super) fn since(self, since: Since) -> Self {
        Self { since, ..self }
    }

    /// Whether there is nobody to ask.
    #[cfg(feature = "embedded")]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn leave(&self, era: u64) -> Result<(), Fault> {
        if self.first.iter().chain(&self.others).all(|dispatch| dispatch.leaves(era.max(self.since.era))) {
            return Ok(());
        }
        Err(Fault::of(FaultKind::Withdrawn, false, "it was withdrawn before it was sent"))
    }

    /// They are with this link, and go before whatever is sent over it from now on.
    pub(super) fn are_with(&self, link: u64) {
        self.first.iter().chain(&self.others).for_each(|dispatch| dispatch.is_with(link.max(self.since.link)));
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
        let gone = Dispatch::new(|| true);
        assert_eq!(gone.left_in(), None);
        assert!(gone.leaves(1) && gone.leaves(2));
        assert_eq!(gone.left_in(), Some(1), "what it asked for first may be done");
        assert!(!gone.withdraw() && !gone.leaves(2) && !gone.withdraw(), "nobody sends it again");
        assert_eq!(gone.left_in(), Some(1));
        let kept = Dispatch::new(|| true);
        assert!(kept.withdraw() && !kept.leaves(1) && kept.withdraw());
    }

    #[test]
    fn the_link_of_what_left_is_known_once_it_is_there_and_while_it_is_not_about_to_be_sent_again() {
        let sent = Dispatch::new(|| true);
        assert!(sent.leaves(1));
        assert_eq!(sent.left_on(), None, "it may still come behind what others send");
        sent.is_with(7);
        assert_eq!(sent.left_on(), Some(7));
        assert!(sent.leaves(1));
        assert_eq!(sent.left_on(), None);
        sent.is_with(8);
        assert!(!sent.withdraw());
        assert_eq!(sent.left_on(), Some(8));
    }

    #[test]
    fn what_came_back_may_leave_for_another_server_or_be_withdrawn() {
        let sent_on = Dispatch::new(|| true);
        assert!(sent_on.leaves(1));
        sent_on.came_back();
        assert!(sent_on.left_in().is_none() && sent_on.leaves(7));
        assert_eq!(sent_on.left_in(), Some(7));
        sent_on.came_back();
        assert!(sent_on.withdraw() && !sent_on.leaves(8), "it runs nowhere");
        let given_up = Dispatch::new(|| true);
        assert!(given_up.leaves(1) && !given_up.withdraw());
        given_up.came_back();
        assert!(!given_up.leaves(2), "nobody waits for it");
    }

    #[test]
    fn on_a_way_with_numbers_of_its_own_the_greater_ones_count() {
        let dispatch = Dispatch::new(|| true);
        let call = |dispatches: &Dispatches| {
            dispatches.leave(5).expect("it is wanted");
            dispatches.are_with(5);
            let seen = (dispatch.left_in(), dispatch.left_on());
            dispatches.came_back();
            seen
        };
        let of = |since| Dispatches { first: Some(Arc::clone(&dispatch)), others: Vec::new(), since };
        assert_eq!(call(&of(Since::default())), (Some(5), Some(5)));
        assert_eq!(call(&of(Since { era: 7, link: 8 })), (Some(7), Some(8)));
        assert_eq!(call(&of(Since { era: 3, link: 4 })), (Some(5), Some(5)));
        assert_eq!(call(&of(Since { era: 7, link: 8 }.apart())), (Some(7), None));
    }

    #[test]
    fn what_is_not_wanted_does_not_leave_and_is_asked_for_anew_each_time() {
        let wanted = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&wanted);
        let dispatch = Dispatch::new(move || asked.load(Ordering::Relaxed));
        assert!(!dispatch.leaves(1));
        wanted.store(true, Ordering::Relaxed);
        assert!(dispatch.leaves(1));
        wanted.store(false, Ordering::Relaxed);
        assert!(!dispatch.leaves(1) && !dispatch.withdraw());
    }
}
