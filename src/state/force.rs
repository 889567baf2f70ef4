//! A forced release. It frees exactly the holds that were seen: one of this process is lost before it is sent, and counts for
//! the slice like any end. It is sent once: what a lost hold may leave is let go of in `loss.rs`.

use super::{
    command::{Answer, Fault, Published, Verb},
    cx::Cx,
    effect::{Cause, Share, Told},
    id::{CommandId, HoldNumber},
    name::Name,
    parts::{
        forcing::{ForcedOut, Forcing},
        list::OneOrMany,
        slice::{Listeners, Turn},
        tenant::Tenant,
    },
};

impl<W, S: Share<W>> Name<W, S> {
    pub(crate) fn force(&mut self, seen: &[HoldNumber], waiter: W, cx: &mut Cx<'_, '_, W, S>) {
        let now = cx.now();
        let live = self.tenant.hold().map(|hold| hold.number).filter(|number| seen.contains(number));
        let turn = live.map(|_| self.slice.turn(now, cx.env.settings));
        if let Some(turn) = turn {
            self.slice.released(now, turn);
            if turn == Turn::Yield {
                self.subscription.clear_flag();
            }
            // Before it leaves, so that whoever holds stops first.
            self.lose(Cause::Forced, cx);
        }
        let later = self.force_later(seen);
        let mut forcing = Forcing { commands: OneOrMany::None, waiter, ours: None, freed: false };
        for number in seen {
            let command = cx.send(*number, Verb::Force);
            forcing.commands.push(command);
            if live == Some(*number) || later == Some(*number) {
                let own = self.subscription.expect_own();
                forcing.ours = Some(ForcedOut { command, turn: turn.unwrap_or(Turn::Keep), own });
            }
        }
        if forcing.commands.is_empty() {
            return cx.tell(forcing.waiter, Told::Forced(false));
        }
        self.releases.force(forcing);
    }

    /// What was seen may be a hold that nobody here knows to have yet: its grant is worth nothing when it comes.
    fn force_later(&mut self, seen: &[HoldNumber]) -> Option<HoldNumber> {
        match &mut self.tenant {
            Tenant::Contender(contender) if seen.contains(&contender.number) => {
                contender.forced = true;
                Some(contender.number)
            }
            Tenant::HandingOver(going) if seen.contains(&going.to) => {
                going.forced = true;
                Some(going.to)
            }
            _ => None,
        }
    }

    /// Whether the answer was for a forced release.
    pub(crate) fn forced(
        &mut self,
        command: CommandId,
        answer: Result<Answer, Fault>,
        cx: &mut Cx<'_, '_, W, S>,
    ) -> bool {
        let of_it = |forcing: &Forcing<W>| forcing.commands.as_slice().contains(&command);
        let Some(mut forcing) = self.releases.take_forced(of_it) else { return false };
        forcing.commands.take_first(|its| *its == command);
        if let Some(ours) = forcing.ours.take_if(|ours| ours.command == command) {
            self.forced_out(ours, answer, cx);
        }
        match answer {
            Err(fault) => cx.fail(forcing.waiter, fault.into()),
            Ok(answer) => {
                forcing.freed |= matches!(answer, Answer::Done { .. });
                if forcing.commands.is_empty() {
                    cx.tell(forcing.waiter, Told::Forced(forcing.freed));
                } else {
                    self.releases.force(forcing);
                }
            }
        }
        true
    }

    /// The step for a hold of this process was answered, or will not be: its end counts as any other's.
    fn forced_out(&mut self, ours: ForcedOut, answer: Result<Answer, Fault>, cx: &mut Cx<'_, '_, W, S>) {
        let listeners = match answer {
            Ok(Answer::Done { published }) => self.subscription.others(published, ours.own),
            Err(Fault { may_have_run: true, .. }) => Listeners::Unknown,
            _ => Listeners::Untold,
        };
        if !matches!(answer, Ok(Answer::Done { published }) if published != Published::No) {
            // Where nobody knows it is not waited for: the next one may be another's.
            self.subscription.unexpect(ours.own);
        }
        if ours.turn == Turn::Yield {
            self.slice.answered(cx.now(), listeners, cx.env.settings);
        }
    }
}
