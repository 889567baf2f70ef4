//! What must be true after every event, in words and code.

use super::{
    effect::Share,
    env::Env,
    name::{Client, Name},
    parts::{
        contender::{AfterRest, Stage, WantOf},
        tenant::Tenant,
        ticket::Ticket,
    },
};

impl<W, S: Share<W>> Name<W, S> {
    /// Called after every event in debug builds.
    pub(crate) fn check(&self, env: &Env<'_>) -> Result<(), &'static str> {
        let must = |is_so: bool, what| if is_so { Ok(()) } else { Err(what) };
        must(!self.is_stuck(), "somebody waits and nobody tries or holds")?;
        must(!self.listens_for_nobody(), "subscribed for nobody")?;
        let remembered = self.lost.iter().all(|hold| hold.granted() > 0 && hold.loss().is_some());
        must(remembered, "a lost hold without tickets")?;
        match &self.tenant {
            Tenant::Nobody => {}
            Tenant::Hold(hold) => {
                must(hold.count() > 0, "a hold without tickets")?;
                must(hold.loss().is_none(), "a live hold that is lost")?;
                let in_time = |ticket: &Ticket| hold.taken <= ticket.given;
                must(hold.tickets.as_slice().iter().all(in_time), "a turn that began before it was given")?;
                must(!self.is_released(hold.number), "a live hold is being released")?;
                must(!self.queue.has(hold.owner), "an owner waits for itself")?;
            }
            Tenant::Contender(contender) => {
                let sleeps = matches!(contender.stage, Stage::Sleeping { .. });
                must(!sleeps || !self.subscription.flag(), "asleep with the flag set")?;
                let lost_vote = matches!(contender.stage, Stage::Resting { then: AfterRest::GiveUp(WantOf::Key), .. });
                let answered = contender.told_busy && !contender.uncertain && self.trouble.is_none();
                must(!lost_vote || answered, "a vote that nobody won counts as no answer")?;
                must(!self.is_released(contender.number), "a number that is asked for is being released")?;
            }
            Tenant::HandingOver(going) => {
                let released = self.is_released(going.from) || self.is_released(going.to);
                must(!released, "what is handed over is being released")?;
            }
        }
        let begins = !self.queue.is_empty() || self.tenant.awaits_first_hold();
        must(self.client == Client::Open || !begins, "something begins after the end")?;
        must(self.client != Client::Closed || self.tenant.hold().is_none(), "something is held after the end")?;
        let in_time = self.next(env).is_none_or(|next| self.armed.is_some_and(|armed| armed <= next));
        must(in_time, "nothing will wake it in time")
    }

    /// Somebody waits, and nobody tries or holds.
    pub(crate) fn is_stuck(&self) -> bool {
        self.tenant.is_nobody() && !self.queue.is_empty()
    }

    pub(crate) fn listens_for_nobody(&self) -> bool {
        !self.is_wanted() && !self.subscription.is_closed()
    }
}
