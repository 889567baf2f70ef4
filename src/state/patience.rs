//! How long the contender goes on, in each of its stages, and what it is told at the end.
//!
//! `OnceBy(u)` ends as `Until(u)` where it waits for an answer, and as `Once` where it would wait for the key.
//!
//! | stage | goes on | `Once` ends | `Until(u)` ends | `ForEver` ends |
//! | --- | --- | --- | --- | --- |
//! | gated by a cool-down | another's message, or its end | busy; tries once one cool-down is over | u: busy; tries where no more would be left | – |
//! | gated since others go first, or by a rest | its end | – | u: busy; tries where no more would be left | – |
//! | gated by a release's answer | the answer | a command's time: unreachable | u + grace: busy or unreachable | silence of `unreachable_after` |
//! | trying | the answer | with the command | u + grace: busy or unreachable | silence of `unreachable_after` |
//! | trying, granted | what replicas know | – | – | – |
//! | sleeping | the flag, the TTL, a poll where nothing would wake it | – | u: busy | – |
//! | called | it comes; its turn is over: passed over | – | u: busy | – |
//! | resting after a fault | the end of the pause | – | u: unreachable | silence of `unreachable_after` |
//! | resting after a vote that nobody won | the end of the pause | – | u: busy | – |
//!
//! *Busy or unreachable*: unreachable where the server has answered nobody since this stage began, or said that it cannot now.

use super::{
    admit::say_contended,
    command::{Fault, FaultKind},
    cx::Cx,
    deadline::{Instant, soonest},
    effect::{Failure, Share, Told},
    env::{Env, Grants, one_more},
    name::Name,
    parts::{
        contender::{AfterRest, Contender, Releases, Stage, Trouble, Try, TryPlace, WantOf, Wants},
        gate::Gate,
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

/// It tries again then. A try that nobody would wait for is not sent: its wait may be over by then.
pub(crate) fn resting(resume: Instant, end: Option<Instant>, for_want_of: WantOf) -> Stage {
    match end.filter(|end| *end <= resume) {
        Some(until) => Stage::Resting { until, then: AfterRest::GiveUp(for_want_of) },
        None => Stage::Resting { until: resume, then: AfterRest::TryAgain },
    }
}

/// Somebody else has the name. Whether this one waits for it.
pub(crate) fn waits_on<W, S>(contender: &mut Contender<W>, cx: &mut Cx<'_, '_, W, S>) -> bool {
    say_contended(&mut contender.who, cx);
    contender.told_busy = true;
    let over = contender.who.until().is_some_and(|until| until <= cx.now());
    !contender.who.wish.patience.asks_once() && !over
}

impl<W, S: Share<W>> Name<W, S> {
    /// Whether the contender may try by what others are to have of the name.
    pub(crate) fn gate_of(&self, contender: &Contender<W>, env: &Env<'_>) -> Gate {
        self.slice.gate(env.now, env.settings).to(contender.who.wish.patience, env.now, || env.server.grace())
    }

    fn limit(&self, contender: &Contender<W>, env: &Env<'_>) -> Option<Limit> {
        let key = |at| Some(Limit { at, for_want_of: WantOf::Key });
        let answer = |at| Some(Limit { at, for_want_of: WantOf::Answer });
        let silence = |since: Instant| since.max(env.server.last_answer()) + env.settings.unreachable_after;
        match (&contender.stage, contender.who.wish.patience) {
            (Stage::Gated { since, releases }, patience) => match (self.gate_of(contender, env), patience) {
                (Gate::Until { .. } | Gate::After(_) | Gate::Rest(_), Patience::Until(until)) => key(until),
                (Gate::Until { .. } | Gate::After(_) | Gate::Rest(_), _) => None,
                // It was answered busy before.
                (_, Patience::Until(until) | Patience::OnceBy(until)) if *releases == Releases::Answered => key(until),
                (_, Patience::Until(until) | Patience::OnceBy(until)) => answer(env.cut_off(until, *since)),
                (_, Patience::Once) => answer(*since + env.settings.command_timeout),
                (_, Patience::ForEver) => answer(silence(*since)),
            },
            // The key is its own: it waits for the replicas, whatever it was ready to wait for the key.
            (Stage::Trying(Try { wants: Wants::Replicas, .. }), _) => None,
            (Stage::Trying(attempt), Patience::Until(until) | Patience::OnceBy(until)) => {
                let since = attempt.request.sent;
                // The server answers, only not this one yet: what it said before stands, and what waits in line asked nothing.
                // What replicas are to know of stands behind the questions of others, too.
                let behind = env.settings.grants == Grants::Acknowledged && !attempt.request.left;
                let waits = contender.told_busy || attempt.place == TryPlace::Line || behind;
                let heard = env.server.last_answer();
                let for_want_of = if waits && since < heard { WantOf::Key } else { WantOf::Answer };
                // What was answered since says how far it is by now.
                let patience = attempt.patience.into();
                let longest = if since < heard { env.server.grace() } else { patience };
                let answered = (until.max(since) + env.settings.grace).max(since + longest.max(patience));
                Some(Limit { at: answered + env.settings.in_line, for_want_of })
            }
            // It waits for its turn: for as long as a try may take, or the server answers anybody.
            (Stage::Trying(attempt), Patience::Once) if attempt.place == TryPlace::Line => {
                let longest = env.settings.command_timeout + 2 * env.settings.in_line;
                answer(attempt.request.sent.max(env.server.last_answer()) + longest + env.server.grace())
            }
            (Stage::Trying(attempt), Patience::ForEver) if attempt.place == TryPlace::Line => {
                answer(silence(attempt.request.sent) + env.server.grace() + env.settings.in_line)
            }
            (Stage::Trying(attempt), Patience::ForEver) => {
                let since = self.trouble.as_ref()?.since;
                answer(silence(since).max(attempt.request.sent) + env.server.grace() + env.settings.in_line)
            }
            (Stage::Sleeping { .. } | Stage::Called { .. }, Patience::Until(until)) => key(until),
            (Stage::Trying(_) | Stage::Sleeping { .. } | Stage::Called { .. } | Stage::Resting { .. }, _) => None,
        }
    }

    /// When something is to be done about the contender.
    pub(crate) fn contender_due(&self, env: &Env<'_>) -> Option<Instant> {
        let Tenant::Contender(contender) = &self.tenant else { return None };
        let goes_on = match contender.stage {
            Stage::Gated { .. } => match self.gate_of(contender, env) {
                Gate::Until { at, .. } | Gate::After(at) => Some(at),
                // Other names may tell meanwhile that the server is nearer than it seemed.
                Gate::Rest(at) => Some(at.min(env.now + env.settings.polls.1)),
                Gate::Open | Gate::Unanswered => None,
            },
            Stage::Trying(_) => None,
            Stage::Sleeping { ttl, poll } => Some(if self.polls(env.shape.publishes) { ttl.min(poll) } else { ttl }),
            Stage::Called { since } => Some(since + self.untaken.turn(env.settings)),
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
            Stage::Resting { until, then: AfterRest::GiveUp(want) } if until <= now => self.give_up(want, cx),
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
            since = since.max(cx.env.server.last_answer().min(now));
        }
        self.trouble = Some(Box::new(Trouble { since, failure, silent }));
        let over = since + settings.unreachable_after;
        let end = contender.who.until().unwrap_or(over);
        let resume = now + cx.env.pause(settings.pauses, contender.rests);
        contender.rests = one_more(settings.pauses, contender.rests);
        contender.stage = resting(resume, Some(end), WantOf::Answer);
        if over <= now {
            self.fail_endless(failure, cx);
        }
    }

    /// Why those are told that they cannot have it who stand in the queue and whose wait ends now, if it is for want of an
    /// answer: the latest try had none that counts, or there has been none for as long as one may take.
    pub(crate) fn why_not(&self, env: &Env<'_>) -> Option<Failure> {
        let trouble = self.trouble.as_ref().filter(|trouble| trouble.lasts(env.server.last_answer()));
        let silent = |since: &Instant| (*since).max(env.server.last_answer()) + env.server.grace() <= env.now;
        let unheard = || self.asks_since(env).filter(silent).map(|_| Failure::Unreachable { may_have_run: false });
        trouble.map(|trouble| trouble.failure).or_else(unheard)
    }

    /// Since when somebody has been waiting here for an answer of the server.
    fn asks_since(&self, env: &Env<'_>) -> Option<Instant> {
        match &self.tenant {
            Tenant::Contender(contender) => match contender.stage {
                Stage::Trying(attempt) => Some(attempt.request.sent),
                Stage::Gated { since, .. } => match self.gate_of(contender, env) {
                    Gate::Open | Gate::Unanswered => Some(since),
                    Gate::Until { .. } | Gate::After(_) | Gate::Rest(_) => None,
                },
                Stage::Sleeping { .. } | Stage::Called { .. } | Stage::Resting { .. } => None,
            },
            Tenant::HandingOver(going) => Some(going.request.sent),
            Tenant::Nobody | Tenant::Hold(_) => None,
        }
    }

    /// Its wait is over. Where the server has been silent for too long all who would wait for ever get the same verdict.
    pub(crate) fn give_up(&mut self, for_want_of: WantOf, cx: &mut Cx<'_, '_, W, S>) {
        let Tenant::Contender(contender) = &self.tenant else { return };
        let may_have_run = matches!(contender.stage, Stage::Trying(attempt) if attempt.request.left);
        let endless = contender.who.wish.patience == Patience::ForEver;
        let asked = if let Stage::Trying(attempt) = contender.stage { Some(attempt.request.sent) } else { None };
        let rested = matches!(contender.stage, Stage::Resting { .. });
        let known = self.trouble.as_ref().filter(|trouble| rested || trouble.lasts(cx.env.server.last_answer()));
        let failure = match (known, for_want_of) {
            (Some(trouble), _) => Some(trouble.failure),
            (None, WantOf::Answer) => Some(Failure::Unreachable { may_have_run }),
            (None, WantOf::Key) => None,
        };
        if let Some(failure) = failure.filter(|_| endless) {
            self.fail_endless(failure, cx);
        }
        if let (Some(failure), Some(since), None) = (failure, asked, &self.trouble) {
            // For those behind it, too, until the server answers anybody.
            self.trouble = Some(Box::new(Trouble { since, failure, silent: true }));
        }
        self.end_contender(Some(failure.map_or(Told::Busy, Told::Failed)), cx);
    }

    fn fail_endless(&mut self, failure: Failure, cx: &mut Cx<'_, '_, W, S>) {
        self.queue.take_endless().into_iter().for_each(|who| cx.fail(who.waiter, failure));
    }
}
