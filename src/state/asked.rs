//! What is asked of a name by those who look at it: tests, and the explorer. Nothing that ships asks so.

#[cfg(relatch_explore)]
use super::id::Id;
use super::{
    deadline::Instant,
    id::{HoldNumber, Owner},
    name::Name,
    parts::{contender::Stage, tenant::Tenant},
};

impl<W, S> Name<W, S> {
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
            Tenant::HandingOver(going) => going.from == number || going.to == number,
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
                let renews = hold.renewal.sent().is_some() || !hold.extensions().is_empty();
                !renews && !hold.probe && hold.counted().is_none_or(|counting| counting.is_quiet())
            }
            Tenant::HandingOver(_) => false,
        };
        tenant && self.releases.is_empty() && !self.old.holds_back() && self.releases.forced().is_empty()
    }

    /// The number and the tickets of the live hold.
    pub(crate) fn held(&self) -> Option<(HoldNumber, u32)> {
        self.tenant.hold().map(|hold| (hold.number, hold.granted()))
    }
}

#[cfg(relatch_explore)]
impl<W, S> Name<W, S> {
    /// The contender waits for a lost hold of its own owner, which nobody is letting go of.
    pub(crate) fn waits_for_itself(&self) -> bool {
        let Tenant::Contender(contender) = &self.tenant else { return false };
        self.lost.iter().any(|hold| hold.owner == contender.who.owner && hold.is_to_release())
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
}
