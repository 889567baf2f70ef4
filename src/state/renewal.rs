//! Renewals of the live hold: when one leaves, and what its answer means. No answer leaves the deadline alone.

use super::{
    command::{Answer, Fault, Verb},
    cx::Cx,
    deadline::{Instant, LeaseRequest},
    effect::{Cause, LogEvent},
    env::{bound, one_more},
    id::CommandId,
    name::Name,
    parts::{hold::Hold, raising::Renewal},
};

impl<W, S: Clone + Default> Name<W, S> {
    /// Sends the renewal that is due.
    pub(crate) fn renew(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        self.renew_by(cx.now(), cx);
    }

    /// Others are renewed now: the watchdog's own renewal that is due by then goes along.
    pub(crate) fn renew_along(&mut self, by: Instant, cx: &mut Cx<'_, '_, W, S>) {
        let plain = |hold: &Hold<W, S>| hold.watched() && hold.bound().is_none() && hold.renewal == Renewal::Idle;
        if self.tenant.hold().is_some_and(plain) {
            self.renew_by(by, cx);
        }
    }

    fn renew_by(&mut self, by: Instant, cx: &mut Cx<'_, '_, W, S>) {
        let (now, watchdog) = (cx.now(), cx.env.settings.watchdog);
        let Some(hold) = self.tenant.hold_mut() else { return };
        if hold.due(watchdog).is_none_or(|due| by < due) {
            return;
        }
        // A hold of fixed leases is only probed: for what is left, so that nothing grows. A key that somebody stripped of its
        // TTL gets the lease, so never less is asked for than the hold was promised.
        let left = hold.kept_back(watchdog).unwrap_or(hold.deadline) - now;
        let lease = if hold.watched() { watchdog.max(left) } else { left };
        let Some(request) = LeaseRequest::new(lease, hold.bound(), now) else { return };
        let faults = if let Renewal::Retry { faults, .. } = hold.renewal { faults } else { 0 };
        hold.probe = false;
        let command = cx.send(hold.number, Verb::Renew { lease: request.lease });
        hold.renewal = Renewal::Sent { command, request, faults };
    }

    /// Whether the answer was for a renewal.
    pub(crate) fn renewed(&mut self, id: CommandId, answer: Result<Answer, Fault>, cx: &mut Cx<'_, '_, W, S>) -> bool {
        let now = cx.now();
        let Some(hold) = self.tenant.hold_mut() else { return false };
        let Renewal::Sent { command, request, faults } = hold.renewal else { return false };
        if command != id {
            return false;
        }
        hold.renewal = Renewal::Idle;
        match answer {
            // What an earlier server did says nothing of this one.
            Ok(_) if request.era != cx.env.era => {
                hold.is_answered(request, now);
                hold.probe = true;
            }
            Ok(Answer::Gone) => self.lose(Cause::Gone, cx),
            Ok(_) => {
                if hold.watched() {
                    hold.renewed(request, now)
                } else {
                    hold.raised(request, now)
                }
                cx.log(LogEvent::Renewed);
            }
            Err(fault) => {
                hold.unanswered(request, fault);
                // The nearer the deadline, the sooner: a pause that outlasts it is a hold that is lost for nothing.
                let pauses = cx.env.settings.pauses;
                let half = ((hold.deadline - now) / 2).max(bound(pauses, 0));
                let pause = cx.env.part_of(bound(pauses, faults).min(half));
                hold.renewal = Renewal::Retry { faults: one_more(pauses, faults), at: now + pause };
                hold.probe |= !hold.watched();
            }
        }
        true
    }
}
