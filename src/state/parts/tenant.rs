//! Who has the name in this process: one of four, never two.

use super::{super::id::Owner, contender::Contender, handing_over::HandingOver, hold::Hold};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tenant<W, S> {
    Nobody,
    Contender(Contender<W>),
    Hold(Hold<W, S>),
    /// Few names are ever on their way.
    HandingOver(Box<HandingOver<W>>),
}

impl<W, S> Tenant<W, S> {
    pub(crate) fn is_nobody(&self) -> bool {
        matches!(self, Self::Nobody)
    }

    pub(crate) fn contends(&self) -> bool {
        matches!(self, Self::Contender(_))
    }

    pub(crate) fn hold(&self) -> Option<&Hold<W, S>> {
        if let Self::Hold(hold) = self { Some(hold) } else { None }
    }

    pub(crate) fn hold_mut(&mut self) -> Option<&mut Hold<W, S>> {
        if let Self::Hold(hold) = self { Some(hold) } else { None }
    }

    pub(crate) fn contender(&self) -> Option<&Contender<W>> {
        if let Self::Contender(contender) = self { Some(contender) } else { None }
    }

    pub(crate) fn contender_mut(&mut self) -> Option<&mut Contender<W>> {
        if let Self::Contender(contender) = self { Some(contender) } else { None }
    }

    /// An outermost acquisition of this owner is on its way.
    pub(crate) fn is_asked_by(&self, owner: Owner) -> bool {
        match self {
            Self::Contender(contender) => contender.who.owner == owner,
            Self::HandingOver(going) => going.successor.as_ref().is_some_and(|who| who.owner == owner),
            Self::Nobody | Self::Hold(_) => false,
        }
    }

    /// Somebody has nothing of it yet, and will.
    pub(crate) fn awaits_first_hold(&self) -> bool {
        match self {
            Self::Contender(_) => true,
            Self::HandingOver(going) => going.successor.is_some(),
            Self::Nobody | Self::Hold(_) => false,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Nobody)
    }
}
