//! What must be true after every event, in words and code; and what tests ask of a name.

use super::{
    deadline::Instant,
    effect::Share,
    env::Env,
    id::{HoldNumber, Id, Owner},
    name::{Client, Name},
    parts::{contender::Stage, raising::Renewal, tenant::Tenant, ticket::Ticket},
};

impl<W, S: Share<W>> Name<W, S> {
    /// Called after every event in debug builds.
    pub(crate) fn check(&self, env: &Env<'_>) -> Result<(), &'static str> {
        let must = |is_so: bool, what| if is_so { Ok(()) } else { Err(what) };
        must(!self.is_stuck(), "somebody waits and nobody tries or holds")?;
        must(!self.listens_for_nobody(), "subscribed for nobody")?;
        let remembered = self.lost.iter().all(|hold| hold.granted() > 0 && hold.loss.is_some());
        must(remembered, "a lost hold without tickets")?;
        match &self.tenant {
            Tenant::Nobody => {}
            Tenant::Hold(hold) => {
                must(hold.count() > 0, "a hold without tickets")?;
                must(hold.loss.is_none(), "a live hold that is lost")?;
                let in_time = |ticket: &Ticket| hold.taken <= ticket.given;
                must(hold.tickets.as_slice().iter().all(in_time), "a turn that began before it was given")?;
                must(!self.is_released(hold.number), "a live hold is being released")?;
                must(!self.queue.has(hold.owner), "an owner waits for itself")?;
            }
            Tenant::Contender(contender) => {
                let sleeps = matches!(contender.stage, Stage::Sleeping { .. });
                must(!sleeps || !self.subscription.flag(), "asleep with the flag set")?;
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

    /// Who believes in a hold now, and which. One that is offered counts: its owner has been told.
    pub(crate) fn believed(&self, now: Instant) -> Option<(Owner, HoldNumber)> {
        let hold = self.tenant.hold()?;
        (hold.over(now).is_none() && hold.granted() > 0).then_some((hold.owner, hold.number))
    }

    /// Something here is about that number, and will see to it that it does not stay.
    pub(crate) fn answers_for(&self, number: HoldNumber) -> bool {
        let tenant = match &self.tenant {
            Tenant::Nobody => false,
            Tenant::Contender(contender) => contender.number == number,
            Tenant::Hold(hold) => hold.number == number,
            Tenant::HandingOver(going) => going.names(number),
        };
        let comes = self.old.holds_back_release_of(number) || self.is_released(number);
        tenant || comes || self.lost.iter().any(|hold| hold.number == number && hold.is_to_release())
    }

    /// The contender sleeps, and only a message or the end of a TTL would wake it.
    pub(crate) fn sleeps(&self, now: Instant) -> bool {
        let Tenant::Contender(contender) = &self.tenant else { return false };
        matches!(contender.stage, Stage::Sleeping { ttl, .. } if now < ttl) && self.subscription.is_live()
    }

    /// No command, no answer and no repetition is to come.
    pub(crate) fn is_quiet(&self) -> bool {
        let tenant = match &self.tenant {
            Tenant::Nobody => true,
            Tenant::Contender(contender) => {
                matches!(contender.stage, Stage::Sleeping { .. } | Stage::Gated { .. } | Stage::Called { .. })
            }
            Tenant::Hold(hold) => {
                let renews = matches!(hold.renewal, Renewal::Sent(_)) || !hold.extensions.is_empty();
                !renews && !hold.probe && hold.counting.as_ref().is_none_or(|counting| counting.is_quiet())
            }
            Tenant::HandingOver(_) => false,
        };
        tenant && self.releases.is_empty() && !self.old.holds_back() && self.forcing.is_empty()
    }

    /// Somebody waits, and nobody tries or holds.
    pub(crate) fn is_stuck(&self) -> bool {
        self.tenant.is_nobody() && !self.queue.is_empty()
    }

    pub(crate) fn listens_for_nobody(&self) -> bool {
        !self.is_wanted() && !self.subscription.is_closed()
    }

    /// The contender waits for a lost hold of its own owner, which nobody is letting go of.
    pub(crate) fn waits_for_itself(&self) -> bool {
        let Tenant::Contender(contender) = &self.tenant else { return false };
        self.lost.iter().any(|hold| hold.owner == contender.who.owner && hold.is_to_release())
    }

    /// Somebody waits under this id, and will be told.
    pub(crate) fn waits(&self, id: Id) -> bool {
        let tenant = match &self.tenant {
            Tenant::Nobody => false,
            Tenant::Contender(contender) => contender.who.id == id,
            Tenant::Hold(hold) => hold.counting.as_ref().is_some_and(|counting| counting.nests(id)),
            Tenant::HandingOver(going) => going.is_for(id),
        };
        tenant || self.queue.waits(id)
    }

    /// Who was given the hold, and did not come for it yet.
    fn offered(&self) -> Option<Id> {
        self.tenant.hold().filter(|hold| hold.is_offered())?.tickets.as_slice().first().map(|ticket| ticket.id)
    }

    /// Whose turn it is, if it did not come for it yet.
    pub(crate) fn turn(&self) -> Option<Id> {
        let called = self.tenant.contender().filter(|contender| matches!(contender.stage, Stage::Called { .. }));
        self.offered().or(called.map(|called| called.who.id))
    }

    /// The number and the tickets of the live hold.
    pub(crate) fn held(&self) -> Option<(HoldNumber, u32)> {
        self.tenant.hold().map(|hold| (hold.number, hold.granted()))
    }
}
