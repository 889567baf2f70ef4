//! A holder asks for a longer lease than it has: the watchdog goes on as it was, and nothing is ever made shorter. Or it was
//! taken on other terms than are true from now on, while others were missing that it is taken with.

use std::time::Duration;

use super::{
    command::{Answer, Fault, Raises},
    cx::Cx,
    deadline::{Instant, LeaseRequest},
    effect::{Cause, Effect, Failure, Share, Told},
    env::Env,
    event::Beyond,
    id::{CommandId, Id},
    name::Name,
    parts::raising::Extension,
    wish::Lease,
};

impl<W, S: Share<W>> Name<W, S> {
    /// Its own terms are true of a ticket from now on. Whether they can still be kept, the clock says.
    pub(crate) fn settle(&mut self, id: Id, lease: Lease, max_hold: Option<Duration>, since: Instant) {
        if let Some(hold) = self.tenant.hold_mut() {
            hold.settled(id, lease, max_hold, since);
        }
    }

    pub(crate) fn extend(&mut self, id: Id, lease: Duration, beyond: Beyond, waiter: W, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Some(hold) = self.tenant.hold_mut().filter(|hold| hold.has(id)) else {
            let lost = self.lost.iter().find(|hold| hold.has(id)).and_then(|hold| hold.loss());
            return cx.tell(waiter, lost.map_or(Told::NotHeld, |loss| Told::Lost(loss.cause)));
        };
        let fits = |request: &LeaseRequest| beyond == Beyond::Cut || !request.cut;
        let Some(request) = LeaseRequest::new(lease, hold.bound(), now).filter(fits) else {
            return cx.fail(waiter, Failure::BeyondBound);
        };
        let command = cx.renew(hold.number, request.lease, Raises::Longer { since: now });
        hold.extends(Extension { command, request, again: false, waiter });
    }

    /// Nobody waits for this extension any more: what may come of it is on the server alone.
    pub(crate) fn drop_extension(
        &mut self,
        is_it: impl Fn(&W) -> bool,
        env: &mut Env<'_>,
        effects: &mut Vec<Effect<W, S>>,
    ) {
        let Some(hold) = self.tenant.hold_mut() else { return };
        if let Some(extension) = hold.take_extension(|extension| is_it(&extension.waiter)) {
            Cx::new(env, effects).withdraw(extension.command);
        }
    }

    /// Whether the answer was for an extension.
    pub(crate) fn extended(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> bool {
        let now = cx.now();
        let Some(hold) = self.tenant.hold_mut() else { return false };
        let Some(extension) = hold.take_extension(|extension| extension.command == command) else {
            return false;
        };
        let Extension { request, again, waiter, .. } = extension;
        match answer {
            // What an earlier server did says nothing of this one, which is asked, too.
            Ok(_) if request.era != cx.env.server.era() => {
                hold.is_answered(request, now);
                let command = cx.renew(hold.number, request.lease, Raises::Longer { since: request.sent });
                hold.extends(Extension { command, request, again: true, waiter });
            }
            Ok(Answer::Gone) => {
                cx.tell(waiter, Told::Lost(Cause::Gone));
                self.lose(Cause::Gone, cx);
            }
            Ok(_) => {
                hold.raised(request, cx.env.settings.margin, now);
                cx.tell(waiter, Told::Extended);
            }
            Err(fault) => {
                hold.unanswered(request, fault);
                cx.fail(waiter, Fault { may_have_run: fault.may_have_run || again, ..fault }.into());
            }
        }
        true
    }
}
