//! From the moment an acquire may have been sent until its guard exists, a [`HalfBuilt`] stands for the uncertain hold.
//! Dropped, it is released, and that release goes out before the next try of this process. It sends no acquire itself.

use std::{sync::Arc, time::Duration};

use super::{HoldNumber, outcome::Outcome, registry::Place, release::Why};
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
/// | a try has no answer yet, or an answer that came too late | release, then reap |
/// | an earlier try had none, the last was answered | release, then reap |
#[derive(Debug)]
pub(crate) struct HalfBuilt {
    place: Place,
    number: HoldNumber,
    lease: Duration,
    /// A try that is on its way, or waits for a link: what never leaves the process leaves nothing to undo.
    in_flight: Option<Arc<Dispatch>>,
    /// It may hold the key on the server.
    uncertain: bool,
    /// A try was sent and never answered: an old copy may run at any time.
    unclean: bool,
}

impl HalfBuilt {
    pub(super) fn new(place: Place, number: HoldNumber, lease: Duration) -> Self {
        Self { place, number, lease, in_flight: None, uncertain: false, unclean: false }
    }

    pub(super) fn number(&self) -> HoldNumber {
        self.number
    }

    /// A try is about to leave.
    pub(super) fn sent(&mut self, lease: Duration, dispatch: &Arc<Dispatch>) {
        self.in_flight = Some(Arc::clone(dispatch));
        self.lease = self.lease.max(lease);
    }

    /// The server said that somebody else holds.
    pub(super) fn busy(&mut self) {
        self.in_flight = None;
        self.uncertain = false;
    }

    /// The server granted it.
    pub(super) fn granted(&mut self) {
        self.in_flight = None;
        self.uncertain = true;
    }

    /// There was no answer.
    pub(super) fn unanswered(&mut self, may_have_run: bool) {
        self.in_flight = None;
        self.uncertain |= may_have_run;
        self.unclean |= may_have_run;
    }

    /// Nobody waits for its answer any longer; whether it left.
    pub(super) fn cut_off(&mut self) -> bool {
        let left = self.in_flight.take().is_some_and(|dispatch| !dispatch.withdraw());
        self.unanswered(left);
        left
    }

    /// The hold exists now, and takes over what is to be known of it.
    pub(super) fn built(&mut self) -> bool {
        let unclean = self.unclean;
        (self.in_flight, self.uncertain, self.unclean) = (None, false, false);
        unclean
    }
}

impl Drop for HalfBuilt {
    fn drop(&mut self) {
        if self.in_flight.is_some() {
            self.cut_off();
        }
        let (place, unclean) = (&self.place, self.unclean);
        let now = || place.engine.clock().now();
        if self.uncertain && !without(Rule::UncertainIsReleased) {
            let job = place.update(|state, _| {
                let why = Why::ended(self.number, self.lease, unclean);
                state.release(place, why, Arc::new(Outcome::default()), now())
            });
            drop(job); // goes on in the background
        } else if unclean {
            place.update(|state, _| state.reaps.add(self.number, self.lease, place, now()));
        }
    }
}
