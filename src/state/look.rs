//! What may be read of a name between two events, by whoever has a guard or asks about an owner. Nothing changes by it.

use super::{
    command::Note,
    deadline::Instant,
    id::{Id, Owner},
    name::Name,
    parts::hold::Hold,
    wish::Patience,
};

impl<W, S> Name<W, S> {
    /// The live hold.
    pub(crate) fn live(&self, now: Instant) -> Option<&Hold<W, S>> {
        self.tenant.hold().filter(|hold| hold.over(now).is_none())
    }

    /// The live hold that has this ticket.
    pub(crate) fn held_under(&self, id: Id, now: Instant) -> Option<&Hold<W, S>> {
        self.live(now).filter(|hold| hold.has(id))
    }

    /// The live hold of an owner.
    pub(crate) fn held_by(&self, owner: Owner, now: Instant) -> Option<&Hold<W, S>> {
        self.live(now).filter(|hold| hold.owner == owner)
    }

    /// Whether a hold, live or lost, has this ticket.
    pub(crate) fn has_ticket(&self, id: Id) -> bool {
        self.tenant.hold().into_iter().chain(self.lost.iter()).any(|hold| hold.has(id))
    }

    /// What the guards of whoever holds share.
    pub(crate) fn holder(&self) -> Option<&S> {
        self.tenant.hold().map(|hold| &hold.share)
    }

    /// What is said of this ticket's hold with its release.
    pub(crate) fn note_of(&self, id: Id) -> Option<Note> {
        self.tenant.hold().into_iter().chain(self.lost.iter()).find(|hold| hold.has(id)).map(Hold::note)
    }

    /// Who waits here for as long as it takes.
    pub(crate) fn endless(&self) -> impl Iterator<Item = &W> {
        self.queue.iter().filter(|who| who.wish.patience == Patience::ForEver).map(|who| &who.waiter)
    }

    /// Who asked under this id, if nothing was decided yet.
    pub(crate) fn asker(&self, id: Id) -> Option<&W> {
        let contender = self.tenant.contender().map(|contender| &contender.who).filter(|who| who.id == id);
        contender.or_else(|| self.queue.of(id)).map(|who| &who.waiter)
    }
}
