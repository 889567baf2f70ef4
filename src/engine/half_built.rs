//! From the moment an acquire may have been sent until its guard exists, a [`HalfBuilt`] stands for the uncertain hold.
//! Dropped, it is released, and that release goes out before the next try of this process. It sends no acquire itself.

use std::{sync::Arc, time::Duration};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    HoldNumber, Note,
    apart::{ApartTry, GoesBehind},
    outcome::Outcome,
    parked::SentTry,
    reap::{OldCopies, reap_step},
    registry::Place,
    release::Why,
};
use crate::{
    backend::Dispatch,
    rules::{Rule, without},
};

/// One attempt at a fresh hold: one number, for as many tries as it takes.
///
/// | when it ends | left to do |
/// | --- | --- |
/// | granted in time | nothing: the hold takes it over, and whether it is unclean |
/// | every try was answered busy, or never left | nothing |
/// | a try has no answer yet | release, then reap, unless the release is answered on the same link, or waited for the try |
/// | an answer came too late | release |
/// | an earlier try had none, the last was answered | release if it was granted; reap, unless both were on one link |
#[derive(Debug)]
pub(crate) struct HalfBuilt {
    place: Place,
    number: HoldNumber,
    lease: Duration,
    /// A try that is on its way, or waits for a link: what never leaves the process leaves nothing to undo.
    in_flight: Option<Arc<Dispatch>>,
    /// It may hold the key on the server.
    uncertain: bool,
    /// It may have held the key there before it was granted.
    repeated: bool,
    old_copies: OldCopies,
    /// The try, where it goes another way than its release.
    apart: Option<Arc<ApartTry>>,
}

impl HalfBuilt {
    pub(super) fn new(place: Place, number: HoldNumber, lease: Duration) -> Self {
        let (in_flight, apart, old_copies) = (None, None, OldCopies::None);
        Self { place, number, lease, in_flight, uncertain: false, repeated: false, old_copies, apart }
    }

    pub(super) fn number(&self) -> HoldNumber {
        self.number
    }

    /// A try is about to leave.
    pub(super) fn sent(&mut self, lease: Duration, dispatch: &Arc<Dispatch>) {
        self.in_flight = Some(Arc::clone(dispatch));
        self.lease = self.lease.max(lease);
    }

    /// The try that is about to leave, for whoever undoes it if its future is not polled any more.
    pub(super) fn asked(&self, dispatch: &Arc<Dispatch>) -> SentTry {
        let (dispatch, old_copies, apart) = (Arc::clone(dispatch), self.old_copies, self.apart.clone());
        SentTry { number: self.number, lease: self.lease, dispatch, old_copies, apart }
    }

    /// The try goes another way than its release will: that waits until this turn is over.
    pub(super) fn goes_apart(&mut self) -> (Arc<ApartTry>, Option<OwnedSemaphorePermit>) {
        let (apart, turn) = ApartTry::new();
        self.apart = Some(Arc::clone(&apart));
        (apart, turn)
    }

    /// Whether it may hold the key on the server.
    pub(super) fn is_uncertain(&self) -> bool {
        self.uncertain
    }

    /// The server said that somebody else holds.
    pub(super) fn busy(&mut self) {
        self.answered();
        self.uncertain = false;
    }

    /// The server granted it.
    pub(super) fn granted(&mut self) {
        self.answered();
        self.repeated = std::mem::replace(&mut self.uncertain, true);
    }

    fn answered(&mut self) {
        (self.in_flight, self.apart) = (None, None);
        if self.old_copies.have_run(|| self.place.link()) {
            self.old_copies = OldCopies::None;
        }
    }

    /// There was no answer.
    pub(super) fn unanswered(&mut self, may_have_run: bool) {
        let dispatch = self.in_flight.take();
        if may_have_run {
            self.uncertain = true;
            self.old_copies.add_try(dispatch.as_deref(), self.apart.as_deref());
        }
    }

    /// Nobody waits for its answer any longer; whether it left.
    pub(super) fn cut_off(&mut self) -> bool {
        let left = self.in_flight.as_ref().is_some_and(|dispatch| !dispatch.withdraw());
        if left {
            let since = self.place.update(|state, _| state.tries_since());
            since.into_iter().for_each(|since| self.place.unheard_since(since));
        }
        self.unanswered(left);
        left
    }

    /// How long its contender may sleep that was told this TTL. An old copy may take the key meanwhile, for this number: the
    /// next try finds it, as soon as it would be released after the end.
    pub(super) fn may_sleep(&self, told: Option<Duration>) -> Option<Duration> {
        if self.old_copies == OldCopies::None || without(Rule::OldCopiesAreReaped) {
            return told;
        }
        let step = reap_step(self.lease, &self.place);
        Some(told.map_or(step, |told| told.min(step)))
    }

    /// Whether an earlier try may have got what the last one was granted: a server that knows of the first may give it less
    /// time.
    pub(super) fn repeated(&self) -> bool {
        self.repeated
    }

    /// The hold exists now, and takes over what is to be known of it.
    pub(super) fn built(&mut self) -> bool {
        (self.in_flight, self.uncertain) = (None, false);
        std::mem::take(&mut self.old_copies) != OldCopies::None
    }
}

impl Drop for HalfBuilt {
    fn drop(&mut self) {
        if self.in_flight.is_some() {
            self.cut_off();
        }
        let (place, old_copies) = (&self.place, self.old_copies);
        let now = || place.engine.clock().now();
        if self.uncertain && !without(Rule::UncertainIsReleased) {
            let mut job = place.update(|state, _| {
                let why = Why::ended(self.number, self.lease, old_copies);
                state.release(place, why, Arc::new(Outcome::default()), now())
            });
            job.behind = GoesBehind::a_try(self.apart.take());
            drop(job); // goes on in the background
        } else if old_copies != OldCopies::None {
            place.update(|state, _| state.reaps.add(self.number, Note::Unused, self.lease, place, now()));
        }
    }
}
