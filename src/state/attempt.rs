//! The contender's tries: when one leaves, and what its answer means. The loop is the name's, so a caller that is not polled
//! keeps nobody waiting.
//!
//! | stage | event | next |
//! | --- | --- | --- |
//! | gated | the slice and the releases let it | trying |
//! | trying | granted in time | a hold |
//! | trying | granted later than its own lease, or a number that was forced out | gated, under a new number |
//! | trying | granted by a server that answers no more | gated, under the same number |
//! | trying | busy | sleeping: `sleep.rs` |
//! | trying | busy, and a release of ours was overtaken | gated until all releases are answered |
//! | trying | a fault that may heal | resting: `patience.rs` |
//! | trying | a fault that stays, settled, an unknown answer | over |
//! | any | its wait is over, or nobody wants it | over, what may be there is released: `undo.rs` |

use super::{
    command::{Answer, Fault, Verb},
    cx::Cx,
    deadline::LeaseRequest,
    effect::{Failure, LogEvent, Told},
    id::CommandId,
    name::Name,
    parts::{
        contender::{Contender, Releases, Stage, Try},
        copies::Copies,
        hold::Hold,
        queue::Waiting,
        release::Why,
        slice::Gate,
        tenant::Tenant,
        ticket::Ticket,
    },
};

/// So many answers in a row may come later than their own lease before the acquisition gives up.
const LATE_ANSWERS: u8 = 5;

impl<W, S: Clone + Default> Name<W, S> {
    pub(crate) fn contend(&mut self, who: Waiting<W>, cx: &mut Cx<'_, '_, W, S>) {
        self.tenant = Tenant::Contender(Contender {
            who,
            number: cx.draw_hold(),
            copies: Copies::default(),
            uncertain: false,
            forced: false,
            stage: Stage::Gated { since: cx.now(), releases: Releases::Sent },
            late: 0,
            faults: 0,
            polls: 0,
        });
        self.pass_gate(cx);
    }

    /// Tries, if it may by now.
    pub(crate) fn pass_gate(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let gate = self.slice.gate(cx.now());
        let may_follow = self.releases_may_be_followed();
        let Tenant::Contender(contender) = &self.tenant else { return };
        let Stage::Gated { releases, .. } = contender.stage else { return };
        let out = releases == Releases::Sent || self.releases.is_empty();
        match gate {
            Gate::Open if may_follow && out => self.try_now(cx),
            Gate::Until(_) if contender.who.wish.patience.asks_once() => self.end_contender(Some(Told::Busy), cx),
            Gate::Until(_) => self.listen(cx),
            Gate::Open | Gate::Unanswered => {}
        }
    }

    fn try_now(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        // What somebody frees by force is not asked for again: its number would count as freed.
        if self.tenant.contender_mut().is_some_and(|contender| contender.forced) {
            self.ends_number(cx);
        }
        self.send_releases(cx);
        let behind = !self.releases.is_empty();
        let finds_ours = self.lost.iter().any(|hold| hold.may_be_there(now));
        let Tenant::Contender(contender) = &mut self.tenant else { return };
        let wish = &contender.who.wish;
        let request = LeaseRequest::first(cx.env.settings.lease(wish.lease), wish.max_hold, now);
        let command = cx.send(contender.number, Verb::Acquire { lease: request.lease, holds: 1 });
        contender.stage = Stage::Trying(Try { command, request, behind, finds_ours });
        self.subscription.clear_flag();
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
            Err(fault) => {
                contender.copies.unanswered(fault);
                contender.uncertain |= fault.may_have_run;
                self.troubled(fault, attempt.request.sent, cx);
            }
            Ok(answer) => {
                contender.copies.answered();
                contender.uncertain = matches!(answer, Answer::Granted { .. });
                self.try_answered(&attempt, answer, cx);
            }
        }
        true
    }

    fn try_answered(&mut self, attempt: &Try, answer: Answer, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender_mut() else { return };
        // Where the server did not know its script a release is sent again, behind the try, and the key is our own.
        let overtook = attempt.behind && !self.releases.is_empty();
        match answer {
            // The present server is asked for the same hold.
            Answer::Granted { .. } if attempt.request.era != cx.env.era => {}
            Answer::Granted { .. } if contender.forced => self.ends_number(cx),
            Answer::Granted { .. } if attempt.request.deadline() <= cx.now() => self.late(cx),
            Answer::Granted { fence, .. } => self.granted(attempt.request, fence, cx),
            Answer::Busy { .. } | Answer::Settled if overtook => {
                (contender.faults, self.trouble) = (0, None);
                contender.stage = Stage::Gated { since: cx.now(), releases: Releases::Answered };
            }
            Answer::Busy { retry_in } => {
                (contender.faults, self.trouble) = (0, None);
                if !attempt.finds_ours {
                    self.slice.busy();
                }
                self.sleep(retry_in, cx);
            }
            Answer::Settled => self.end_contender(Some(Told::Settled), cx),
            _ => self.end_contender(Some(Told::Failed(Failure::Unexpected)), cx),
        }
    }

    fn granted(&mut self, request: LeaseRequest, fence: Option<u64>, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let Tenant::Contender(contender) = self.tenant.take() else { return };
        self.trouble = None;
        self.slice.taken(now, cx.env.settings.slice);
        let Contender { who, number, copies, .. } = contender;
        let ticket = Ticket::new(who.id, &who.wish, request.sent);
        let share = S::default();
        let mut hold = Hold::new(number, (who.owner, share.clone()), Some(ticket), request, now);
        (hold.old, hold.fence) = (copies.lost(), fence);
        self.tenant = Tenant::Hold(hold);
        cx.log(LogEvent::Granted(who.id));
        cx.tell(who.waiter, Told::Granted { id: who.id, share, offered: false, fence });
    }

    /// The answer came later than its own lease.
    fn late(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let Some(contender) = self.tenant.contender_mut() else { return };
        contender.late += 1;
        if contender.late == LATE_ANSWERS || contender.who.wish.patience.asks_once() {
            return self.end_contender(Some(Told::Failed(Failure::Unreachable { may_have_run: true })), cx);
        }
        self.ends_number(cx);
    }

    /// Its number is finished: released, and never asked for again. It goes on under a new one.
    fn ends_number(&mut self, cx: &mut Cx<'_, '_, W, S>) {
        let number = cx.draw_hold();
        let Some(contender) = self.tenant.contender_mut() else { return };
        let finished = std::mem::replace(&mut contender.number, number);
        let old = std::mem::take(&mut contender.copies).lost();
        (contender.uncertain, contender.forced) = (false, false);
        let lease = cx.env.settings.lease(contender.who.wish.lease);
        self.release(Why { old, ..Why::over(finished, lease) }, cx);
    }
}
