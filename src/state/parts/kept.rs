//! How long the server may keep a hold by whatever was sent for it.

use std::time::Duration;

use super::{
    super::{deadline::Instant, effect::Cause},
    hold::Hold,
};

impl<W, S> Hold<W, S> {
    /// How much longer the server keeps it, if all that left for it ran at once.
    pub(crate) fn kept_for(&self, now: Instant) -> Duration {
        self.kept - now
    }

    /// How long its end may have to be repeated until nothing of it is left, but for what runs late.
    pub(crate) fn may_last(&self, now: Instant) -> Duration {
        self.lease().max(self.kept_for(now))
    }

    /// By how much longer the server may keep it then: what has no answer may run for as long as the hold is there.
    pub(crate) fn runs_late(&self) -> Duration {
        if self.raising > 0 { self.lease() } else { Duration::ZERO }
    }

    /// Its deadline or a forced release ended it, and the server may still have it.
    pub(crate) fn may_be_there(&self, now: Instant) -> bool {
        let maybe = self.loss().is_some_and(|loss| matches!(loss.cause, Cause::Expired | Cause::Forced));
        maybe && self.kept + self.runs_late() > now
    }
}
