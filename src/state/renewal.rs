//! Renewals of the live hold: when one leaves, and what its answer means. No answer leaves the deadline alone.

use std::time::Duration;

use super::{
    command::{Answer, Fault, Raises},
    cx::Cx,
    deadline::{Instant, LeaseRequest},
    effect::{Cause, LogEvent, Share},
    env::{bound, one_more},
    id::CommandId,
    name::Name,
    parts::{
        hold::Hold,
        raising::{Renewing, Retry},
    },
};

impl<W, S> Name<W, S> {
    /// Whether this command is for a hold that is not over by now.
    pub(crate) fn wants(&self, id: CommandId, now: Instant) -> bool {
        self.live(now).is_some_and(|hold| {
            hold.renewal.sent().is_some_and(|renewing| renewing.command == id)
                || hold.extensions().iter().any(|extension| extension.command == id)
        })
    }

    /// When the next renewal is due, if there is something to renew.
    pub(crate) fn renewal_due(&self, watchdog: Duration) -> Option<Instant> {
        self.tenant.hold().and_then(|hold| hold.due(watchdog))
    }

    /// Until when the hold is believed in.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.tenant.hold().map(|hold| hold.deadline)
    }

    /// Whether [`Event::RenewAlong`](super::event::Event::RenewAlong) would send something.
    pub(crate) fn renews_by(&self, by: Instant, watchdog: Duration) -> bool {
        let plain = |hold: &&Hold<W, S>| hold.watched() && hold.bound().is_none() && hold.renewal.is_idle();
        self.tenant.hold().is_some_and(|hold| plain(&hold)) && self.renewal_due(watchdog).is_some_and(|due| due <= by)
    }
}

impl<W, S: Share<W>> Name<W, S> {
    /// Others are renewed now: the watchdog's own renewal that is due by then goes along.
    pub(crate) fn renew_along(&mut self, by: Instant, cx: &mut Cx<'_, '_, W, S>) {
        if self.renews_by(by, cx.env.settings.watchdog) {
            self.renew(cx);
        }
    }

    /// Sends the renewal that is due.
    pub(crate) fn renew(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let (now, watchdog) = (cx.now(), cx.env.settings.watchdog);
        let Some(hold) = self.tenant.hold_mut() else { return };
        // A hold of fixed leases is only probed: for what is left, so that nothing grows. A key that somebody stripped of its
        // TTL gets the lease, so never less is asked for than the hold was promised.
        let (deadline, watched, kept_back) = (hold.deadline, hold.watched(), hold.kept_back(watchdog));
        let left = kept_back.unwrap_or(deadline) - now;
        let lease = if watched { watchdog.max(left) } else { left };
        let faults = hold.renewal.retry().map_or(0, |retry| retry.faults);
        hold.probe = false;
        let Some(request) = LeaseRequest::new(lease, hold.bound(), now) else {
            // Less than a millisecond before its bound nothing can be asked for: what is due by now would stay so.
            let at = hold.until();
            hold.renewal.retries(Retry { at, faults });
            return;
        };
        let raises = if watched {
            Raises::Watched { deadline, again: faults > 0 }
        } else {
            Raises::Fixed { deadline, as_taken: !hold.grown && kept_back.is_none() }
        };
        let command = cx.renew(hold.number, request.lease, raises);
        hold.renewal.is_sent(Renewing { command, request, decided: now, faults });
    }

    /// Whether the answer was for a renewal.
    pub(crate) fn renewed(&mut self, id: CommandId, answer: Result<Answer, Fault>, cx: &mut Cx<'_, '_, W, S>) -> bool {
        let now = cx.now();
        let Some(hold) = self.tenant.hold_mut() else { return false };
        let Some(&Renewing { command, request, decided, faults }) = hold.renewal.sent() else { return false };
        if command != id {
            return false;
        }
        hold.renewal.rests();
        match answer {
            // What an earlier server did says nothing of this one.
            Ok(_) if request.era != cx.env.server.era() => {
                hold.is_answered(request, now);
                hold.probe = true;
            }
            Ok(Answer::Gone) => self.lose(Cause::Gone, cx),
            Ok(_) => {
                let margin = cx.env.settings.margin;
                if hold.watched() {
                    hold.renewed(request, decided, margin, now)
                } else {
                    hold.raised(request, margin, now)
                }
                cx.log(LogEvent::Renewed);
            }
            Err(fault) => {
                hold.unanswered(request, fault);
                // The nearer the deadline, the sooner: a pause that outlasts it is a hold that is lost for nothing.
                let pauses = cx.env.settings.pauses;
                let half = ((hold.deadline - now) / 2).max(bound(pauses, 0));
                let pause = cx.env.part_of(bound(pauses, faults).min(half));
                hold.renewal.retries(Retry { faults: one_more(pauses, faults), at: now + pause });
                hold.probe |= !hold.watched();
            }
        }
        true
    }
}
