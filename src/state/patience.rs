//! How long the contender goes on, in each of its stages, and what it is told at the end.
//!
//! `OnceBy(u)` ends as `Until(u)` where it waits for an answer, and as `Once` where it would wait for the key.
//!
//! | stage | goes on | `Once` ends | `Until(u)` ends | `ForEver` ends |
//! | --- | --- | --- | --- | --- |
//! | gated by a cool-down | another's message, or its end | at once: busy | u: busy | – |
//! | gated by a release's answer | the answer | a command's time: unreachable | u + grace: busy or unreachable | silence of `unreachable_after` |
//! | trying | the answer | with the command | u + grace: busy or unreachable | silence of `unreachable_after` |
//! | sleeping | the flag, the TTL, a poll where nothing would wake it | – | u: busy | – |
//! | resting after a fault | the end of the pause | – | u: unreachable | silence of `unreachable_after` |
//!
//! *Busy or unreachable*: unreachable where the server has answered nobody since this stage began, or said that it cannot now.

use super::{
    command::{Fault, FaultKind},
    cx::Cx,
    deadline::{Instant, soonest},
    effect::{Failure, Told},
    env::{Env, one_more},
    name::Name,
    parts::{
        contender::{AfterRest, Contender, Releases, Stage, Trouble},
        slice::Gate,
        tenant::Tenant,
    },
    wish::Patience,
};

/// When a contender gives up.
#[derive(Clone, Copy)]
struct Limit {
    at: Instant,
    for_want_of: WantOf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WantOf {
    /// The key: somebody else has it.
    Key,
    /// An answer: the server says nothing.
    Answer,
}

impl<W, S: Clone + Default> Name<W, S> {
    fn limit(&self, contender: &Contender<W>, env: &Env<'_>) -> Option<Limit> {
        let key = |at| Some(Limit { at, for_want_of: WantOf::Key });
        let answer = |at| Some(Limit { at, for_want_of: WantOf::Answer });
        // A wait that ends while something is asked is over with the answer, or a grace later.
        let either = |until: Instant, since: Instant| {
            let silent = env.last_answer < since;
            let for_want_of = if silent { WantOf::Answer } else { WantOf::Key };
            Some(Limit { at: until.max(since) + env.grace, for_want_of })
        };
        let silence = |since: Instant| since.max(env.last_answer) + env.settings.unreachable_after;
        match (&contender.stage, contender.who.wish.patience) {
            (Stage::Gated { since, releases }, patience) => match (self.slice.gate(env.now), patience) {
                (Gate::Until(_), Patience::Until(until)) => key(until),
                (Gate::Until(_), Patience::Once | Patience::OnceBy(_) | Patience::ForEver) => None,
                // It was answered busy before.
                (_, Patience::Until(until) | Patience::OnceBy(until)) if *releases == Releases::Answered => key(until),
                (_, Patience::Until(until) | Patience::OnceBy(until)) => either(until, *since),
                (_, Patience::Once) => answer(*since + env.settings.command_timeout),
                (_, Patience::ForEver) => answer(silence(*since)),
            },
            (Stage::Trying(attempt), Patience::Until(until) | Patience::OnceBy(until)) => {
                either(until, attempt.request.sent)
            }
            (Stage::Trying(attempt), Patience::ForEver) => {
                let since = self.trouble.as_ref()?.since;
                answer(silence(since).max(attempt.request.sent) + env.grace)
            }
            (Stage::Sleeping { .. }, Patience::Until(until)) => key(until),
            (Stage::Trying(_) | Stage::Sleeping { .. } | Stage::Resting { .. }, _) => None,
        }
    }

    /// When something is to be done about the contender.
    pub(crate) fn contender_due(&self, env: &Env<'_>) -> Option<Instant> {
        let Tenant::Contender(contender) = &self.tenant else { return None };
        let goes_on = match contender.stage {
            Stage::Gated { .. } => match self.slice.gate(env.now) {
                Gate::Until(at) => Some(at),
                Gate::Open | Gate::Unanswered => None,
            },
            Stage::Trying(_) => None,
            Stage::Sleeping { ttl, poll } => Some(if self.polls(env.shape.publishes) { ttl.min(poll) } else { ttl }),
            Stage::Resting { until, .. } => Some(until),
        };
        soonest([self.limit(contender, env).map(|limit| limit.at), goes_on])
    }

    /// Its time may have come.
    pub(crate) fn look_at_contender(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Tenant::Contender(contender) = &self.tenant else { return };
        if let Some(limit) = self.limit(contender, cx.env).filter(|limit| limit.at <= now) {
            return self.give_up(limit.for_want_of, cx);
        }
        self.look_at_sleeper(cx);
        let Some(contender) = self.tenant.contender_mut() else { return };
        match contender.stage {
            Stage::Resting { until, then: AfterRest::GiveUp } if until <= now => self.give_up(WantOf::Answer, cx),
            Stage::Resting { until, then: AfterRest::TryAgain } if until <= now => {
                contender.stage = Stage::Gated { since: now, releases: Releases::Sent };
            }
            _ => {}
        }
    }

    /// A try had no answer that counts. Rests before the next one, or says that it is enough.
    pub(crate) fn troubled(&mut self, fault: Fault, sent: Instant, cx: &mut Cx<'_, '_, W, S>) {
        let (now, settings) = (cx.now(), cx.env.settings);
        let Some(contender) = self.tenant.contender_mut() else { return };
        let failure = Failure::from(fault);
        if !fault.kind.heals() || contender.who.wish.patience.asks_once() {
            return self.end_contender(Some(Told::Failed(failure)), cx);
        }
        let silent = matches!(fault.kind, FaultKind::Silent | FaultKind::Withdrawn);
        let mut since = self.trouble.as_ref().map_or(sent, |trouble| trouble.since);
        if silent {
            since = since.max(cx.env.last_answer.min(now));
        }
        self.trouble = Some(Box::new(Trouble { since, failure, silent }));
        let over = since + settings.unreachable_after;
        let end = contender.who.until().unwrap_or(over);
        let resume = now + cx.env.pause(settings.pauses, contender.faults);
        contender.faults = one_more(settings.pauses, contender.faults);
        // A try that nobody would wait for is not sent.
        let then = if end <= resume { AfterRest::GiveUp } else { AfterRest::TryAgain };
        contender.stage = Stage::Resting { until: resume.min(end), then };
        if over <= now {
            self.fail_endless(failure, cx);
        }
    }

    /// Why those are told that they cannot have it whose wait ends now, if it is for want of an answer.
    pub(crate) fn lasting_trouble(&self, env: &Env<'_>) -> Option<Failure> {
        let trouble = self.trouble.as_ref().filter(|trouble| trouble.lasts(env.last_answer));
        trouble.map(|trouble| trouble.failure)
    }

    /// Its wait is over. Where the server has been silent for too long all who would wait for ever get the same verdict.
    fn give_up(&mut self, for_want_of: WantOf, cx: &mut Cx<'_, '_, W, S>) {
        let Tenant::Contender(contender) = &self.tenant else { return };
        let may_have_run = matches!(contender.stage, Stage::Trying(attempt) if attempt.request.left);
        let endless = contender.who.wish.patience == Patience::ForEver;
        let rested = matches!(contender.stage, Stage::Resting { .. });
        let known = self.trouble.as_ref().filter(|trouble| rested || trouble.lasts(cx.env.last_answer));
        let failure = match (known, for_want_of) {
            (Some(trouble), _) => Some(trouble.failure),
            (None, WantOf::Answer) => Some(Failure::Unreachable { may_have_run }),
            (None, WantOf::Key) => None,
        };
        if let Some(failure) = failure.filter(|_| endless) {
            self.fail_endless(failure, cx);
        }
        self.end_contender(Some(failure.map_or(Told::Busy, Told::Failed)), cx);
    }

    fn fail_endless(&mut self, failure: Failure, cx: &mut Cx<'_, '_, W, S>) {
        self.queue.take_endless().into_iter().for_each(|who| cx.fail(who.waiter, failure));
    }
}
