//! The contender's tries: when one leaves, and what its answer means. The loop is the name's. Who waited is called before it
//! tries again, so nobody takes the key for a caller that is not polled: `missed.rs`.
//!
//! | stage | event | next |
//! | --- | --- | --- |
//! | gated, and just asked or came | the slice and the releases let it | trying |
//! | gated | the same | called |
//! | called | it comes | gated, and tries |
//! | trying | granted in time | a hold |
//! | trying | granted later than its own lease, or a number that was forced out | gated, under a new number |
//! | trying | granted by a server that answers no more | gated, under the same number |
//! | trying | busy | sleeping: `sleep.rs` |
//! | trying | a vote without a majority: somebody else may have one | sleeping, under a new number |
//! | trying | a vote without a majority: others got votes, too | resting, under a new number: `patience.rs` |
//! | trying | busy, or somebody else may have a majority, and a release of ours was overtaken | gated until all releases are answered |
//! | trying | granted, and too few replicas know of it | resting, under a new number |
//! | trying | a fault that may heal | resting: `patience.rs` |
//! | trying | a fault that stays, settled, an unknown answer | over |
//! | any | its wait is over, or nobody wants it | over, what may be there is released: `undo.rs` |

use super::{
    command::{Answer, Fault, FaultKind, Verb},
    cx::Cx,
    deadline::LeaseRequest,
    effect::{Effect, Failure, LogEvent, Share, Told},
    env::{Env, Grants},
    id::CommandId,
    name::Name,
    parts::{
        contender::{Contender, Releases, Stage, Try, TryPlace, WantOf, Wants},
        copies::Copies,
        gate::Gate,
        hold::Hold,
        origin::Origin,
        queue::Waiting,
        release::Why,
        tenant::Tenant,
        ticket::Ticket,
        untaken::Untaken,
    },
};

/// Whether the contender's caller was polled in this moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    /// It asks just now.
    Now,
    /// It was called, and rests only after that turn. Whom it heard meanwhile it lets go first.
    Called,
    IfCalled,
}

/// So many answers in a row may come later than their own lease before the acquisition gives up.
const LATE_ANSWERS: u8 = 5;

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn contend(&mut self, who: Waiting<W>, comes: Comes, cx: &mut Cx<'_, '_, W, S>) {
        self.tenant = Tenant::Contender(Contender {
            who,
            number: cx.draw_hold(),
            copies: Copies::default(),
            uncertain: false,
            repeated: false,
            forced: false,
            stage: Stage::Gated { since: cx.now(), releases: Releases::Sent },
            late: 0,
            told_busy: false,
            let_others_first: false,
            rests: 0,
            polls: 0,
        });
        self.pass_gate(comes, cx);
    }

    /// Its caller is there.
    pub(crate) fn comes(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if let Some(contender) = self.tenant.contender_mut()
            && matches!(contender.stage, Stage::Called { .. })
        {
            self.untaken = Untaken::First;
            contender.stage = Stage::Gated { since: cx.now(), releases: Releases::Sent };
            self.pass_gate(Comes::Called, cx);
        }
    }

    /// Tries, if it may by now.
    pub(crate) fn pass_gate(&mut self, comes: Comes, cx: &mut Cx<'_, '_, W, S>) {
        let Tenant::Contender(contender) = &self.tenant else { return };
        let Stage::Gated { since, releases } = contender.stage else { return };
        let may_follow = self.releases_may_be_followed();
        // Nobody waits any more for a try that had to let others go first.
        let over = contender.who.until().is_some_and(|until| until.max(since) < cx.now());
        let over = over && contender.let_others_first;
        self.slice.comes_nearer(cx.env.server.round_trip());
        let gate = match self.gate_of(contender, cx.env) {
            Gate::Rest(_) if comes == Comes::Called => Gate::Open,
            gate => gate,
        };
        // On its own link a try comes behind what left before it. Where it takes another way nothing else may be about.
        let out = match (releases, cx.env.settings.grants) {
            (Releases::Sent, Grants::Answered | Grants::Voted) => true,
            _ => self.releases.is_empty() && !self.old.holds_back(),
        };
        let asks_once = contender.who.wish.patience.asks_once();
        if let Some(contender) = self.tenant.contender_mut() {
            contender.let_others_first = gate != Gate::Open;
        }
        match gate {
            Gate::Open if may_follow && out && over => self.give_up(WantOf::Key, cx),
            Gate::Open if may_follow && out && comes == Comes::IfCalled => self.call(cx),
            Gate::Open if may_follow && out => self.try_now(cx),
            Gate::Until { .. } if asks_once => self.end_contender(Some(Told::Busy), cx),
            Gate::Until { .. } => self.listen(cx),
            // What it would hear is nobody's turn.
            Gate::Rest(_) => {
                if self.subscription.close() {
                    cx.unlisten();
                }
            }
            Gate::Open | Gate::Unanswered | Gate::After(_) => {}
        }
    }

    fn call(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender_mut() else { return };
        contender.stage = Stage::Called { since: cx.now() };
        cx.call(contender.who.id, S::of(&contender.who.waiter));
    }

    fn try_now(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        // What somebody frees by force is not asked for again: its number would count as freed.
        if self.tenant.contender_mut().is_some_and(|contender| contender.forced) {
            self.ends_number(cx);
        }
        self.slice.tries(cx.env.settings);
        self.send_releases(cx);
        let behind = !self.releases.is_empty();
        let finds_ours = self.lost.iter().any(|hold| hold.may_be_there(now));
        let Tenant::Contender(contender) = &mut self.tenant else { return };
        let wish = &contender.who.wish;
        let request = LeaseRequest::first(cx.env.settings.lease(wish.lease), wish.max_hold, now);
        let command = cx.send(contender.number, Verb::Acquire { lease: request.lease, holds: 1 });
        contender.stage = Stage::Trying(Try {
            command,
            request,
            behind,
            finds_ours,
            wants: Wants::Answer,
            place: TryPlace::Link,
            patience: cx.env.server.grace().into(),
        });
        self.subscription.clear_flag();
    }

    /// The key is its own, and replicas are asked for.
    pub(crate) fn granting(&mut self, command: CommandId) {
        if let Some(Contender { stage: Stage::Trying(attempt), .. }) = self.tenant.contender_mut()
            && attempt.command == command
        {
            attempt.wants = Wants::Replicas;
        }
    }

    /// A try waits for its turn among those of its client, or has it. One whose wait is over by then is not sent.
    pub(crate) fn stands(
        &mut self,
        command: CommandId,
        place: TryPlace,
        env: &mut Env<'_>,
        effects: &mut Vec<Effect<W, S>>,
    ) {
        if let Some(contender) = self.tenant.contender_mut()
            && let Stage::Trying(attempt) = &contender.stage
            && attempt.command == command
        {
            let cx = &mut Cx::new(env, effects);
            self.look_at_contender(cx);
            if let Some(contender) = self.tenant.contender_mut()
                && let Stage::Trying(attempt) = &mut contender.stage
            {
                attempt.place = place;
            }
            self.follow(cx);
        }
    }

    /// Whether the answer was for its try.
    pub(crate) fn tried(&mut self, id: CommandId, answer: Result<Answer, Fault>, cx: &mut Cx<'_, '_, W, S>) -> bool {
        let Some(contender) = self.tenant.contender_mut() else { return false };
        let Stage::Trying(attempt) = contender.stage else { return false };
        if attempt.command != id {
            return false;
        }
        // The stage ends before anything is decided: what is decided must not take it for one in flight.
        contender.stage = Stage::Gated { since: cx.now(), releases: Releases::Sent };
        match answer {
            // It was granted, and is worth nothing without the replicas.
            Err(fault) if fault.kind == FaultKind::TooFewReplicas || attempt.wants == Wants::Replicas => {
                contender.copies.answered();
                self.ends_number(cx);
                self.troubled(fault, attempt.request.sent, cx);
            }
            Err(fault) => {
                contender.copies.unanswered(fault);
                contender.uncertain |= fault.may_have_run;
                // Of a repetition a server may count replicas that know of nothing: a number is asked for once.
                if contender.uncertain && cx.env.settings.grants != Grants::Answered {
                    self.ends_number(cx);
                }
                self.troubled(fault, attempt.request.sent, cx);
            }
            Ok(answer) => {
                contender.copies.answered();
                contender.repeated = contender.uncertain;
                contender.uncertain = matches!(answer, Answer::Granted { .. });
                self.try_answered(&attempt, answer, cx);
            }
        }
        true
    }

    fn try_answered(&mut self, attempt: &Try, answer: Answer, cx: &mut Cx<'_, '_, W, S>) {
        if let Answer::Split { retry_in, kept_by } = answer {
            return self.split(attempt, retry_in, kept_by, cx);
        }
        let Some(contender) = self.tenant.contender_mut() else { return };
        match answer {
            Answer::Granted { .. } if attempt.request.era != cx.env.server.era() => {
                // The present server is asked for the same hold.
                if cx.env.settings.grants == Grants::Acknowledged {
                    self.ends_number(cx);
                }
            }
            Answer::Granted { .. } if contender.forced => self.ends_number(cx),
            Answer::Granted { .. } if attempt.request.deadline(cx.env.settings.margin) <= cx.now() => self.late(cx),
            Answer::Granted { fence, .. } => self.granted(attempt.request, fence, cx),
            Answer::Settled if self.overtook(attempt) => self.waits_for_releases(cx),
            Answer::Busy { retry_in } => self.busy(attempt, retry_in, cx),
            Answer::Settled => self.end_contender(Some(Told::Settled), cx),
            _ => self.end_contender(Some(Told::Failed(Failure::Unexpected)), cx),
        }
    }

    fn granted(&mut self, request: LeaseRequest, fence: Option<u64>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Tenant::Contender(contender) = self.tenant.take() else { return };
        self.trouble = None;
        self.slice.taken(now, cx.env.server.round_trip(), cx.env.settings);
        let Contender { who, number, copies, repeated, .. } = contender;
        let ticket = Ticket::new(who.id, &who.wish, request.sent, now);
        let share = S::of(&who.waiter);
        let mut hold = Hold::new(number, (who.owner, share.clone()), ticket, request, cx.env.settings.margin, now);
        (hold.old, hold.grown, hold.origin) = (copies.lost(), repeated, Origin::Tried);
        hold.fenced(fence);
        self.tenant = Tenant::Hold(hold);
        cx.log(LogEvent::Granted(who.id));
        cx.tell(who.waiter, Told::Granted { id: who.id, share, fence });
    }

    /// The answer came later than its own lease.
    fn late(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender_mut() else { return };
        contender.late += 1;
        let over = contender.who.until().is_some_and(|until| until <= cx.now());
        if contender.late == LATE_ANSWERS || contender.who.wish.patience.asks_once() || over {
            return self.end_contender(Some(Told::Failed(Failure::AnsweredLate)), cx);
        }
        self.ends_number(cx);
    }

    /// Its number is finished: released, and never asked for again. It goes on under a new one.
    fn ends_number(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        if let Some(why) = self.finished_number(cx) {
            self.release(why, cx);
        }
    }

    /// The same, and its release is still to be sent.
    pub(crate) fn finished_number(&mut self, cx: &mut Cx<'_, '_, W, S>) -> Option<Why<W>> {
        let number = cx.draw_hold();
        let contender = self.tenant.contender_mut()?;
        let finished = std::mem::replace(&mut contender.number, number);
        let old = std::mem::take(&mut contender.copies).lost();
        (contender.uncertain, contender.forced) = (false, false);
        let lease = cx.env.settings.lease(contender.who.wish.lease);
        Some(Why { old, ..Why::over(finished, lease) })
    }
}
