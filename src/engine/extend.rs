//! A holder asks for a longer lease than it has.

use std::{sync::Arc, time::Duration};

use super::{Renewal, hold::Hold, registry::Place, share::Share, tenure::Tenure};
use crate::{
    backend::{Fault, FaultKind},
    error::{Error, LostCause, Op, Result},
};

/// A guard's share of a hold, for a call that may outlive the guard's poll.
struct Extension {
    place: Place,
    tenure: Arc<Tenure>,
    ticket: u64,
    /// It may last less long where its `max_hold` ends it before.
    within_bound: bool,
}

impl Share {
    /// [`LockGuard::extend`].
    pub(super) async fn lengthen(&self, lease: Duration) -> Result<()> {
        self.lengthens(lease, false).await
    }

    /// The same for a lease that may end with the `max_hold` of this hold, as that of every acquisition.
    pub(super) async fn lengthen_within_bound(&self, lease: Duration) -> Result<()> {
        self.lengthens(lease, true).await
    }

    async fn lengthens(&self, lease: Duration, within_bound: bool) -> Result<()> {
        let (place, tenure) = (self.place.clone(), Arc::clone(&self.tenure));
        let extension = Extension { place, tenure, ticket: self.ticket, within_bound };
        let extended = self.place.engine.anywhere(Box::pin(extension.extend(lease))).await;
        extended.unwrap_or_else(|silence| Err(silence.error(self.place.name(), Op::Extend)))
    }
}

impl Extension {
    async fn extend(self, lease: Duration) -> Result<()> {
        let (clock, whole) = (self.place.engine.clock(), self.place.engine.settings().command_timeout);
        let until = clock.now() + whole;
        let (mut within, mut again) = (whole, false);
        while !self.ask(lease, within, again).await? {
            // Both have the time of one command. Who was not there for so long has it once more.
            let left = until.saturating_duration_since(clock.now());
            (within, again) = (if left.is_zero() { whole } else { left }, true);
        }
        if self.look(|_| ()).is_some() { Ok(()) } else { Err(self.why_not_held()) }
    }

    /// Asks once; whether the server that answered is the one that answers now. `again`: an earlier one did it.
    async fn ask(&self, lease: Duration, within: Duration, again: bool) -> Result<bool> {
        let (place, clock) = (&self.place, self.place.engine.clock());
        let era = place.engine.era.number();
        let Some(asked) = self.look(|hold| hold.extends(lease, self.within_bound, clock)) else {
            return Err(self.why_not_held());
        };
        let Some((number, term)) = asked else {
            let why = "it would reach beyond the max_hold of this hold";
            return Err(Error::invalid("lease", why).for_lock(place.name()));
        };
        let dispatch = place.while_held(&self.tenure, move || term.lease);
        let hold = (&**place.entry.protocol.key(), number);
        let mut answers = place.entry.protocol.renew(&[hold], term.lease, within, &dispatch).await;
        let renewal = match answers.pop() {
            Some(Ok(renewal)) => renewal,
            Some(Err(Fault { kind: FaultKind::Withdrawn, .. })) => return Err(self.why_not_held()),
            Some(Err(fault)) => {
                let fault = Fault { may_have_run: fault.may_have_run || again, ..fault };
                return Err(Error::from_fault(fault, place.name(), Op::Extend));
            }
            None => return Err(Error::from_fault(Fault::unexpected("renew", &"no answer"), place.name(), Op::Extend)),
        };
        Ok(place.update(|state, fx| {
            state.expire(place, fx);
            match (renewal, state.live(&self.tenure)) {
                (Renewal::Renewed, Some(hold)) => {
                    let moment = clock.moment();
                    let raised = term.raised(moment);
                    if place.is_outdated(era, &dispatch) {
                        hold.is_answered(raised, moment);
                        return false;
                    }
                    hold.raised(raised, moment);
                }
                (Renewal::Gone, Some(_)) => state.lose(place, LostCause::Gone, fx),
                _ => {}
            }
            true
        }))
    }

    fn look<R>(&self, read: impl FnOnce(&Hold) -> R) -> Option<R> {
        self.place.look_at(&self.tenure, self.ticket, read)
    }

    fn why_not_held(&self) -> Error {
        self.place.why_not_held(&self.tenure)
    }
}
